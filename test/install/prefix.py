"""An installed tutti in a temporary folder, and programs that are built against it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TUTTI_BUILD") or ROOT / "build")
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
SKIP_OLD_BINDINGS = ["-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1"]  # MPI's own headers, which cause warnings
RUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "4"]

sys.path.insert(0, str(ROOT / "test" / "support"))


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise unittest.SkipTest(f"no {tool} here")


def run(*words, cwd=None, env=None, status=0, seconds=120):
    """Runs a command that must exit with `status`. Returns standard output and standard error."""
    words = [str(word) for word in words]
    done = subprocess.run(words, cwd=cwd, env=clean_environment() | (env or {}), text=True, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(words)}: exit status {done.returncode}, not {status}\n{done.stdout}")
    return done.stdout


def clean_environment():
    """Our environment without variables that could lead to another tutti or change its behaviour."""
    theirs = {"LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"}
    ours = {name: value for name, value in os.environ.items()
            if name not in theirs and not (name.startswith("TUTTI_") and name != "TUTTI_BUILD")}
    return ours | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def build_options():
    listed = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    return {option["name"]: option["value"] for option in listed}


class Prefix:
    """One installation per test program. `folder` is the prefix."""

    def __init__(self):
        need("meson")
        self._temporary = tempfile.TemporaryDirectory(prefix="tutti-install-")
        self.scratch = Path(self._temporary.name)
        options = build_options()
        # DESTDIR moves the tree to another place than the configured prefix.
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", self.scratch / "stage", seconds=300)
        self.folder = self.scratch / "prefix"
        self.configured = options["prefix"]
        shutil.move(self.scratch / "stage" / self.configured.lstrip("/"), self.folder)
        self.version = json.loads((BUILD / "meson-info" / "intro-projectinfo.json").read_text())["version"]
        self._libdir, self._includedir = options["libdir"], options["includedir"]

    @property
    def libraries(self):
        return self.folder / self._libdir

    @property
    def headers(self):
        return self.folder / self._includedir

    def project(self, name):
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def pkg_config(self, *words):
        return run("pkg-config", *words, "tutti", env=self.pkg_config_environment()).split()

    def pkg_config_environment(self):
        return {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}

    def cmake(self, project, *options, status=0):
        """Configures `project`. Returns CMake's output."""
        return run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.folder}", *options,
                   status=status)

    def cmake_build(self, project):
        run("cmake", "--build", project / "build", "--verbose", seconds=300)
        return project / "build"

    def remove(self):
        self._temporary.cleanup()


_prefix = None


def prefix():
    global _prefix
    if _prefix is None:
        _prefix = Prefix()
        unittest.addModuleCleanup(_prefix.remove)
    return _prefix

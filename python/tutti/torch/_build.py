"""Compiles the extension for the torch that is installed. torch has no stable ABI for backends: a file belongs to one version."""

import fcntl
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import torch

_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = _PACKAGE / "torch" / "csrc"
_MODULE = "_process_group"


def _library() -> Path:
    found = sorted(_PACKAGE.glob("libtutti.so.*"))
    if not found:
        raise ImportError(f"{_PACKAGE} has no libtutti.so: install the package by `pip install .` in tutti's source tree")
    return found[0]


def _folder() -> Path:
    """The cache's folder for this torch, this Python and these sources."""
    digest = hashlib.sha256()
    for text in (torch.__version__, sys.version, str(torch.compiled_with_cxx11_abi())):
        digest.update(text.encode())
    for path in [Path(__file__), *sorted(_SOURCES.iterdir()), *sorted((_PACKAGE / "include").rglob("*.hpp")), _library()]:
        if path.is_file():
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    root = os.environ.get("TUTTI_TORCH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tutti"
    )
    return Path(root) / f"torch-{torch.__version__}-{digest.hexdigest()[:16]}"


def _pybind11_abi() -> list:
    """What torch was built with. Otherwise pybind11 takes torch's classes for those of another library."""
    known = {name: getattr(torch._C, f"_PYBIND11_{name}", None) for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")}
    return [f'-DPYBIND11_{name}="{value}"' for name, value in known.items() if value is not None]


def _command(unit: Path, target: Path) -> list:
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    headers, libraries = Path(torch.__file__).parent / "include", Path(torch.__file__).parent / "lib"
    includes = [headers, headers / "torch" / "csrc" / "api" / "include", sysconfig.get_paths()["include"]]
    return [
        *compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-DTUTTI_TORCH_MODULE={_MODULE}", *_pybind11_abi(),
        f"-I{_PACKAGE / 'include'}", f"-I{_SOURCES}", *(f"-isystem{folder}" for folder in includes),
        str(unit), "-o", str(target), f"-L{libraries}", "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10",
        str(_library()), f"-Wl,-rpath,{_PACKAGE}",
    ]  # fmt: skip


def _run(command: list) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ImportError(
            f"the backend tutti can't be compiled: {command[0]} does not start ({error.strerror}): install a C++20 compiler, or name one in CXX"
        ) from error
    if result.returncode != 0:
        raise ImportError(
            f"the backend tutti can't be compiled for torch {torch.__version__}: exit {result.returncode} of\n{shlex.join(command)}\n"
            f"{result.stderr[-4000:]}"
        )


def _compile(target: Path) -> None:
    print(f"tutti: compiling the backend for torch {torch.__version__} (once, about a minute)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        unfinished = Path(scratch) / target.name
        # One unit: torch's headers take longer than all of our sources.
        unit = Path(scratch) / "unit.cpp"
        unit.write_text("".join(f'#include "{source.name}"\n' for source in sorted(_SOURCES.glob("*.cpp"))), encoding="utf-8")
        _run(_command(unit, unfinished))
        # When it is whole: another host may look at the same folder.
        unfinished.rename(target)


def extension_path() -> Path:
    """The extension's file, compiled if it does not exist. The ranks of a host wait for the first of them.

    Raises ImportError with the compiler's message.
    """
    folder = _folder()
    target = folder / f"{_MODULE}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _compile(target)
    return target


@cache
def load_extension():
    """The extension as a module."""
    path = extension_path()
    specification = importlib.util.spec_from_file_location(f"tutti.torch.{_MODULE}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module

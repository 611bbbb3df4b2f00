"""The tree that `meson install` creates, and programs built against it by pkg-config and CMake."""

import re
import shutil
import unittest

from prefix import ROOT, RUN, SKIP_OLD_BINDINGS, STRICT, need, prefix, run

import tap

STENCIL = ROOT / "apps" / "stencil" / "stencil.cpp"
CMAKE_STENCIL = """
cmake_minimum_required(VERSION 3.16)
project(foreign CXX)
find_package(tutti REQUIRED COMPONENTS mpi)
add_executable(stencil stencil.cpp)
target_compile_options(stencil PRIVATE -Wall -Wextra -Werror)
target_link_libraries(stencil PRIVATE tutti::mpi)
"""
ALONE = """
#include <cstdio>
#include <tutti/tutti.hpp>
int main() {
  tutti::AloneBootstrap alone;
  auto communicator = tutti::Communicator::create(alone);
  std::printf("%d of %d, %s\\n", communicator.rank(), communicator.size(), tutti::version_string);
}
"""
SETTINGS = """
#include <tutti/tutti.hpp>
using namespace std::chrono_literals;
void use(tutti::Bootstrap& bootstrap) {
  auto comm = tutti::Communicator::create(bootstrap, {.timeout = 10s});
  comm.barrier({.timeout = 500ms});
  comm.barrier({.algorithm = "dissemination"});
  comm = tutti::Communicator::create(bootstrap, {.log_level = tutti::LogLevel::info});
}
"""
STRUCT = """
#include <tutti/tutti.hpp>
#include <vector>
struct Particle {
  double position;
  int charge;
};
void use(tutti::Communicator& communicator, std::vector<Particle>& particles) {
  communicator.broadcast(particles, 0);
}
"""
CMAKE_ALONE = """
cmake_minimum_required(VERSION 3.16)
project(foreign CXX)
find_package(tutti @wanted@ REQUIRED)
if(TARGET tutti::mpi)
  message("has tutti::mpi")
else()
  message("lacks tutti::mpi")
endif()
add_executable(alone alone.cpp)
target_link_libraries(alone PRIVATE tutti::tutti)
"""


def dynamic(library, kind):
    """Values of one kind of entry in a library's dynamic section."""
    need("readelf")
    return re.findall(rf"\({kind}\).*\[(.*)\]", run("readelf", "-d", library))


def headers_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*.hpp")}


class Tree(unittest.TestCase):
    def test_library_has_its_version_and_soname(self):
        tree = prefix()
        major, minor, _ = tree.version.split(".")
        soname = f"libtutti.so.0.{minor}" if major == "0" else f"libtutti.so.{major}"
        whole = tree.libraries / f"libtutti.so.{tree.version}"
        self.assertTrue(whole.is_file() and not whole.is_symlink())
        self.assertEqual(dynamic(whole, "SONAME"), [soname])
        for link in (soname, "libtutti.so"):
            self.assertTrue((tree.libraries / link).is_symlink())
            self.assertEqual((tree.libraries / link).resolve(), whole.resolve())

    def test_versions_agree(self):
        need("pkg-config")
        tree = prefix()
        self.assertEqual(tree.pkg_config("--modversion"), [tree.version])
        header = (tree.headers / "tutti" / "version.hpp").read_text()
        self.assertIn(f'"{tree.version}"', header)
        self.assertEqual(run(tree.folder / "bin" / "tutti", "--version").splitlines()[0], f"tutti {tree.version}")

    def test_library_links_no_mpi(self):
        tree = prefix()
        needed = dynamic(tree.libraries / "libtutti.so", "NEEDED")
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if re.search("mpi|pmi|open-(rte|pal)", name)], [])

    def test_only_tutti_is_installed(self):
        tree = prefix()
        found = {str(path.relative_to(tree.folder)) for path in tree.folder.rglob("*") if not path.is_dir()}
        strange = {name for name in found if "tutti" not in name}
        self.assertEqual(strange, set())
        self.assertEqual([name for name in found if "stencil" in name or name.endswith(".a")], [])
        public = headers_in(ROOT / "lib/include/tutti") | {"version.hpp"}
        self.assertEqual(headers_in(tree.headers / "tutti"), public)

    def test_no_file_names_a_folder_of_the_build(self):
        tree = prefix()
        for path in tree.folder.rglob("*"):
            if path.suffix in (".pc", ".cmake", ".hpp"):
                with self.subTest(path.name):
                    text = path.read_text()
                    for folder in (tree.configured, str(ROOT), str(tree.scratch)):
                        self.assertNotIn(folder, text)

    def test_command_finds_its_library(self):
        tree = prefix()
        out = run(tree.folder / "bin" / "tutti", "broadcast", "--size", "1KiB")
        self.assertIn("verified", out)


class Headers(unittest.TestCase):
    """Headers compile without warnings under the flags that users have."""

    def compile(self, compiler, source, *options):
        tree = prefix()
        run(compiler, *STRICT, "-Wpedantic", *options, f"-I{tree.headers}", "-fsyntax-only", source)

    def compile_alone(self, compiler, names, *options):
        for name in names:
            with self.subTest(name):
                source = prefix().scratch / "alone.cpp"
                # Included twice: this detects a missing include guard.
                source.write_text(f"#include <tutti/{name}>\n#include <tutti/{name}>\n")
                self.compile(compiler, source, *options)

    def test_each_compiles_alone(self):
        need("c++")
        names = sorted(headers_in(prefix().headers / "tutti"))
        self.assertIn("communicator.hpp", names)
        self.compile_alone("c++", [name for name in names if name != "mpi.hpp"])

    def test_mpi_header_compiles_alone_by_mpicxx(self):
        need("mpicxx")
        self.compile_alone("mpicxx", ["mpi.hpp"], *SKIP_OLD_BINDINGS)


    def test_settings_by_name_give_no_warnings(self):
        need("c++")
        source = prefix().scratch / "settings.cpp"
        source.write_text(SETTINGS)
        self.compile("c++", source)

    def test_what_is_not_a_number_is_not_reduced(self):
        """The compiler's error names the concept and the type."""
        need("c++")
        source = prefix().scratch / "struct.cpp"
        source.write_text(STRUCT)
        self.compile("c++", source)
        source.write_text(STRUCT.replace("broadcast(particles, 0)", "all_reduce(tutti::in_place, particles, tutti::sum)"))
        said = run("c++", *STRICT, f"-I{prefix().headers}", "-fsyntax-only", source, status=1)
        self.assertRegex(said, r"ReducibleBuffer<R>.*Particle")

    def test_a_non_blocking_call_is_not_dropped_by_accident(self):
        need("c++")
        source = prefix().scratch / "dropped.cpp"
        source.write_text("#include <tutti/tutti.hpp>\nvoid use(tutti::Communicator& comm) { comm.start_barrier(); }\n")
        said = run("c++", *STRICT, f"-I{prefix().headers}", "-fsyntax-only", source, status=1)
        self.assertIn("nodiscard", said)

    def test_each_compiles_by_clang(self):
        need("clang++")
        names = sorted(headers_in(prefix().headers / "tutti"))
        self.compile_alone("clang++", [name for name in names if name != "mpi.hpp"])


class Stencil(unittest.TestCase):
    """An MPI program from apps/, built outside the tree."""

    def build_by_pkg_config(self, name):
        need("mpicxx", "pkg-config")
        tree = prefix()
        project = tree.project(name)
        shutil.copy(STENCIL, project)
        run("mpicxx", *STRICT, *SKIP_OLD_BINDINGS, *tree.pkg_config("--cflags"), "stencil.cpp", "-o", "stencil",
            *tree.pkg_config("--libs"), "-Wl,-rpath," + tree.pkg_config("--variable=libdir")[0], cwd=project)
        return project / "stencil"

    def build_by_cmake(self, name):
        need("mpicxx", "cmake")
        tree = prefix()
        project = tree.project(name)
        shutil.copy(STENCIL, project)
        (project / "CMakeLists.txt").write_text(CMAKE_STENCIL)
        tree.cmake(project)
        return tree.cmake_build(project) / "stencil"

    def check(self, program, *words):
        """Its output equals that of plain MPI, and both exit with 0 after MPI_Finalize."""
        need("mpirun")
        by_tutti = run(*RUN, program, *words)
        by_mpi = run(*RUN, program, "--plain", *words)
        self.assertRegex(by_tutti, r"^\d+ x \d+ cells, \d+ steps, change [0-9.e-]+, checksum [0-9a-f]{16}\n$")
        self.assertEqual(by_tutti, by_mpi)
        return by_tutti

    def test_by_pkg_config(self):
        program = self.build_by_pkg_config("stencil-pkg-config")
        # The tolerance ends it, on all ranks in the same step.
        steps = int(re.search(r"(\d+) steps", self.check(program, "24", "100000", "0.01")).group(1))
        self.assertTrue(10 < steps < 100000)
        self.check(program, "37", "20", "0")

    def test_by_cmake(self):
        self.check(self.build_by_cmake("stencil-cmake"), "24", "100000", "0.01")

    def test_uses_the_installed_library(self):
        need("ldd")
        found = run("ldd", self.build_by_pkg_config("stencil-ldd"))
        self.assertIn(str(prefix().libraries.resolve()), re.search(r"libtutti\.so\S* => (\S+)", found).group(1))

    def test_result_does_not_depend_on_the_ranks(self):
        need("mpirun")
        program = self.build_by_pkg_config("stencil-ranks")
        lines = {run(*RUN[:-1], ranks, program, "12", "50", "0") for ranks in (1, 3, 4)}
        self.assertEqual(len(lines), 1, lines)

    def test_bad_parameters_end_the_job_with_one_sentence(self):
        need("mpirun")
        program = self.build_by_pkg_config("stencil-bad")
        out = run(*RUN, program, "3", status=2)
        self.assertEqual(out.count("stencil: give"), 1, out)

    def test_the_tree_may_move(self):
        tree = prefix()
        before = tree.folder
        after = tree.scratch / "moved" / "deep" / "inside"
        after.parent.mkdir(parents=True)
        tree.folder = before.rename(after)

        def move_back():
            tree.folder = after.rename(before)

        self.addCleanup(move_back)
        self.check(self.build_by_pkg_config("moved-pkg-config"), "8", "10", "0")
        self.check(self.build_by_cmake("moved-cmake"), "8", "10", "0")
        self.assertIn("verified", run(after / "bin" / "tutti", "fan-out", "--size", "1KiB"))


class CMakePackage(unittest.TestCase):
    def project(self, name, wanted=""):
        need("cmake", "c++")
        project = prefix().project(name)
        (project / "alone.cpp").write_text(ALONE)
        (project / "CMakeLists.txt").write_text(CMAKE_ALONE.replace("@wanted@", wanted))
        return project

    def test_without_mpi(self):
        project = self.project("no-mpi")
        said = prefix().cmake(project, "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON")
        self.assertIn("lacks tutti::mpi", said)
        program = prefix().cmake_build(project) / "alone"
        self.assertEqual(run(program), f"0 of 1, {prefix().version}\n")

    def test_with_mpi(self):
        need("mpicxx")
        self.assertIn("has tutti::mpi", prefix().cmake(self.project("with-mpi")))

    def test_requiring_mpi_without_one_says_so(self):
        project = self.project("requires-mpi", "COMPONENTS mpi")
        said = prefix().cmake(project, "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON", status=1)
        self.assertRegex(said, r"tutti::mpi needs an MPI")

    def test_unknown_component_says_so(self):
        said = prefix().cmake(self.project("unknown", "COMPONENTS gpu"), status=1)
        self.assertRegex(said, r"tutti has no component\s+gpu")

    def test_accepts_versions_of_its_series_only(self):
        tree = prefix()
        major, minor, patch = (int(part) for part in tree.version.split("."))
        series = f"0.{minor}" if major == 0 else str(major)
        later = f"0.{minor + 1}" if major == 0 else str(major + 1)
        cases = [(series, True), (tree.version, True), (f"{tree.version} EXACT", True), (later, False),
                 (f"{major}.{minor}.{patch + 1}", False), ("0.0.1", False), (f"0.0.1...{later}", True),
                 (f"0.0.1...<{tree.version}", False)]
        need("cmake", "c++")
        for number, (wanted, accepted) in enumerate(cases):
            with self.subTest(wanted):
                project = self.project(f"version-{number}", wanted)
                said = tree.cmake(project, "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON", status=0 if accepted else 1)
                if not accepted:
                    self.assertIn(f"version: {tree.version}", said)


if __name__ == "__main__":
    tap.main()

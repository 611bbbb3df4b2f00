"""Examples of docs/guide.md, docs/from-pytorch.md and docs/environment.md: programs compile and run, and every name exists."""

import re
import unittest

from prefix import ROOT, RUN, need, prefix, run

import tap
from ports import free_port

GUIDE = ROOT / "docs" / "guide.md"
FROM_PYTORCH = ROOT / "docs" / "from-pytorch.md"
ENVIRONMENT = ROOT / "docs" / "environment.md"
NCCL_PRELOAD = ROOT / "docs" / "nccl-preload.md"


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


class GuideProgram(unittest.TestCase):
    """The embedding example, built by the commands next to it."""

    def project(self, name):
        need("mpicxx", "mpirun")
        (program,) = [block for block in blocks(GUIDE, "cpp") if "from_mpi" in block and "int main" in block]
        project = prefix().project(name)
        (project / "solver.cpp").write_text(program)
        return project

    def check(self, program):
        self.assertEqual(run(*RUN, program), "4 ranks agree on 3\n")

    def test_program_without_mpi(self):
        need("pkg-config", "c++")
        (program,) = [block for block in blocks(GUIDE, "cpp") if "from_environment" in block]
        project = prefix().project("guide-environment")
        (project / "alone.cpp").write_text(program)
        (command,) = re.findall(r"^    (c\+\+ .*)$", GUIDE.read_text(), re.MULTILINE)
        run("sh", "-ec", command, cwd=project, env=prefix().pkg_config_environment())
        self.assertEqual(run(project / "alone"), "1 ranks, sum 1\n")
        loop = (f"for r in 0 1 2; do RANK=$r WORLD_SIZE=3 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} ./alone & "
                "done; wait")
        self.assertEqual(run("sh", "-c", loop, cwd=project), "3 ranks, sum 6\n")

    def test_built_by_pkg_config(self):
        need("pkg-config")
        project = self.project("guide-pkg-config")
        (command,) = [block for block in blocks(GUIDE, "sh") if block.startswith("mpicxx")]
        run("sh", "-ec", command, cwd=project, env=prefix().pkg_config_environment())
        self.check(project / "solver")

    def test_built_by_cmake(self):
        need("cmake")
        project = self.project("guide-cmake")
        (package,) = blocks(GUIDE, "cmake")
        (project / "CMakeLists.txt").write_text(package)
        prefix().cmake(project)
        self.check(prefix().cmake_build(project) / "solver")


class FromPyTorch(unittest.TestCase):
    """A program with all C++ lines of the tables."""

    def test_builds_and_runs_without_mpi(self):
        need("pkg-config", "c++")
        project = prefix().project("from-pytorch")
        (program,) = blocks(FROM_PYTORCH, "cpp")
        (command,) = blocks(FROM_PYTORCH, "sh")
        (project / "tutorial.cpp").write_text(program)
        run("sh", "-ec", command, cwd=project, env=prefix().pkg_config_environment())
        loop = re.search("`(for r in [^`]*; wait)`", FROM_PYTORCH.read_text()).group(1).replace("29500", str(free_port()))
        promised = re.search("in any order:\n\n(.*)\\Z", FROM_PYTORCH.read_text(), re.DOTALL).group(1)
        self.assertEqual(sorted(run("sh", "-c", loop, cwd=project).splitlines()), sorted(line.strip() for line in promised.splitlines()))

    def test_tables_show_lines_of_the_program(self):
        text = FROM_PYTORCH.read_text()
        (program,) = blocks(FROM_PYTORCH, "cpp")
        lines = re.findall(r"\| `([^`]*[;{>])` \|$", text[:text.index("## Launching")], re.MULTILINE)
        self.assertGreater(len(lines), 20)
        for line in lines:
            with self.subTest(line):
                self.assertIn(line, program)


class Names(unittest.TestCase):
    def test_every_variable_of_ours_that_is_described_exists(self):
        sources = [*ROOT.glob("lib/**/*.cpp"), *ROOT.glob("preload/*.cpp"), *ROOT.glob("scripts/**/*")]
        code = "".join(path.read_text() for path in sources if path.is_file() and path.suffix != ".pyc")
        for document in (GUIDE, ENVIRONMENT, NCCL_PRELOAD):
            for name in sorted(set(re.findall(r"\bTUTTI_\w+", document.read_text()))):
                with self.subTest(f"{name} in {document.name}"):
                    self.assertIn(name, code)

    def test_every_error_code_is_described(self):
        header = (ROOT / "lib/include/tutti/error.hpp").read_text()
        codes = re.findall(r"^  (\w+),", header[header.index("enum class ErrorCode"):header.index("};")], re.MULTILINE)
        self.assertIn("peer_lost", codes)
        for code in codes:
            with self.subTest(code):
                self.assertIn(f"`{code}`", GUIDE.read_text())

    def test_every_link_leads_somewhere(self):
        for document in (GUIDE, FROM_PYTORCH, ENVIRONMENT, NCCL_PRELOAD):
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
                with self.subTest(f"{target} in {document.name}"):
                    self.assertTrue((document.parent / target).exists())


if __name__ == "__main__":
    tap.main()

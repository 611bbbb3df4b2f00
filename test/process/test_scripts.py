#!/usr/bin/env python3
"""scripts/test if packages are missing and can't be installed, and with --repeat; the sum of the parts in .ci/run; the environment that
scripts/bench gives to the baselines.

    python3 test/process/test_scripts.py [Class.test…]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
# Logs of a test run: one test passed, one was skipped.
LOG = """<testsuites><testsuite><testcase classname="unit" name="base"/>
<testcase classname="cluster" name="up"><skipped message="a cluster needs ip"/></testcase></testsuite></testsuites>"""


class Offline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name) / "build"
        self.asked = Path(folder.name) / "asked"
        logs = self.build / "meson-logs"
        self.tools = Path(folder.name) / "tools"
        self.tools.mkdir()
        # Stubs for a package manager without network, and for a build and its tests.
        for name, lines in (("apt-get", f'echo "$*" >>{self.asked}; echo no network >&2; exit 100'), ("sudo", "exit 1"), ("ninja", "exit 0"),
                            ("mpirun", "exit 0"),
                            ("meson", f"[ $1 = setup ] || exit 0; echo meson $* >>{self.asked}; mkdir -p {logs}; touch {self.build}/build.ninja; "
                                      f"echo '{LOG}' >{logs}/testlog.junit.xml")):
            tool = self.tools / name
            tool.write_text(f"#!/bin/sh\n{lines}\n")
            tool.chmod(0o755)

    def run_without(self, *hidden, script=("test", "--suite", "cluster"), **variables):
        """Runs the script with these commands hidden."""
        pattern = "|".join(hidden)
        env = {key: value for key, value in os.environ.items() if key != "CI"}
        env |= {"PATH": f"{self.tools}:{os.environ['PATH']}", "TUTTI_BUILD": str(self.build),
                # The shell asks `command -v`.
                "BASH_FUNC_command%%": f'() {{ case "${{2:-}}" in {pattern}) return 1 ;; *) builtin command "$@" ;; esac\n}}',
                **variables}
        return subprocess.run([REPO / "scripts" / script[0], *script[1:]], capture_output=True, text=True, timeout=60, env=env)

    def test_without_what_only_some_tests_need(self):
        for variables in ({}, {"CI": "true"}):
            with self.subTest(**variables):
                done = self.run_without("ip", "cmake", **variables)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                lines = done.stdout.splitlines()
                self.assertIn("apt-get install iproute2 failed (exit 100): no network", lines)
                reported = [line for line in lines if line.startswith("not installed, so tests that need it are skipped: ")]
                self.assertEqual(len(reported), 1, done.stdout)
                self.assertIn("iproute2 cmake", reported[0])
                self.assertIn("iproute2", self.asked.read_text())
                self.assertIn("skipped cluster up: a cluster needs ip", lines)
                self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_without_what_the_build_needs(self):
        done = self.run_without("mpicxx")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("install packages failed", done.stderr)

    def test_unity_is_for_quickstart_alone(self):
        for script in (("quickstart",), ("quickstart",), ("test", "--suite", "cluster"), ("test", "--suite", "cluster"), ("quickstart",)):
            done = self.run_without(script=script)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reported = [line.split() for line in self.asked.read_text().splitlines() if line.startswith("meson setup")]
        self.assertEqual(len(reported), 3, reported)
        self.assertIn("--unity", reported[0])
        self.assertIn("-Dunity=off", reported[1])
        self.assertNotIn("-Dunity=off", reported[2])


def count(*arguments):
    return subprocess.run([sys.executable, REPO / "scripts" / "lib" / "count_tests.py", *arguments], capture_output=True, text=True,
                          timeout=60)


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def log(self, name, cases, *programs):
        """Logs of a run in meson's format: `env`, with tests in the Test Anything Protocol."""
        suite = "tutti.tutti:process / env"
        (self.folder / f"{name}.junit.xml").write_text(
            f'<testsuites><testsuite name="{suite}">' + "".join(
                f'<testcase name="{number} - Meets.test_{letter} (0.{number} s)" classname="{suite}">{outcome}</testcase>'
                for number, (letter, outcome) in enumerate(cases, 1)) + "</testsuite></testsuites>")
        (self.folder / f"{name}.json").write_text("".join(
            json.dumps({"name": program, "result": result, "duration": 1.5}) + "\n" for program, result in programs))
        return str(self.folder / f"{name}.junit.xml")

    def test_a_program_that_ends_badly_after_its_tests_passed(self):
        done = count(self.log("testlog", [("a", "")], ("tutti:process / env", "TIMEOUT")))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines(), [
            "suite process               1.5 s", "FAILED  tutti:process / env: the program ended with TIMEOUT",
            "1 passed, 1 failed, 0 skipped"])

    def test_a_failed_test_is_listed_with_its_error(self):
        log = self.log("testlog", [("a", ""), ("b", "<failure/>")], ("tutti:process / env", "FAIL"))
        (self.folder / "testlog.txt").write_text("not ok 2 - Meets.test_b (0.2 s)\n# Traceback (most recent call last):\n#   File \"x\"\n"
                                                 "# AssertionError: 2 != 0 : tutti: no interface\n# more\n")
        self.assertIn("FAILED  tutti:process / env Meets.test_b: AssertionError: 2 != 0 : tutti: no interface", count(log).stdout.splitlines())

    def test_how_often_each_fails(self):
        logs = [self.log("repeat-1", [("a", ""), ("b", "")], ("tutti:process / env", "OK")),
                self.log("repeat-2", [("a", ""), ("b", "<failure/>")], ("tutti:process / env", "FAIL")),
                self.log("repeat-3", [("b", "<failure/>"), ("a", "")], ("tutti:process / env", "FAIL"))]
        done = count("--repeat", *logs)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines(), [
            "suite process               4.5 s", "failed    2 of    3  tutti:process / env",
            "failed    2 of    3  tutti:process / env Meets.test_b", "4 passed, 2 failed, 0 skipped"])


class Ci(unittest.TestCase):
    """.ci/run with stubs for its parts."""

    def run_parts(self, **scripts):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "scripts" / "lib").mkdir(parents=True)
            (root / ".ci").mkdir()
            shutil.copy(REPO / ".ci" / "run", root / ".ci")
            shutil.copy(REPO / "scripts" / "lib" / "setup.sh", root / "scripts" / "lib")
            tools = root / "tools"
            tools.mkdir()
            for tool in [*(root / "scripts" / name for name in ("test", "lint", "docs", "test-python", "sanitize")),
                         *(tools / name for name in ("clang-format", "clang-tidy"))]:
                tool.write_text("#!/bin/sh\n" + scripts.get(tool.name.replace("-", "_"), "echo '2 passed, 0 failed, 1 skipped'") + "\n")
                tool.chmod(0o755)
            return subprocess.run([root / ".ci" / "run"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TUTTI_CI_SECONDS": "10"})

    def check(self, done, last, status, *lines):
        printed = done.stdout.splitlines()
        self.assertEqual(printed[-1], last, done.stdout + done.stderr)
        self.assertEqual(done.returncode, status)
        summary = [re.sub(r" +\d+ s  ", ": ", line) for line in printed[printed.index("== all") + 1:-2]]
        self.assertEqual(summary, list(lines))

    def test_all_parts(self):
        self.check(self.run_parts(lint="true", docs="true", test_python="true", sanitize="echo \"$*\"; echo '5 passed, 0 failed, 0 skipped'"),
                   "15 passed, 0 failed, 1 skipped", 0, "test: 2 passed, 0 failed, 1 skipped", "lint: 1 passed, 0 failed, 0 skipped",
                   "docs: 1 passed, 0 failed, 0 skipped", "python: 1 passed, 0 failed, 0 skipped", "address: 5 passed, 0 failed, 0 skipped", "thread: 5 passed, 0 failed, 0 skipped")

    def test_a_failure_hides_no_other_part(self):
        # One part fails by itself, one without counting a failure, one has failed tests.
        done = self.run_parts(test="echo '7 passed, 2 failed, 0 skipped'; exit 1", lint="echo no; exit 3", docs="true", test_python="true",
                              sanitize="echo '5 passed, 0 failed, 0 skipped'; [ $1 = address ]")
        self.check(done, "19 passed, 4 failed, 0 skipped", 1, "test: 7 passed, 2 failed, 0 skipped (exit 1)",
                   "lint: 0 passed, 1 failed, 0 skipped (exit 3)", "docs: 1 passed, 0 failed, 0 skipped", "python: 1 passed, 0 failed, 0 skipped", "address: 5 passed, 0 failed, 0 skipped",
                   "thread: 5 passed, 1 failed, 0 skipped (exit 1)")

    def test_a_part_without_an_end(self):
        done = self.run_parts(sanitize="exec sleep 300")
        self.assertEqual(done.stdout.splitlines()[-1], "8 passed, 1 failed, 5 skipped", done.stdout)
        self.assertIn("no time is left of 10 s", done.stdout)
        self.assertIn("thread is skipped (not begun: ", done.stdout)


class Links(unittest.TestCase):
    """Checks of scripts/docs. They apply to this file too, so names of missing documents are concatenated."""

    DOCS = "docs"

    def check(self, page, document, source=""):
        with tempfile.TemporaryDirectory() as folder:
            root, site = Path(folder) / "root", Path(folder) / "site"
            (root / "docs" / "decisions").mkdir(parents=True)
            (root / "docs" / "guide.md").write_text(document)
            (root / "docs" / "decisions" / "0001-one.md").write_text("One.\n")
            (root / "docs" / "decisions" / "README.md").write_text("(0001-one.md)\n")
            (root / "lib" / "base").mkdir(parents=True)
            (root / "lib" / "base" / "log.hpp").write_text(source)
            subprocess.run(["git", "init", "-q", root], check=True)
            site.mkdir()
            (site / "index.html").write_text(page)
            (site / "guide.html").write_text('<h1 id="start">Start</h1>')
            done = subprocess.run([sys.executable, REPO / "scripts" / "lib" / "check_links.py", root, site], capture_output=True,
                                  text=True, timeout=60)
        self.assertEqual(done.returncode, 1 if done.stderr else 0)
        return done.stderr.splitlines()

    def test_all_is_there(self):
        self.assertEqual(self.check('<a href="guide.html#start">x</a> <a href="https://elsewhere.example/">y</a>',
                                    "`base/log.hpp`\n", f"// {self.DOCS}/decisions/0001, {self.DOCS}/decisions/0001-one.md\n"), [])

    def test_what_is_missing_is_named(self):
        self.assertEqual(self.check('<a href="gone.html">x</a> <img src="guide.png"> <a href="guide.html#end">y</a>',
                                    "\n`base/gone.hpp`\n", f"// {self.DOCS}/gone.md\n// {self.DOCS}/decisions/0002\n"),
                         ["index.html: gone.html leads nowhere", "index.html: guide.png leads nowhere",
                          "index.html: guide.html#end names a heading that guide.html does not have",
                          f"lib/base/log.hpp:1: {self.DOCS}/gone.md does not exist",
                          f"lib/base/log.hpp:2: {self.DOCS}/decisions/0002 does not exist",
                          "docs/guide.md:2: base/gone.hpp does not exist"])


# Stands for mpirun: what its ranks would see of the environment, and a report as tutti bench writes it.
MPIRUN = """#!{python}
import json, os, sys
peer = sys.argv[sys.argv.index("--vs") + 1]
json.dump(dict(os.environ), open(os.environ["SEEN"] + "." + peer, "w"))
key = {{"op": "broadcast", "type": "f32", "bytes": 4}}
json.dump({{"job": {{"version": "1", "hosts": 1, "processor": "p", "cores": 2, "device": None, "peers": {{peer: "x"}}}},
           "rows": [], "ratios": [{{**key, "vs": peer, "ratio": 1, "low": 1, "high": 1, "back_to_back_ratio": None}}]}}, sys.stdout)
"""


class BaselineVariables(unittest.TestCase):
    """Variables that slow a baseline down are removed and reported; variables that choose networks are passed on."""

    MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "UCX_TLS": "tcp",
           "I_MPI_FABRICS": "ofi", "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial",
           "OMPI_MCA_coll_tuned_bcast_algorithm": "1"}
    NCCL = {"NCCL_PROTO": "LL", "NCCL_P2P_DISABLE": "1"}
    KEPT = {"OMPI_MCA_btl_tcp_if_include": "eth7", "OMPI_MCA_orte_tmpdir_base": "/tmp", "UCX_NET_DEVICES": "eth7",
            "NCCL_SOCKET_IFNAME": "eth7", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "me", "TUTTI_TIMEOUT": "9s"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        mpirun = self.folder / "mpirun"
        mpirun.write_text(MPIRUN.format(python=sys.executable))
        mpirun.chmod(0o755)

    def bench(self, baselines):
        env = {**os.environ, **self.MPI, **self.NCCL, **self.KEPT, "PATH": f"{self.folder}:{os.environ['PATH']}",
               "TUTTI_BUILD": str(self.folder / "build"), "SEEN": str(self.folder / "seen")}
        done = subprocess.run([sys.executable, REPO / "scripts" / "lib" / "baselines.py", "--baselines", baselines, "--ranks", "2",
                               "--operations", "broadcast", "--sizes", "4"], capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_what_slows_a_baseline_down_is_dropped_and_reported(self):
        lines = self.bench("openmpi,nccl").splitlines()
        report = json.loads((self.folder / "build" / "bench" / "bench.json").read_text())
        for baseline, peer, dropped, others in (("openmpi", "mpi", self.MPI, self.NCCL), ("nccl", "nccl", self.NCCL, self.MPI)):
            with self.subTest(baseline):
                seen = json.loads((self.folder / f"seen.{peer}").read_text())
                reported = [line for line in lines if line.startswith(f"{baseline}: ")]
                (legend,) = (line for line in lines if line.startswith(f"- {baseline} (configuration "))
                (run,) = (run for run in report["runs"] if run["baseline"] == baseline)
                self.assertEqual(run["dropped"], dropped)
                for name, value in dropped.items():
                    self.assertNotIn(name, seen)
                    self.assertIn(f"{baseline}: {name}={value} is removed: it slows the baseline down", reported)
                    self.assertIn(f"{name}={value}", legend)
                for name, value in {**others, **self.KEPT}.items():
                    self.assertEqual(seen.get(name), value, "not this baseline's, or none that slows it down")


if __name__ == "__main__":
    tap.main()

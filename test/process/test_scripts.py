#!/usr/bin/env python3
"""scripts/test on a machine that lacks packages and gets none: it goes on without those that only some tests need.

    python3 test/process/test_scripts.py [Class.test…]
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
# What a run of tests leaves behind: one has passed, one was skipped.
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
        # Stand for the package manager that reaches nothing, and for a build and its tests.
        for name, lines in (("apt-get", f'echo "$*" >>{self.asked}; exit 100'), ("sudo", "exit 1"), ("ninja", "exit 0"),
                            ("meson", f"[ $1 = setup ] || exit 0; mkdir -p {logs}; echo '{LOG}' >{logs}/testlog.junit.xml")):
            tool = self.tools / name
            tool.write_text(f"#!/bin/sh\n{lines}\n")
            tool.chmod(0o755)

    def run_without(self, *hidden, **variables):
        """scripts/test where these commands are not to be found."""
        pattern = "|".join(hidden)
        env = {key: value for key, value in os.environ.items() if key != "CI"}
        env |= {"PATH": f"{self.tools}:{os.environ['PATH']}", "TUTTI_BUILD": str(self.build),
                # The shell asks `command -v`.
                "BASH_FUNC_command%%": f'() {{ case "${{2:-}}" in {pattern}) return 1 ;; *) builtin command "$@" ;; esac\n}}',
                **variables}
        return subprocess.run([REPO / "scripts" / "test", "--suite", "cluster"], capture_output=True, text=True, timeout=60, env=env)

    def test_without_what_only_some_tests_need(self):
        for variables in ({}, {"CI": "1"}):
            with self.subTest(**variables):
                done = self.run_without("ip", "cmake", **variables)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                lines = done.stdout.splitlines()
                told = [line for line in lines if line.startswith("not installed, so tests that need it are skipped: ")]
                self.assertEqual(len(told), 1, done.stdout)
                self.assertIn("iproute2 cmake", told[0])
                self.assertIn("iproute2", self.asked.read_text())
                self.assertIn("skipped cluster up: a cluster needs ip", lines)
                self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_without_what_the_build_needs(self):
        done = self.run_without("mpicxx")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("install packages failed", done.stderr)


if __name__ == "__main__":
    tap.main()

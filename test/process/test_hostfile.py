#!/usr/bin/env python3
"""`tutti hostfile`: its output, and its errors for invalid hostfiles.

    python3 test/process/test_hostfile.py [Class.test…]
"""
import json
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
TUTTI = Path(os.environ.get("TUTTI_BUILD", REPO / "build")) / "apps" / "tutti"


class DryRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "hosts"

    def tutti(self, text, *words, stdin=None):
        if text is not None:
            self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        return subprocess.run([TUTTI, "hostfile", *([self.file] if text is not None else []), *words], timeout=20,
                              capture_output=True, text=True, input=stdin)

    def plan(self, text, *words):
        done = self.tutti(text, *words, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, text, sentence, *words):
        done = self.tutti(text, *words)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(sentence, done.stderr)

    def test_table(self):
        done = self.tutti("a slots=2\nb slots=2\n", "-np", "3", "--map-by", "node")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows, [["rank", "host", "local", "rank"], ["0", "a", "0"], ["1", "b", "0"], ["2", "a", "1"],
                                "3 ranks on 2 hosts, by node".split()])

    def test_bare_hosts_and_the_assumption(self):
        done = self.tutti("a\nb\n", "-np", "2", "--cores", "8")
        self.assertEqual([line.split()[1] for line in done.stdout.splitlines()[1:3]], ["a", "a"])
        self.assertIn("assumed: hosts without a slot count (a, b) have 8 slots each", done.stdout)
        self.assertIn("the cores of this machine", self.tutti("a\n").stdout)

    def test_missing_slots(self):
        self.refused("a slots=2\nb slots=1\n", "need 4, have 3 (a: 2, b: 1)", "-np", "4")

    def test_errors_have_file_and_line(self):
        self.refused("a\nb@c@d\n", f"{self.file}:2: invalid host 'b@c@d'")
        self.refused("", f"{self.file}:1: no host")
        self.refused(b"\xff\xfea\0\n\0", f"{self.file}:1: not a text file")

    def test_names_of_this_machine_are_one_host(self):
        plan = self.plan("localhost slots=1\n127.0.0.1 slots=1\n")
        self.assertEqual([rank["local_rank"] for rank in plan["ranks"]], [0, 1])
        self.assertEqual(plan["host_count"], 1)
        self.assertEqual(len(plan["notes"]), 1)

    def test_whose_rules(self):
        hosts = "a slots=2\nlocalhost slots=2\n"
        plan = self.plan(hosts, "-np", "3")
        self.assertEqual([rank["host"] for rank in plan["ranks"]], ["a", "a", "localhost"])
        self.assertIn("--mpi openmpi4", plan["notes"][0])
        plan = self.plan(hosts, "-np", "3", "--mpi", "openmpi4")
        self.assertEqual([rank["host"] for rank in plan["ranks"]], ["localhost", "localhost", "a"])
        self.assertEqual(plan["notes"], [])
        self.refused("a\n", "invalid --mpi 'lam'", "--mpi", "lam")

    def test_a_host_taken_out(self):
        plan = self.plan("a slots=1\nb slots=1\n^a\n")
        self.assertEqual([rank["host"] for rank in plan["ranks"]], ["b"])
        self.assertIn(f"{self.file}:3: Open MPI", plan["notes"][0])

    def test_standard_input_and_files_that_are_none(self):
        done = self.tutti(None, "-", stdin="a slots=1\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in ("/nonexistent/hosts", "/"):
            done = self.tutti(None, path)
            self.assertEqual(done.returncode, 2, path)
            self.assertIn(f"can't read the hostfile {path}: ", done.stderr)

    def test_ways_that_are_unknown(self):
        self.refused("a\n", "invalid --map-by 'core'", "--map-by", "core")

    def test_no_mpi(self):
        # A process with the variables of an MPI launcher must not initialize MPI for a dry run, and must not wait.
        done = subprocess.run([TUTTI, "hostfile", REPO / "hostfiles" / "cluster-3x2"], timeout=20, capture_output=True, text=True,
                              env={**os.environ, "OMPI_COMM_WORLD_SIZE": "8", "PMIX_RANK": "3", "PMIX_SERVER_URI2": "nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_ready_hostfile(self):
        for path in sorted((REPO / "hostfiles").iterdir()):
            if path.suffix == "":
                with self.subTest(path.name):
                    done = self.tutti(None, path, "--json", "-")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(path.read_text().startswith("# "), "each is explained by a comment")


if __name__ == "__main__":
    tap.main()

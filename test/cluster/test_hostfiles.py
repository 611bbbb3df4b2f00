#!/usr/bin/env python3
"""Compares `tutti hostfile` with the placement of mpirun.

    python3 test/cluster/test_hostfiles.py [Class.test…]
"""
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import Cluster, why_not  # noqa: E402


class DryRunAndMpirun(unittest.TestCase):
    """Open MPI 4.1 is the version of Debian 12 and Ubuntu 24.04."""

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster(3)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()

    def planned_and_real(self, text, *words):
        """(host, local rank) by rank: from `tutti hostfile`, and from the ranks themselves."""
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write(text)
            file.flush()
            plan = json.loads(self.cluster.exec("node1", "tutti", "hostfile", file.name, "--mpi", "openmpi4", *words, "--json", "-",
                                                check=True).stdout)
            done = self.cluster.run("--hostfile", file.name, *words, "tutti", "info")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [re.split(r"  +", line) for line in done.stdout.splitlines() if re.match(r"\d+  ", line)]
        return [(rank["host"], rank["local_rank"]) for rank in plan["ranks"]], [(row[2], int(row[1])) for row in rows]

    def test_where_ranks_go(self):
        last = "node2 slots=2\nnode1 slots=2\nnode3 slots=1\n"
        uneven = "node1 slots=1\nnode2 slots=3 # more\nnode3 slots = 2\n"
        for text, words in ((uneven, ["-np", "6"]), (uneven, ["-np", "6", "--map-by", "node"]), (uneven, ["-np", "4"]),
                            (uneven, ["-np", "5", "--map-by", "node"]), (uneven, ["-np", "3", "--map-by", "ppr:1:node"]),
                            ("node1\nnode1\nnode2\n", ["-np", "3"]),
                            # mpirun runs on node1.
                            (last, ["-np", "3"]), (last, ["-np", "5", "--map-by", "node"]), (last, ["-np", "2", "--map-by", "ppr:1:node"])):
            with self.subTest(text=text, words=words):
                planned, real = self.planned_and_real(text, *words)
                self.assertEqual(planned, real)


if __name__ == "__main__":
    tap.main()

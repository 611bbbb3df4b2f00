#!/usr/bin/env python3
"""from_mpi() with all kinds of MPI communicators, under MPI's default error handlers.

    TUTTI_COMMUNICATORS=build/test/mpi/communicators python3 test/mpi/test_communicators.py [Class.test…]
"""
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import command  # noqa: E402

PROGRAM = os.environ.get("TUTTI_COMMUNICATORS", "build/test/mpi/communicators")


def run_program(ranks, kind):
    return command("mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none", PROGRAM, kind, timeout=100)


class Refused(unittest.TestCase):
    """Rejected immediately with one sentence. MPI and tutti work afterwards."""
    maxDiff = None

    def refused(self, kind, sentence, also=()):
        result = run_program(4, kind)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), sorted([f"usage: {sentence}", *also, "sums over 4 ranks"]))
        self.assertEqual(result.stderr, "")

    def test_no_communicator(self):
        self.refused("null", NULL)

    def test_no_communicator_on_a_rank_that_was_left_out(self):
        self.refused("left-out", NULL, also=["sums over 3 ranks"])

    def test_an_intercommunicator(self):
        self.refused("inter", "the communicator is an inter-communicator (of 2 local and 2 remote ranks), and tutti takes an "
                     "intra-communicator: pass the one that MPI_Intercomm_merge makes of it", also=["sums over 4 ranks"])


class Spawned(unittest.TestCase):
    def test_more_ranks_than_the_launcher_has_started(self):
        """The launcher's local ranks are those of other ranks: no warning."""
        result = run_program(1, "spawn")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "sums over 4 ranks\n", ""))


class Alone(unittest.TestCase):
    def test_a_rank_that_fails_alone_waits_for_nobody(self):
        """MPI_Comm_free may wait for all ranks, and the others do not call it."""
        lines = sorted(run_program(3, "alone").stdout.splitlines())
        self.assertEqual(len(lines), 3, lines)
        self.assertTrue(lines[0].startswith("rank 0: TUTTI_ALGORITHM=none-such is unknown"), lines)
        for line in lines[1:]:
            self.assertIn("set-up timed out while", line)


class Session(unittest.TestCase):
    def test_asks_mpi_for_funneled_threads(self):
        result = run_program(2, "session")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "sums over 2 ranks\n", ""))


class AbortAfter(unittest.TestCase):
    def test_the_job_ends_and_its_error_is_printed_once(self):
        result = run_program(4, "abort")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        said = [line for line in result.stderr.splitlines() if "the input is unusable" in line]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertRegex(said[0], "^communicators: rank 1 .* has ended the job: the input is unusable$")


NULL = ("the communicator is MPI_COMM_NULL, which has no ranks: MPI gives it to ranks that are not in the new communicator "
        "(MPI_Comm_split with MPI_UNDEFINED, MPI_Comm_create), and those must not call from_mpi")

if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""Every collective gives MPI's result on the same input. With mpi_progress, MPI transfers messages while a call waits.

    TUTTI_COMPARE=build/test/mpi/compare_with_mpi python3 test/mpi/test_compare.py [Class.test…]

TUTTI_TEST_SEED sets the seed of the random programs. It is printed; the default is a new seed per run.
"""
import os
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import command  # noqa: E402

PROGRESS = os.environ.get("TUTTI_PROGRESS", "build/test/mpi/progress")
PROGRAM = os.environ.get("TUTTI_COMPARE", "build/test/mpi/compare_with_mpi")


class Compare(unittest.TestCase):
    def same(self, ranks, *words, timeout, env=None, hosts_of=None):
        # As many ranks on each host, as far as tutti can tell.
        start = ["sh", "-c", f'TUTTI_HOST_ID=host$((OMPI_COMM_WORLD_RANK / {hosts_of})) exec "$@"', "sh"] if hosts_of else []
        result = command("mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none", *start, PROGRAM, *words, timeout=timeout, env=env)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, rf"\d+ calls on {ranks} ranks: the same as MPI's")

    def random_program(self, ranks, seconds, **options):
        seed = os.environ.get("TUTTI_TEST_SEED", str(time.time_ns() % 1_000_000_007))
        print(f"# {ranks} ranks, program seed {seed}", flush=True)
        self.same(ranks, "random", seed, str(seconds), timeout=seconds + 60, **options)

    def test_random_program_of_4_ranks(self):
        self.random_program(4, 20)

    def test_random_program_between_hosts_of_several_ranks(self):
        for per_host in (2, 3):
            with self.subTest(per_host):
                self.random_program(6, 10, hosts_of=per_host)

    def test_random_program_by_single_copy(self):
        for ranks in (2, 4):
            with self.subTest(ranks):
                self.random_program(ranks, 10, env={"TUTTI_SINGLE_COPY": "always"})

    def test_random_program_of_7_ranks(self):
        self.random_program(7, 10)

    def test_random_program_in_order_of_ranks_and_in_small_chunks(self):
        self.random_program(3, 10, env={"TUTTI_DETERMINISTIC": "1", "TUTTI_CHUNK": "64"})


class Progress(unittest.TestCase):
    """An MPI message that needs progress of its sender, which waits in a call of tutti."""

    def run_program(self, how, ranks):
        # Without shared memory and single copy, which need no progress of the sender.
        return command("mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                       PROGRESS, how, timeout=60)

    def test_a_wait_drives_mpi_where_it_is_asked_to(self):
        for ranks in (2, 4):
            result = self.run_program("drive", ranks)
            self.assertEqual((result.returncode, result.stdout), (0, "the message and the call are done\n"), result.stderr)

    def test_else_the_call_ends_at_its_deadline_and_names_who_waits_in_mpi(self):
        result = self.run_program("leave", 2)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("waiting for rank 1", result.stderr)


for ranks in (1, 2, 3, 4, 5, 7, 8):
    def test(self, ranks=ranks):
        self.same(ranks, "all", timeout=120)
    setattr(Compare, f"test_everything_once_on_{ranks}_ranks", test)

if __name__ == "__main__":
    tap.main()

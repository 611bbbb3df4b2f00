#!/usr/bin/env python3
"""The command's standard streams: full, closed, without a reader, slow. The output is complete, or the exit status is not 0.

    python3 test/process/test_output.py [Class.test…]
"""
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import tap  # noqa: E402
from test_env import CLEAN, TUTTI, free_port, variables  # noqa: E402

SMALL_BENCH = ("bench", "all-reduce", "--sizes", "4,8", "--min-time", "1ms")
RECORD = {"schema": 1, "rank": 0, "size": 1, "host": "a", "pid": 1, "written_us": 1, "reason": "asked", "communicators": []}


class Ranks:
    """A job without MPI whose rank 0 has `out` as standard output."""

    def __init__(self, size, *words, out=subprocess.PIPE, env=None):
        port = free_port()
        self.ranks = [subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       stdout=out if rank == 0 else subprocess.DEVNULL, text=True,
                                       env={**CLEAN, **variables(rank, size, port), **(env or {})}) for rank in range(size)]

    def finish(self):
        """Exit status and standard error of each rank."""
        ended = []
        for rank in self.ranks:
            try:
                _, error = rank.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.communicate()
                error = "hung"
            ended.append((rank.returncode, error))
        return ended


class Streams(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("localhost slots=4000\n")
        self.record = self.folder / "record.json"
        self.record.write_text(json.dumps(RECORD))

    def subcommands(self):
        listed = subprocess.run([TUTTI, "--help"], capture_output=True, text=True, env=CLEAN, timeout=60, check=True).stdout
        names = re.findall(r"^  ([a-z][a-z-]+) ", listed[listed.index("Subcommands:"):], re.M)
        self.assertGreater(len(names), 10, listed)
        return names

    def ways(self):
        """Each subcommand and each output format."""
        words = {"bench": SMALL_BENCH[1:], "hostfile": (self.hosts, "-np", "4000"), "trace": (self.record,),
                 "plan": ("broadcast", "--ranks", "8", "--size", "1MiB")}
        # Without GPUs tune has no output: test_tune.py.
        ways = [(name, *words.get(name, ())) for name in self.subcommands() if name != "tune"]
        return ways + [("--help",), ("--version",), ("bench", "--help"), ("doctor", "--json", "-"), ("all-reduce", "--json", "-"),
                       ("hostfile", *words["hostfile"], "--json", "-"), ("plan", *words["plan"], "--json", "-"),
                       ("plan", *words["plan"], "--write-model", "-"), (*SMALL_BENCH, "--json", "-"), (*SMALL_BENCH, "--csv", "-"),
                       (*SMALL_BENCH, "--format", "nccl-tests"), (*SMALL_BENCH, "--format", "osu")]

    def refused(self, status, error, *said):
        self.assertEqual(status, 1, error)
        self.assertEqual(len(error.splitlines()), 1, error)
        for part in ("tutti: ", "can't write the output: ", *said):
            self.assertIn(part, error)

    def test_a_full_device(self):
        for words in self.ways():
            with self.subTest(words), open("/dev/full", "wb") as full:
                done = subprocess.run([TUTTI, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=CLEAN, timeout=60)
                self.refused(done.returncode, done.stderr, "No space left on device")

    def test_a_file_that_gets_full(self):
        for words in (("doctor", "--json", "/dev/full"), ("hostfile", self.hosts, "--json", "/dev/full"),
                      ("all-reduce", "--json", "/dev/full"), ("trace", self.record, "--chrome", "/dev/full")):
            with self.subTest(words):
                done = subprocess.run([TUTTI, *words], capture_output=True, text=True, env=CLEAN, timeout=60)
                self.assertIn(done.returncode, (1, 2), done.stdout)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("/dev/full", done.stderr)

    def test_bench_lists_which_variables_are_set(self):
        peers = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "MPICH_CH4_OFI_ENABLE_RMA": "0", "MPIR_CVAR_POLLS_BEFORE_YIELD": "9",
                 "I_MPI_FABRICS": "shm", "UCX_TLS": "tcp", "NCCL_ALGO": "Ring"}
        env = {**CLEAN, **peers, "OMPI_MCA_orte_hnp_uri": "set by mpirun itself"}
        table = subprocess.run([TUTTI, *SMALL_BENCH], capture_output=True, text=True, env=env, timeout=60, check=True).stdout
        report = json.loads(subprocess.run([TUTTI, *SMALL_BENCH, "--json", "-"], capture_output=True, text=True, env=env, timeout=60,
                                           check=True).stdout)
        for name, value in peers.items():
            self.assertIn(f"set in the environment: {name}={value}\n", table)
            self.assertEqual(report["job"]["environment"].get(name), value)
        self.assertNotIn("OMPI_MCA_orte", table + str(report))

    def test_only_rank_0_fails_where_the_work_is_done(self):
        for words in (("all-reduce", "--repeat", "3"), ("info",), ("doctor",), ("all-reduce", "--json", "-")):
            with self.subTest(words), open("/dev/full", "wb") as full:
                first, second = Ranks(2, TUTTI, *words, out=full).finish()
                self.refused(*first, "No space left on device")
                self.assertEqual(second, (0, ""))

    def test_a_reader_that_has_gone(self):
        for words in (("all-reduce", "--repeat", "30"), ("info",), ("doctor",)):
            with self.subTest(words):
                reader, writer = os.pipe()
                job = Ranks(2, TUTTI, *words, out=writer)
                os.close(writer)
                os.close(reader)
                first, second = job.finish()
                self.refused(*first, "the reader has exited")
                self.assertEqual(second, (0, ""))

    def test_a_reader_that_goes_while_there_is_work_left(self):
        reader, writer = os.pipe()
        job = Ranks(2, TUTTI, *SMALL_BENCH, out=writer)
        os.close(writer)
        os.close(reader)
        first, second = job.finish()
        self.refused(*first, "rank 0 (", "has ended the job", "the reader has exited")
        self.assertEqual(second, (1, ""))  # rank 0 reports the failure; it is not a lost rank

    def test_no_reader_of_standard_error(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([TUTTI, "all-reduce", "--verbose"], stdout=subprocess.PIPE, stderr=writer, text=True, env=CLEAN, timeout=60)
        os.close(writer)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("verified on every rank", done.stdout)

    def test_a_slow_reader_of_a_pipe_that_does_not_block(self):
        for words in (("hostfile", self.hosts, "-np", "4000"), ("hostfile", self.hosts, "-np", "4000", "--json", "-")):
            with self.subTest(words):
                whole = subprocess.run([TUTTI, *words], capture_output=True, env=CLEAN, timeout=60, check=True).stdout
                reader, writer = os.pipe()
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
                os.set_blocking(writer, False)
                process = subprocess.Popen([TUTTI, *words], stdout=writer, stderr=subprocess.PIPE, env=CLEAN)
                os.close(writer)
                # Nothing is read until the pipe is full, so the next write does not fit.
                got = b""
                with open(reader, "rb", buffering=0) as pipe:
                    while part := pipe.read(1000):
                        got += part
                _, error = process.communicate(timeout=60)
                self.assertEqual((process.returncode, error), (0, b""))
                self.assertEqual(got, whole)

    def test_standard_descriptors_that_are_closed(self):
        file = self.folder / "result.json"
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                file.unlink(missing_ok=True)
                job = Ranks(2, "sh", "-c", f'exec "$0" "$@" {closed}', TUTTI, "all-reduce", "--verbose", "--json", file,
                            out=subprocess.DEVNULL, env={"TUTTI_SHARED_MEMORY": "0"})
                for status, error in job.finish():
                    self.assertEqual(status, 0, error)
                self.assertTrue(json.loads(file.read_text())["verified"])


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""scripts/launch: the command line for a hostfile, for each MPI.

    python3 test/process/test_launch.py [Class.test…]
"""
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
LAUNCH = REPO / "scripts" / "launch"
BUILD = Path(os.environ.get("TUTTI_BUILD", REPO / "build"))


class Lines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.hosts = self.folder / "hosts"
        # A stub for an MPI that is not installed.
        for name, said in (("mpirun", "mpirun (Open MPI) 4.1.4"), ("mpiexec.hydra", "HYDRA build details:")):
            program = self.folder / name
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)

    def launch(self, text, *words, env=None):
        self.hosts.write_text(text)
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TUTTI_", "NCCL_", "GLOO_", "LD_LIBRARY"))}
        environment = {**clean, "TUTTI_BUILD": str(BUILD), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "PATH": f"{self.folder}:{os.environ['PATH']}", **(env or {})}
        return subprocess.run([LAUNCH, self.hosts, *words], capture_output=True, text=True, timeout=30, env=environment)

    def line(self, text, *words, **options):
        done = self.launch(text, "--dry-run", *words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return shlex.split(done.stdout)

    def test_open_mpi(self):
        self.assertEqual(self.line("a slots=2\nb slots=2\n", "-np", "4", "tutti", "fan-out", "--size", "4MiB"),
                         ["mpirun", "--hostfile", str(self.hosts), "-np", "4", "tutti", "fan-out", "--size", "4MiB"])

    def test_open_mpi_with_a_hostfile_of_mpich(self):
        self.assertEqual(self.line("a:2\nb:2\n", "--map-by", "node", "tutti", "info"),
                         ["mpirun", "-H", "a:2,b:2", "--map-by", "node", "tutti", "info"])

    def test_a_host_taken_out_which_mpi_would_not_understand(self):
        self.assertEqual(self.line("a slots=2\nb slots=2\n^a\n", "tutti", "info"), ["mpirun", "-H", "b:2", "tutti", "info"])

    def test_mpich_with_a_hostfile_of_open_mpi(self):
        self.assertEqual(self.line("a slots=2\nb slots=2\n", "--mpi", "mpich", "--map-by", "ppr:1:node", "-np", "2", "tutti", "info",
                                   env={"NCCL_DEBUG": "INFO", "TUTTI_TIMEOUT": "5s"}),
                         ["mpiexec.hydra", "-hosts", "a:2,b:2", "-n", "2", "-ppn", "1", "-genvlist", "NCCL_DEBUG,TUTTI_TIMEOUT",
                          "tutti", "info"])

    def test_variables_are_passed_on_without_their_values(self):
        line = self.line("a slots=1\n", "tutti", "info",
                         env={"NCCL_SOCKET_IFNAME": "^lo", "TUTTI_SECRET": "sesame", "LD_LIBRARY_PATH": "/opt/x", "TUTTI_LOG": "",
                              "GLOO_SOCKET_IFNAME": "eth0", "HOME": "/root", "MY_NCCL_DEBUG": "1"})
        self.assertEqual([word for word, before in zip(line[1:], line) if before == "-x"],
                         ["GLOO_SOCKET_IFNAME", "LD_LIBRARY_PATH", "NCCL_SOCKET_IFNAME", "TUTTI_SECRET"])
        self.assertNotIn("sesame", " ".join(line))

    def test_words_for_mpirun_and_for_the_program(self):
        line = self.line("a slots=1\n", "--with", "--bind-to none --mca pml ob1", "sh", "-c", "echo -np 3; exit 0")
        self.assertEqual(line[3:], ["--bind-to", "none", "--mca", "pml", "ob1", "sh", "-c", "echo -np 3; exit 0"])

    def test_a_hostfile_that_is_wrong_starts_nothing(self):
        for text, words, sentence in (("a@b@c\n", [], ":1: invalid host 'a@b@c'"), ("a slots=1\n", ["-np", "2"], "need 2, have 1 (a: 1)"),
                                      ("a\n", ["-np", "0"], "invalid -np '0'"), ("a\n", ["--bind-to", "none"], "--with"),
                                      ("a\n", ["--mpi", "lam"], "openmpi or mpich")):
            with self.subTest(sentence):
                done = self.launch(text, *words, "tutti", "info")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(sentence, done.stderr)

    def test_bare_hosts_are_left_to_mpi(self):
        self.assertEqual(self.line("a\nb\n", "-np", "64", "tutti", "info"),
                         ["mpirun", "--hostfile", str(self.hosts), "-np", "64", "tutti", "info"])

    def test_the_input_of_a_loop_is_left_alone(self):
        mpirun = self.folder / "mpirun"
        mpirun.write_text('#!/bin/sh\ncase $1 in --version) echo "mpirun (Open MPI) 4.1.4";; esac\necho "got: $(cat)"\n')
        self.hosts.write_text("localhost slots=3\n")
        loop = 'while read n; do "$0" "$1" $2 -np $n tutti barrier; done'
        for option, expected in (("", ["got: "] * 3), ("--stdin", ["got: 2", "3"])):
            with self.subTest(option):
                done = subprocess.run(["sh", "-c", loop, LAUNCH, self.hosts, option], input="1\n2\n3\n", capture_output=True, text=True,
                                      timeout=30, env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "TUTTI_BUILD": str(BUILD)})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([line.rstrip() for line in done.stdout.splitlines()], [line.rstrip() for line in expected])

    def test_it_runs(self):
        (self.folder / "mpirun").unlink()
        done = self.launch("localhost slots=2\n", "-np", "2", "--with", "--oversubscribe --bind-to none", BUILD / "apps" / "tutti", "fan-out",
                           "--size", "1KiB", env={"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("received 1 KiB from rank 0, verified", done.stdout)
        self.assertTrue(done.stderr.startswith("+ mpirun --hostfile "), done.stderr)


if __name__ == "__main__":
    tap.main()

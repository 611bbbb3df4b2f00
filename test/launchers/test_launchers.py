#!/usr/bin/env python3
"""Real launchers with real processes: each rank's place is detected, and the job runs. Tests of missing launchers are skipped with a
reason; scripts/launchers installs them.

    python3 test/launchers/test_launchers.py [Class.test…]
"""
import functools
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
from support import slurm, tap  # noqa: E402
from support.cluster import REPO, command  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.torchrun import torchrun, unprefixed, why_no_torchrun  # noqa: E402

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("TUTTI_BUILD", REPO / "build"))
TUTTI = BUILD / "apps" / "tutti"
LAUNCHERS = Path(os.environ.get("TUTTI_LAUNCHERS", "/opt/launchers"))
TORCH = {"MASTER_ADDR": "127.0.0.1"}
scratch = tempfile.TemporaryDirectory(prefix="tutti-launchers-")


def peer(name, program):
    path = LAUNCHERS / name / "bin" / program
    if not path.exists():
        raise unittest.SkipTest(f"{path} is not there: scripts/launchers {name}")
    return path


@functools.cache
def build(source, compiler):
    """Builds a program of this folder against this build's libtutti."""
    if not shutil.which(compiler):
        raise unittest.SkipTest(f"no {compiler}")
    program = Path(scratch.name) / f"{source}-{re.sub('[^a-z0-9]', '-', str(compiler).lower())}"
    words = [compiler, "-std=c++20", "-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1", HERE / f"{source}.cpp", "-o", program,
             f"-I{REPO}/lib/include", f"-I{BUILD}/lib/include", f"-L{BUILD}/lib", "-ltutti", f"-Wl,-rpath,{BUILD}/lib"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{compiler}: {done.stdout}{done.stderr}")
    return program


class Checks(unittest.TestCase):
    maxDiff = None

    def hello(self, result, ranks, also=""):
        """Checks the local rank of each rank, and a sum over all ranks."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        total = ranks * (ranks + 1) // 2
        lines = sorted(line for line in map(unprefixed, result.stdout.splitlines()) if line.startswith("rank "))
        self.assertEqual(len(lines), ranks, result.stdout + result.stderr)
        for rank, line in enumerate(lines):
            self.assertTrue(line.startswith(f"rank {rank} of {ranks}, local rank {rank}, sum {total}"), line)
            self.assertIn(also, line)

    def session(self, result, ranks, also):
        """The same for a communicator without MPI_Init, for which MPI_COMM_WORLD was rejected."""
        self.hello(result, ranks, also)
        self.assertEqual(result.stderr.count("MPI is not initialised: "), ranks, result.stderr)
        self.assertEqual(result.stderr.count("communicator of an MPI session"), ranks, result.stderr)

    def verified(self, result, ranks):
        lines = [unprefixed(line) for line in result.stdout.splitlines()]
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sum(line.endswith("from rank 0, verified") for line in lines), ranks - 1, result.stdout)
        self.assertTrue(any(line.startswith(f"{ranks} ranks on 1 host") for line in lines), result.stdout)

    def sources(self, result):
        """The last column of `tutti info`, by rank."""
        rows = [re.split(r"  +", unprefixed(line)) for line in result.stdout.splitlines()]
        return {int(row[0]): row[-1] for row in rows if row[0].isdigit()}


class OpenMpi4(Checks):
    def mpirun(self, *words, **options):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun")
        if "Open MPI" not in command("mpirun", "--version").stdout:
            self.skipTest("the system's mpirun is not Open MPI's")
        return command("mpirun", "-np", 4, "--oversubscribe", "--bind-to", "none", *words, **options)

    def test_command(self):
        self.verified(self.mpirun(TUTTI, "fan-out", "--size", "64KiB"), 4)

    def test_program(self):
        self.hello(self.mpirun(build("hello", "mpicxx")), 4, "Open MPI v4")

    def test_program_without_mpi(self):
        """mpirun's variables give the ranks, even without MPI; MASTER_ADDR and MASTER_PORT are set."""
        self.hello(self.mpirun("-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={free_port()}", build("hello_env", "c++")), 4)

    def test_world_size_by_hand(self):
        result = self.mpirun("-x", "WORLD_SIZE=1", TUTTI, "fan-out")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("WORLD_SIZE=1, but MPI (Open MPI"), 1, result.stderr)
        self.assertIn("4 ranks", result.stderr)

    def test_slurms_variables_are_shadowed_within_a_job(self):
        result = self.mpirun("-x", "SLURM_PROCID=0", "-x", "SLURM_NTASKS=1", "-x", "SLURM_JOB_ID=1", TUTTI, "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("overrides Slurm (SLURM_PROCID=0 SLURM_NTASKS=1)", self.sources(result)[3])

    def test_slurms_size_left_over(self):
        result = self.mpirun("-x", "SLURM_NTASKS=2", TUTTI, "info")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("SLURM_NTASKS=2, but MPI", result.stderr)
        self.assertIn("4 ranks", result.stderr)


class OpenMpi5(Checks):
    def mpirun(self, *words):
        return command(peer("openmpi", "mpirun"), "-np", 4, "--oversubscribe", "--bind-to", "none", *words)

    def test_program(self):
        self.hello(self.mpirun(build("hello", peer("openmpi", "mpicxx"))), 4, "Open MPI v5")

    def test_communicator_of_a_session(self):
        self.session(self.mpirun(build("session", peer("openmpi", "mpicxx"))), 4, "Open MPI v5")

    def test_command_without_mpi(self):
        result = self.mpirun("-x", "MASTER_ADDR=localhost", "-x", f"MASTER_PORT={free_port()}", TUTTI, "info", "--init", "env://")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Open MPI (OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", self.sources(result)[2])


class Mpich(Checks):
    def mpiexec(self, *words, **options):
        return command(peer("mpich", "mpiexec"), "-n", 4, *words, **options)

    def test_program(self):
        self.hello(self.mpiexec(build("hello", peer("mpich", "mpicxx"))), 4, "MPICH")

    def test_communicator_of_a_session(self):
        self.session(self.mpiexec(build("session", peer("mpich", "mpicxx"))), 4, "MPICH")

    def test_program_of_another_mpi(self):
        """A common mistake: every process is a job of one rank for its MPI."""
        result = self.mpiexec(TUTTI, "info")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("PMI_SIZE=4, but MPI (Open MPI", result.stdout + result.stderr)
        self.assertIn("has 1 rank", result.stdout + result.stderr)

    def test_command_without_mpi(self):
        result = self.mpiexec(TUTTI, "fan-out", "--init", f"tcp://127.0.0.1:{free_port()}")
        self.verified(result, 4)


class IntelMpi(Checks):
    def test_program(self):
        """Built by MPICH's mpicxx: the two MPIs share an ABI."""
        mpiexec = peer("impi", "mpiexec")
        libraries = sorted(LAUNCHERS.glob("impi/lib/**/libmpi.so.12*")) + sorted(LAUNCHERS.glob("impi/lib/libmpi.so.12*"))
        if not libraries:
            self.skipTest("the package impi-rt has no libmpi.so.12")
        path = ":".join(dict.fromkeys(str(library.parent) for library in libraries))
        result = command(mpiexec, "-n", 2, build("hello", peer("mpich", "mpicxx")),
                         env={"LD_LIBRARY_PATH": path, "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}, timeout=100)
        self.hello(result, 2, "Intel")

    def test_command_without_mpi(self):
        self.verified(command(peer("impi", "mpiexec"), "-n", 4, TUTTI, "fan-out", "--init", f"tcp://127.0.0.1:{free_port()}"), 4)


class Torchrun(Checks):
    def setUp(self):
        if reason := why_no_torchrun():
            self.skipTest(reason)

    def test_command(self):
        """torchrun's agent listens on MASTER_PORT itself."""
        self.verified(torchrun("--nproc_per_node", 4, "--master_port", free_port(), "--no_python", TUTTI, "fan-out"), 4)

    def test_standalone(self):
        self.verified(torchrun("--standalone", "--nproc_per_node", 3, "--no_python", TUTTI, "fan-out"), 3)

    def test_info(self):
        result = torchrun("--nproc_per_node", 2, "--master_port", free_port(), "--no_python", TUTTI, "info")
        self.assertEqual(self.sources(result)[1], "torchrun (RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2)")

    def test_doctor(self):
        """Each rank exits with the job's status, and rank 0 prints."""
        lines = [unprefixed(line) for line in torchrun("--nproc_per_node", 2, "--master_port", free_port(), "--no_python", TUTTI,
                                                       "doctor").stdout.splitlines()]
        self.assertFalse([line for line in lines if line.startswith(("stops: ", "slows: "))])
        self.assertTrue(any(line.startswith("2 ranks on 1 host: ") for line in lines), lines)
        ill = torchrun("--nproc_per_node", 2, "--master_port", free_port(), "--no_python", "sh", "-c",
                       f"if [ $RANK = 1 ]; then export TUTTI_CHUNK=4KiB; fi; exec {TUTTI} doctor")
        self.assertNotEqual(ill.returncode, 0)
        self.assertIn("stops: TUTTI_CHUNK is ", ill.stdout)

    def test_program(self):
        self.hello(torchrun("--nproc_per_node", 3, "--master_port", free_port(), "--no_python", build("hello_env", "c++")), 3)

    def test_launch(self):
        self.verified(torchrun("--use_env", "--nproc_per_node", 2, "--master_port", free_port(), "--no_python", TUTTI, "fan-out",
                               module="torch.distributed.launch"), 2)


class PlainShell(Checks):
    def test_the_loop_of_the_guide(self):
        script = (f'for r in 0 1 2 3; do RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()} {TUTTI} fan-out & '
                  'done; wait')
        result = command("sh", "-c", script)
        self.verified(result, 4)

    def test_program(self):
        script = ('for r in 0 1 2; do RANK=$r WORLD_SIZE=3 LOCAL_RANK=$r MASTER_ADDR=localhost '
                  f'MASTER_PORT={free_port()} '
                  f'{build("hello_env", "c++")} & done; wait')
        self.hello(command("sh", "-c", script), 3)


class Srun(Checks):
    @classmethod
    def setUpClass(cls):
        cls.slurm = None
        cls.reason = slurm.why_not()
        if not cls.reason:
            cls.slurm = slurm.Slurm()
            cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        if cls.slurm:
            cls.slurm.__exit__()

    def srun(self, *words, **options):
        if self.reason:
            self.skipTest(self.reason)
        return self.slurm.srun(*words, **options)

    def test_with_pmix(self):
        if "pmix" not in (lambda done: done.stdout + done.stderr)(self.srun("--mpi=list")):
            self.skipTest("this Slurm has no PMIx")
        self.verified(self.srun("-n", 4, "--mpi=pmix", TUTTI, "fan-out"), 4)
        self.hello(self.srun("-n", 4, "--mpi=pmix", build("hello", "mpicxx")), 4, "Open MPI")

    def test_pmi2_of_mpich(self):
        self.hello(self.srun("-n", 3, "--mpi=pmi2", build("hello", peer("mpich", "mpicxx"))), 3, "MPICH")

    def test_without_pmi(self):
        """Each process is a job of one rank for MPI: an error with both sizes and a remedy."""
        result = self.srun("-n", 2, "--mpi=none", TUTTI, "info")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("=2, but MPI would find 1 rank", result.stderr)
        self.assertIn("srun --mpi=pmix", result.stderr)

    def test_without_mpi(self):
        result = self.srun("-n", 4, "--mpi=none", TUTTI, "info", env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Slurm (SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=3)", self.sources(result)[3])


if __name__ == "__main__":
    try:
        tap.main()
    finally:
        scratch.cleanup()

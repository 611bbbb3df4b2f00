"""The scripts of docs/examples/pytorch: under each launcher the same lines as with gloo under torchrun.

For collectives.py these are in collectives_3_ranks.txt, as gloo printed them. The losses of ddp.py depend on the processor, so gloo runs here.
"""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import EXAMPLES, HERE, ROOT, environment, free_port, require_backend

require_backend()

SIZES = {"collectives.py": 3, "ddp.py": 2}


def run(command: list) -> subprocess.CompletedProcess:
    # Intel MPI's mpirun finds its parts in PATH.
    path = f"{os.path.dirname(command[0])}:{os.environ['PATH']}"
    variables = environment(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, PATH=path)
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=180, check=False)


def lines(command: list) -> list:
    result = run(command)
    assert result.returncode == 0, result.stderr[-3000:]
    return sorted(line for line in result.stdout.splitlines() if line.startswith("[rank"))


def torchrun(script: str, *options: str) -> list:
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(SIZES[script]), "--master-addr", "127.0.0.1",
        "--master-port", str(free_port()), str(EXAMPLES / script), *options,
    ]  # fmt: skip


def expected_collectives() -> list:
    return sorted((HERE / "collectives_3_ranks.txt").read_text(encoding="utf-8").splitlines())


def test_collectives_under_torchrun():
    assert lines(torchrun("collectives.py")) == expected_collectives()


def test_ddp_under_torchrun():
    for _ in range(3):
        # gloo's processes now and then end by abort() ("terminate called without an active exception"): no failure of ours.
        gloo = run(torchrun("ddp.py", "--backend", "gloo"))
        if gloo.returncode == 0:
            break
    assert lines(torchrun("ddp.py")) == sorted(line for line in gloo.stdout.splitlines() if line.startswith("[rank"))
    assert gloo.stdout.count("the network is rank 0's") == 2


def test_the_benchmark_runs():
    command = [sys.executable, str(ROOT / "scripts" / "bench-torch"), "--ranks", "2", "--sizes", "4", "64KiB", "--rounds", "1"]
    result = run(command)
    assert result.returncode == 0, result.stderr[-3000:]
    rows = [line.split() for line in result.stdout.splitlines() if " us " in line]
    assert [row[0] for row in rows] == ["all_reduce"] * 2 + ["broadcast"] * 2 + ["all_gather"] * 2 + ["reduce_scatter"] * 2, result.stdout
    assert all(float(row[-1]) > 0 for row in rows)


def mpi_launchers() -> list:
    found = [("the mpirun in PATH", shutil.which("mpirun"), ["--oversubscribe", "--bind-to", "none"])]
    for name, extra in (("openmpi", ["--oversubscribe", "--bind-to", "none"]), ("mpich", []), ("impi", [])):
        found.append((name, shutil.which(f"{os.environ.get('TUTTI_LAUNCHERS', '/opt/launchers')}/{name}/bin/mpirun"), extra))
    return found


@pytest.mark.parametrize(("name", "program", "extra"), mpi_launchers(), ids=[name for name, _, _ in mpi_launchers()])
def test_collectives_under_mpirun(name, program, extra):
    if program is None:
        pytest.skip(f"{name} is not installed")
    script = "collectives.py"
    command = [program, *extra, "-np", str(SIZES[script]), sys.executable, str(EXAMPLES / script), "--init-method", "tutti://"]
    assert lines(command) == expected_collectives()

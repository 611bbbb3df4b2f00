"""collectives.py on two hosts with two ranks each: network namespaces, in which every port is free.

Each host has a boot id of its own, as real hosts have, so that the ranks of two hosts do not share memory. The expected lines are gloo's.
"""

import sys

import pytest
from conftest import EXAMPLES, HERE, ROOT, require_backend

require_backend()
sys.path.insert(0, str(ROOT / "test"))
from support.cluster import OWN_KERNEL, Cluster, why_not  # noqa: E402

if reason := why_not():
    pytest.skip(reason, allow_module_level=True)

SCRIPT = str(EXAMPLES / "collectives.py")
TIMEOUT = 180


@pytest.fixture
def cluster():
    with Cluster(2, slots=2) as hosts:
        yield hosts


def expected() -> list:
    return (HERE / "collectives_4_ranks.txt").read_text(encoding="utf-8").splitlines()


def ranks_lines(*outputs: str) -> list:
    return sorted(line for output in outputs for line in output.splitlines() if line.startswith("[rank"))


@pytest.mark.parametrize("backend", ["tutti", "gloo"])
def test_torchrun_on_each_host(cluster, tmp_path, backend):
    words = [
        *OWN_KERNEL, "env", "OMP_NUM_THREADS=1", sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "node1:29500", "--local-addr",
    ]  # fmt: skip
    output = tmp_path / "node2"
    with output.open("w", encoding="utf-8") as file:
        second = cluster.start("node2", *words, "node2", SCRIPT, "--backend", backend, stdout=file, stderr=file)
        first = cluster.exec("node1", *words, "node1", SCRIPT, "--backend", backend, timeout=TIMEOUT)
        status = second.wait(TIMEOUT)
    told = output.read_text(encoding="utf-8")
    assert (first.returncode, status) == (0, 0), first.stdout + first.stderr[-3000:] + told[-3000:]
    assert ranks_lines(first.stdout, told) == expected()


@pytest.mark.parametrize("where", ["hostfile", "-H"])
def test_mpirun_over_the_hosts(cluster, where):
    hosts = ["-H", "node1:2,node2:2"] if where == "-H" else []  # scripts/cluster passes the hostfile otherwise
    result = cluster.run(
        *hosts, "-np", "4", "-x", "MASTER_ADDR=node1", "-x", "MASTER_PORT=29500", "-x", "OMP_NUM_THREADS=1", *OWN_KERNEL, sys.executable,
        SCRIPT, "--init-method", "tutti://", timeout=TIMEOUT,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert ranks_lines(result.stdout) == expected()


def test_mpirun_without_a_meeting_point(cluster):
    """mpi4py tells the ranks where rank 0 listens; without mpi4py the error says what to set."""
    result = cluster.run(
        "-np", "4", "-x", "OMP_NUM_THREADS=1", *OWN_KERNEL, sys.executable, SCRIPT, "--init-method", "tutti://", timeout=TIMEOUT
    )
    if result.returncode == 0:
        assert ranks_lines(result.stdout) == expected()
    else:
        assert "set MASTER_ADDR and MASTER_PORT" in result.stderr, result.stdout + result.stderr[-3000:]

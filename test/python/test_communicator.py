"""tutti.Communicator, without torch."""

import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, Ranks, environment

pytest.importorskip("numpy", reason="numpy is not installed")


@pytest.mark.parametrize("scenario", ["calls", "refused", "gil", "address"])
def test_scenario(run_ranks, scenario):
    run_ranks("communicator_ranks.py", scenario, 3 if scenario != "gil" else 2)


PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("example", "statuses", "said"),
    [
        (0, [0, 0], {0: r"rank 0 of 2: \[3\. 3\. 3\. 3\.\]\n", 1: r"rank 1 of 2: \[3\. 3\. 3\. 3\.\]\n"}),
        (1, [0, 0], {0: r"rank 0: \[0\.0, 1\.0, 2\.0, 3\.0\]\n", 1: r"rank 1: \[0\.0, 1\.0, 2\.0, 3\.0\]\n"}),
        (2, [0, 1, 0], {rank: rf"rank {rank}: peer_lost, failed ranks \[1\]: a rank is lost: rank 1 \(.*\n"
                              rf"rank {new} of 2 continues: 2\.0\n" for rank, new in ((0, 0), (2, 1))}),
    ],
)  # fmt: skip
def test_examples_of_the_page(tmp_path, example, statuses, said):
    assert len(EXAMPLES) == 3
    if "import torch" in EXAMPLES[example]:
        pytest.importorskip("torch", reason="torch is not installed")
    program = tmp_path / "example.py"
    program.write_text(EXAMPLES[example], encoding="utf-8")
    got, outputs = Ranks(program, "", len(statuses)).wait(60)
    assert got == statuses, outputs
    for rank, pattern in said.items():
        assert re.fullmatch(pattern, outputs[rank]), outputs


def test_a_killed_rank_is_named_and_left_out():
    statuses, outputs = Ranks("communicator_ranks.py", "killed_rank", 3).wait(60)
    assert statuses == [0, -9, 0], outputs


def test_from_mpi4py():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    # One write a rank: with PYTHONUNBUFFERED set, print() writes each part by itself, and mpirun mixes the ranks' parts.
    program = (
        "import sys, numpy, tutti; from mpi4py import MPI; comm = tutti.from_mpi(MPI.COMM_WORLD, timeout=30); one = numpy.ones(1); "
        "comm.Allreduce(tutti.IN_PLACE, one); sys.stdout.write(f'{comm.rank} {comm.size} {one[0]}\\n'); comm.Finalize()"
    )
    result = subprocess.run(
        ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "3", sys.executable, "-c", program],
        env=environment(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert sorted(result.stdout.splitlines()) == [f"{rank} 3 3.0" for rank in range(3)], result.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "zwei"}, "WORLD_SIZE=zwei"),
        ({"RANK": "3", "WORLD_SIZE": "2"}, "rank 3"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}, "RANK=1"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE is not set"),
    ],
)
def test_contradictions_of_launchers_are_errors(settings, words):
    program = "import tutti\nfrom tutti._launcher import find_place\ntry:\n    find_place()\nexcept tutti.Error as error:\n    print(error.code, error)"
    result = subprocess.run([sys.executable, "-c", program], env=environment(**settings), capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("usage ") and words in result.stdout


def test_addresses_are_checked():
    import tutti

    with pytest.raises(ValueError, match="HOST:PORT"):
        tutti.connect("10.0.0.1", 0, 1)


def test_alone():
    import tutti

    program = "import tutti; comm = tutti.from_environment(); print(comm.rank, comm.size); comm.Barrier()"
    result = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.split() == ["0", "1"]
    assert tutti.__version__

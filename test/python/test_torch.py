"""The backend for torch.distributed."""

import os
import subprocess
import sys
import time

import pytest
from conftest import HERE, Ranks, environment, require_backend

require_backend()

import torch  # noqa: E402


def skips(outputs: list) -> list:
    """What the version of torch can't do, in the words of rank 0."""
    return [line for line in outputs[0].splitlines() if line.startswith("skipped")]


def test_random_calls_give_the_results_of_gloo(run_ranks, capsys):
    calls = os.environ.get("TUTTI_TEST_CALLS", "400")
    outputs = run_ranks("ranks.py", "random_calls", 3, timeout=120 + int(calls) / 5, SEED=os.environ.get("TUTTI_TEST_SEED", "1"), CALLS=calls)
    with capsys.disabled():
        print("", *(text.splitlines()[-1] for text in outputs), sep="\n")


@pytest.mark.parametrize("size", [2, 3])
def test_the_calls_keep_their_promises(run_ranks, size, capsys):
    outputs = run_ranks("ranks.py", "promises", size, timeout=240)
    with capsys.disabled():
        print("", *skips(outputs), sep="\n")


def test_without_shared_memory(run_ranks):
    run_ranks("ranks.py", "random_calls", 2, SEED="2", CALLS="100", TUTTI_SHARED_MEMORY="0")


@pytest.mark.parametrize("size", [2, 3])
def test_sparse_tensors(run_ranks, size):
    run_ranks("sparse_ranks.py", "sums", size)


def test_the_profilers_events(run_ranks):
    run_ranks("profiler_ranks.py", "names", 2)


def test_debug_level_detail(run_ranks):
    run_ranks("ranks.py", "debug_detail", 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parametrize("call", ["all_reduce", "future", "recv"])
def test_a_killed_rank_is_named_by_all_others(call):
    ranks = Ranks("ranks.py", "killed_rank", 3, CALL=call)
    statuses, outputs = ranks.wait(90)
    assert statuses == [0, -9, 0], outputs
    assert all("a rank is lost: rank 1" in outputs[rank] for rank in (0, 2)), outputs
    died = float(outputs[1].split()[-1])
    # No measurement: only that nobody waits for the timeout of 60 s.
    ended = [float(next(line for line in outputs[rank].splitlines() if "a rank is lost" in line).split()[0]) for rank in (0, 2)]
    assert max(ended) - died < 20, outputs


def test_kills(capsys):
    """Prints the time from the kill to the last exception; asserts no time."""
    runs = os.environ.get("TUTTI_TEST_KILLS", "2")
    command = [sys.executable, str(HERE / "kills.py"), "--runs", runs]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300 + 4 * 90 * int(runs), check=False)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    rows = result.stdout.splitlines()
    assert len(rows) == 6 and all(float(row.split()[-1]) > 0 for row in rows[2:]), result.stdout
    with capsys.disabled():
        print("", *rows, sep="\n")


@pytest.mark.skipif(not hasattr(torch.distributed, "_reconfigure"), reason="this version of torch has no reconfigure()")
@pytest.mark.parametrize("size", [2, 4])
def test_reconfigure(run_ranks, size):
    run_ranks("reconfigure_ranks.py", "reconfigured", size)


@pytest.mark.skipif(not hasattr(torch.distributed, "_reconfigure"), reason="this version of torch has no reconfigure()")
def test_survivors_of_a_loss_reconfigure():
    statuses, outputs = Ranks("reconfigure_ranks.py", "survivors", 3).wait(90)
    assert statuses == [0, 0, -9], outputs


def test_a_group_names_the_global_rank():
    statuses, outputs = Ranks("ranks.py", "killed_in_group", 3).wait(90)
    assert statuses == [0, 0, -9], outputs


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("late_rank", 2), ("later_timeout", 2), ("mismatched_calls", 2), ("aborted", 3), ("missing_rank", 3), ("no_destroy", 3), ("forked_child", 2)],
)
def test_failure(run_ranks, scenario, size):
    begin = time.monotonic()
    reasons = skips(run_ranks("ranks.py", scenario, size))
    if reasons:
        pytest.skip(reasons[0])
    assert time.monotonic() - begin < 90

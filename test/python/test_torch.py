"""The backend for torch.distributed."""

import os
import time

import pytest
from conftest import Ranks

pytest.importorskip("torch", reason="torch is not installed")


def test_random_calls_give_the_results_of_gloo(run_ranks):
    run_ranks("ranks.py", "random_calls", 3, SEED=os.environ.get("TUTTI_TEST_SEED", "1"), CALLS=os.environ.get("TUTTI_TEST_CALLS", "400"))


@pytest.mark.parametrize("size", [2, 3])
def test_the_calls_keep_their_promises(run_ranks, size):
    run_ranks("ranks.py", "promises", size)


def test_without_shared_memory(run_ranks):
    run_ranks("ranks.py", "random_calls", 2, SEED="2", CALLS="100", TUTTI_SHARED_MEMORY="0")


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


def test_a_group_names_the_global_rank():
    statuses, outputs = Ranks("ranks.py", "killed_in_group", 3).wait(90)
    assert statuses == [0, 0, -9], outputs


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("late_rank", 2), ("mismatched_calls", 2), ("aborted", 3), ("missing_rank", 3), ("no_destroy", 3), ("forked_child", 2)],
)
def test_failure(run_ranks, scenario, size):
    begin = time.monotonic()
    run_ranks("ranks.py", scenario, size)
    assert time.monotonic() - begin < 90

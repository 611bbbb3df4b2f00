"""Scenarios of reconfigure() for the ranks of a job, as in ranks.py. The rank of the process does not change, that of the group does."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import raises

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def group(**settings):
    """A group that waits for its first reconfigure(). Returns the store in which the ranks exchange their handles."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=30), enable_reconfigure=True, **settings)
    return dist.distributed_c10d._get_default_store()


def exchanged(store, name: str, ranks) -> list:
    """The handles of `ranks`."""
    store.set(f"{name}/{RANK}", dist._get_reconfigure_handle())
    return [store.get(f"{name}/{rank}").decode() for rank in ranks]


def reconfigure(uuid: int, handles, **settings) -> None:
    dist._reconfigure(uuid, handles, **settings).wait()


def check(size: int) -> None:
    """A collective, messages from rank to rank, and a monitored barrier."""
    rank = dist.get_rank()
    assert dist.get_world_size() == size
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    assert total.item() == size * (size + 1) / 2, total
    if size > 1:
        received = torch.zeros(1)
        work = dist.isend(torch.tensor([float(rank)]), (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
        work.wait()
        assert received.item() == (rank - 1) % size
    dist.monitored_barrier()


def reconfigured() -> None:
    store = group()
    with raises(dist.DistBackendError, "has no communicator", "_reconfigure"):
        dist.all_reduce(torch.ones(1))
    everyone = exchanged(store, "handles", range(SIZE))
    assert len(set(everyone)) == SIZE
    with raises(ValueError, "none of the 1 handles is this rank's"):
        reconfigure(0, ["another"])
    reconfigure(1, everyone)
    assert dist.get_rank() == RANK
    check(SIZE)
    with raises(RuntimeError, "already used"):
        reconfigure(1, everyone)
    check(SIZE)
    # The ranks of a set are its order; of a list, the places in it.
    reconfigure(2, set(everyone))
    assert dist.get_rank() == sorted(everyone).index(everyone[RANK])
    check(SIZE)
    reconfigure(3, everyone[::-1])
    assert dist.get_rank() == SIZE - 1 - RANK
    check(SIZE)
    # Groups beside each other, with the same uuid.
    reconfigure(4, [everyone[RANK]])
    check(1)
    reconfigure(5, everyone)
    if RANK == 0:
        # Nobody else makes this group.
        with raises(dist.DistBackendError, "waited for rank 1"):
            reconfigure(6, everyone[:2], timeout=timedelta(seconds=1))
        with raises(dist.DistBackendError, "has no communicator"):
            dist.barrier()
    reconfigure(7, everyone)
    dist.get_backend_impl(dist.group.WORLD, torch.device("cpu")).abort()
    reconfigure(8, everyone)
    check(SIZE)
    dist.destroy_process_group()


def survivors() -> None:
    """The last rank is killed. The others find out, and continue without it."""
    import tutti.torch

    store = group()
    everyone = exchanged(store, "handles", range(SIZE))
    reconfigure(1, everyone)
    check(SIZE)
    if RANK == SIZE - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with raises(dist.DistBackendError, "a rank is lost", f"rank {SIZE - 1}"):
        while True:
            dist.all_reduce(torch.ones(1))
    assert tutti.torch.failed_ranks() == [SIZE - 1]
    reconfigure(2, everyone[:-1])
    assert tutti.torch.failed_ranks() == []
    check(SIZE - 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()

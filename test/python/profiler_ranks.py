"""What torch's profiler records, for the ranks of a job, as in ranks.py."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def names() -> None:
    """Of each call, one event with the shape of its tensor."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    tensor = torch.ones(5, 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(tensor)
        if RANK == 0:
            dist.recv(tensor)
            dist.recv(tensor, src=1)
        elif RANK == 1:
            dist.send(tensor, dst=0)
            dist.send(tensor, dst=0)
        dist.barrier()
    expected = ["all_reduce", *(["recvAnySource", "recv"] if RANK == 0 else ["send", "send"])]
    events = [event for event in profiler.events() if event.name.startswith("tutti:") and event.name != "tutti:barrier"]
    assert [event.name for event in events] == [f"tutti:{name}" for name in expected], events
    assert all(event.input_shapes == [[5, 2]] for event in events), events
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()

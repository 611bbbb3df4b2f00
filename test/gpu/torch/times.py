"""Medians of a call on CUDA tensors: tutti and torch's NCCL backend, taking turns."""

import statistics
import time

import torch
import torch.distributed as dist
from job import DEVICE, RANK

SIZES = (4, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
ROUNDS = 15


def size_text(size: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def seconds(call, count: int) -> tuple:
    """Of a call: until the last is queued, and until the last is complete."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    queued = time.perf_counter()
    torch.cuda.synchronize()
    return (queued - begin) / count, (time.perf_counter() - begin) / count


def row(groups, operation: str, size: int, is_async: bool) -> str:
    tensor = torch.ones(size // 4, device=DEVICE)
    group_of = {"tutti": groups.tutti, "nccl": groups.nccl}

    def call_of(group):
        def call():
            if operation == "all_reduce":
                work = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group, async_op=is_async)
            else:
                work = dist.broadcast(tensor, src=0, group=group, async_op=is_async)
            if is_async:
                work.wait()

        return call

    calls = {name: call_of(group) for name, group in group_of.items()}
    times = {name: [] for name in calls}
    count = 100 if size <= 1 << 20 else 10
    for call in calls.values():
        seconds(call, 5)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            dist.barrier(groups.gloo)
            times[name].append(seconds(call, count))
    columns = []
    for name in ("tutti", "nccl"):
        for part in (0, 1):
            slowest = torch.tensor([pair[part] for pair in times[name]], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX, group=groups.gloo)
            columns.append(statistics.median(slowest.tolist()) * 1e6)
    queued, total, queued_nccl, total_nccl = columns
    return (
        f"{operation + (', async' if is_async else ''):18} {size_text(size):>8} {queued:9.1f} {total:9.1f} {queued_nccl:9.1f} {total_nccl:9.1f}"
        f" {total_nccl / total:8.2f}"
    )


def table(groups) -> None:
    lines = [f"{'us a call':18} {'':8} {'tutti, queued':>9} {'complete':>9} {'NCCL, queued':>9} {'complete':>9} {'speed-up':>8}"]
    for operation in ("all_reduce", "broadcast"):
        lines += [row(groups, operation, size, False) for size in SIZES]
    lines += [row(groups, "all_reduce", size, True) for size in (4, 1 << 20)]
    if RANK == 0:
        print("\n".join(lines), flush=True)

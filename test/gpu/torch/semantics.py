"""What a program may rely on: streams, memory, futures, graphs, groups, errors. Each function is one check."""

import time

import torch
import torch.distributed as dist
from job import DEVICE, RANK, SIZE, raises, require

TOTAL = SIZE * (SIZE + 1) / 2
CYCLES = 400_000_000  # of torch.cuda._sleep: some 0.2 s


def ones(count: int = 1000) -> torch.Tensor:
    return torch.full((count,), float(RANK + 1), device=DEVICE)


def one_backend_for_both(groups):
    backends = [groups.tutti._get_backend(torch.device(name)) for name in ("cpu", "cuda")]
    require(backends[0].name() == "tutti" and backends[0] is backends[1], f"the backends are {backends}")


def mixed_devices(groups):
    """CPU and CUDA tensors by turns, and at once."""
    for _ in range(20):
        on_cpu, on_gpu = torch.full((100,), float(RANK + 1)), ones(100)
        works = [dist.all_reduce(on_gpu, async_op=True), dist.all_reduce(on_cpu, async_op=True)]
        for work in works:
            work.wait()
        require(on_cpu.tolist() == [TOTAL] * 100 == on_gpu.tolist(), f"{on_cpu[0]} and {on_gpu[0]}")
    with raises(RuntimeError, "same device", "cuda", "cpu"):
        dist.all_gather([torch.zeros(2, device=DEVICE), *[torch.zeros(2) for _ in range(SIZE - 1)]], ones(2))
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    require(objects == [{"rank": rank} for rank in range(SIZE)], f"{objects}")
    dist.barrier()
    dist.barrier(device_ids=[DEVICE.index])


def wait_does_not_block_the_host(groups):
    tensor = ones()
    dist.all_reduce(tensor.clone())
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES)
    begin = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    was_complete = work.is_completed()
    work.wait()
    doubled = tensor * 2
    queued = time.monotonic() - begin
    torch.cuda.synchronize()
    slept = time.monotonic() - begin
    require(slept > 0.05, f"the stream was busy for {slept:.3f} s only: the check shows nothing")
    require(queued < slept / 2, f"queuing took {queued:.3f} s of {slept:.3f} s")
    require(not was_complete and work.is_completed() and work.is_success(), "is_completed()")
    require(torch.all(doubled == 2 * TOTAL).item(), f"{doubled[:3]}")
    return f"queued in {queued * 1e3:.2f} ms while the stream was busy for {slept * 1e3:.0f} ms"


def wait_with_timeout_blocks(groups):
    from datetime import timedelta

    torch.cuda._sleep(CYCLES)
    begin = time.monotonic()
    work = dist.all_reduce(ones(), async_op=True)
    work.wait(timedelta(seconds=20))
    require(work.is_completed(), "the work is not complete after wait(timeout)")
    require(time.monotonic() - begin > 0.05, "wait(timeout) did not block")
    torch.cuda._sleep(CYCLES)
    work = dist.all_reduce(ones(), async_op=True)
    with raises(dist.DistBackendError, "timed out"):
        work.wait(timedelta(milliseconds=5))
    work.wait()
    dist.barrier(device_ids=[DEVICE.index])
    require(work.is_completed(), "barrier() has not blocked the host")


def order_of_streams(groups):
    """The call comes after the current stream's earlier work, and before its later work."""
    for is_async in (True, False):
        for _ in range(5):
            torch.cuda._sleep(CYCLES // 20)
            tensor = torch.zeros(1 << 22, device=DEVICE)
            tensor += RANK + 1
            work = dist.all_reduce(tensor, async_op=is_async)
            if is_async:
                work.wait()
            tensor += 1
            require(torch.all(tensor == TOTAL + 1).item(), f"async {is_async}: {tensor[:3]}")


def memory_is_kept(groups):
    """Inputs that the program drops are not allocated again while a call reads them."""
    large = torch.zeros(1 << 26, device=DEVICE)
    for _ in range(3):
        first = dist.all_reduce(large, async_op=True)
        output = torch.zeros(SIZE << 20, device=DEVICE)
        source = torch.full((1 << 20,), float(RANK + 1), device=DEVICE)
        work = dist.all_gather_into_tensor(output, source, async_op=True)
        listed = [torch.zeros(1 << 20, device=DEVICE)[::2] for _ in range(SIZE)]
        second = dist.all_gather(listed, source[::2], async_op=True)
        del source
        for _ in range(8):
            torch.full((1 << 20,), -1.0, device=DEVICE)
        for each in (work, second, first):
            each.wait()
        for rank in range(SIZE):
            require(torch.all(output[rank << 20 : (rank + 1) << 20] == rank + 1).item(), "the input was overwritten")
            require(torch.all(listed[rank] == rank + 1).item(), "a list's input was overwritten")


def futures(groups):
    tensor = ones()
    future = dist.all_reduce(tensor, async_op=True).get_future()
    tripled = future.then(lambda done: done.value()[0] * 3)
    require(torch.all(tripled.wait() == 3 * TOTAL).item(), "the value of a future that follows")
    outputs = [torch.zeros(5, device=DEVICE)[::2] for _ in range(SIZE)]
    future = dist.all_gather(outputs, ones(3), async_op=True).get_future()
    require([part.tolist() for part in future.wait()[-SIZE:]] == [[rank + 1.0] * 3 for rank in range(SIZE)], f"{outputs}")


def graphs(groups):
    """A captured call is replayed."""
    for is_async in (False, True):
        tensor, result = torch.zeros(5000, device=DEVICE), torch.zeros(5000, device=DEVICE)
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work = dist.all_reduce(tensor, async_op=is_async)
            if is_async:
                work.wait()
            result.copy_(tensor)
        for repetition in range(1, 6):
            tensor.fill_(float(repetition * (RANK + 1)))
            graph.replay()
            torch.cuda.synchronize()
            require(torch.all(result == repetition * TOTAL).item(), f"async {is_async}, replay {repetition}: {result[:3]}")
    dist.all_reduce(result)


def types_of_tutti_alone(groups):
    """What torch's NCCL backend lacks."""
    for kind in (torch.complex64, torch.complex128):
        tensor = torch.full((3,), RANK + 1 + 1j, dtype=kind, device=DEVICE)
        dist.all_reduce(tensor)
        require(tensor.tolist() == [TOTAL + SIZE * 1j] * 3, f"{tensor}")
    for kind in (torch.uint32, torch.uint64):
        tensor = torch.tensor([RANK + 1] * 3).to(kind).to(DEVICE)
        dist.all_reduce(tensor)
        require(tensor.tolist() == [int(TOTAL)] * 3, f"{tensor}")
    for kind in (torch.int16, torch.complex64, torch.float8_e4m3fn, torch.uint32, torch.bool):
        tensor = torch.arange(5).to(kind).to(DEVICE) if RANK == 0 else torch.zeros(5).to(kind).to(DEVICE)
        dist.broadcast(tensor, src=0)
        require(torch.equal(tensor.cpu().view(torch.uint8), torch.arange(5).to(kind).view(torch.uint8)), f"{kind}")
    tensor = torch.full((3,), 2.0 * (RANK + 1), dtype=torch.bfloat16, device=DEVICE)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    require(tensor.tolist() == [TOTAL] * 3, f"{tensor}")
    flags = torch.tensor([RANK == 0, True, False], device=DEVICE)
    dist.all_reduce(flags, dist.ReduceOp.BAND)
    require(flags.tolist() == [SIZE == 1, True, False], f"{flags}")
    small = torch.ones(4, device=DEVICE).to(torch.float8_e5m2)
    dist.all_reduce(small)
    require(small.float().tolist() == [float(SIZE)] * 4, f"{small}")
    empty = torch.zeros(0, device=DEVICE)
    dist.all_reduce(empty)
    dist.all_gather_into_tensor(torch.zeros(0, device=DEVICE), empty)


def refusals(groups):
    """Before anything is queued: afterwards the group works."""
    with raises(ValueError, "int16", "CPU"):
        dist.all_reduce(torch.zeros(2, dtype=torch.int16, device=DEVICE))
    with raises(ValueError, "BXOR", "CPU"):
        dist.all_reduce(torch.zeros(2, dtype=torch.int32, device=DEVICE), dist.ReduceOp.BXOR)
    with raises(ValueError, "contiguous"):
        dist.all_reduce(torch.zeros(4, 4, device=DEVICE)[:, 1])
    with raises(RuntimeError, "any rank"):
        dist.recv(torch.zeros(1, device=DEVICE))
    with raises(RuntimeError, "sparse"):
        dist.all_reduce(torch.eye(2, device=DEVICE).to_sparse())
    if torch.cuda.device_count() > 1:
        other = torch.device("cuda", (DEVICE.index + 1) % torch.cuda.device_count())
        with raises(RuntimeError, str(DEVICE), str(other)):
            dist.all_reduce(torch.zeros(1, device=other))
    tensor = ones(3)
    dist.all_reduce(tensor)
    require(tensor.tolist() == [TOTAL] * 3, f"{tensor}")


def more_groups(groups):
    alone = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
    tensor = ones(3)
    dist.all_reduce(tensor, group=alone)
    require(tensor.tolist() == [RANK + 1.0] * 3, f"{tensor}")
    reverse = dist.new_group(list(reversed(range(SIZE))))
    works = [dist.all_reduce(each, group=group, async_op=True) for each, group in ((tensor, reverse), (ones(), groups.tutti))]
    for work in works:
        work.wait()
    require(tensor.tolist() == [TOTAL] * 3, f"{tensor}")
    explicit = dist.new_group(backend="cpu:gloo,cuda:tutti")
    dist.all_reduce(tensor, group=explicit)
    require(tensor.tolist() == [SIZE * TOTAL] * 3, f"{tensor}")
    for group in (alone, reverse, explicit):
        dist.destroy_process_group(group)


CHECKS = (
    one_backend_for_both, mixed_devices, wait_does_not_block_the_host, wait_with_timeout_blocks, order_of_streams, memory_is_kept, futures,
    graphs, types_of_tutti_alone, refusals, more_groups,
)  # fmt: skip

#!/usr/bin/env python3
"""PyTorch's own NCCL backend, which knows nothing of tutti's preload: run with and without LD_PRELOAD.

    torch_check.py RANKS results|bound|killed|time

results: prints a hash of the results of collectives on CUDA tensors and of the training of a small network with DDP, from integers and
multiples of 1/4 (DDP's of floats), so that it does not depend on rounding with two ranks. bound: the same with communicators bound to a device, which
PyTorch makes non-blocking. killed: rank 1 dies in the middle; prints after how many seconds the others ended. time: prints the time of
calls, as nccl_check does, and of a step of DDP.
"""
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time


def say(text):
    """In one write, since the ranks share the output."""
    os.write(1, (text + "\n").encode())


def small_network(device):
    import torch
    from torch.nn.parallel import DistributedDataParallel
    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10)).to(device)
    model = DistributedDataParallel(network, device_ids=[device.index])
    return network, model, torch.optim.SGD(model.parameters(), lr=0.05)


def train_step(model, optimizer, inputs):
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def results(rank, ranks, device):
    import torch
    import torch.distributed as dist
    digest = hashlib.sha256()

    def note(tensor):
        digest.update(tensor.detach().float().cpu().numpy().tobytes())

    generator = torch.Generator(device="cpu").manual_seed(rank)

    def values(count, dtype):
        numbers = torch.randint(-8, 9, (count,), generator=generator)
        return (numbers if not dtype.is_floating_point else numbers / 4).to(dtype).to(device)

    side = torch.cuda.Stream()
    odd_group = dist.new_group(list(range(ranks)))
    for count in (1, 1000, 4097, 65536, 400000, 3000000):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG):
                if op == dist.ReduceOp.AVG and not dtype.is_floating_point:
                    continue
                tensor = values(count, dtype)
                dist.all_reduce(tensor, op)
                note(tensor)
            tensor = values(count, dtype)
            dist.broadcast(tensor, ranks - 1)
            note(tensor)
            whole = torch.empty(count * ranks, dtype=dtype, device=device)
            dist.all_gather_into_tensor(whole, values(count, dtype))
            note(whole)
            part = torch.empty(count, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(part, values(count * ranks, dtype))
            note(part)
            with torch.cuda.stream(side):
                tensor = values(count, dtype)
                work = dist.all_reduce(tensor, async_op=True, group=odd_group)
                work.wait()
                note(tensor)
            tensors = [values(count, dtype) for _ in range(3)]
            with dist._coalescing_manager(device=device, async_ops=True) as manager:
                for tensor in tensors:
                    dist.all_reduce(tensor)
            manager.wait()
            for tensor in tensors:
                note(tensor)
    _, model, optimizer = small_network(device)
    for _ in range(30):
        note(train_step(model, optimizer, torch.randn(32, 64, generator=generator).to(device)))
    for parameter in model.parameters():
        note(parameter)
    return f"results of rank {rank}: {digest.hexdigest()}"


def killed(rank, device):
    import torch
    import torch.distributed as dist
    tensor = torch.ones(1000, device=device)
    for number in range(1000000):
        if rank == 1 and number == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(tensor)
        tensor.fill_(1)
        torch.cuda.synchronize()
    return "not reached"


def times(rank, ranks, device):
    import torch
    import torch.distributed as dist
    calls = 200
    for name, call in (("torch_all_reduce", dist.all_reduce), ("torch_broadcast", lambda tensor: dist.broadcast(tensor, 0))):
        for count in (1, 2048, 16384, 262144):
            tensor = torch.zeros(count, device=device)
            took = []
            for _ in range(10):
                dist.barrier()
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(calls):
                    call(tensor)
                torch.cuda.synchronize()
                took.append((time.perf_counter() - start) / calls * 1e6)
            if rank == 0:
                say(f"time {name} {count * 4} plain {sorted(took)[len(took) // 2]:.2f}")
    network, model, optimizer = small_network(device)
    inputs = torch.randn(32, 64, device=device)
    took = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            train_step(model, optimizer, inputs)
        torch.cuda.synchronize()
        took.append((time.perf_counter() - start) / calls * 1e6)
    if rank == 0:
        size = sum(parameter.numel() * 4 for parameter in network.parameters())
        say(f"time torch_ddp_step {size} plain {sorted(took)[len(took) // 2]:.2f}")
    return ""


def one_rank(what):
    import torch
    import torch.distributed as dist
    rank, ranks = int(os.environ["TORCH_CHECK_RANK"]), int(sys.argv[1])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=os.environ["TORCH_CHECK_STORE"], rank=rank, world_size=ranks,
                            device_id=device if what == "bound" else None)
    text = {"results": lambda: results(rank, ranks, device), "bound": lambda: results(rank, ranks, device),
            "killed": lambda: killed(rank, device), "time": lambda: times(rank, ranks, device)}[what]()
    if text:
        say(text)
    dist.destroy_process_group()


def main():
    ranks, what = int(sys.argv[1]), sys.argv[2]
    if "TORCH_CHECK_RANK" in os.environ:
        return one_rank(what)
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(ranks, what, f"file://{folder}/store")


def run_ranks(ranks, what, store):
    processes = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "TORCH_CHECK_RANK": str(rank), "TORCH_CHECK_STORE": store})
                 for rank in range(ranks)]
    if what == "killed":
        if processes[1].wait() != -signal.SIGKILL:
            sys.exit(f"rank 1 was not killed: it ended with {processes[1].returncode}")
        start = time.monotonic()
        try:
            for process in processes:
                process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            for process in processes:
                process.kill()
            sys.exit("the others did not end")
        print(f"the others ended after {time.monotonic() - start:.1f} s with {[process.returncode for process in processes]}")
        return 0
    return max(abs(process.wait()) for process in processes)


if __name__ == "__main__":
    sys.exit(main())

"""The tutorial's first scripts: rank 0 sends a tensor to all others, then broadcast, all_reduce and friends.

    torchrun --nproc-per-node 4 collectives.py                    # or: mpirun -np 4 python collectives.py --init-method tutti://
    torchrun --nproc-per-node 4 collectives.py --backend gloo     # the same output
"""

import argparse
import sys

import torch
import torch.distributed as dist


def say(text: str) -> None:
    """One line in one write, so that lines of two ranks do not mix."""
    sys.stdout.write(f"[rank {dist.get_rank()}/{dist.get_world_size()}] {text}\n")
    sys.stdout.flush()


def send_to_all(rank: int, size: int) -> None:
    tensor = torch.zeros(4)
    if rank == 0:
        tensor += torch.arange(1, 5)
        for peer in range(1, size):
            dist.send(tensor, dst=peer)
        say(f"sent {tensor.tolist()} to {size - 1} ranks")
    else:
        dist.recv(tensor, src=0)
        say(f"received {tensor.tolist()} from rank 0")


def send_without_blocking(rank: int, size: int) -> None:
    """Each rank to the next one, in a ring."""
    sent, received = torch.full((2,), float(rank)), torch.zeros(2)
    requests = [dist.isend(sent, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)] if size > 1 else []
    for request in requests:
        request.wait()
    say(f"ring: received {received.tolist()} from rank {(rank - 1) % size}")


def collectives(rank: int, size: int) -> None:
    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, src=size - 1)
    say(f"broadcast: {tensor.tolist()}")

    tensor = torch.full((3,), float(rank + 1))
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    say(f"all_reduce: {tensor.tolist()}")

    tensor = torch.full((3,), float(rank + 1))
    work = dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True)
    work.wait()
    say(f"all_reduce without blocking: {tensor.tolist()}")

    tensor = torch.full((1,), float(rank + 1))
    dist.reduce(tensor, dst=0, op=dist.ReduceOp.PRODUCT)
    if rank == 0:
        say(f"reduce: {tensor.tolist()}")

    gathered = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    say(f"all_gather: {torch.cat(gathered).tolist()}")

    at_root = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((1,), float(rank)), at_root, dst=0)
    if rank == 0:
        say(f"gather: {torch.cat(at_root).tolist()}")

    part = torch.zeros(1)
    dist.scatter(part, [torch.full((1,), float(10 * peer)) for peer in range(size)] if rank == 0 else None, src=0)
    say(f"scatter: {part.tolist()}")

    # gloo has it since torch 2.1
    part = torch.zeros(1)
    dist.reduce_scatter_tensor(part, torch.arange(size, dtype=torch.float32))
    say(f"reduce_scatter: {part.tolist()}")

    exchanged = torch.zeros(size)
    dist.all_to_all_single(exchanged, torch.arange(size, dtype=torch.float32) + 100 * rank)
    say(f"all_to_all: {exchanged.tolist()}")

    evens = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=evens)
        say(f"all_reduce of the even ranks: {tensor.tolist()}")

    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    say(f"all_gather_object: {objects}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--init-method", default=None, help="tutti:// also works under mpirun and srun")
    options = parser.parse_args()
    dist.init_process_group(options.backend, init_method=options.init_method)
    rank, size = dist.get_rank(), dist.get_world_size()
    send_to_all(rank, size)
    send_without_blocking(rank, size)
    collectives(rank, size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

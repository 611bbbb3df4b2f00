"""With device_id: the communicator is made with the group, and new groups know it."""

import torch
import torch.distributed as dist
from job import DEVICE, RANK, SIZE, Groups, require

TOTAL = SIZE * (SIZE + 1) / 2


def ones() -> torch.Tensor:
    return torch.full((10,), float(RANK + 1), device=DEVICE)


def messages(groups):
    tensor = ones()
    if RANK == 0:
        dist.send(tensor, dst=1)
    elif RANK == 1:
        dist.recv(tensor, src=0)
        require(tensor.tolist() == [1.0] * 10, f"{tensor}")


def barrier(groups):
    dist.barrier()


def subgroups(groups):
    first = dist.new_group([0])
    if RANK == 0:
        tensor = ones()
        dist.all_reduce(tensor, group=first)
        require(tensor.tolist() == [1.0] * 10, f"{tensor}")
    everybody = dist.new_group(list(range(SIZE)))
    tensor = ones()
    dist.all_reduce(tensor, group=everybody)
    require(tensor.tolist() == [TOTAL] * 10, f"{tensor}")
    half = dist.split_group(split_ranks=[[rank] for rank in range(SIZE)])
    tensor = ones()
    dist.all_reduce(tensor, group=half)
    require(tensor.tolist() == [RANK + 1.0] * 10, f"{tensor}")


def mesh(groups):
    from torch.distributed.device_mesh import init_device_mesh

    grid = init_device_mesh("cuda", (1, SIZE), mesh_dim_names=("a", "b"))
    tensor = ones()
    dist.all_reduce(tensor, group=grid["b"].get_group())
    require(tensor.tolist() == [TOTAL] * 10, f"{tensor}")


def main() -> None:
    groups = Groups(device_id=DEVICE)
    for function in (messages, barrier, subgroups, mesh):
        groups.check(f"device_id: {function.__name__}", function)
    dist.destroy_process_group()


main()

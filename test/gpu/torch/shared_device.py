"""Two ranks on one GPU: the library stages CUDA tensors through host memory. Results against those on CPU tensors."""

import random

import torch
import torch.distributed as dist
from job import DEVICE, RANK, SIZE, Groups, require
from random_calls import Call, OPERATIONS
import random_calls


def compare(groups, operation):
    shared = random.Random(operation.__name__)
    wrong = []
    for number in range(6):
        call = Call(shared, number, operation)
        call.on_side_stream = False
        mine = call.run(groups.tutti)
        random_calls.DEVICE = torch.device("cpu")
        others = call.run(groups.tutti)
        random_calls.DEVICE = DEVICE
        for one, other in zip(mine, others, strict=True):
            if not call.same(one.cpu(), other):
                wrong.append(f"{call}: {one.flatten()[:4].tolist()} and the CPU's {other.flatten()[:4].tolist()}")
    require(not wrong, "; ".join(wrong[:3]))


def futures(groups):
    tensor = torch.full((5,), float(RANK + 1), device=DEVICE)
    value = dist.all_reduce(tensor, async_op=True).get_future().wait()[0]
    require(value.tolist() == [SIZE * (SIZE + 1) / 2] * 5, f"{value}")


def main() -> None:
    groups = Groups()
    for operation in OPERATIONS:
        groups.check(f"shared GPU: {operation.__name__}", compare, operation)
    groups.check("shared GPU: futures", futures)
    dist.destroy_process_group()


main()

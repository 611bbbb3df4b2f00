"""Sparse tensors, for the ranks of a job, as in ranks.py: their sums are those of dense tensors."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import raises

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TYPES = (torch.float32, torch.float64, torch.int64, torch.bfloat16)


def some_tensor(number: int) -> torch.Tensor:
    """Of this rank; all ranks have the same sizes. Some ranks have no entries, others an index twice."""
    generator = torch.Generator().manual_seed(number)
    sparse, dense = 1 + number % 3, number // 3 % 3
    sizes = torch.randint(1, 9, (sparse + dense,), generator=generator).tolist()
    generator.manual_seed(1000 * number + RANK)
    entries = int(torch.randint(0, 12, (1,), generator=generator))
    indices = torch.stack([torch.randint(0, size, (entries,), generator=generator) for size in sizes[:sparse]])
    # Small integers: their sums are exact in each type.
    values = torch.randint(-4, 5, (entries, *sizes[sparse:]), generator=generator).to(TYPES[number % len(TYPES)])
    return torch.sparse_coo_tensor(indices, values, sizes)


def sums() -> None:
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    for number in range(60):
        mine = some_tensor(number)
        expected = [torch.zeros(mine.shape, dtype=mine.dtype) for _ in range(SIZE)]
        dist.all_gather(expected, mine.to_dense())
        before = mine._version
        work = dist.all_reduce(mine, async_op=number % 2 == 1)
        if work is not None:
            work.wait()
        assert mine.is_sparse and mine.is_coalesced() and mine._version > before
        assert torch.equal(mine.to_dense(), sum(expected)), f"{number}: {mine}"
    empty = torch.sparse_coo_tensor(size=(3, 2))
    dist.all_reduce(empty)
    assert empty._nnz() == 0
    with raises(ValueError, "different sizes"):
        dist.all_reduce(torch.eye(2 + RANK).to_sparse())
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == SIZE, "the group does not work after an error of arguments"
    train()
    dist.destroy_process_group()


def train() -> None:
    """DDP with sparse gradients of an embedding: the weights of one process with all inputs."""
    inputs = torch.arange(SIZE * 4).reshape(SIZE, 4) % 7
    torch.manual_seed(3)
    alone = torch.nn.Embedding(8, 3, sparse=True)
    together = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding.from_pretrained(alone.weight.detach().clone(), freeze=False, sparse=True))
    for model, chosen in ((alone, inputs), (together, inputs[RANK : RANK + 1])):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(chosen).pow(2).mean().backward()
            optimizer.step()
    torch.testing.assert_close(together.module.weight, alone.weight)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

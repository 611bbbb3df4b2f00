"""DistributedDataParallel on a small network, with a DistributedSampler: rank 0 prints the loss of each epoch, all ranks what they have.

    torchrun --nproc-per-node 2 ddp.py                          # or: mpirun -np 2 python ddp.py --init-method tutti://
    torchrun --nproc-per-node 2 ddp.py --backend gloo           # the same output
"""

import argparse
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def say(text: str) -> None:
    """One line in one write, so that lines of two ranks do not mix."""
    sys.stdout.write(f"[rank {dist.get_rank()}/{dist.get_world_size()}] {text}\n")
    sys.stdout.flush()


def make_data() -> TensorDataset:
    """Two half-moons of 1024 points, the same on all ranks; nothing is downloaded."""
    generator = torch.Generator().manual_seed(1)
    angle = torch.rand(1024, generator=generator) * torch.pi
    label = torch.arange(1024) % 2
    points = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    points[label == 1] = torch.tensor([1.0, 0.5]) - points[label == 1]
    return TensorDataset(points + 0.1 * torch.randn(1024, 2, generator=generator), label)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--init-method", default=None)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    dist.init_process_group(options.backend, init_method=options.init_method)

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    network = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.2)
    data = make_data()
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)  # another order in each epoch, the same on all ranks
        total, correct, seen = 0.0, 0, 0
        for points, labels in loader:
            optimizer.zero_grad()
            scores = network(points)
            loss = torch.nn.functional.cross_entropy(scores, labels)
            loss.backward()  # averages the gradients of all ranks
            optimizer.step()
            total += loss.item() * len(labels)
            correct += int((scores.argmax(dim=1) == labels).sum())
            seen += len(labels)
        sums = torch.tensor([total, correct, seen], dtype=torch.float64)
        dist.all_reduce(sums)
        if dist.get_rank() == 0:
            say(f"epoch {epoch}: loss {sums[0] / sums[2]:.3f}, {100 * sums[1] / sums[2]:.1f} % correct of {int(sums[2])} points")

    # All ranks have the same network: rank 0's checksum is everybody's.
    checksum = sum(parameter.double().sum() for parameter in network.parameters()).detach()
    of_rank_0 = checksum.clone()
    dist.broadcast(of_rank_0, src=0)
    say("the network is rank 0's" if torch.equal(checksum, of_rank_0) else f"the network differs from rank 0's: {checksum} and {of_rank_0}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

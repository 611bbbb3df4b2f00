"""DDP, FSDP2 and DTensor on CUDA tensors: 20 steps, the losses against those of the same program on torch's NCCL backend."""

import math

import torch
import torch.distributed as dist
from job import DEVICE, RANK, require
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def network() -> torch.nn.Module:
    torch.manual_seed(7)
    layers = [torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.GELU(), torch.nn.Linear(512, 128)) for _ in range(3)]
    return torch.nn.Sequential(*layers).to(DEVICE)


def losses(group, model, same_data: bool = False) -> list:
    """Of each step, the mean over the ranks."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator(DEVICE).manual_seed(100 if same_data else 100 + RANK)
    result = []
    for _ in range(STEPS):
        inputs = torch.randn(32, 128, device=DEVICE, generator=generator)
        loss = (model(inputs) - inputs.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG, group=group)
        result.append(mean.item())
    return result


def compare(groups, train, tolerance: float) -> str:
    mine, others = train(groups.tutti), train(groups.nccl)
    require(all(map(math.isfinite, mine)), f"the losses are {mine}")
    require(mine[-1] < 0.98 * mine[0], f"nothing was learnt: {mine[0]} to {mine[-1]}")
    worst = max(abs(one - other) / abs(other) for one, other in zip(mine, others, strict=True))
    require(worst <= tolerance, f"the losses differ by {worst:.2e}: {mine} and NCCL's {others}")
    return f"loss {mine[0]:.6f} to {mine[-1]:.6f}, NCCL's {others[0]:.6f} to {others[-1]:.6f}, largest difference {worst:.1e}"


def ddp(group):
    return losses(group, DistributedDataParallel(network(), device_ids=[DEVICE], process_group=group, bucket_cap_mb=0.5))


def ddp_with_hook(group):
    model = DistributedDataParallel(network(), device_ids=[DEVICE], process_group=group, bucket_cap_mb=0.5)
    model.register_comm_hook(group, bf16_compress_hook)
    return losses(group, model)


def mesh_of(group) -> DeviceMesh:
    return DeviceMesh.from_group(group, "cuda")


def fsdp2(group):
    model, mesh = network(), mesh_of(group)
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return losses(group, model)


def tensor_parallel(group):
    model, mesh = network(), mesh_of(group)
    for layer in model:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return losses(group, model, same_data=True)


def dtensor(group):
    """Redistributions between all placements, forwards and backwards."""
    mesh = mesh_of(group)
    torch.manual_seed(3)
    weight = torch.nn.Parameter(distribute_tensor(torch.randn(64, 64, device=DEVICE) / 8, mesh, [Shard(0)]))
    generator = torch.Generator(DEVICE).manual_seed(5)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    result = []
    for _ in range(STEPS):
        inputs = distribute_tensor(torch.randn(16, 64, device=DEVICE, generator=generator), mesh, [Replicate()])
        product = (inputs @ weight.redistribute(placements=[Shard(1)]).T).redistribute(placements=[Shard(0)])
        loss = (product - inputs.redistribute(placements=[Shard(0)])).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        require(isinstance(loss, DTensor), f"the loss is a {type(loss)}")
        result.append(loss.full_tensor().item())
    return result


PROGRAMS = {
    "DDP": (ddp, 1e-5),
    "DDP with a communication hook": (ddp_with_hook, 1e-3),
    "FSDP2": (fsdp2, 1e-5),
    "tensor parallel": (tensor_parallel, 1e-5),
    "DTensor": (dtensor, 1e-5),
}

"""Random calls on CUDA tensors: tutti's results against those of torch's NCCL backend."""

import os
import random

import torch
import torch.distributed as dist
from job import DEVICE, RANK, SIZE, require

INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
MOVED = (*INTEGERS, *FLOATS, torch.bool)
COUNTS = (1, 2, 3, 7, 64, 1000, 4099, 70001, 1 << 20)


class Call:
    """One call, the same on both groups. Everything is drawn from generators that all ranks share."""

    def __init__(self, shared: random.Random, number: int, operation):
        self.number = number
        self.operation = operation
        self.count = shared.choice(COUNTS)
        self.root = shared.randrange(SIZE)
        self.is_async = shared.random() < 0.5
        self.on_side_stream = shared.random() < 0.3
        self.splits = [[shared.randrange(5) for _ in range(SIZE)] for _ in range(SIZE)]
        reduces = operation.__name__.startswith(("all_reduce", "reduce"))
        self.type = shared.choice((*INTEGERS, *FLOATS) if reduces else MOVED)
        operators = ["SUM", "MIN", "MAX", "PRODUCT"] + (["AVG", "PREMUL_SUM"] if self.type in FLOATS else [])
        # torch has no premultiplied sum of several tensors, nor of uneven lists.
        # Its NCCL backend passes the factor of bfloat16 as a float, of which NCCL reads the lower half.
        lacks_premul = operation in (all_reduce_coalesced, reduce_scatter_uneven) or self.type == torch.bfloat16
        if lacks_premul and "PREMUL_SUM" in operators:
            operators.remove("PREMUL_SUM")
        self.op_name = shared.choice(operators) if reduces else "SUM"
        self.factor = shared.choice((0.25, 0.5, 3.0))

    def __str__(self) -> str:
        way = ("async " if self.is_async else "") + ("on a side stream" if self.on_side_stream else "")
        return f"call {self.number}: {self.operation.__name__} of {self.count} {self.type}, {self.op_name}, root {self.root} {way}"

    @property
    def op(self):
        if self.op_name == "PREMUL_SUM":
            return dist._make_nccl_premul_sum(self.factor)
        return getattr(dist.ReduceOp, self.op_name)

    def tensor(self, count: "int | None" = None, block: int = 0) -> torch.Tensor:
        """Values that differ between ranks, blocks and calls; all of them exact in every type."""
        count = self.count if count is None else count
        generator = torch.Generator().manual_seed(self.number * 1000 + RANK * 10 + block)
        values = torch.randint(0, 2 if self.type == torch.bool else 7, (count,), generator=generator)
        return values.to(self.type).to(DEVICE)

    def empty(self, count: "int | None" = None) -> torch.Tensor:
        return torch.full((self.count if count is None else count,), 1, dtype=self.type, device=DEVICE)

    def wait(self, work) -> None:
        if self.is_async and work is not None:
            work.wait()

    def run(self, group) -> list:
        if not self.on_side_stream:
            return self.operation(self, group)
        side = torch.cuda.Stream(DEVICE)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = self.operation(self, group)
        torch.cuda.current_stream().wait_stream(side)
        return result

    def same(self, mine: torch.Tensor, other: torch.Tensor) -> bool:
        if not self.type.is_floating_point or self.op_name not in ("AVG", "PREMUL_SUM"):
            return torch.equal(mine, other)
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(self.type, 1e-6)
        return torch.allclose(mine.double(), other.double(), rtol=tolerance, atol=tolerance)


def broadcast(call, group):
    tensor = call.tensor()
    call.wait(dist.broadcast(tensor, group_src=call.root, group=group, async_op=call.is_async))
    return [tensor]


def all_reduce(call, group):
    tensor = call.tensor()
    call.wait(dist.all_reduce(tensor, call.op, group=group, async_op=call.is_async))
    return [tensor]


def reduce(call, group):
    tensor = call.tensor()
    call.wait(dist.reduce(tensor, group_dst=call.root, op=call.op, group=group, async_op=call.is_async))
    return [tensor] if RANK == call.root else []


def all_gather(call, group):
    outputs = [call.empty() for _ in range(SIZE)]
    call.wait(dist.all_gather(outputs, call.tensor(), group=group, async_op=call.is_async))
    return outputs


def all_gather_uneven(call, group):
    outputs = [call.empty(call.count + rank) for rank in range(SIZE)]
    call.wait(dist.all_gather(outputs, call.tensor(call.count + RANK), group=group, async_op=call.is_async))
    return outputs


def all_gather_into_tensor(call, group):
    output = call.empty(SIZE * call.count)
    call.wait(dist.all_gather_into_tensor(output, call.tensor(), group=group, async_op=call.is_async))
    return [output]


def gather(call, group):
    outputs = [call.empty() for _ in range(SIZE)] if RANK == call.root else None
    call.wait(dist.gather(call.tensor(), outputs, group_dst=call.root, group=group, async_op=call.is_async))
    return outputs or []


def scatter(call, group):
    output = call.empty()
    inputs = [call.tensor(block=block) for block in range(SIZE)] if RANK == call.root else None
    call.wait(dist.scatter(output, inputs, group_src=call.root, group=group, async_op=call.is_async))
    return [output]


def reduce_scatter(call, group):
    output = call.empty()
    inputs = [call.tensor(block=block) for block in range(SIZE)]
    call.wait(dist.reduce_scatter(output, inputs, call.op, group=group, async_op=call.is_async))
    return [output]


def reduce_scatter_uneven(call, group):
    output = call.empty(call.count + RANK)
    inputs = [call.tensor(call.count + block, block) for block in range(SIZE)]
    call.wait(dist.reduce_scatter(output, inputs, call.op, group=group, async_op=call.is_async))
    return [output]


def reduce_scatter_tensor(call, group):
    output = call.empty()
    call.wait(dist.reduce_scatter_tensor(output, call.tensor(SIZE * call.count), call.op, group=group, async_op=call.is_async))
    return [output]


def all_to_all_single(call, group):
    output = call.empty(SIZE * call.count)
    call.wait(dist.all_to_all_single(output, call.tensor(SIZE * call.count), group=group, async_op=call.is_async))
    return [output]


def all_to_all_single_uneven(call, group):
    sent, received = call.splits[RANK], [row[RANK] for row in call.splits]
    output = call.empty(sum(received))
    call.wait(dist.all_to_all_single(output, call.tensor(sum(sent)), received, sent, group=group, async_op=call.is_async))
    return [output]


def all_to_all(call, group):
    inputs = [call.tensor(call.count + peer, peer) for peer in range(SIZE)]
    outputs = [call.empty(call.count + RANK) for _ in range(SIZE)]
    call.wait(dist.all_to_all(outputs, inputs, group=group, async_op=call.is_async))
    return outputs


def send_recv(call, group):
    """From the root to the rank after it."""
    tensor = call.tensor()
    if call.root == RANK:
        dist.send(tensor, group_dst=(RANK + 1) % SIZE, group=group)
    elif (call.root + 1) % SIZE == RANK:
        dist.recv(tensor, group_src=call.root, group=group)
    return [tensor]


def isend_irecv(call, group):
    tensor = call.tensor()
    if call.root == RANK:
        dist.isend(tensor, group_dst=(RANK + 1) % SIZE, group=group).wait()
    elif (call.root + 1) % SIZE == RANK:
        dist.irecv(tensor, group_src=call.root, group=group).wait()
    return [tensor]


def batch_isend_irecv(call, group):
    """Everybody exchanges two tensors with both neighbours, sends first on all ranks."""
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    operations, outputs = [], []
    for block in range(2):
        for peer in {after, before}:
            operations.append(dist.P2POp(dist.isend, call.tensor(block=block + 2), group=group, group_peer=peer))
    for _ in range(2):
        for peer in {after, before}:
            outputs.append(call.empty())
            operations.append(dist.P2POp(dist.irecv, outputs[-1], group=group, group_peer=peer))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return outputs


def all_reduce_coalesced(call, group):
    tensors = [call.tensor(call.count + index, index) for index in range(3)]
    with dist._coalescing_manager(group, async_ops=call.is_async) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor, call.op, group=group)
    if call.is_async:
        manager.wait()
    return tensors


def all_gather_coalesced(call, group):
    outputs = [call.empty(SIZE * (call.count + index)) for index in range(2)]
    with dist._coalescing_manager(group, async_ops=call.is_async) as manager:
        for index, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, call.tensor(call.count + index, index), group=group)
    if call.is_async:
        manager.wait()
    return outputs


OPERATIONS = (
    broadcast, all_reduce, reduce, all_gather, all_gather_uneven, all_gather_into_tensor, gather, scatter, reduce_scatter,
    reduce_scatter_uneven, reduce_scatter_tensor, all_to_all_single, all_to_all_single_uneven, all_to_all, send_recv, isend_irecv,
    batch_isend_irecv, all_reduce_coalesced, all_gather_coalesced,
)  # fmt: skip


def compare(groups, operation) -> str:
    """Several calls of one operation. The comparison is made after the calls of both groups, so that a difference ends no rank early."""
    calls = int(os.environ.get("CALLS", "24"))
    shared = random.Random(f"{os.environ.get('SEED', '1')} {operation.__name__}")
    compared, wrong = 0, []
    for number in range(calls):
        call = Call(shared, number, operation)
        mine, others = call.run(groups.tutti), call.run(groups.nccl)
        for index, (one, other) in enumerate(zip(mine, others, strict=True)):
            compared += 1
            if not call.same(one, other):
                wrong.append(f"{call}, tensor {index}: {one.flatten()[:4].tolist()} and NCCL's {other.flatten()[:4].tolist()}")
    require(not wrong, f"{len(wrong)} of {compared} tensors differ: {'; '.join(wrong[:3])}")
    # A check that compares nothing, or only equal inputs, would show nothing.
    require(compared > 0 or operation in (reduce, gather), "nothing was compared")
    return f"{calls} calls, {compared} tensors of rank 0 equal NCCL's"

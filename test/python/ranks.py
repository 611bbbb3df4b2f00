"""Scenarios for the ranks of a job: `python ranks.py SCENARIO`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set."""

import copy
import os
import random
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])

# What torch itself refuses to other backends than its own, and since when it does not: (version, reason).
LIMITS = {
    "sequence_numbers": ((2, 14), "ProcessGroup has sequence numbers of torch's own backends only"),
    "split_by_torch": ((2, 9), "it splits groups of nccl only"),
    "monitored_barrier": ((2, 14), "monitored_barrier() is for gloo only"),
    "later_timeout": ((2, 14), "_set_pg_timeout() changes gloo and nccl only"),
    "aborted": ((2, 7), "ProcessGroup has no abort()"),
}


def is_too_old_for(name: str) -> bool:
    """Prints the reason if so."""
    since, reason = LIMITS.get(name, ((0, 0), ""))
    if TORCH < since:
        print(f"skipped {name}: torch {torch.__version__} is older than {'.'.join(map(str, since))}: {reason}", flush=True)
    return TORCH < since


def raises(kind, *words):
    """A context that demands an exception of `kind` whose text has all `words`."""

    class Demand:
        def __enter__(self):
            return self

        def __exit__(self, found, value, _trace):
            assert found is not None, f"no {kind.__name__} was raised"
            assert issubclass(found, kind), f"{found.__name__}: {value}"
            for word in words:
                assert word in str(value), f"'{word}' is not in: {value}"
            return True

    return Demand()


# One call after the other, beside gloo


def random_calls() -> None:
    """Random calls on groups of both backends: the same results."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    groups = []
    for members in (list(range(SIZE)), list(range(SIZE - 1)), list(range(SIZE - 1, 0, -1))):
        pair = [dist.new_group(members, backend=name, use_local_synchronization=False) for name in ("tutti", "gloo")]
        if len(members) > 1:
            groups.append((sorted(members), pair))
    # In some versions gloo's reduce_scatter_tensor sums, whatever the operator.
    probe = torch.zeros(1)
    dist.reduce_scatter_tensor(probe, torch.ones(SIZE), dist.ReduceOp.MAX)
    if probe.item() != 1:
        RandomCall.sums_only += ("reduce_scatter_tensor",)
        print(f"only SUM in reduce_scatter_tensor: gloo of torch {torch.__version__} ignores the operator")
    shared = random.Random(int(os.environ.get("SEED", "1")))
    count = int(os.environ.get("CALLS", "400"))
    compared = 0
    for number in range(count):
        members, (ours, theirs) = shared.choice(groups)
        call = RandomCall(shared, members)
        if RANK not in members:
            continue
        results = [call.run(group, number) for group in (ours, theirs)]
        for mine, other in zip(*results):
            assert call.same(mine, other), f"call {number}, {call}: {mine} and gloo's {other}"
        compared += len(results[0])
    print(f"rank {RANK}: {count} calls, {compared} tensors equal gloo's")
    dist.barrier()
    dist.destroy_process_group()


class RandomCall:
    OPERATIONS = (
        "broadcast", "all_reduce", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter_tensor",
        "all_to_all_single", "all_to_all", "send_recv", "all_reduce_coalesced",
    )  # fmt: skip
    sums_only = ()
    TYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8, torch.float16, torch.bfloat16)

    def __init__(self, shared: random.Random, members: list):
        self.members = members
        self.operation = shared.choice(self.OPERATIONS)
        self.type = shared.choice(self.TYPES)
        self.count = shared.choice((0, 1, 2, 3, 7, 64, 1000, 4099, 70001))
        self.root = shared.randrange(len(members))
        self.op = shared.choice((dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT))
        if self.operation in self.sums_only:
            self.op = dist.ReduceOp.SUM
        self.is_async = shared.random() < 0.4
        self.splits = [[shared.randrange(4) for _ in members] for _ in members]
        # gloo's own limits: it has no such calls for a count of 0 or these types.
        if self.operation in ("all_to_all", "reduce_scatter_tensor", "scatter", "gather", "all_gather_into_tensor", "send_recv") and self.count == 0:
            self.count = 5

    def __str__(self) -> str:
        return f"{self.operation} of {self.count} {self.type} on {self.members}, root {self.root}, {self.op}, async {self.is_async}"

    def same(self, mine: torch.Tensor, other: torch.Tensor) -> bool:
        if not self.type.is_floating_point:
            return torch.equal(mine, other)
        # 16-bit floats are reduced with one rounding here, with one a step there.
        tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(self.type, 1e-5)
        return torch.allclose(mine.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True)

    def tensor(self, number: int, count: "int | None" = None, rank: "int | None" = None) -> torch.Tensor:
        generator = torch.Generator().manual_seed(number * 100 + (RANK if rank is None else rank))
        values = torch.randint(1, 4, (self.count if count is None else count,), generator=generator)
        return values.to(self.type)

    def wait(self, work) -> None:
        if self.is_async and work is not None:
            work.wait()

    def run(self, group, number: int) -> list:
        return getattr(self, "_" + self.operation)(group, number)

    @property
    def size(self) -> int:
        return len(self.members)

    def _broadcast(self, group, number):
        tensor = self.tensor(number)
        self.wait(dist.broadcast(tensor, group_src=self.root, group=group, async_op=self.is_async))
        return [tensor]

    def _all_reduce(self, group, number):
        tensor = self.tensor(number)
        self.wait(dist.all_reduce(tensor, self.op, group=group, async_op=self.is_async))
        return [tensor]

    def _all_reduce_coalesced(self, group, number):
        tensors = [self.tensor(number), self.tensor(number + 1)]
        self.wait(dist.all_reduce_coalesced(tensors, self.op, group=group, async_op=self.is_async))
        return tensors

    def _reduce(self, group, number):
        tensor = self.tensor(number)
        self.wait(dist.reduce(tensor, group_dst=self.root, op=self.op, group=group, async_op=self.is_async))
        return [tensor] if dist.get_rank(group) == self.root else []

    def _all_gather(self, group, number):
        gathered = [torch.zeros(self.count, dtype=self.type) for _ in self.members]
        self.wait(dist.all_gather(gathered, self.tensor(number), group=group, async_op=self.is_async))
        return gathered

    def _all_gather_into_tensor(self, group, number):
        gathered = torch.zeros(self.count * self.size, dtype=self.type)
        self.wait(dist.all_gather_into_tensor(gathered, self.tensor(number), group=group, async_op=self.is_async))
        return [gathered]

    def _gather(self, group, number):
        is_root = dist.get_rank(group) == self.root
        gathered = [torch.zeros(self.count, dtype=self.type) for _ in self.members] if is_root else None
        self.wait(dist.gather(self.tensor(number), gathered, group_dst=self.root, group=group, async_op=self.is_async))
        return gathered or []

    def _scatter(self, group, number):
        is_root = dist.get_rank(group) == self.root
        parts = [self.tensor(number + index) for index in range(self.size)] if is_root else None
        received = torch.zeros(self.count, dtype=self.type)
        self.wait(dist.scatter(received, parts, group_src=self.root, group=group, async_op=self.is_async))
        return [received]

    def _reduce_scatter_tensor(self, group, number):
        received = torch.zeros(self.count, dtype=self.type)
        sent = self.tensor(number, self.count * self.size)
        self.wait(dist.reduce_scatter_tensor(received, sent, self.op, group=group, async_op=self.is_async))
        return [received]

    def _all_to_all_single(self, group, number):
        mine = dist.get_rank(group)
        to, from_ = self.splits[mine], [row[mine] for row in self.splits]
        sent, received = self.tensor(number, sum(to)), torch.zeros(sum(from_), dtype=self.type)
        self.wait(dist.all_to_all_single(received, sent, from_, to, group=group, async_op=self.is_async))
        return [received]

    def _all_to_all(self, group, number):
        """gloo has no such call: what the other ranks send is known here."""
        received = [torch.zeros(self.count, dtype=self.type) for _ in self.members]
        if dist.get_backend(group) == "gloo":
            mine = dist.get_rank(group)
            return [self.tensor(number + mine, rank=self.global_rank(group, peer)) for peer in range(self.size)]
        sent = [self.tensor(number + index) for index in range(self.size)]
        self.wait(dist.all_to_all(received, sent, group=group, async_op=self.is_async))
        return received

    def _send_recv(self, group, number):
        mine = dist.get_rank(group)
        received = torch.zeros(self.count, dtype=self.type)
        tag = number % 5
        works = [
            dist.isend(self.tensor(number), group_dst=(mine + 1) % self.size, group=group, tag=tag),
            dist.irecv(received, group_src=(mine - 1) % self.size, group=group, tag=tag),
        ]
        for work in works:
            work.wait()
        return [received]

    def global_rank(self, group, rank: int) -> int:
        return dist.get_global_rank(group, rank)


# What the calls promise


def promises() -> None:
    """Everything that a comparison with gloo does not show."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    assert dist.get_backend() == "tutti"
    for check in (
        futures, dropped_work, dropped_input, types, operators, errors, layouts, uneven, coalescing, batch_without_end, sequence_numbers,
        monitored_barrier, objects, split,
        split_by_torch, distributed_data_parallel, fully_sharded, tensor_parallel, batched_messages, messages_in_a_batch,
        order_of_messages, messages_of_any,
    ):  # fmt: skip
        if check.__name__ not in os.environ.get("CHECKS", check.__name__) or is_too_old_for(check.__name__):
            continue
        check()
        print(check.__name__, flush=True)
    dist.barrier()
    dist.destroy_process_group()
    with raises(ValueError):
        dist.barrier()


def dropped_input() -> None:
    """Threads that see the end of a call at once: the tensor that ends with it needs the GIL, which is_completed() holds."""
    for _ in range(300):
        output, tensor = torch.zeros(SIZE * 3000), torch.full((3000,), float(RANK))
        work = dist.all_gather_into_tensor(output, tensor, async_op=True)
        future = work.get_future()
        del tensor
        while not work.is_completed():
            pass
        future.wait()
        assert output[::3000].tolist() == list(range(SIZE))


def futures() -> None:
    tensor = torch.ones(100000) * (RANK + 1)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    expected = SIZE * (SIZE + 1) / 2
    assert torch.equal(doubled.wait(), torch.full((100000,), 2 * expected))
    assert torch.equal(future.wait()[0], tensor)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success() and work.get_future().done()
    # A message that comes late holds up no other future.
    if RANK == 0:
        late = torch.zeros(1)
        message = dist.irecv(late, src=1)
        received = message.get_future()
        dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
        dist.barrier()
        received.wait()
        assert late.item() == 7
    else:
        dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
        dist.barrier()
        if RANK == 1:
            dist.send(torch.tensor([7.0]), dst=0)


def dropped_work() -> None:
    tensors = [torch.ones(50000) for _ in range(20)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
        dist.all_reduce(torch.ones(50000), async_op=True)  # the tensor is dropped, too
    dist.barrier()
    for tensor in tensors:
        assert torch.equal(tensor, torch.full((50000,), float(SIZE)))


def types() -> None:
    everywhere = torch.tensor([True, RANK == 0, False])
    for op, expected in (
        (dist.ReduceOp.SUM, [True, True, False]), (dist.ReduceOp.MAX, [True, True, False]), (dist.ReduceOp.BOR, [True, True, False]),
        (dist.ReduceOp.MIN, [True, False, False]), (dist.ReduceOp.PRODUCT, [True, False, False]), (dist.ReduceOp.BAND, [True, False, False]),
        (dist.ReduceOp.BXOR, [SIZE % 2 == 1, True, False]),
    ):  # fmt: skip
        tensor = everywhere.clone()
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == expected, (op, tensor)
    for kind in (torch.int16, torch.uint16):
        tensor = torch.tensor([20000, RANK, 3], dtype=kind)
        dist.all_reduce(tensor)
        exact = torch.tensor([20000 * SIZE, SIZE * (SIZE - 1) // 2, 3 * SIZE], dtype=torch.int32)
        assert torch.equal(tensor, exact.to(kind)), tensor
        scattered = torch.zeros(2, dtype=kind)
        dist.reduce_scatter_tensor(scattered, torch.arange(2 * SIZE).to(kind), dist.ReduceOp.MAX)
        assert scattered.tolist() == [2 * RANK, 2 * RANK + 1]
        at_root = torch.tensor([RANK], dtype=kind)
        dist.reduce(at_root, dst=0)
        assert at_root.item() == (SIZE * (SIZE - 1) // 2 if RANK == 0 else RANK)
    tensor = torch.tensor([1 + 2j * RANK])
    dist.all_reduce(tensor)
    assert tensor.item() == complex(SIZE, SIZE * (SIZE - 1))
    for kind in (torch.complex64, torch.complex128):
        tensor = torch.tensor([RANK - 2j * RANK], dtype=kind)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert tensor.item() == (SIZE - 1) / 2 - 1j * (SIZE - 1), tensor
        scattered = torch.zeros(1, dtype=kind)
        dist.reduce_scatter_tensor(scattered, torch.arange(SIZE).to(kind) * 1j, dist._make_nccl_premul_sum(0.5))
        assert scattered.item() == 0.5j * RANK * SIZE, scattered
        gathered = torch.zeros(SIZE, dtype=kind)
        dist.all_gather_into_tensor(gathered, torch.tensor([1j * RANK], dtype=kind))
        assert torch.equal(gathered, torch.arange(SIZE).to(kind) * 1j), gathered
        with raises(RuntimeError, "resolve_conj"):
            dist.all_reduce(tensor.conj())
    tensor = torch.tensor([3 << RANK, -1], dtype=torch.int16)
    dist.all_reduce(tensor, dist.ReduceOp.BXOR)
    expected = 0
    for rank in range(SIZE):
        expected ^= 3 << rank
    assert tensor.tolist() == [expected, -1 if SIZE % 2 == 1 else 0]
    for kind in (torch.complex64, torch.int16, torch.float8_e4m3fn, torch.bool, torch.bfloat16, torch.uint32):
        source = torch.arange(5).to(kind) if RANK == 0 else torch.zeros(5).to(kind)
        dist.broadcast(source, src=0)
        expected = torch.arange(5).to(kind)
        assert torch.equal(source.view(torch.uint8), expected.view(torch.uint8)), kind
        gathered = [torch.zeros(5).to(kind) for _ in range(SIZE)]
        dist.all_gather(gathered, source)
        assert all(torch.equal(part.view(torch.uint8), expected.view(torch.uint8)) for part in gathered), kind


def operators() -> None:
    tensor = torch.full((3,), float(RANK))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert torch.allclose(tensor, torch.full((3,), (SIZE - 1) / 2))
    tensor = torch.full((3,), 1 << RANK)
    dist.all_reduce(tensor, dist.ReduceOp.BOR)
    assert tensor.tolist() == [(1 << SIZE) - 1] * 3
    premultiplied = dist._make_nccl_premul_sum(0.5)
    tensor = torch.full((3,), float(RANK + 1))
    dist.all_reduce(tensor, premultiplied)
    assert torch.allclose(tensor, torch.full((3,), SIZE * (SIZE + 1) / 4))
    source, part = torch.full((2 * SIZE,), float(RANK + 1)), torch.zeros(2)
    dist.reduce_scatter_tensor(part, source, premultiplied)
    assert torch.allclose(part, torch.full((2,), SIZE * (SIZE + 1) / 4))
    assert torch.equal(source, torch.full((2 * SIZE,), float(RANK + 1))), "the input was changed"


def errors() -> None:
    """Of arguments: on all ranks, before anything is sent."""
    grid = torch.zeros(4, 4)
    with raises(ValueError, "Tensors must be contiguous"):
        dist.all_reduce(grid[:, 1])
    with raises(ValueError, "Tensors must be contiguous"):
        dist.send(grid[:, 1], dst=(RANK + 1) % SIZE)
    with raises(RuntimeError, "Sparse"):
        dist.broadcast(torch.eye(2).to_sparse(), src=0)
    with raises(ValueError, "ReduceOp.SUM"):
        dist.all_reduce(torch.eye(2).to_sparse(), dist.ReduceOp.MAX)
    with raises(ValueError, "non-integral"):
        dist.all_reduce(torch.zeros(2), dist.ReduceOp.BAND)
    with raises(ValueError, "does not reduce it"):
        dist.all_reduce(torch.zeros(2).to(torch.float8_e5m2))
    with raises(ValueError, "AVG"):
        dist.all_reduce(torch.zeros(2, dtype=torch.bool), dist.ReduceOp.AVG)
    with raises(RuntimeError, "world_size"):
        dist.all_gather_into_tensor(torch.zeros(SIZE + 1), torch.zeros(1))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == SIZE, "the group does not work after errors of arguments"


def layouts() -> None:
    image = torch.full((2, 3, 4, 4), float(RANK)).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    assert torch.equal(image, torch.full((2, 3, 4, 4), SIZE * (SIZE - 1) / 2))
    # Lists may have any strides.
    columns = torch.zeros(3, SIZE)
    dist.all_gather([columns[:, rank] for rank in range(SIZE)], torch.full((3,), float(RANK)))
    assert columns.tolist() == [[float(rank) for rank in range(SIZE)]] * 3
    # Parts of one tensor are not copied.
    whole = torch.zeros(2 * SIZE)
    dist.all_gather(list(whole.chunk(SIZE)), torch.full((2,), float(RANK)))
    assert whole.tolist() == [float(rank) for rank in range(SIZE) for _ in range(2)]
    leaf = torch.full((2,), float(RANK), requires_grad=True)
    gathered = [torch.zeros(2) for _ in range(SIZE)]
    dist.all_gather(gathered, leaf)
    assert gathered[SIZE - 1].tolist() == [SIZE - 1.0] * 2


def uneven() -> None:
    gathered = [torch.zeros(rank) for rank in range(SIZE)]
    dist.all_gather(gathered, torch.full((RANK,), float(RANK)))
    assert [part.tolist() for part in gathered] == [[float(rank)] * rank for rank in range(SIZE)]
    part = torch.zeros(RANK + 1)
    dist.reduce_scatter(part, [torch.ones(rank + 1) for rank in range(SIZE)])
    assert part.tolist() == [float(SIZE)] * (RANK + 1)
    received = [torch.zeros(rank + 1) for rank in range(SIZE)]
    dist.all_to_all(received, [torch.full((RANK + 1,), float(RANK)) for _ in range(SIZE)])
    assert [block.tolist() for block in received] == [[float(rank)] * (rank + 1) for rank in range(SIZE)]


def coalescing() -> None:
    tensors = [torch.ones(3), torch.ones(5, dtype=torch.int64)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    assert tensors[0].tolist() == [SIZE] * 3 and tensors[1].tolist() == [SIZE] * 5
    outputs = [torch.zeros(SIZE), torch.zeros(2 * SIZE)]
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(outputs[0], torch.full((1,), float(RANK)))
        dist.all_gather_into_tensor(outputs[1], torch.full((2,), float(RANK)))
    assert outputs[0].tolist() == [float(rank) for rank in range(SIZE)]
    assert outputs[1].tolist() == [float(rank) for rank in range(SIZE) for _ in range(2)]


def batch_without_end() -> None:
    """The program's exception ends a batch, of which torch tells the backend nothing."""
    group, cpu = dist.group.WORLD, torch.device("cpu")
    first, second = torch.ones(3), torch.ones(2)
    group._start_coalescing(cpu)
    group.allreduce([first])
    group._start_coalescing(cpu)
    group.allreduce([second])
    group._end_coalescing(cpu).wait()
    dist.barrier()
    assert first.tolist() == [SIZE] * 3 and second.tolist() == [SIZE] * 2


def sequence_numbers() -> None:
    group = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    assert group._get_sequence_number_for_group() == before + 1


def monitored_barrier() -> None:
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    if RANK == SIZE - 1:
        time.sleep(1)
    elif RANK == 0:
        with raises(RuntimeError, f"Rank {SIZE - 1} failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
    else:
        with raises(RuntimeError, "Please check rank 0 logs"):
            dist.monitored_barrier(timeout=timedelta(seconds=5))
    if RANK == SIZE - 1:
        with raises(RuntimeError, "Please check rank 0 logs"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200))
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=30))


def objects() -> None:
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK, "text": "x" * (RANK * 100)})
    assert [item["rank"] for item in gathered] == list(range(SIZE))
    listed = [RANK, "of"] if RANK == 0 else [None, None]
    dist.broadcast_object_list(listed, src=0)
    assert listed == [0, "of"]
    part = [None]
    dist.scatter_object_list(part, [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, src=0)
    assert part == [f"for {RANK}"]


def split() -> None:
    evens = dist.new_group(list(range(0, SIZE, 2)), backend="tutti")
    if RANK % 2 == 0:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=evens)
        assert tensor.item() == (SIZE + 1) // 2
        dist.destroy_process_group(evens)
    mine, _ = dist.new_subgroups_by_enumeration([[0], list(range(1, SIZE))], backend="tutti")
    tensor = torch.full((1,), float(RANK))
    dist.all_reduce(tensor, group=mine)
    assert tensor.item() == (0 if RANK == 0 else SIZE * (SIZE - 1) / 2)


def split_by_torch() -> None:
    """Two groups of the same ranks; torch's own device types are served by one backend."""
    world = dist.group.WORLD
    options = copy.deepcopy(world._get_backend(torch.device("cpu")).options)
    assert options is not world._get_backend(torch.device("cpu")).options and options.backend == "tutti"
    ranks = [0] if RANK == 0 else list(range(1, SIZE))
    halves = [world.split_group(ranks, timeout=timedelta(seconds=60), opts=options, group_name=f"half of {ranks}") for _ in range(2)]
    for half in halves:
        backends = [half._get_backend(torch.device(name)) for name in ("cpu", "cuda")]
        assert backends[0] is backends[1] and backends[0].options.group_name == f"half of {ranks}"
        tensor = torch.full((1,), float(RANK))
        half.allreduce([tensor]).wait()
        assert tensor.item() == sum(ranks), f"{tensor}"


def make_network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(10, 24), torch.nn.ReLU(), torch.nn.Linear(24, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def train(network: torch.nn.Module, batches: list) -> list:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(network(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def all_batches() -> list:
    generator = torch.Generator().manual_seed(5)
    return [
        (torch.randn(4 * SIZE, 10, generator=generator), torch.randn(4 * SIZE, 2, generator=generator)) for _ in range(20)
    ]


def mean_over_ranks(losses: list) -> torch.Tensor:
    mean = torch.stack(losses)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


def my_rows(batches: list) -> list:
    return [(inputs[RANK::SIZE], targets[RANK::SIZE]) for inputs, targets in batches]


def distributed_data_parallel() -> None:
    """20 steps: the losses of one process within rounding."""
    from torch.nn.parallel import DistributedDataParallel

    batches = all_batches()
    expected = torch.stack(train(make_network(), batches))
    network = DistributedDataParallel(make_network(), bucket_cap_mb=0.001)
    assert torch.allclose(mean_over_ranks(train(network, my_rows(batches))), expected, rtol=1e-4, atol=1e-6)


def fully_sharded() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    batches = all_batches()
    expected = torch.stack(train(make_network(), batches))
    mesh = init_device_mesh("cpu", (SIZE,))
    network = make_network()
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    assert torch.allclose(mean_over_ranks(train(network, my_rows(batches))), expected, rtol=1e-4, atol=1e-6)


def tensor_parallel() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    batches = all_batches()
    expected = torch.stack(train(make_network(), batches))
    mesh = init_device_mesh("cpu", (SIZE,))
    network = parallelize_module(make_network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    losses = torch.stack(train(network, batches))
    assert torch.allclose(losses, expected, rtol=1e-4, atol=1e-6)
    whole = torch.arange(24.0).reshape(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert isinstance(sharded, DTensor)
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert (sharded > 3).full_tensor().sum().item() == 20


def batched_messages() -> None:
    sent, received = torch.full((50000,), float(RANK)), torch.zeros(50000)
    calls = [
        dist.P2POp(dist.isend, sent, (RANK + 1) % SIZE),
        dist.P2POp(dist.irecv, received, (RANK - 1) % SIZE),
    ]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    assert torch.equal(received, torch.full((50000,), float((RANK - 1) % SIZE)))


def messages_in_a_batch() -> None:
    """The batch is one call: the end of its first messages is not its own."""
    sent, received = torch.tensor([float(RANK)]), torch.full((1,), -1.0)
    time.sleep(0.2 * RANK)  # rank 0 waits for its message
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(sent, (RANK + 1) % SIZE)
        time.sleep(0.05)  # it is complete now
        work = dist.irecv(received, (RANK - 1) % SIZE)
        assert not work.is_completed()
        with raises(RuntimeError, "batch"):
            work.wait()
    manager.wait()
    assert received.item() == (RANK - 1) % SIZE, f"{received}"
    assert work.is_completed()


def order_of_messages() -> None:
    """Tags are matched; messages of one tag keep their order."""
    if RANK == 0:
        works = [dist.isend(torch.tensor([float(tag * 10 + number)]), 1, tag=tag) for tag in (1, 2) for number in range(3)]
        for work in works:
            work.wait()
    elif RANK == 1:
        for tag in (2, 1):
            for number in range(3):
                tensor = torch.zeros(1)
                assert dist.recv(tensor, 0, tag=tag) == 0
                assert tensor.item() == tag * 10 + number


def messages_of_any() -> None:
    for count in (3, 100_000):
        dist.barrier()
        if RANK > 0:
            dist.send(torch.full((count,), float(RANK)), dst=0)
            continue
        first = torch.zeros(count)
        sources = [dist.recv(first)]
        assert first[-1] == sources[0]
        others = [torch.zeros(count) for _ in range(2, SIZE)]
        works = [dist.irecv(tensor) for tensor in others]
        for work in works:
            work.wait()
        sources += [work._source_rank() for work in works]
        assert [tensor[-1].item() for tensor in others] == sources[1:]
        assert sorted(sources) == list(range(1, SIZE)), sources


def debug_detail() -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps the group, and finds different calls."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [SIZE] * 3
    with raises(RuntimeError, "mismatch"):
        dist.all_reduce(torch.ones(2 + RANK))
    os._exit(0)


# Failures


def killed_rank() -> None:
    """Rank 1 dies while the others wait for it: their exceptions name it."""
    import tutti.torch

    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    dist.all_reduce(torch.ones(1))
    if RANK == 1:
        time.sleep(0.2)
        print(time.time(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        call = os.environ.get("CALL", "all_reduce")
        if call == "recv":
            dist.recv(torch.zeros(1), src=1)
        elif call == "future":
            dist.all_reduce(torch.ones(100000), async_op=True).get_future().wait()
        else:
            while True:
                dist.all_reduce(torch.ones(1 if call == "all_reduce" else 1 << 20))
    except dist.DistBackendError as error:
        ended = time.time()
        assert "rank 1" in str(error), error
        assert tutti.torch.failed_ranks() == [1]
        print(f"{ended} {error}", flush=True)
        with raises(dist.DistBackendError, "rank 1"):
            dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
        return
    raise AssertionError("no exception")


def killed_in_group() -> None:
    """A group's exceptions name the global rank; other groups go on."""
    import tutti.torch

    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    tail = dist.new_group([1, 2], backend="tutti")
    rest = dist.new_group([0, 1], backend="tutti")
    if RANK == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 1:
        with raises(dist.DistBackendError, "rank 1", "its rank 1 is global rank 2"):
            dist.all_reduce(torch.ones(1), group=tail)
        assert tutti.torch.failed_ranks(tail) == [2]
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=rest)
    assert tensor.item() == 2
    os._exit(0)


def late_rank() -> None:
    """A call ends at the group's timeout and names who is late."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    late_in(dist.new_group(timeout=timedelta(seconds=2), backend="tutti"))


def later_timeout() -> None:
    """The timeout may change after the set-up."""
    if is_too_old_for("later_timeout"):
        return
    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    dist.barrier()
    if RANK == 0:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2))
    late_in(dist.group.WORLD)


def late_in(group) -> None:
    if RANK == 1:
        time.sleep(4)
        with raises(dist.DistBackendError, "timeout"):
            dist.all_reduce(torch.ones(1), group=group)
        os._exit(0)
    with raises(dist.DistBackendError, "rank 1", "timeout"):
        dist.all_reduce(torch.ones(1), group=group)
    time.sleep(4)
    os._exit(0)


def mismatched_calls() -> None:
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    dist.barrier()
    with raises(dist.DistBackendError, "all_reduce", "broadcast"):
        if RANK == 0:
            dist.broadcast(torch.ones(1), src=0)
            dist.barrier()
        else:
            dist.all_reduce(torch.ones(1))
            dist.barrier()
    time.sleep(0.5)
    os._exit(0)


def aborted() -> None:
    if is_too_old_for("aborted"):
        return
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    dist.barrier()
    if RANK == 0:
        time.sleep(0.3)
        dist.group.WORLD.abort()
        with raises(dist.DistBackendError, "closed"):
            dist.barrier()
    else:
        with raises(dist.DistBackendError, "rank 0", "abort"):
            dist.barrier()
    os._exit(0)


def missing_rank() -> None:
    """Set-up ends at its timeout, and names the rank that does not come."""
    if RANK == SIZE - 1:
        os._exit(0)
    import tutti.torch  # noqa: F401  not in the 2 s

    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), SIZE, RANK == 0, wait_for_workers=False)
    store.set(f"started/{RANK}", "1")
    store.wait([f"started/{rank}" for rank in range(SIZE - 1)])
    with raises(dist.DistBackendError, f"rank {SIZE - 1}"):
        dist.init_process_group("tutti", store=store, rank=RANK, world_size=SIZE, timeout=timedelta(seconds=2))
    time.sleep(1)
    os._exit(0)


def forked_child() -> None:
    """A child that ends by exit() disturbs nobody, not even after calls that a thread has completed."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    dist.all_reduce(torch.ones(1000), async_op=True).get_future().wait()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        raise AssertionError("the child hangs")
    assert status == 0, status
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == SIZE
    dist.destroy_process_group()


def no_destroy() -> None:
    """A program that ends without destroy_process_group() disturbs nobody."""
    dist.init_process_group("tutti", timeout=timedelta(seconds=30))
    for _ in range(20):
        dist.all_reduce(torch.ones(1000))
    if RANK == 0:
        return
    time.sleep(0.5)
    if SIZE > 2:
        with raises(dist.DistBackendError, "left"):
            dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    globals()[sys.argv[1]]()

"""Scenarios of tutti.Communicator for the ranks of a job, without torch: `python communicator_ranks.py SCENARIO`."""

import array
import os
import signal
import sys
import threading
import time

import numpy
import tutti

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def calls() -> None:
    comm = tutti.from_environment(timeout=30)
    assert (comm.Get_rank(), comm.Get_size()) == (RANK, SIZE) == (comm.rank, comm.size)
    assert comm.info(0).rank == 0 and comm.info(RANK).pid == os.getpid()

    total = numpy.zeros(5, dtype=numpy.float64)
    comm.Allreduce(numpy.arange(5.0) + RANK, total, op=tutti.SUM)
    assert numpy.array_equal(total, SIZE * numpy.arange(5.0) + SIZE * (SIZE - 1) / 2)
    comm.Allreduce(tutti.IN_PLACE, total, tutti.MAX)

    buffer = bytearray(b"rank%d" % RANK)
    comm.Bcast(buffer, root=SIZE - 1)
    assert buffer == b"rank%d" % (SIZE - 1)
    numbers = array.array("i", [RANK] * 3)
    comm.Bcast([numbers, 2], root=0)
    assert numbers.tolist() == [0, 0, RANK]

    gathered = numpy.zeros((SIZE, 2), dtype=numpy.int32)
    comm.Allgather(numpy.full(2, RANK, dtype=numpy.int32), gathered)
    assert gathered[:, 1].tolist() == list(range(SIZE))
    at_root = numpy.zeros(SIZE, dtype=numpy.int64) if RANK == 1 else None
    comm.Gather(numpy.array([RANK]), at_root, root=1)
    assert RANK != 1 or at_root.tolist() == list(range(SIZE))
    part = numpy.zeros(1, dtype=numpy.int64)
    comm.Scatter(numpy.arange(SIZE) * 10 if RANK == 0 else None, part)
    assert part[0] == 10 * RANK
    comm.Reduce(numpy.array([RANK]), part if RANK == 0 else None, op=tutti.PROD)
    comm.Reduce_scatter_block(numpy.arange(SIZE), part)
    assert part[0] == SIZE * RANK
    exchanged = numpy.zeros(SIZE, dtype=numpy.int64)
    comm.Alltoall(numpy.arange(SIZE) + 100 * RANK, exchanged)
    assert exchanged.tolist() == [100 * rank + RANK for rank in range(SIZE)]

    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    comm.Sendrecv(numpy.array([RANK]), right, part, left)
    assert part[0] == left
    requests = [comm.Isend(numpy.array([RANK * 2]), right, tag=3), comm.Irecv(part, left, tag=3)]
    for request in requests:
        request.Wait()
    assert part[0] == 2 * left
    if RANK == 0:
        sources = [comm.Recv(part, tutti.ANY_SOURCE, tag=4) for _ in range(SIZE - 1)]
        assert sorted(sources) == list(range(1, SIZE)) and part[0] == sources[-1]
    else:
        comm.Send(numpy.array([RANK]), 0, tag=4)
    if RANK == 0:
        request = comm.Irecv(part, tutti.ANY_SOURCE, tag=5)
        request.Wait()
        assert request.source == SIZE - 1
    elif RANK == SIZE - 1:
        comm.Send(numpy.array([RANK]), 0, tag=5)
    request = comm.Iallreduce(tutti.IN_PLACE, total)
    while not request.Test():
        time.sleep(0.001)
    comm.Ibarrier().Wait()

    for kind, op, expected in (
        (numpy.int16, tutti.SUM, SIZE * (SIZE + 1) // 2),
        (numpy.uint16, tutti.MAX, SIZE),
        (numpy.bool_, tutti.SUM, True),
        (numpy.complex64, tutti.SUM, SIZE * (SIZE + 1) // 2),
        (numpy.complex128, tutti.AVG, (SIZE + 1) / 2),
        (numpy.int32, tutti.LAND, 1),
        (numpy.int32, tutti.LXOR, SIZE % 2),
    ):
        reduced = numpy.zeros(3, dtype=kind)
        comm.Allreduce(numpy.full(3, RANK + 1, dtype=kind), reduced, op=op)
        assert (reduced == expected).all(), (kind, op, reduced)

    comm.Scan(numpy.array([RANK + 1]), part)
    assert part[0] == (RANK + 1) * (RANK + 2) // 2
    part[0] = -1
    comm.Iexscan(numpy.array([RANK + 1]), part, op=tutti.MAX).Wait()
    assert part[0] == (RANK if RANK > 0 else -1)

    blocks_of_different_lengths(comm)
    shared = zero_copy(comm)

    half = comm.Split(RANK % 2, key=-RANK)
    assert half.size == (SIZE + 1 - RANK % 2) // 2
    half.Barrier()
    assert comm.Split(None if RANK == 0 else 1) is None or RANK != 0
    comm.Dup().Barrier()
    comm.Finalize()
    assert shared.sum() == shared.size * SIZE


def zero_copy(comm):
    """Returns an array that outlives the communicator."""
    shared = comm.empty((300, 1000), dtype=numpy.float32)
    assert (shared.shape, shared.dtype, shared.flags.c_contiguous, shared.ctypes.data % 64) == ((300, 1000), numpy.float32, True, 0)
    shared[:] = 1
    comm.Allreduce(tutti.IN_PLACE, shared)
    assert (shared == SIZE).all()
    assert comm.empty(numpy.int64(3)).dtype == numpy.float64 and comm.empty(0, "i4").size == 0
    return shared


def blocks_of_different_lengths(comm) -> None:
    counts = [2 * rank for rank in range(SIZE)]
    mine = numpy.full(counts[RANK], RANK, dtype=numpy.int32)
    everyone = numpy.repeat(numpy.arange(SIZE, dtype=numpy.int32), counts)
    gathered = numpy.zeros(sum(counts), dtype=numpy.int32)
    comm.Allgatherv(mine, [gathered, counts])
    assert numpy.array_equal(gathered, everyone)
    # From the end of the buffer to its begin, each block with one element before it.
    begins = [sum(counts[rank + 1 :]) + SIZE - rank for rank in range(SIZE)]
    displaced = numpy.full(sum(counts) + SIZE + 1, -1, dtype=numpy.int32)
    for rank in range(SIZE):
        displaced[begins[rank] : begins[rank] + counts[rank]] = rank
    received = numpy.full_like(displaced, -1)
    comm.Iallgatherv(mine, [received, numpy.array(counts), numpy.array(begins)]).Wait()
    assert numpy.array_equal(received, displaced), received
    received[:] = -1
    received[begins[RANK] : begins[RANK] + counts[RANK]] = RANK
    comm.Allgatherv(tutti.IN_PLACE, [received, (counts, begins)])
    assert numpy.array_equal(received, displaced), received
    received[:] = -1
    comm.Gatherv(mine, [received, counts, begins] if RANK == 1 else None, root=1)
    assert RANK != 1 or numpy.array_equal(received, displaced)
    part = numpy.zeros_like(mine)
    if RANK == 0:
        whole = everyone.copy()
        comm.Scatterv([whole, tuple(counts)], tutti.IN_PLACE)
        comm.Scatterv(tutti.IN_PLACE, [whole, counts])
        comm.Scatter(numpy.arange(SIZE), tutti.IN_PLACE)
        assert numpy.array_equal(whole, everyone)
    else:
        one = numpy.zeros(1, dtype=int)
        comm.Scatterv(None, numpy.zeros_like(mine))
        comm.Scatterv(None, part)
        comm.Scatter(None, one)
        assert one[0] == RANK
        assert numpy.array_equal(part, mine)
    part = numpy.zeros_like(mine)
    comm.Scatterv([displaced, counts, begins] if RANK == 0 else None, part)
    assert numpy.array_equal(part, mine)
    # Rank r sends r elements to each rank, backwards.
    sent = numpy.repeat(numpy.arange(SIZE, dtype=numpy.int32)[::-1] + 10 * RANK, RANK)
    taken = numpy.zeros(sum(range(SIZE)), dtype=numpy.int32)
    comm.Alltoallv([sent, [RANK] * SIZE, [RANK * (SIZE - 1 - rank) for rank in range(SIZE)]], [taken, list(range(SIZE))])
    assert taken.tolist() == [10 * rank + RANK for rank in range(SIZE) for _ in range(rank)]
    comm.Reduce_scatter(everyone, part, counts)
    assert (part == SIZE * RANK).all()


def refused() -> None:
    comm = tutti.from_environment(timeout=30)
    for words, call in (
        ("not valid", lambda: comm.Bcast(numpy.zeros(1), root=SIZE)),
        ("contiguous", lambda: comm.Bcast(numpy.zeros((4, 4))[:, 1])),
        ("no type that tutti has", lambda: comm.Bcast(numpy.zeros(2, dtype=numpy.longdouble))),
        ("is no buffer", lambda: comm.Bcast("text".join(["a", "b"]))),
        ("read-only", lambda: comm.Bcast(b"constant")),
        ("pass one type", lambda: comm.Allreduce(numpy.zeros(2), numpy.zeros(2, dtype=numpy.int32))),
        ("more than the buffer has", lambda: comm.Bcast([numpy.zeros(2), 3])),
        ("timeout", lambda: comm.Barrier(timeout=-1)),
        ("[buffer, counts]", lambda: comm.Allgatherv(numpy.zeros(1), numpy.zeros(SIZE))),
        ("non-negative integers", lambda: comm.Allgatherv(numpy.zeros(1), [numpy.zeros(SIZE), "ones"])),
        ("negative", lambda: comm.empty((2, -1))),
        ("plain data", lambda: comm.empty(2, dtype=object)),
        ("too big", lambda: comm.empty(2**62)),
        ("integers", lambda: comm.empty((2.5, 1))),
        ("integer", lambda: comm.Bcast([numpy.zeros(2), "two"])),
        ("send buffer", lambda: comm.Allgather(numpy.zeros(1), tutti.IN_PLACE)),
        ("in-place form", lambda: comm.Alltoallv(tutti.IN_PLACE, [numpy.zeros(SIZE), [1] * SIZE])),
        ("both counts", lambda: comm.Alltoallv([numpy.zeros(2 * SIZE), [2] * SIZE], [numpy.zeros(SIZE), [1] * SIZE])),
        ("overlap", lambda: comm.Allgatherv(numpy.zeros(1), [numpy.zeros(SIZE), [1] * SIZE, [0] * SIZE])),
        ("block 1 has 1 f64 from element 9 on", lambda: comm.Allgatherv(numpy.zeros(1), [numpy.zeros(SIZE), [1] * SIZE, [0, 9, 2]])),
    ):
        try:
            call()
        except (tutti.Error, TypeError, ValueError, BufferError) as error:
            print(type(error).__name__, error)
            assert words in str(error) or words == "read-only" or words == "not valid", error
        else:
            raise AssertionError(f"{words}: no error")
    comm.Barrier()
    comm.Free()
    try:
        comm.Barrier()
    except tutti.Error as error:
        assert error.code == "usage"
    else:
        raise AssertionError("a call after Free()")


def killed_rank() -> None:
    comm = tutti.from_environment(timeout=30)
    comm.Barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            comm.Barrier()
    except tutti.Error as error:
        assert (error.code, error.failed_ranks, error.rank) == ("peer_lost", [1], RANK), error
    survivors = comm.Shrink()
    total = numpy.ones(1)
    survivors.Allreduce(tutti.IN_PLACE, total)
    assert total[0] == SIZE - 1
    survivors.Finalize()


def gil() -> None:
    """Another thread runs while a call waits."""
    comm = tutti.from_environment(timeout=30)
    comm.Barrier()
    if RANK == 0:
        time.sleep(0.5)
        comm.Barrier()
        return
    counted = 0
    waiting = threading.Thread(target=comm.Barrier)
    waiting.start()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.2:
        counted += 1
        time.sleep(0.001)
    assert counted > 5, counted
    waiting.join()


def address() -> None:
    comm = tutti.connect(f"127.0.0.1:{os.environ.pop('MASTER_PORT')}", RANK, SIZE, timeout=30)
    assert (comm.rank, comm.size) == (RANK, SIZE)
    comm.Barrier()
    assert "TUTTI_INIT" not in os.environ
    comm.Finalize()


if __name__ == "__main__":
    globals()[sys.argv[1]]()

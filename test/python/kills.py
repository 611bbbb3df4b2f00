"""Kills a rank and measures until when the others know: `python kills.py [--runs 100] [--ranks 3]`.

A run forks the ranks of a job; rank 1 kills itself while the others wait in a call. The times go from the kill until its process is gone (to
which tutti adds nothing), and until the exception of the last other rank. Exit status 1 if an exception does not name rank 1, or does not come.
"""

import argparse
import os
import random
import select
import signal
import statistics
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch

CALLS = ("all_reduce", "all_reduce of 4 MiB", "future", "recv")
KILLED = 1


def call_until_error(call: str) -> None:
    large, small = torch.ones(1 << 20), torch.ones(1)
    while True:
        if call == "recv":
            dist.recv(small, src=KILLED)
        elif call == "future":
            dist.all_reduce(large, async_op=True).get_future().wait()
        else:
            dist.all_reduce(large if call.endswith("MiB") else small)


def rank_of_job(rank: int, size: int, call: str, store: str, told: int) -> None:
    dist.init_process_group("tutti", store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timedelta(seconds=60))
    dist.barrier()
    if rank == KILLED:
        for _ in range(3 if call == "all_reduce of 4 MiB" else 0):
            dist.all_reduce(torch.ones(1 << 20))
        time.sleep(0.05 + random.random() / 20)
        os.write(told, f"{rank} {time.monotonic()}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        call_until_error(call)
    except dist.DistBackendError as error:
        ended = time.monotonic()
        names = tutti.torch.failed_ranks() == [KILLED] and f"rank {KILLED}" in str(error)
        os.write(told, f"{rank} {ended} {'names' if names else repr(str(error))}\n".encode())
        dist.destroy_process_group()


def watch(pipe: int, process: int, timeout: float) -> tuple:
    """All that the ranks wrote, when all have ended, or less at the timeout, in seconds; and when the process ended."""
    text, ended, waits = b"", 0.0, [pipe, process]
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        ready = select.select(waits, [], [], left)[0]
        if process in ready:
            ended = time.monotonic()
            waits.remove(process)
        if pipe in ready:
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            text += part
    return [line.split(maxsplit=2) for line in text.decode().splitlines()], ended


def run(call: str, size: int) -> tuple:
    """Seconds from the kill to the end of its process, and to the last exception."""
    sys.stdout.flush()
    pipe, told = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(size):
            child = os.fork()
            if child == 0:
                try:
                    os.close(pipe)
                    rank_of_job(rank, size, call, os.path.join(folder, "store"), told)
                finally:
                    os._exit(0)
            children.append(child)
        os.close(told)
        process = os.pidfd_open(children[KILLED])
        lines, ended = watch(pipe, process, 90)
        os.close(process)
        os.close(pipe)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    killed = [float(line[1]) for line in lines if int(line[0]) == KILLED]
    others = {int(line[0]): line for line in lines if int(line[0]) != KILLED}
    if len(killed) != 1 or len(others) != size - 1:
        raise SystemExit(f"{call}: of {size - 1} ranks only {sorted(others)} had an exception")
    for rank, line in others.items():
        if line[2] != "names":
            raise SystemExit(f"{call}: the exception of rank {rank} does not name rank {KILLED}: {line[2]}")
    return ended - killed[0], max(float(line[1]) for line in others.values()) - killed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(1)
    print(f"{'':<28}{'process gone, ms':>20}{'last exception, ms':>20}")
    print(f"{'the others wait in':<22}{'runs':>6}{'median':>10}{'worst':>10}{'median':>10}{'worst':>10}")
    for call in CALLS:
        columns = list(zip(*(run(call, options.ranks) for _ in range(options.runs))))
        numbers = [1000 * number for times in columns for number in (statistics.median(times), max(times))]
        print(f"{call:<22}{options.runs:>6}" + "".join(f"{number:>10.1f}" for number in numbers), flush=True)


if __name__ == "__main__":
    main()

"""A rank is killed while the others use CUDA tensors: `failures.py MODE`. Rank 0 prints how long its error took."""

import os
import select
import signal
import socket
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from job import DEVICE, RANK, SIZE, Groups, require

import tutti.torch

KILLED = SIZE - 1


class Death:
    """What rank 0 sees of the killed rank's end: the kernel closes its connections, and later ends the process."""

    def __init__(self, groups):
        self.times = {}
        port = [None]
        if RANK == 0:
            listener = socket.create_server(("127.0.0.1", 0))
            port = [listener.getsockname()[1]]
        dist.broadcast_object_list(port, src=0, group=groups.gloo, device=torch.device("cpu"))
        if RANK == KILLED:
            self.connection = socket.create_connection(("127.0.0.1", port[0]))
            self.connection.sendall(str(os.getpid()).encode())
        elif RANK == 0:
            self.connection = listener.accept()[0]
            process = os.pidfd_open(int(self.connection.recv(16)))
            self.threads = [
                threading.Thread(target=self.watch, args=("closed", self.connection), daemon=True),
                threading.Thread(target=self.watch, args=("ended", process), daemon=True),
            ]
            for thread in self.threads:
                thread.start()

    def watch(self, name: str, file) -> None:
        select.select([file], [], [])
        self.times[name] = time.monotonic()

    def __str__(self) -> str:
        for thread in self.threads:
            thread.join(5)
        return f"{self.times.get('closed', 0)} {self.times.get('ended', 0)}"


def loop(_groups):
    """Calls that are waited for by streams; the host runs ahead."""
    tensor = torch.ones(1 << 20, device=DEVICE)
    while True:
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        torch.cuda.synchronize()


def work_wait(_groups):
    """The host waits for the call itself."""
    dist.all_reduce(torch.ones(4, device=DEVICE), async_op=True).wait(timedelta(seconds=60))


def message(_groups):
    dist.recv(torch.ones(4, device=DEVICE), src=KILLED)
    torch.cuda.synchronize()
    dist.recv(torch.ones(4, device=DEVICE), src=KILLED)


def device_barrier(_groups):
    dist.barrier(device_ids=[DEVICE.index])


MODES = {function.__name__: function for function in (loop, work_wait, message, device_barrier)}


def main() -> None:
    groups = Groups()
    death = Death(groups)
    mode = MODES[sys.argv[1]]
    dist.all_reduce(torch.ones(1, device=DEVICE))
    if mode is message:
        for _ in range(2):
            if RANK == KILLED:
                dist.send(torch.ones(4, device=DEVICE), dst=0)
            elif RANK == 0:
                dist.recv(torch.ones(4, device=DEVICE), src=KILLED)
    torch.cuda.synchronize()
    dist.barrier(groups.gloo)
    if RANK == KILLED:
        threading.Thread(target=lambda: loop(groups) if mode is loop else None, daemon=True).start()
        time.sleep(1)
        print(f"killed at {time.monotonic()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        mode(groups)
    except dist.DistBackendError as error:
        ended = time.monotonic()
        print(f"death at {death}\nerror at {ended} {error}", flush=True)
        require(f"rank {KILLED}" in str(error), "the error does not name the rank")
        require(tutti.torch.failed_ranks() == [KILLED], f"failed_ranks() is {tutti.torch.failed_ranks()}")
        begin = time.monotonic()
        torch.cuda.synchronize()
        require(time.monotonic() - begin < 5, "the device is still busy")
        dist.destroy_process_group()
        print("ended in order", flush=True)
        return
    raise AssertionError("no error")


main()

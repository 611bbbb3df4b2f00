"""init_method="tutti://": rank, size and meeting point from whatever has started the job."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous as rendezvous_of_torch

from tutti._error import Error
from tutti._launcher import Place, find_place

# One for each process group that is made of the default one's kind; part of the name of the meeting point's file.
_attempts = iter(range(1 << 62))


def rendezvous(_url: str, timeout: timedelta = timedelta(minutes=30), **_settings):
    """For torch: the handler of tutti://, which yields a store, this process's rank and the number of ranks."""
    place = find_place() or Place("no launcher", 0, 1, 0, 1)
    if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT"):
        # As env:// does, which also knows torchrun's own store.
        yield from rendezvous_of_torch("env://", place.rank, place.size, timeout=timeout)
    else:
        yield _store(place, timeout), place.rank, place.size
    raise RuntimeError("init_method tutti:// can't rejoin a job: start the job again")


def _store(place: Place, timeout: timedelta) -> dist.Store:
    attempt = next(_attempts)
    if place.is_on_one_host:
        return _store_by_file(place, timeout, attempt)
    if place.launcher == "Slurm":
        return _connect(_first_slurm_host(), _slurm_port(attempt), place, timeout)
    return _store_by_mpi(place, timeout)


def _connect(host: str, port: int, place: Place, timeout: timedelta) -> dist.TCPStore:
    return dist.TCPStore(host, port, place.size, place.rank == 0, timeout, wait_for_workers=True)


# Several hosts


def _first_slurm_host() -> str:
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
    if "[" not in nodes:
        return nodes.split(",")[0]
    try:
        listed = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise Error(f"scontrol does not list the hosts of {nodes} ({error}): set MASTER_ADDR and MASTER_PORT on all ranks") from error
    return listed.stdout.split()[0]


def _slurm_port(attempt: int) -> int:
    """The same on all ranks of a step, and another one for the next step."""
    job, step = int(os.environ.get("SLURM_JOB_ID", "0")), int(os.environ.get("SLURM_STEP_ID", "0"))
    return 20000 + (job * 31 + step * 7 + attempt) % 10000


def _store_by_mpi(place: Place, timeout: timedelta) -> dist.Store:
    """Rank 0 chooses a port, and MPI broadcasts it."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise Error(
            f"{place.launcher} has started {place.size} ranks on several hosts, and nothing says where they meet: set MASTER_ADDR and "
            "MASTER_PORT on all ranks, or install mpi4py for the MPI that starts them"
        ) from error
    world = MPI.COMM_WORLD
    if (world.Get_rank(), world.Get_size()) != (place.rank, place.size):
        raise Error(
            f"mpi4py gives rank {world.Get_rank()} of {world.Get_size()}, and {place.launcher} rank {place.rank} of {place.size}: install "
            "mpi4py for the MPI that starts the job, or set MASTER_ADDR and MASTER_PORT on all ranks"
        )
    if place.rank == 0:
        store = dist.TCPStore("0.0.0.0", 0, place.size, True, timeout, wait_for_workers=False)
        world.bcast((socket.gethostname(), store.port), root=0)
        return store
    host, port = world.bcast(None, root=0)
    return dist.TCPStore(host, port, place.size, False, timeout)


# One host


def _start_time(pid: int) -> str:
    """Tells a process from a later one with the same number; "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _job_name() -> str:
    """The same on all ranks of this host's job, and of no other job that runs."""
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"):
        if os.environ.get(name):
            return "".join(letter if letter.isalnum() else "_" for letter in os.environ[name])[:100]
    if os.environ.get("SLURM_STEP_ID"):
        return f"slurm_{os.environ.get('SLURM_JOB_ID', '')}_{os.environ['SLURM_STEP_ID']}"
    parent = os.getppid()
    return f"{parent}_{_start_time(parent)}"


def _store_by_file(place: Place, timeout: timedelta, attempt: int) -> dist.Store:
    """Rank 0 chooses a port, and a file tells it to the others."""
    if place.size == 1:
        return dist.HashStore()
    path = Path(tempfile.gettempdir()) / f"tutti_{os.getuid()}_{_job_name()}_{attempt}"
    if place.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, place.size, True, timeout, wait_for_workers=False)
        _write(path, f"{store.port} {os.getpid()} {_start_time(os.getpid())}\n")
        try:
            _wait_for_others(store, place, timeout)
        finally:
            path.unlink(missing_ok=True)
        return store
    deadline = time.monotonic() + timeout.total_seconds()
    while (port := _read(path)) is None:
        if time.monotonic() > deadline:
            raise Error(
                f"rank {place.rank} waited for rank 0 in init_process_group() until the timeout ({timeout}): see whether rank 0 runs, or "
                "set MASTER_ADDR and MASTER_PORT on all ranks",
                code="timeout",
                failed_ranks=[0],
            )
        time.sleep(0.01)
    store = dist.TCPStore("127.0.0.1", port, place.size, False, timeout, wait_for_workers=False)
    store.set(f"tutti_met/{place.rank}", "1")
    return store


def _wait_for_others(store: dist.Store, place: Place, timeout: timedelta) -> None:
    deadline = time.monotonic() + timeout.total_seconds()
    missing = list(range(1, place.size))
    while missing := [rank for rank in missing if not store.check([f"tutti_met/{rank}"])]:
        if time.monotonic() > deadline:
            raise Error(
                f"rank 0 waited for rank {', '.join(map(str, missing))} in init_process_group() until the timeout ({timeout}): see whether "
                "it runs",
                code="timeout",
                failed_ranks=missing,
            )
        time.sleep(0.005)


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # of a job that ended before all ranks had met
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        unfinished.unlink()
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.rename(path)


def _read(path: Path) -> "int | None":
    """Rank 0's port; None while there is none. The folder is everybody's: only our own file counts."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            port, pid, started = file.read().split()
    except (OSError, ValueError):
        return None
    return int(port) if _start_time(int(pid)) == started else None

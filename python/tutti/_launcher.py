"""Rank, size and local rank of this process, from the variables of whatever has started it."""

import os
from dataclasses import dataclass

from tutti import _c
from tutti._error import Error


@dataclass(frozen=True)
class Place:
    """This process in its job. local_rank and local_size are None where the launcher does not say."""

    launcher: str
    rank: int
    size: int
    local_rank: "int | None"
    local_size: "int | None"

    @property
    def is_on_one_host(self) -> bool:
        return self.size == 1 or self.local_size == self.size


@dataclass(frozen=True)
class _Launcher:
    name: str
    trace: tuple  # one of them is set: it has started this process
    rank: tuple
    size: tuple
    local_rank: tuple = ()
    local_size: tuple = ()
    is_mpi: bool = False


# The order of docs/decisions/0012: who starts processes most directly comes first.
_LAUNCHERS = (
    _Launcher("tutti's own settings", ("TUTTI_RANK", "TUTTI_SIZE"), ("TUTTI_RANK",), ("TUTTI_SIZE",), ("TUTTI_LOCAL_RANK",)),
    _Launcher("torchrun", ("TORCHELASTIC_RUN_ID",), ("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),
    _Launcher(
        "Open MPI", ("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",), is_mpi=True,
    ),
    _Launcher(
        "MVAPICH", ("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"), ("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"),
        ("MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"), ("MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
        ("MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"), is_mpi=True,
    ),
    _Launcher("Hydra", ("MPI_LOCALRANKID",), ("PMI_RANK",), ("PMI_SIZE",), ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",), is_mpi=True),
    _Launcher("PMI", ("PMI_RANK",), ("PMI_RANK",), ("PMI_SIZE",), ("PMI_LOCAL_RANK",), ("PMI_LOCAL_SIZE",), is_mpi=True),
    _Launcher("the environment", ("RANK", "WORLD_SIZE"), ("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",)),
    _Launcher("Slurm", ("SLURM_PROCID",), ("SLURM_PROCID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), ("SLURM_LOCALID",)),
)


def _number(names, least: int) -> "int | None":
    for name in names:
        text = os.environ.get(name)
        if not text:
            continue
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise Error(f"{name}={text} is not a valid number: set an integer from {least} up, or unset it if it is left over from another job")
        return int(text)
    return None


def _in_slurm_batch_script(launcher: _Launcher) -> bool:
    """srun has not started this process: SLURM_NTASKS is the job's request."""
    return launcher.name == "Slurm" and not os.environ.get("SLURM_STEP_ID")


def _local_size(launcher: _Launcher, size: int) -> "int | None":
    found = _number(launcher.local_size, 1)
    if found is None and launcher.name == "Slurm" and os.environ.get("SLURM_STEP_NUM_NODES") == "1":
        return size
    return found


def find_place() -> "Place | None":
    """None where nothing has started this process as a rank of a job.

    Raises Error (code "usage") for variables that are unusable, or that contradict each other.
    """
    for launcher in _LAUNCHERS:
        if not any(os.environ.get(name) for name in launcher.trace) or _in_slurm_batch_script(launcher):
            continue
        rank, size = _number(launcher.rank, 0), _number(launcher.size, 1)
        if rank is None or size is None:
            missing = launcher.rank[0] if rank is None else launcher.size[0]
            raise Error(f"{launcher.name} has set {' or '.join(launcher.trace)}, but {missing} is not set: set it, or unset the others")
        if rank >= size:
            raise Error(f"rank {rank} of {launcher.name} is not below its number of ranks, {size}: see {launcher.rank[0]} and {launcher.size[0]}")
        if launcher.is_mpi:
            _c.check_launcher(rank, size, launcher.name)
        return Place(launcher.name, rank, size, _number(launcher.local_rank, 0), _local_size(launcher, size))
    return None

"""Collective communication: shared memory inside a host, TCP between hosts.

    import numpy, tutti
    comm = tutti.from_environment()                  # under torchrun, or with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
    total = numpy.zeros(4, dtype=numpy.float32)
    comm.Allreduce(numpy.ones(4, dtype=numpy.float32), total, op=tutti.SUM)

The methods follow mpi4py: names in upper case take buffers, which are anything with the buffer protocol or DLPack (numpy arrays,
CPU tensors of torch), contiguous and in host memory. `tutti.torch` is the backend for torch.distributed.
"""

import os
import threading

from tutti._error import Error  # the extension raises it

from tutti import _c  # isort: skip
from tutti._c import Communicator, InPlace, Op, RankInfo, Request, Version
from tutti._local_device import local_device

__all__ = [
    "ANY_SOURCE", "AVG", "BAND", "BOR", "BXOR", "IN_PLACE", "LAND", "LOR", "LXOR", "MAX", "MIN", "PROD", "SUM",
    "Communicator", "Error", "Op", "RankInfo", "Request",
    "connect", "from_environment", "from_mpi", "local_device",
]

__version__ = Version

ANY_SOURCE: int = _c.AnySource
"""Instead of the source of Recv() and Irecv(): the rank whose message arrives first."""
IN_PLACE = InPlace()
"""Instead of a send buffer: the receive buffer holds the input, too."""
SUM, PROD, MIN, MAX, AVG = Op.SUM, Op.PROD, Op.MIN, Op.MAX, Op.AVG
BAND, BOR, BXOR = Op.BAND, Op.BOR, Op.BXOR
LAND, LOR, LXOR = Op.LAND, Op.LOR, Op.LXOR

# connect() passes its arguments in the environment, of which a process has one.
_environment_lock = threading.Lock()


def from_environment(timeout: "float | None" = None) -> Communicator:
    """A communicator of the job that the environment describes: torchrun's variables, the same set by hand, or TUTTI_RANK, TUTTI_SIZE
    and TUTTI_INIT. Where nothing is set, the process is alone: rank 0 of 1. On several hosts set TUTTI_SECRET_FILE on all ranks, or
    TUTTI_INSECURE=1 on a trusted network.

    Collective over all ranks. timeout: of the set-up and of each call, in seconds; default TUTTI_TIMEOUT, else 60. Raises Error.
    """
    return _c.from_environment(timeout)


def connect(address: str, rank: int, size: int, timeout: "float | None" = None) -> Communicator:
    """A communicator of `size` ranks. Rank 0 listens at `address`, "HOST:PORT", and the others connect to it. On several hosts set
    TUTTI_SECRET_FILE on all ranks, or TUTTI_INSECURE=1 on a trusted network.

    Collective over all ranks. timeout: in seconds, as in from_environment(). Raises Error, ValueError.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"address {address!r} is not HOST:PORT, such as '10.0.0.1:29500'")
    settings = {"TUTTI_INIT": f"tcp://{address}", "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size)}
    with _environment_lock:
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            return _c.from_environment(timeout)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def from_mpi(comm, timeout: "float | None" = None) -> Communicator:
    """A communicator of the ranks of `comm`, an mpi4py communicator, such as MPI.COMM_WORLD. MPI is used for the set-up only.

    Collective over the ranks of `comm`. timeout: in seconds, as in from_environment(). Raises Error.
    """
    return _c.from_exchange(comm.Get_rank(), comm.Get_size(), comm.allgather, comm.bcast, comm.barrier, timeout)

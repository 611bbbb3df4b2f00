"""Which device is this rank's."""

from tutti._error import Error
from tutti._launcher import find_place


def local_device() -> str:
    """The device of this rank, for torch: "cuda:1", or "cpu" on a host without GPUs.

    The GPU is that of the local rank, modulo the number of GPUs that this process sees. Raises Error (code "usage") where the host has
    GPUs and the launcher does not give the local rank; ImportError without torch.
    """
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    place = find_place()
    if place is None:
        return "cuda:0"
    local_rank = 0 if torch.cuda.device_count() == 1 else place.local_rank
    if local_rank is None:
        raise Error(f"{place.launcher} does not give the local rank, which chooses among {torch.cuda.device_count()} GPUs: set LOCAL_RANK")
    return f"cuda:{local_rank % torch.cuda.device_count()}"

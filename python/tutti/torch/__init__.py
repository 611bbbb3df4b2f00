"""The backend "tutti" of torch.distributed, for CPU and CUDA tensors.

    torch.distributed.init_process_group("tutti")

torch loads this module when the name is used. The extension is compiled at the first use, once for each version of torch;
`python -m tutti.torch` does so ahead of time.
"""

import atexit
from functools import cache

import torch

import tutti_autoload
from tutti.torch._versions import require_served_version

require_served_version()

import torch.distributed as dist  # noqa: E402

from tutti.torch._build import load_extension  # noqa: E402
from tutti.torch._rendezvous import rendezvous  # noqa: E402

__all__ = ["create", "failed_ranks", "register", "rendezvous"]


def register() -> None:
    """Registers the backend "tutti" and the init method "tutti://". Does nothing the second time."""
    tutti_autoload.register()


def failed_ranks(group: "dist.ProcessGroup | None" = None) -> list[int]:
    """Global ranks that the latest error of `group` names; empty if there was none.

    `group`: a process group with backend "tutti" for CPU or CUDA tensors; None: the default one.
    """
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise ValueError("there is no default process group: call init_process_group() first, or pass a group")
    backends = [group._get_backend(device) for device in group._device_types]
    for backend in backends:
        if hasattr(backend, "failed_ranks"):
            return backend.failed_ranks
    raise ValueError(f"the process group's backend is {', '.join(backend.name() for backend in backends)}, not tutti")


def create(options, _backend_options):
    """For torch: the backend of a process group, from a `torch.distributed.distributed_c10d._DistributedBackendOptions`."""
    group = load_extension().ProcessGroupTutti(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        list(options.global_ranks_in_group),
        getattr(options, "enable_reconfigure", False),  # torch 2.14 and later
    )
    _open_groups().add(group)
    return group


@cache
def _open_groups():
    """Whose ranks must hear a goodbye before this process ends."""
    groups = load_extension().OpenGroups()
    atexit.register(groups.shutdown)
    return groups


# For processes in which TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set.
register()

"""The backend "tutti" of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("tutti")

torch 2.14 and later load this module when the name is used. The extension is compiled at the first use, once for each version of
torch; `python -m tutti.torch` does so ahead of time.
"""

import atexit
import weakref

import torch
import torch.distributed as dist

from tutti.torch._build import load_extension
from tutti.torch._rendezvous import register_rendezvous

__all__ = ["failed_ranks", "register"]

OLDEST_TORCH = (2, 14)

# Whose ranks must hear a goodbye before this process ends.
_open_groups = weakref.WeakSet()


def register() -> None:
    """Registers the backend "tutti" and the init method "tutti://". Does nothing the second time.

    Raises RuntimeError for a version of torch that is too old.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        raise RuntimeError(
            f"the backend tutti needs torch {'.'.join(map(str, OLDEST_TORCH))} or later, and this is torch {torch.__version__}: "
            "install a newer torch, or use backend \"gloo\""
        )
    register_rendezvous()
    if hasattr(dist.Backend, "TUTTI") and "TUTTI" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])


def failed_ranks(group: "dist.ProcessGroup | None" = None) -> list[int]:
    """Global ranks that the latest error of `group` names; empty if there was none.

    `group`: a process group with backend "tutti" for CPU tensors; None: the default one.
    """
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise ValueError("there is no default process group: call init_process_group() first, or pass a group")
    backend = group._get_backend(torch.device("cpu"))
    if not hasattr(backend, "failed_ranks"):
        raise ValueError(f"the process group's backend for CPU tensors is {backend.name()}, not tutti")
    return backend.failed_ranks


def _create(options, _backend_options):
    group = load_extension().ProcessGroupTutti(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        list(options.global_ranks_in_group),
    )
    _open_groups.add(group)
    return group


@atexit.register
def _close_groups() -> None:
    for group in list(_open_groups):
        group.shutdown()


# For programs that import tutti.torch themselves, as those with init_method="tutti://" do.
register()

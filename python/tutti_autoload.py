"""Registers tutti's names with torch.distributed.

torch 2.6 and later call register() at the end of `import torch`, by the entry point "torch.backends"; TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the
environment turns that off. This module is not part of the package `tutti`, so that programs that use torch alone do not load the library.
"""

import contextlib
import importlib


def register() -> None:
    """Registers the backend "tutti" and the init method "tutti://". Their first use loads the package. Does nothing the second time."""
    import torch.distributed as dist

    if not dist.is_available() or "TUTTI" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu", "cuda"])
    with contextlib.suppress(RuntimeError):  # the program has registered another tutti://
        dist.register_rendezvous_handler("tutti", _rendezvous)


def _create(options, backend_options):
    return importlib.import_module("tutti.torch").create(options, backend_options)


def _rendezvous(*arguments, **settings):
    return importlib.import_module("tutti.torch").rendezvous(*arguments, **settings)

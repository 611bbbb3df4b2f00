"""Which builds of torch the backend serves."""

import torch

OLDEST = (2, 6)


def require_served_version() -> None:
    """Raises RuntimeError for a torch that is too old or has another ABI."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST:
        raise RuntimeError(
            f"the backend tutti needs torch {'.'.join(map(str, OLDEST))} or later, and this is torch {torch.__version__}: "
            'install a newer torch, or use backend "gloo"'
        )
    if not torch.compiled_with_cxx11_abi():
        raise RuntimeError(
            f"the backend tutti needs a torch that is built with _GLIBCXX_USE_CXX11_ABI=1, and this torch {torch.__version__} is not: "
            'install torch 2.7 or later, or use backend "gloo"'
        )

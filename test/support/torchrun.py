"""PyTorch's launcher, if PyTorch is installed."""
import functools
import re
import subprocess
import sys

from support.cluster import command


@functools.cache
def python_with_torch():
    """The Python that has torch; None if there is none."""
    for python in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        try:
            if subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            pass
    return None


def why_no_torchrun():
    return None if python_with_torch() else "no Python here has torch (scripts/launchers --system installs Debian's)"


def torchrun_words(*words, module="torch.distributed.run"):
    # Debian's torch 1.13 under Python 3.11 fails without these two options; they add "[default0]:" to each line.
    return [python_with_torch(), "-W", "ignore", "-m", module, "--redirects", "1", "--tee", "1", *words]


def torchrun(*words, module="torch.distributed.run", timeout=120):
    return command(*torchrun_words(*words, module=module), timeout=timeout)


def unprefixed(line):
    """A rank's line without torchrun's prefix."""
    return re.sub(r"^\[[a-z]+\d+\]:", "", line)

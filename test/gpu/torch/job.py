"""What the jobs of main.py share: the groups of a rank, and checks that all ranks agree on."""

import os
import sys
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401  registers the backend where no entry point does

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", int(os.environ.get("DEVICE", RANK)))
TIMEOUT = timedelta(seconds=40)


class Groups:
    """The default group, which is tutti's, and groups of the same ranks of torch's own backends."""

    def __init__(self, **settings):
        torch.cuda.set_device(DEVICE)
        dist.init_process_group("tutti", timeout=TIMEOUT, **settings)
        self.tutti = dist.group.WORLD
        # The agreement on results takes another way than what is checked.
        self.gloo = dist.new_group(backend="gloo", timeout=TIMEOUT)
        self._nccl = None

    @property
    def nccl(self):
        if self._nccl is None:
            self._nccl = dist.new_group(backend="nccl", timeout=TIMEOUT)
        return self._nccl

    def all_agree(self, value: bool) -> bool:
        told = torch.tensor([int(value)])
        dist.all_reduce(told, dist.ReduceOp.MIN, group=self.gloo)
        return bool(told.item())

    def check(self, name: str, function, *arguments) -> None:
        """Runs a check on all ranks. Rank 0 prints one line; others print what they have met."""
        begin, failure, note = time.monotonic(), "", None
        try:
            note = function(self, *arguments)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001  whatever it is, the other checks go on
            failure = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        if failure:
            print(f"  {name} on rank {RANK}: {failure}", flush=True)
        passed = self.all_agree(not failure)
        if RANK == 0:
            seconds = time.monotonic() - begin
            print(f"{'passed' if passed else 'FAILED'} {name} ({seconds:.1f} s){': ' + str(note) if note else ''}", flush=True)
        sys.stdout.flush()


def require(condition, text: str) -> None:
    if not condition:
        raise AssertionError(text)


def raises(kind, *words):
    """A context that demands an exception of `kind` whose text has all `words`."""

    class Demand:
        def __enter__(self):
            return self

        def __exit__(self, found, value, _trace):
            require(found is not None, f"no {kind.__name__} was raised")
            require(issubclass(found, kind), f"{found.__name__}: {value}")
            for word in words:
                require(word in str(value), f"'{word}' is not in: {value}")
            return True

    return Demand()

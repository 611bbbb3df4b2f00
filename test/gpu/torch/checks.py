"""The job with one GPU for each rank: all checks that leave the ranks alive, and the table of times."""

import sys

import random_calls
import semantics
import times
import training
import torch.distributed as dist
from job import Groups


def main() -> None:
    groups = Groups()
    parts = sys.argv[1:]
    if "calls" in parts:
        for operation in random_calls.OPERATIONS:
            groups.check(f"as NCCL: {operation.__name__}", random_calls.compare, operation)
    if "semantics" in parts:
        for function in semantics.CHECKS:
            groups.check(function.__name__, function)
    if "training" in parts:
        for name, (train, tolerance) in training.PROGRAMS.items():
            groups.check(f"20 steps of {name}", training.compare, train, tolerance)
    if "times" in parts:
        groups.check("times", times.table)
    dist.destroy_process_group()


main()

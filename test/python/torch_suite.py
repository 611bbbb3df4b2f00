"""Runs torch's own suite for backends, torch.testing._internal.distributed.distributed_test, on Gloo and on tutti (scripts/test-torch-suite).

    python torch_suite.py [--sizes 3,4,8] [--only TEST]… [--limit SECONDS] [--report FILE]

The runs for each number of ranks:

gloo             the suite as it is
tutti            with tutti in the suite's list of plugins
tutti for gloo   the tests that pass on Gloo and that the suite skips for every other backend: it takes tutti's process groups for Gloo's
… in one group   the tests that pass, one after the other in the same processes and the same default process group (MultiProcContinuousTest);
                 without those that destroy it, and those of monitored_barrier, after whose timeout Gloo's group no longer works
"""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUNS = ("gloo", "tutti", "tutti for gloo", "gloo in one group", "tutti in one group")


class InPlace(str):
    """The name of a backend that the suite takes for gloo where it asks."""

    def __eq__(self, other):
        return other == "gloo" or super().__eq__(other)

    __hash__ = str.__hash__


class Result(unittest.TestResult):
    """Prints one line of JSON per test: its name, outcome and reason."""

    def _print(self, test, outcome, reason=""):
        print(json.dumps([test.id().split(".")[-1], outcome, reason]), file=self.file, flush=True)

    def addSuccess(self, test):
        self._print(test, "passed")

    def addSkip(self, test, reason):
        self._print(test, "skipped", reason)

    def addFailure(self, test, error):
        self._print(test, "failed", str(error[1]))

    addError = addFailure


def imported_suite(run: str, limit: int):
    """The suite's decorators read the environment when it is imported: each run has a process of its own."""
    from torch.testing._internal import common_distributed

    features = common_distributed.DistTestCases.backend_feature
    for feature in ("plugin", "ddp", "subgroup"):
        features[feature].add("tutti")
    common_distributed.get_timeout = lambda _test: limit
    from torch.testing._internal.distributed import distributed_test

    if run in ("tutti for gloo", "tutti in one group"):
        distributed_test.BACKEND = InPlace("tutti")
    distributed_test.PROFILING_SUPPORTED_BACKENDS.append("tutti")
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append("tutti")
    # The machine may be busy. The suite waits 10 s for all ranks of a test.
    distributed_test.Barrier.sync.__func__.__defaults__ = (None, limit)
    return common_distributed, distributed_test


def run_tests(run: str, limit: int, chosen: list, file) -> None:
    import torch

    common_distributed, distributed_test = imported_suite(run, limit)
    base = distributed_test.DistributedTest._DistTestBase
    # Not spawned: each rank would import torch again.
    torch.multiprocessing.set_start_method("fork")

    class Suite(distributed_test.TestDistBackend, base):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    class InOneGroup(common_distributed.MultiProcContinuousTest, base):
        world_size = int(os.environ["WORLD_SIZE"])

        @classmethod
        def backend_str(cls):
            return str(distributed_test.BACKEND)

        @classmethod
        def device_type(cls):
            return "cpu"

    result = Result()
    result.file = file
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(Suite) if not chosen or name in chosen]
    if run.endswith("in one group"):
        names = [name for name in names if "monitored_barrier" not in name and "destroy_process_group" not in inspect.getsource(getattr(base, name))]
        unittest.TestSuite(map(InOneGroup, names)).run(result)
        return
    for name in names:
        unittest.TestSuite([Suite(name)]).run(result)


def outcomes(run: str, size: int, limit: int, chosen: list) -> dict:
    """{test: (outcome, reason)} of one run."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir"):
            (Path(folder) / name).mkdir()
        variables = {
            **os.environ,
            "BACKEND": "tutti" if run == "tutti" else "gloo",
            "WORLD_SIZE": str(size),
            "TEMP_DIR": folder,
            "INIT_METHOD": f"file://{folder}/init",
            "TMPDIR": folder,
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        found = {}
        lines, log = Path(folder) / "lines", Path(folder) / "log"
        with open(log, "w") as errors:
            command = [sys.executable, __file__, "--run", run, "--limit", str(limit), "--lines", str(lines), *(f"--only={name}" for name in chosen)]
            status = subprocess.run(command, env=variables, stdout=errors, stderr=subprocess.STDOUT, check=False).returncode
        for line in lines.read_text().splitlines():
            name, *rest = json.loads(line)
            found[name] = tuple(rest)
        if status != 0:
            sys.exit(f"the run {run} with {size} ranks ended with status {status}:\n{log.read_text()[-3000:]}")
        return found


def count(found: dict, outcome: str) -> int:
    return sum(kind == outcome for kind, _ in found.values())


def report(size: int, limit: int, only: list) -> dict:
    """Prints the rows of one number of ranks. Returns the outcomes by run."""
    results = {}

    def run(name: str, chosen: list) -> dict:
        results[name] = outcomes(name, size, limit, chosen)
        print(f"| {size} | {name} |", *(f"{count(results[name], outcome)} |" for outcome in ("passed", "failed", "skipped")), flush=True)
        return results[name]

    def passed(found: dict) -> list:
        return [name for name, (outcome, _) in found.items() if outcome == "passed"]

    wanted = passed(run("gloo", only))
    tutti = dict(run("tutti", only))
    reserved = [name for name in wanted if tutti[name][0] == "skipped"]
    if reserved:
        tutti.update(run("tutti for gloo", reserved))
    both = [name for name in wanted if tutti[name][0] == "passed"]
    if both:
        run("gloo in one group", both)
        run("tutti in one group", both)
    for name in wanted:
        outcome, reason = tutti[name]
        if outcome != "passed":
            lines = [line for line in reason.splitlines() if re.match(r"(\w|\.)*(Error|Exception)\b", line)]
            print(f"{size} ranks: {name} {outcome}: {(lines or [reason])[-1]}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="3,4,8", help="numbers of ranks (default: 3,4,8)")
    parser.add_argument("--only", action="append", default=[], metavar="TEST", help="name of a test; may be repeated")
    parser.add_argument("--limit", type=int, default=120, help="seconds after which a test has failed (default: 120)")
    parser.add_argument("--report", type=Path, help="JSON file for the outcome and the reason of every test")
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        with open(options.lines, "w") as file:
            run_tests(options.run, options.limit, options.only, file)
        return
    print("| ranks | run | passed | failed | skipped |\n|---|---|---|---|---|", flush=True)
    results = {}
    for size in map(int, options.sizes.split(",")):
        results[size] = report(size, options.limit, options.only)
        if options.report:
            options.report.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""Checks torch's backend tutti on CUDA tensors, on a machine with two GPUs or more: `python main.py [JOB…]`. The last line counts.

Needs torch and the package tutti. Jobs: calls, semantics, training, times (in one job of ranks), bound, shared, killed. The first four share
their ranks; bound and shared run at once, and those that kill a rank. TUTTI_TEST_SECONDS limits each job (default 110).
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

HERE = Path(__file__).resolve().parent
LIMIT = float(os.environ.get("TUTTI_TEST_SECONDS", "110"))
SIZE = 2
MODES = ("loop", "work_wait", "message", "device_barrier")


class Job:
    """The ranks of one script."""

    def __init__(self, script: str, *arguments: str, **settings):
        # As torchrun does: the store is here, at a port that the kernel chose, and the ranks are its clients.
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.files, self.processes = [], []
        for rank in range(SIZE):
            self.files.append(tempfile.TemporaryFile("w+"))
            variables = {
                "RANK": rank, "WORLD_SIZE": SIZE, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.store.port,
                "TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0, **settings,
            }  # fmt: skip
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, HERE / script, *arguments],
                    env={**os.environ, "OMP_NUM_THREADS": "2", **{name: str(value) for name, value in variables.items()}},
                    stdout=self.files[-1], stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
        self.deadline = time.monotonic() + LIMIT

    def end(self) -> tuple:
        """Exit statuses (None: killed at the limit) and outputs."""
        statuses, outputs = [], []
        for process in self.processes:
            try:
                statuses.append(process.wait(max(0.1, self.deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        for process, file in zip(self.processes, self.files):
            if process.poll() is None:
                process.kill()
                process.wait()
            file.seek(0)
            outputs.append(file.read())
        return statuses, outputs


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def of_checks(self, name: str, job: Job) -> None:
        """A job whose rank 0 prints a line for each check."""
        begin = time.monotonic()
        statuses, outputs = job.end()
        for line in outputs[0].splitlines():
            if line.startswith("passed "):
                self.passed += 1
            elif line.startswith("FAILED "):
                self.failed += 1
        failed = statuses != [0] * SIZE
        self.failed += failed
        print(outputs[0] if not failed else outputs[0][-6000:], end="")
        if failed or "FAILED " in outputs[0]:
            for rank, text in list(enumerate(outputs))[1:]:
                print(f"--- rank {rank}\n{text[-4000:]}", end="")
        print(f"{'FAILED' if failed else 'ended'} job {name}: exit {statuses}, {time.monotonic() - begin:.0f} s", flush=True)

    def of_kill(self, mode: str, job: Job) -> None:
        statuses, outputs = job.end()
        killed = re.search(r"^killed at (\S+)", outputs[-1], re.M)
        error = re.search(r"^error at (\S+) (.*)", outputs[0], re.M)
        passed = statuses[0] == 0 and killed and error and "ended in order" in outputs[0]
        if passed:
            self.passed += 1
            death = re.search(r"^death at (\S+) (\S+)", outputs[0], re.M)
            closed, ended, seconds = (float(text) - float(killed[1]) for text in (death[1], death[2], error[1]))
            print(
                f"passed a killed rank, {mode}: the error came after {seconds * 1e3:.0f} ms; the kernel closed its connections after"
                f" {closed * 1e3:.0f} ms and ended the process after {ended * 1e3:.0f} ms: {error[2]}",
                flush=True,
            )
        else:
            self.failed += 1
            print(f"FAILED a killed rank, {mode}: exit {statuses}\n{outputs[0][-3000:]}\n--- rank 1\n{outputs[-1][-1500:]}", flush=True)


def main() -> int:
    jobs = sys.argv[1:] or ["calls", "semantics", "training", "times", "bound", "shared", "killed"]
    count = Count()
    print(f"torch {torch.__version__}, {torch.cuda.device_count()} GPUs, NCCL of torch {'.'.join(map(str, torch.cuda.nccl.version()))}", flush=True)
    if torch.cuda.device_count() < SIZE:
        print(f"skipped: {SIZE} GPUs are needed\n0 passed, 0 failed, 1 skipped")
        return 0
    together = [job for job in ("calls", "semantics", "training", "times") if job in jobs]
    if together:
        count.of_checks(", ".join(together), Job("checks.py", *together))
    apart = {"bound": lambda: Job("bound.py"), "shared": lambda: Job("shared_device.py", DEVICE=0)}
    for name, job in [(name, start()) for name, start in apart.items() if name in jobs]:
        count.of_checks(name, job)
    if "killed" in jobs:
        for mode, job in [(mode, Job("failures.py", mode)) for mode in MODES]:
            count.of_kill(mode, job)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return int(count.failed > 0)


if __name__ == "__main__":
    sys.exit(main())

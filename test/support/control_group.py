"""A cgroup with a CPU quota for processes that a test starts. Needs root and a writable hierarchy."""
import os
import unittest
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class ControlGroup:
    """Skips the test, with a reason, if the cgroup can't be created."""

    def __init__(self, quota_us, period_us):
        self.name = f"tutti-test-{os.getpid()}"
        self.quota_us, self.period_us = quota_us, period_us

    def __enter__(self):
        is_version_2 = (ROOT / "cgroup.controllers").exists()
        self.folder = (ROOT if is_version_2 else ROOT / "cpu") / self.name
        try:
            self.folder.mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"can't make a control group: {error}")
        try:
            if is_version_2:
                (self.folder / "cpu.max").write_text(f"{self.quota_us} {self.period_us}")
            else:
                (self.folder / "cpu.cfs_period_us").write_text(str(self.period_us))
                (self.folder / "cpu.cfs_quota_us").write_text(str(self.quota_us))
        except OSError as error:
            self.folder.rmdir()
            raise unittest.SkipTest(f"can't set a control group's quota: {error}")
        return self

    def __exit__(self, *_):
        # Processes that have not ended yet return to the parent group.
        for pid in (self.folder / "cgroup.procs").read_text().split():
            try:
                (self.folder.parent / "cgroup.procs").write_text(pid)
            except OSError:
                pass  # it has ended
        self.folder.rmdir()

    def entering(self):
        """A prefix for a command's words that runs it in the cgroup."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh"]

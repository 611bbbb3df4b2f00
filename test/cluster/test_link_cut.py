#!/usr/bin/env python3
"""A host whose link is cut without any signal: the others can detect it by timeout only.

    python3 test/cluster/test_link_cut.py [Class.test…]

mpirun waits forever on a cut link. So each rank writes to its own file, and the job is killed by pid.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import SCRIPT as CLUSTER  # noqa: E402
from support.cluster import OWN_KERNEL, Cluster, eventually, processes_in, why_not  # noqa: E402

KEEPALIVE = 3  # seconds
LATEST = KEEPALIVE + 1.0
RANKS = 6  # two on each of three hosts

# One rank: host, exit status and output, in files named by its rank.
SCRIPT = """
cd "$1"; shift
rank=$OMPI_COMM_WORLD_RANK
"$@" >"$rank.out" 2>"$rank.err" &
echo $! >"$rank.pid"
wait $!
status=$?
echo "$status $(date +%s.%N)" >"$rank.part" && mv "$rank.part" "$rank.end"
sleep 100
"""


@unittest.skipIf(why_not(), why_not())
class LinkCut(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(3, slots=2)
        self.cluster.__enter__()
        self.addCleanup(self.cluster.down)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        os.chmod(folder.name, 0o755)

    def start(self, *words, before=()):
        """The job in the background, all its ranks at work. `before` stands before the command on each rank."""
        job = subprocess.Popen([sys.executable, str(CLUSTER), "--name", self.cluster.name, "run", "-np", str(RANKS),
                                "-x", f"TUTTI_KEEPALIVE={KEEPALIVE}s", "sh", "-c", SCRIPT, "sh", str(self.folder), *before, "tutti",
                                *words, "--verbose"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
        self.addCleanup(self.end, job)
        # Each rank logs its path after set-up.
        self.assertTrue(eventually(lambda: "path:" in self.text(0, "err"), 30), self.text(0, "err"))
        time.sleep(1)
        return job

    def end(self, job):
        """Kills mpirun, its daemons on the hosts, and the ranks, by pid."""
        spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in self.cluster.holders().values()}
        holders = set(self.cluster.holders().values())
        for pid in processes_in(spaces):
            if pid not in holders:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        job.kill()
        job.wait()

    def text(self, rank, kind):
        path = self.folder / f"{rank}.{kind}"
        return path.read_text() if path.exists() else ""

    def ended(self, rank):
        return float(self.text(rank, "end").split()[1])

    def check(self, ranks, lost, since, hosts):
        for rank in ranks:
            self.assertTrue(eventually(lambda: self.text(rank, "end"), 30), f"rank {rank}: {self.text(rank, 'err')}")
        for rank in ranks:
            with self.subTest(rank=rank):
                text = self.text(rank, "err")
                said = re.findall(r"rank (\d+) \((\w+), pid \d+\): its host does not respond", text)
                self.assertEqual(sorted({int(found) for found, _ in said}), lost, text)
                self.assertEqual({host for _, host in said}, hosts)
                print(f"# rank {rank} knew after {self.ended(rank) - since:.2f} s")
                self.assertLess(self.ended(rank) - since, LATEST)
                self.assertEqual(self.text(rank, "end").split()[0], "1")

    def cut(self, host):
        since = time.time()
        self.cluster.exec(host, "ip", "link", "set", "eth0", "down", check=True)
        return since

    def test_each_side_names_the_other(self):
        self.start("all-reduce", "--repeat", "1000000", "--size", "64KiB", before=OWN_KERNEL)
        since = self.cut("node2")
        self.check([0, 1, 4, 5], [2, 3], since, {"node2"})
        self.check([2, 3], [0, 1, 4, 5], since, {"node1", "node3"})

    def test_two_ranks_killed_at_once_are_one_set_everywhere(self):
        """On two hosts with different boot ids: the kernel detects the loss locally, and a closed link does remotely."""
        self.start("all-reduce", "--repeat", "1000000", "--size", "64KiB", before=OWN_KERNEL)
        since = time.time()
        for rank in (1, 4):
            os.kill(int(self.text(rank, "pid")), signal.SIGKILL)
        sets = set()
        for rank in (0, 2, 3, 5):
            self.assertTrue(eventually(lambda: self.text(rank, "end"), 30), f"rank {rank}: {self.text(rank, 'err')}")
            found = {int(one) for one in re.findall(r"rank (\d+) \(\w+, pid \d+\): it", self.text(rank, "err"))}
            sets.add(frozenset(found))
            print(f"# rank {rank} knew after {self.ended(rank) - since:.2f} s")
            self.assertLess(self.ended(rank) - since, 2)
        self.assertEqual(len(sets), 1, sets)
        self.assertLessEqual(sets.pop(), {1, 4})


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""Jobs without MPI whose rank 0 listens on an ephemeral port, on a host (a network namespace) with few such ports.

    python3 test/cluster/test_ports.py [Class.test…]
"""
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import REPO, command  # noqa: E402

TUTTI = Path(os.environ.get("TUTTI_BUILD", REPO / "build")) / "apps" / "tutti"
FIRST, LAST = 40000, 40031
READY = f"ip link set lo up && echo {FIRST} {LAST} > /proc/sys/net/ipv4/ip_local_port_range && echo ready && exec cat"


class OnAHostWithFewPorts(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
            self.skipTest("network namespaces need root, unshare and nsenter")
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", READY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_holder)
        if self.holder.stdout.readline() != "ready\n":
            self.skipTest(f"no network namespace can be made: {self.holder.stderr.read().strip()}")

    def end_holder(self):
        self.holder.stdin.close()
        self.holder.wait(10)
        self.holder.stdout.close()
        self.holder.stderr.close()

    def words(self, *words):
        return ["nsenter", "-t", str(self.holder.pid), "-n", *map(str, words)]

    def start(self, rank, size, port):
        variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TUTTI_SHARED_MEMORY": "0"}
        return subprocess.Popen(self.words(TUTTI, "all-reduce", "--quiet", "--timeout", "30s"), env={**os.environ, **variables},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, ranks):
        for rank in ranks:
            try:
                said, _ = rank.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                rank.kill()
                said, _ = rank.communicate()
            self.assertEqual((rank.returncode, said), (0, ""))

    def connections(self, state):
        """The local and the peer's port of each IPv4 connection in that state."""
        table = command(*self.words("cat", "/proc/net/tcp"), check=True).stdout
        rows = [line.split() for line in table.splitlines()[1:]]
        return [tuple(int(end.split(":")[1], 16) for end in row[1:3]) for row in rows if row[3] == state]

    def test_a_rank_that_waits_for_rank_0_does_not_take_its_port(self):
        """Every dial gets one of a few local ports, sometimes the one that it dials. The kernel then connects the socket to itself."""
        early = [self.start(rank, 3, FIRST) for rank in (1, 2)]
        end = time.monotonic() + 5
        held = set()
        while time.monotonic() < end:
            held.update(pair for pair in self.connections("01") if pair == (FIRST, FIRST))
            time.sleep(0.1)
        self.finish([self.start(0, 3, FIRST), *early])
        self.assertEqual(held, set(), "a connection to itself was kept")

    def test_rank_0_listens_where_an_earlier_job_had_connections(self):
        self.finish([self.start(rank, 3, 20000) for rank in range(3)])
        closed = sorted({local for local, _ in self.connections("06")})
        self.assertGreater(len([port for port in closed if FIRST <= port <= LAST]), 3, "the kernel remembers the connections of that job")
        for port in closed:
            with self.subTest(port):
                self.finish([self.start(rank, 2, port) for rank in range(2)])


if __name__ == "__main__":
    tap.main()

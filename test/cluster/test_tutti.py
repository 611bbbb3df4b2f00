#!/usr/bin/env python3
"""The command on several hosts: placement, traffic per link, and unusual networks.

    python3 test/cluster/test_tutti.py [Class.test…]
"""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import OWN_KERNEL, Cluster, why_not  # noqa: E402

MIB = 1 << 20
LINE = re.compile(r"^\[rank (\d+)/(\d+) \| local (\d+) \| (\S+) \| cpu\] (.*)$")

# Time of one plain TCP stream of this many bytes, from connect to the receiver's acknowledgement of all bytes.
RECEIVER = """
import socket, sys
listener = socket.create_server(("0.0.0.0", 5202)); print("ready", flush=True)
buffer = bytearray(1 << 20)
for _ in range(int(sys.argv[2])):
    link, _ = listener.accept()
    left = int(sys.argv[1])
    while left > 0:
        got = link.recv_into(buffer)
        if got == 0: break
        left -= got
    link.sendall(b"x"); link.close()
"""
SENDER = """
import socket, sys, time
for _ in range(int(sys.argv[3])):
    data = bytes(int(sys.argv[2]))
    link = socket.create_connection((sys.argv[1], 5202))
    begin = time.monotonic()
    link.sendall(data); link.recv(1)
    print(time.monotonic() - begin)
    link.close()
"""


def stream_seconds(cluster, source, target, size, times=3):
    """The median time of a plain socket, in the same run and under the same load as what is held against it."""
    receiver = cluster.start(target, sys.executable, "-c", RECEIVER, size, times, stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout.readline() == "ready\n", "the receiver did not start"
        done = cluster.exec(source, sys.executable, "-c", SENDER, target, size, times, timeout=60, check=True)
        return sorted(map(float, done.stdout.split()))[times // 2]
    finally:
        receiver.kill()
        receiver.wait()
        receiver.stdout.close()


class OnCluster(unittest.TestCase):
    """Tests that share one cluster."""
    shape = {"hosts": 3, "slots": 2}

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster(**cls.shape)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()

    def run_ok(self, *words, **options):
        result = self.cluster.run(*words, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def places(self, output):
        """(host, local rank) by rank. Checks that all lines are present, in order and verified."""
        rows = [LINE.match(line).groups() for line in output.splitlines() if line.startswith("[")]
        seen = {}
        for rank, _, local, host, said in rows:
            self.assertTrue(said.endswith(", verified") or said.startswith(("sent ", "broadcast ")), said)
            seen[int(rank)] = (host, int(local))
        self.assertEqual(list(seen), list(range(int(rows[0][1]))))
        return list(seen.values())

    def sent_meanwhile(self, action):
        """Bytes that each host's link has sent while `action` ran."""
        hosts = [f"node{n}" for n in range(1, self.shape["hosts"] + 1)]
        before = [self.cluster.bytes_sent(host) for host in hosts]
        action()
        return [self.cluster.bytes_sent(host) - there for host, there in zip(hosts, before)]


class Placement(OnCluster):
    def test_fan_out_over_three_hosts(self):
        output = self.run_ok("-np", "6", "tutti", "fan-out", "--size", "16MiB")
        self.assertEqual(self.places(output), [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1), ("node3", 0), ("node3", 1)])
        self.assertRegex(output.splitlines()[-1], r"^6 ranks on 3 hosts, .*: fan-out of 16 MiB verified on every rank in ")
        self.assertEqual(output.count("received 16 MiB from rank 0, verified"), 5)

    def test_hosts_on_the_command_line(self):
        output = self.run_ok("-H", "node1:2,node2:2", "tutti", "fan-out", "--size", "1MiB")
        self.assertEqual(self.places(output), [("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)])

    def test_by_node(self):
        output = self.run_ok("-np", "6", "--map-by", "node", "tutti", "fan-out", "--size", "1MiB")
        self.assertEqual(self.places(output), [("node1", 0), ("node2", 0), ("node3", 0), ("node1", 1), ("node2", 1), ("node3", 1)])

    def test_every_operation_and_root(self):
        for words in (["all-reduce", "--size", "4MiB"], ["all-reduce", "--size", "4"], ["send-recv", "--size", "1MiB"],
                      *(["broadcast", "--size", "1MiB", "--root", root, *by] for root in (0, 3, 5)
                        for by in ([], ["--map-by", "node"]))):
            with self.subTest(words):
                options = [word for word in words if word in ("--map-by", "node")]
                rest = [word for word in words if word not in options]
                output = self.run_ok(*options, "-np", "6", "tutti", *rest)
                self.assertEqual(len(self.places_of_any(output)), 6)

    def places_of_any(self, output):
        return {LINE.match(line).group(1) for line in output.splitlines() if "verified" in line or "broadcast" in line
                if LINE.match(line)}

    def test_info_shows_routable_addresses(self):
        output = self.run_ok("-np", "6", "tutti", "info")
        rows = [re.split(r"  +", line) for line in output.splitlines()[1:-1]]
        self.assertEqual([row[2] for row in rows], ["node1", "node1", "node2", "node2", "node3", "node3"])
        for row in rows:
            self.assertRegex(row[8], rf"^10\.77\.0\.{row[2][-1]}:\d+$")

    def test_a_rank_killed_on_another_host_is_named_by_its_closed_links(self):
        """Rank 4 is alone on a host with its own boot id, so only its links reveal its death."""
        # Killed by pid when rank 0 has logged its path; then mpirun kills this shell.
        script = 'said=$1/said; shift; case $OMPI_COMM_WORLD_RANK in ' \
                 '0) exec "$@" --verbose 2>"$said";; ' \
                 '4) "$@" & until grep -qs path: "$said"; do sleep 0.05; done; kill -KILL $!; exec sleep 100;; esac; exec "$@"'
        with tempfile.TemporaryDirectory() as folder:
            result = self.cluster.run("-np", "5", *OWN_KERNEL, "sh", "-c", script, "sh", folder, "tutti", "all-reduce",
                                      "--repeat", "1000000", "--size", "4KiB")
            said = result.stderr + (Path(folder) / "said").read_text()
        self.assertEqual(result.returncode, 1, said)
        lines = [line for line in said.splitlines() if line.startswith("tutti: ")]
        self.assertEqual(len(lines), 1, said)
        self.assertRegex(lines[0], r"a rank is lost: rank 4 \(node3, pid \d+\): it closed its connections before it left the job")


class BytesOnTheLinks(OnCluster):
    """Each link carries the bytes that the algorithm needs; fewer would mean that data bypassed the link."""
    shape = {"hosts": 4, "slots": 1}

    def check(self, sent, due, slack=1.15):
        print(f"# sent by each host: {', '.join(f'{n / MIB:.1f}' for n in sent)} MiB; due: {due} MiB")
        for host, (there, wanted) in enumerate(zip(sent, due), 1):
            self.assertGreaterEqual(there, wanted * MIB, f"node{host}")
            # Acknowledgements, the small calls of the command, and mpirun's traffic.
            self.assertLessEqual(there, wanted * MIB * slack + 4 * MIB, f"node{host}")

    def test_broadcast_crosses_each_link_once(self):
        sent = self.sent_meanwhile(lambda: self.run_ok("-np", "4", "tutti", "broadcast", "--size", "64MiB"))
        self.check(sent, [64, 64, 64, 0])

    def test_fan_out_leaves_the_root_three_times(self):
        sent = self.sent_meanwhile(lambda: self.run_ok("-np", "4", "tutti", "fan-out", "--size", "32MiB"))
        self.check(sent, [96, 0, 0, 0])

    def test_all_reduce_is_a_ring(self):
        sent = self.sent_meanwhile(lambda: self.run_ok("-np", "4", "tutti", "all-reduce", "--size", "32MiB"))
        self.check(sent, [48, 48, 48, 48])

    def test_broadcast_enters_each_host_once_however_ranks_are_dealt_out(self):
        for root, due in ((0, [32, 32, 32, 0]), (5, [32, 32, 32, 0])):
            with self.subTest(root=root):
                sent = self.sent_meanwhile(lambda: self.run_ok("-np", "8", "--map-by", "node", "tutti", "broadcast",
                                                               "--size", "32MiB", "--root", root))
                # The last host of the chain depends on the root: exactly one host sends nothing.
                self.check(sorted(sent, reverse=True), due)


class Speed(OnCluster):
    """A tolerant check for a loaded machine: it detects a tree, which sends the data twice from the root."""
    shape = {"hosts": 4, "slots": 1, "rate": "1gbit"}

    @classmethod
    def setUpClass(cls):
        try:
            super().setUpClass()
        except AssertionError as error:
            if "sch_tbf" in str(error):
                raise unittest.SkipTest("this kernel has no sch_tbf to shape the links with") from error
            raise

    def test_broadcast_against_a_plain_socket(self):
        for size in (16, 64):
            with self.subTest(size=size):
                bound = stream_seconds(self.cluster, "node1", "node2", size * MIB)
                output = self.run_ok("-np", "4", "tutti", "broadcast", "--size", f"{size}MiB", "--repeat", "5", "--json", "-")
                median = json.loads(output)["median_us"] / 1e6
                print(f"# broadcast of {size} MiB to 4 hosts at 1 Gbit/s: {median * 1e3:.0f} ms, a plain socket to one "
                      f"{bound * 1e3:.0f} ms: {median / bound:.2f} times")
                self.assertGreater(bound, 0.9 * size * MIB * 8 / 1e9, "the link was not shaped: this measures nothing")
                self.assertLess(median / bound, 2)

    def test_all_reduce_against_its_bound(self):
        size = 32
        bound = 1.5 * stream_seconds(self.cluster, "node1", "node2", size * MIB)
        output = self.run_ok("-np", "4", "tutti", "all-reduce", "--size", f"{size}MiB", "--repeat", "3", "--json", "-")
        median = json.loads(output)["median_us"] / 1e6
        print(f"# all-reduce of {size} MiB on 4 hosts at 1 Gbit/s: {median * 1e3:.0f} ms, its bytes on a plain socket "
              f"{bound * 1e3:.0f} ms: {median / bound:.2f} times")
        self.assertLess(median / bound, 2)


class OddNetworks(unittest.TestCase):
    def setUp(self):
        if reason := why_not():
            self.skipTest(reason)
        self.cluster = Cluster(2, slots=2)
        self.addCleanup(self.cluster.down)
        self.cluster.up()

    def add_interface(self, host, name, address):
        """Adds an interface that is up, with an address, but not connected to the other host."""
        for words in (["link", "add", name, "type", "veth", "peer", "name", name + "p"],
                      ["address", "add", address, "dev", name], ["link", "set", name, "up"], ["link", "set", name + "p", "up"]):
            self.cluster.exec(host, "ip", *words, check=True)

    def works(self, *words):
        # mpirun must not use the same interfaces, since this tests tutti.
        result = self.cluster.run("--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0", *words,
                                  "-np", "4", "tutti", "fan-out", "--size", "1MiB", "--verbose")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count(", verified"), 3, result.stdout)
        setups = [sum(map(float, re.findall(r"(?:peer info|shared memory|control links) ([\d.]+) ms", line)))
                  for line in result.stdout.splitlines() if " set-up: " in line]
        self.assertEqual(len(setups), 4, result.stdout)
        print(f"# set-up of the slowest rank: {max(setups):.0f} ms")

    def test_second_interface_that_leads_nowhere(self):
        self.add_interface("node1", "aaa9", "192.168.99.1/24")
        self.add_interface("node2", "aaa9", "192.168.99.2/24")
        self.works()

    def test_interface_on_one_host_only(self):
        self.add_interface("node2", "aaa9", "192.168.99.2/24")
        self.works()

    def test_the_same_address_on_both_hosts(self):
        for host in ("node1", "node2"):
            self.add_interface(host, "docker0", "172.17.0.1/16")
        self.works()

    def test_many_interfaces(self):
        for number in range(20):
            self.add_interface("node1", f"net{number}", f"192.168.{100 + number}.1/24")
        self.works()

    def test_interfaces_by_name(self):
        for host in ("node1", "node2"):
            self.add_interface(host, "docker0", "172.17.0.1/16")
        for setting in ("TUTTI_SOCKET_IFNAME=eth0", "TUTTI_SOCKET_IFNAME==eth0", "NCCL_SOCKET_IFNAME=^docker,lo",
                        "GLOO_SOCKET_IFNAME=eth0"):
            with self.subTest(setting):
                self.works("-x", setting)

    def test_name_that_matches_nothing(self):
        for variable in ("TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            with self.subTest(variable):
                result = self.cluster.run("-x", f"{variable}=nope0", "-np", "4", "tutti", "fan-out", timeout=30)
                self.assertEqual(result.returncode, 2, result.stderr)
                lines = [line for line in result.stderr.splitlines() if f"{variable}=nope0" in line]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn("eth0", lines[0])


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""Network configurations: IPv6, firewalls, names that resolve to loopback, several networks of which one is selected.

    python3 test/cluster/test_networks.py [Class.test…]

mpirun needs IPv4. If tutti must find none, mpirun uses link-local addresses, which tutti never uses.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import Cluster, why_not  # noqa: E402

MIB = 1 << 20


class OnTwoHosts(unittest.TestCase):
    mpi_network = "eth0"

    def setUp(self):
        if reason := why_not():
            self.skipTest(reason)
        self.cluster = Cluster(2, slots=2)
        self.addCleanup(self.cluster.down)
        self.cluster.up()

    def ip(self, host, *words):
        self.cluster.exec(host, "ip", *words, check=True)

    def run_tutti(self, *words, settings=(), options=(), timeout=120):
        forwarded = [word for setting in settings for word in ("-x", setting)]
        return self.cluster.run("--mca", "oob_tcp_if_include", self.mpi_network, "--mca", "btl_tcp_if_include", self.mpi_network, *options, *forwarded,
                                "-np", "4", "tutti", *(words or ("fan-out", "--size", "1MiB")), timeout=timeout)

    def works(self, **options):
        done = self.run_tutti(**options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(", verified"), 3, done.stdout)
        self.assertNotIn("[tutti", done.stderr)

    def fails(self, status, *sentences, **options):
        done = self.run_tutti(**options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tutti: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for sentence in sentences:
            self.assertRegex(lines[0], sentence)

    def addresses(self, **options):
        """The address of each rank, from `info`."""
        done = self.run_tutti("info", **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return re.findall(r"  (\S+:\d+)  ", done.stdout)

    def add_interface(self, host, name, address):
        """Adds an interface that is up, with an address, but not connected to the other host."""
        self.ip(host, "link", "add", name, "type", "veth", "peer", "name", name + "p")
        self.ip(host, "address", "add", address, "dev", name)
        self.ip(host, "link", "set", name, "up")
        self.ip(host, "link", "set", name + "p", "up")

    def wire(self, name, address):
        """Adds a network between the two hosts."""
        subprocess.run(["ip", "-n", f"{self.cluster.name}-node1", "link", "add", name, "type", "veth", "peer", "name", name,
                        "netns", f"{self.cluster.name}-node2"], check=True)
        for number in (1, 2):
            self.ip(f"node{number}", "address", "add", address.format(number), "dev", name)
            self.ip(f"node{number}", "link", "set", name, "up")

    def only(self, number, v4=True, v6=True):
        """Restricts a host's eth0 to the given address families."""
        host = f"node{number}"
        self.ip(host, "address", "flush", "dev", "eth0")
        if v4:
            self.ip(host, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
        if v6:
            self.ip(host, "address", "add", f"fd00:77::{number}/64", "dev", "eth0", "nodad")


class Families(OnTwoHosts):
    mpi_network = "mpi0"

    def setUp(self):
        super().setUp()
        self.wire("mpi0", "169.254.77.{}/16")

    def test_ipv6_only(self):
        self.only(1, v4=False)
        self.only(2, v4=False)
        self.works()
        for address in self.addresses():
            self.assertRegex(address, r"^\[fd00:77::[12]\]:\d+$")

    def test_dual_stack_beside_ipv6_only_and_beside_ipv4_only(self):
        self.only(1)
        self.only(2, v4=False)
        self.works()
        self.only(2, v6=False)
        self.works()

    def test_one_family_by_choice(self):
        self.only(1)
        self.only(2)
        for family, pattern in (("4", r"^10\.77\."), ("6", r"^\[fd00:")):
            with self.subTest(family):
                self.works(settings=[f"TUTTI_SOCKET_FAMILY={family}"])
                for address in self.addresses(settings=[f"TUTTI_SOCKET_FAMILY={family}"]):
                    self.assertRegex(address, pattern)
        self.works(settings=["TUTTI_SOCKET_IFNAME=fd00:77::/64"])

    def test_no_family_in_common(self):
        self.only(1, v6=False)
        self.only(2, v4=False)
        self.fails(1, r"rank 0 \(node1\) has 10\.77\.0\.1, rank 2 \(node2\) has fd00:77::2: .*no address family in common")

    def test_ipv6_switched_off(self):
        for host in ("node1", "node2"):
            self.cluster.exec(host, "sh", "-c", "for f in all default eth0 lo; do echo 1 > /proc/sys/net/ipv6/conf/$f/disable_ipv6; "
                              "done", check=True)
        self.works()
        self.fails(2, r"TUTTI_SOCKET_FAMILY=6 leaves no usable address; this host has .*eth0 \(10\.77\.0\.1\)",
                   settings=["TUTTI_SOCKET_FAMILY=6"])


class Names(OnTwoHosts):
    def test_own_name_that_leads_to_loopback(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            for number in (1, 2):
                file.seek(0)
                file.truncate()
                file.write(f"127.0.0.1 localhost\n127.0.1.1 node{number}\n10.77.0.{3 - number} node{3 - number}\n")
                file.flush()
                copy = Path(file.name).with_suffix(f".{number}")
                shutil.copy(file.name, copy)
                self.addCleanup(copy.unlink)
                self.cluster.exec(f"node{number}", "mount", "--bind", copy, "/etc/hosts", check=True)
        self.assertIn("127.0.1.1", self.cluster.exec("node2", "getent", "ahosts", "node2").stdout)
        self.works()
        for address in self.addresses():
            self.assertRegex(address, r"^10\.77\.0\.[12]:\d+$")


class SeveralNetworks(OnTwoHosts):
    def sent(self, name):
        return [int(self.cluster.exec(host, "cat", f"/sys/class/net/{name}/statistics/tx_bytes", check=True).stdout)
                for host in ("node1", "node2")]

    def test_the_named_network_carries_all_both_ways(self):
        # The hosts' names resolve to the address of eth0.
        self.wire("fast0", "192.168.5.{}/24")
        for setting, used, idle in (("TUTTI_SOCKET_IFNAME=fast0", "fast0", "eth0"), ("TUTTI_SOCKET_IFNAME=192.168.0.0/16", "fast0", "eth0"),
                                    ("TUTTI_SOCKET_IFNAME=^eth", "fast0", "eth0"), ("NCCL_SOCKET_IFNAME=eth0", "eth0", "fast0")):
            with self.subTest(setting):
                before, idle_before = self.sent(used), self.sent(idle)
                done = self.run_tutti("all-reduce", "--size", "8MiB", settings=[setting])
                self.assertEqual(done.returncode, 0, done.stderr)
                for there, here in zip(before, self.sent(used)):
                    self.assertGreater(here - there, 8 * MIB)
                for there, here in zip(idle_before, self.sent(idle)):
                    self.assertLess(here - there, MIB, "mpirun's own, at most")

    def test_a_network_that_came_up_a_moment_ago(self):
        # The kernel reports such an interface as running up to a second late.
        for number in range(4):
            with self.subTest(number):
                self.wire(f"new{number}", f"192.168.{number}.{{}}/24")
                done = self.cluster.exec("node2", "env", f"TUTTI_SOCKET_IFNAME=new{number}", "tutti", "info")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_loopback_between_hosts_is_refused_and_inside_one_used(self):
        self.fails(1, r"rank 0 \(node1\) has no address but loopback, rank 2 \(node2\) has no address but loopback", settings=["TUTTI_SOCKET_IFNAME=lo"])
        done = self.run_tutti("info", settings=["TUTTI_SOCKET_IFNAME=^eth0"], options=["-H", "node1:4"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"  127\.0\.0\.1:\d+  ", done.stdout)), 4, done.stdout)

    def test_a_network_that_is_none(self):
        self.fails(2, r"TUTTI_SOCKET_IFNAME=10\.77\.0\.0/33 is unusable: 10\.77\.0\.0/33 is not a network",
                   settings=["TUTTI_SOCKET_IFNAME=10.77.0.0/33"])

    def test_nothing_left_on_the_second_host_only(self):
        # Rank 0 itself has no error. All ranks report rank 2's.
        self.add_interface("node1", "only1", "10.77.5.1/24")
        self.fails(2, r"rank 2 \(node2, pid \d+\): TUTTI_SOCKET_IFNAME=only1 leaves no usable network interface; this host has .*eth0",
                   settings=["TUTTI_SOCKET_IFNAME=only1"])

    def test_one_host_with_twenty_interfaces(self):
        for number in range(20):
            self.add_interface("node1", f"net{number}", f"192.168.{100 + number}.1/24")
        done = self.run_tutti("info", options=["-H", "node1:4"])
        self.assertEqual(done.returncode, 0, done.stderr)
        # The connections use loopback instead of any of the twenty addresses.
        self.assertEqual(len(re.findall(r"  127\.0\.0\.1:\d+  ", done.stdout)), 4, done.stdout)


@unittest.skipUnless(shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"), "needs nft (apt install nftables)")
class Firewall(OnTwoHosts):
    # Two interfaces: one for tutti, one for mpirun's daemons and start.
    RULES = """table inet wall {{
      chain in {{ type filter hook input priority 0; policy drop;
        iif lo accept; meta l4proto ipv6-icmp accept
        tcp dport {{ {ports} }} accept; tcp sport {{ {ports} }} accept; }}
    }}"""

    def wall(self, *ports):
        for host in ("node1", "node2"):
            self.cluster.exec(host, "nft", self.RULES.format(ports=", ".join(ports)), check=True)

    MPI_DOOR = ["--mca", "oob_tcp_dynamic_ipv4_ports", "41000-41015", "--mca", "btl_tcp_port_min_v4", "41100",
                "--mca", "btl_tcp_port_range_v4", "16", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]

    def test_sixteen_ports_are_enough(self):
        self.wall("40000-40015", "41000-41115")
        self.works(settings=["TUTTI_PORT_RANGE=40000-40015"], options=self.MPI_DOOR)
        for address in self.addresses(settings=["TUTTI_PORT_RANGE=40000-40015"], options=self.MPI_DOOR):
            self.assertRegex(address, r":400(0\d|1[0-5])$")

    def test_without_the_range_the_sentence_names_who_is_out_of_reach(self):
        self.wall("40000-40015", "41000-41115")
        done = self.run_tutti(settings=["TUTTI_TIMEOUT=3s"], options=self.MPI_DOOR)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"tutti: .*(can't reach rank|no control connection with rank) \d \(node[12]")

    def test_range_that_is_exhausted(self):
        self.fails(1, r"rank \d \(node[12], pid \d+\): TUTTI_PORT_RANGE=40000-40000 is exhausted on this host: .*10\.77\.0\.[12]",
                   settings=["TUTTI_PORT_RANGE=40000-40000"])


class Doctor(OnTwoHosts):
    """Findings of `tutti doctor` in jobs with known faults."""

    def doctor(self, *words, settings=(), options=(), status=0):
        done = self.run_tutti("doctor", "--json", "-", *words, settings=settings, options=options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])

    def test_healthy_hosts(self):
        report = self.doctor("--measure")
        checks = {finding["check"] for finding in report["findings"]}
        # Two hosts with two ranks each are one machine here, so ranks may outnumber cores.
        self.assertLessEqual(checks, {"cores", "single copy"}, report["findings"])
        self.assertEqual([host["name"] for host in report["hosts"]], ["node1", "node2"])
        self.assertEqual([link["name"] for link in report["hosts"][1]["interfaces"] if link["chosen"]], ["eth0"])
        for one, other in ((0, 1), (1, 0)):
            self.assertGreater(report["latency_us"][one][other], 0)
            self.assertGreater(report["bandwidth_gbit"][one][other], 0)

    def test_docker0_everywhere_is_no_finding(self):
        for host in ("node1", "node2"):
            self.ip(host, "link", "add", "docker0", "type", "bridge")
            self.ip(host, "address", "add", "172.17.0.1/16", "dev", "docker0")
            self.ip(host, "link", "set", "docker0", "up")
        checks = {finding["check"] for finding in self.doctor()["findings"]}
        self.assertLessEqual(checks, {"cores", "single copy"})

    @unittest.skipUnless(shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"), "needs nft (apt install nftables)")
    def test_a_firewall_is_reported_before_anything_hangs(self):
        for host in ("node1", "node2"):
            self.cluster.exec(host, "nft", Firewall.RULES.format(ports="41000-41115"), check=True)
        # Set-up would run into its deadline, so the doctor must not try it.
        report = self.doctor(options=Firewall.MPI_DOOR, settings=["TUTTI_TIMEOUT=600s"], status=3)
        self.assertNotIn("set-up", {finding["check"] for finding in report["findings"]})
        reported = [finding for finding in report["findings"] if finding["check"] == "reachability"]
        self.assertEqual(sorted(finding["sentence"].split(" (")[0] for finding in reported),
                         ["node1 can't connect to node2", "node2 can't connect to node1"])
        for finding in reported:
            self.assertEqual(finding["severity"], "stops")
            self.assertIn("no answer", finding["sentence"])
            self.assertIn("TUTTI_PORT_RANGE", finding["remedy"])

    def test_ten_faults_at_once(self):
        # Network: another MTU; a second network with a cut link. Names: 127.0.1.1. Memory: a tiny /dev/shm.
        self.ip("node2", "link", "set", "eth0", "mtu", "1400")
        for number in (1, 2):
            host = f"node{number}"
            self.add_interface(host, "net9", f"192.168.9.{number}/24")
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("127.0.0.1 localhost\n127.0.1.1 node2\n10.77.0.1 node1\n")
            file.flush()
            self.cluster.exec("node2", "mount", "--bind", file.name, "/etc/hosts", check=True)
        self.cluster.exec("node1", "mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", "/dev/shm", check=True)
        # Settings that one host lacks or has a different value for, few descriptors on one rank, two ranks bound to one core.
        core = min(os.sched_getaffinity(0))
        script = (f'case $OMPI_COMM_WORLD_RANK in 0|1) export NCCL_ALGO=Ring TUTTI_TIMEOUT=50s TUTTI_SOCKET_IFNAME=eth0,net9;; '
                  f'2) export TUTTI_CHUNK=4KiB;; 3) ulimit -n 28;; esac; '
                  f'case $OMPI_COMM_WORLD_RANK in 2|3) exec taskset -c {core} tutti doctor --json -;; esac; exec tutti doctor --json -')
        # Without MPI's own shared memory: Open MPI's daemon may crash when a rank reports the tiny /dev/shm to it.
        done = self.cluster.run("--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1",
                                "--mca", "btl", "tcp,self", "-np", "4", "sh", "-c", script)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        findings = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])["findings"]
        for finding in findings:
            print(f"# {finding['severity']}: {finding['sentence']} -- {finding['remedy']}")
        planted = [("stops", "settings", "TUTTI_CHUNK is 4KiB on rank 2"), ("stops", "descriptors", "rank 3 (node2) may open 28"),
                   ("slows", "mtu", "1400"), ("slows", "settings", "NCCL_ALGO is Ring"), ("slows", "settings", "TUTTI_TIMEOUT is 50s"),
                   ("slows", "binding", "ranks 2, 3 of node2"), ("note", "settings", "TUTTI_SOCKET_IFNAME is eth0,net9"),
                   ("note", "names", "127.0.1.1"), ("note", "shared memory", "node1 has 1 MiB free"),
                   ("note", "reachability", "node1 can't reach node2 at 192.168.9.2")]
        if len(os.sched_getaffinity(0)) < 2:
            planted = [fault for fault in planted if fault[1] != "binding"]
        for severity, check, sentence in planted:
            with self.subTest(sentence):
                found = [f for f in findings if (f["severity"], f["check"]) == (severity, check) and sentence in f["sentence"]]
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0]["remedy"])
        # The link is cut in both directions. No other finding than the configured faults may be reported.
        others = [f for f in findings if not any(sentence in f["sentence"] for _, _, sentence in planted)]
        self.assertLessEqual({f["check"] for f in others}, {"reachability", "cores", "single copy"}, others)


if __name__ == "__main__":
    tap.main()

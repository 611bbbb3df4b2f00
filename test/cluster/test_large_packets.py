#!/usr/bin/env python3
"""A path with a smaller MTU than its ends assume, which drops large packets without an ICMP error.

    python3 test/cluster/test_large_packets.py [Class.test…]
"""
import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import Cluster, why_not  # noqa: E402

RULE = """table inet path {{
  chain in {{ type filter hook input priority 0; iif eth0 meta length > {} drop; }}
}}"""
LOST = r"(\d+) bytes that rank 0 \(node1, pid \d+\) has sent to rank 1 \(node2, pid \d+\) are not acknowledged after \d+ retransmissions"
REMEDY = r"packets of 1500 bytes may be larger than the MTU .* ping -M do -s 1472 node2 on node1"


@unittest.skipUnless(shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"), "needs nft (apt install nftables)")
class OnSmallMtuPath(unittest.TestCase):
    largest = 1400  # maximum size in bytes of packets that reach node2

    def setUp(self):
        if reason := why_not():
            self.skipTest(reason)
        self.cluster = Cluster(2)
        self.addCleanup(self.cluster.down)
        self.cluster.up()
        # Without segmentation offload, which would make larger packets here.
        for host in ("node1", "node2"):
            self.cluster.exec(host, "ip", "link", "set", "eth0", "gso_max_segs", "1", check=True)
        self.cluster.exec("node2", "nft", RULE.format(self.largest), check=True)

    def run_ranks(self, *words, **settings):
        """Runs a rank on each host without MPI, whose start would need large packets. Returns (status, output, errors) of each."""
        ranks = []
        for rank in (0, 1):
            variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "10.77.0.1",
                         "MASTER_PORT": 29500, "TUTTI_INSECURE": 1, **settings}
            ranks.append(self.cluster.start(f"node{rank + 1}", "env", *(f"{name}={value}" for name, value in variables.items()),
                                            "tutti", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = []
        for rank in ranks:
            try:
                out, err = rank.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                rank.kill()
                out, err = rank.communicate()
                self.fail(f"a rank hangs\n{out}{err}")
            said.append((rank.returncode, out, err))
        return said

    def run_mpi(self, *words):
        """The same under mpirun: MPI's messages use the faulty path, and mpirun's own start another one."""
        subprocess.run(["ip", "-n", f"{self.cluster.name}-node1", "link", "add", "mpi0", "type", "veth", "peer", "name", "mpi0", "netns",
                        f"{self.cluster.name}-node2"], check=True)
        for number in (1, 2):
            for ip in (["address", "add", f"169.254.77.{number}/16", "dev", "mpi0"], ["link", "set", "mpi0", "up"]):
                self.cluster.exec(f"node{number}", "ip", *ip, check=True)
        return self.cluster.run("--mca", "oob_tcp_if_include", "mpi0", "--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1",
                                "--mca", "btl", "tcp,self", "-np", "2", *words, timeout=120)


class LargePackets(OnSmallMtuPath):
    def check_broadcast(self, *words, **settings):
        (status, _, said), (other, _, _) = self.run_ranks("broadcast", "--size", "16MiB", "--timeout", "6s", *words, **settings)
        self.assertEqual((status, other), (1, 1), said)
        self.assertRegex(said, LOST + ", while small packets pass: " + REMEDY)

    def test_a_broadcast_names_both_hosts_and_suspects_the_mtu(self):
        self.check_broadcast()

    def test_encrypted_too(self):
        if "TLS" not in self.cluster.exec("node1", "tutti", "--version").stdout:
            self.skipTest("this tutti was built without libssl")
        self.check_broadcast(TUTTI_ENCRYPT=1)

    def test_calls_of_a_few_bytes_pass(self):
        for status, _, said in self.run_ranks("all-reduce", "--size", "256"):
            self.assertEqual(status, 0, said)

    def check_doctor(self, output):
        findings = json.loads(output[output.index("{"):output.rindex("}") + 1])["findings"]
        reported = [finding for finding in findings if finding["check"] == "mtu"]
        self.assertEqual(len(reported), 1, findings)
        self.assertEqual(reported[0]["severity"], "stops")
        self.assertRegex(reported[0]["sentence"], r"packets of 1500 bytes from node1 to node2 \(10\.77\.0\.2:\d+\) are lost")
        self.assertRegex(reported[0]["remedy"], REMEDY)
        self.assertLessEqual({finding["check"] for finding in findings}, {"mtu", "cores", "single copy"}, findings)

    def test_doctor_finds_it(self):
        (status, output, said), (other, _, _) = self.run_ranks("doctor", "--json", "-")
        self.assertEqual((status, other), (3, 3), output + said)
        self.check_doctor(output)

    def test_doctor_finds_it_over_mpi(self):
        done = self.run_mpi("tutti", "doctor", "--json", "-")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.check_doctor(done.stdout)


class SetUp(OnSmallMtuPath):
    """A path on which set-up fails too: the error contains TCP's unacknowledged data."""
    largest = 300
    LOST = r"; \d+ bytes that node1 has sent to 10\.77\.0\.2:\d+ are not acknowledged after \d+ retransmissions"

    def test_without_mpi(self):
        (status, _, said), (other, _, _) = self.run_ranks("all-reduce", "--timeout", "6s")
        self.assertEqual((status, other), (1, 1), said)
        self.assertRegex(said, r"set-up timed out at .* missing: rank 1 \(node2, pid \d+\)" + ".*" + self.LOST)

    def test_over_mpi(self):
        # Rank 0 times out first: when rank 1 ends, MPI closes the connection.
        done = self.run_mpi("sh", "-c", 'exec tutti all-reduce --timeout $((6 + 100 * OMPI_COMM_WORLD_RANK))s')
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "set-up timed out while .* over MPI: .*" + self.LOST)


if __name__ == "__main__":
    tap.main()

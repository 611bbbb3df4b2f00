#!/usr/bin/env python3
"""Tests of scripts/cluster: isolation of the hosts, rates of the links, and complete removal.

    python3 test/cluster/test_cluster.py [-v]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import HOSTFILES, SCRIPT, Cluster, command, eventually, processes_in, why_not  # noqa: E402

# Sends for a time or a number of bytes over one plain TCP stream. The receiver prints bytes and rate. The first 0.3 s are excluded from the
# rate, since TCP still adapts.
RECEIVER = """
import json, socket, time
listener = socket.create_server(("0.0.0.0", 5201)); print("ready", flush=True)
link, peer = listener.accept()
got, begin, mark, buffer = 0, time.monotonic(), None, bytearray(1 << 20)
while n := link.recv_into(buffer):
    got += n
    if mark is None and time.monotonic() - begin > 0.3: mark = time.monotonic(), got
end = time.monotonic()
rate = (got - mark[1]) * 8 / (end - mark[0]) if mark and end > mark[0] else 0
print(json.dumps({"bytes": got, "bits_per_second": rate, "peer": peer[0]}))
"""
SENDER = """
import socket, sys, time
link, block, end = socket.create_connection((sys.argv[1], 5201)), bytes(1 << 20), time.monotonic() + float(sys.argv[3])
left = int(sys.argv[2])
while left > 0 and time.monotonic() < end: link.sendall(block); left -= 1
"""
MIB = 1 << 20


def stream(cluster, source, target, mebibytes, seconds):
    """One TCP stream from host to host; what the receiver saw."""
    receiver = cluster.start(target, sys.executable, "-c", RECEIVER, stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout.readline() == "ready\n", "the receiver did not start"
        cluster.exec(source, sys.executable, "-c", SENDER, target, mebibytes, seconds, timeout=seconds + 20, check=True)
        said, _ = receiver.communicate(timeout=20)
        return json.loads(said)
    finally:
        receiver.kill()
        receiver.wait()
        receiver.stdout.close()


def placement(result):
    """Host of each rank, from a job run with --tag-output."""
    return [host for _, host in sorted((int(rank), host) for rank, host in
                                       re.findall(r"^\[\d+,(\d+)\]<stdout>:\s*(\S+)$", result.stdout, re.M))]


class WithHosts(unittest.TestCase):
    """Tests that share three hosts with two slots each."""

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster(3, slots=2)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()

    def hosts_of(self, *words):
        result = self.cluster.run("--tag-output", *words, check=True)
        return placement(result)


class Launching(WithHosts):
    def test_ranks_fill_the_hosts_in_order(self):
        self.assertEqual(self.hosts_of("-np", "6", "hostname"), ["node1", "node1", "node2", "node2", "node3", "node3"])

    def test_by_node_deals_ranks_out_in_turn(self):
        self.assertEqual(self.hosts_of("-np", "6", "--map-by", "node", "hostname"), ["node1", "node2", "node3"] * 2)

    def test_hosts_on_the_command_line_replace_the_hostfile(self):
        self.assertEqual(self.hosts_of("-H", "node1:2,node2:2", "hostname"), ["node1", "node1", "node2", "node2"])
        self.assertEqual(self.hosts_of("-np", "2", "--host", "node3,node2", "hostname"), ["node3", "node2"])

    def test_options_of_the_program_are_not_taken_for_those_of_mpirun(self):
        result = self.cluster.run("--mca", "btl", "tcp,self", "-np", "3", "-N", "1", "echo", "-H", "node9", check=True)
        self.assertEqual(result.stdout.splitlines(), ["-H node9"] * 3)

    def test_ranks_may_outnumber_slots(self):
        self.assertEqual(len(self.hosts_of("-np", "7", "hostname")), 7)

    def test_every_hostfile_of_the_project_is_accepted(self):
        files = [path for path in sorted(HOSTFILES.iterdir()) if path.suffix != ".md"]
        self.assertIn("cluster-3x2", [path.name for path in files])
        for path in files:
            with self.subTest(path.name):
                slots = sum(map(int, re.findall(r"^\w+ slots=(\d+)", path.read_text(), re.M)))
                strict = ["--hostfile", path, "--mca", "rmaps_base_oversubscribe", "0"]
                self.assertEqual(len(self.hosts_of(*strict, "-np", slots, "hostname")), slots)
                self.assertNotEqual(self.cluster.run(*strict, "-np", slots + 1, "hostname").returncode, 0)

    def test_exit_status_of_a_rank_on_another_host_passes_through(self):
        ends = self.cluster.run("-np", "2", "-H", "node2:1,node3:1", "sh", "-c", "exit 7")
        self.assertEqual(ends.returncode, 7)

    def test_exit_status_of_exec_passes_through(self):
        self.assertEqual(self.cluster.exec("node2", "sh", "-c", "exit 42").returncode, 42)
        self.assertEqual(self.cluster.exec("node2", "no-such-command").returncode, 127)
        self.assertEqual(self.cluster.exec("node2", "sh", "-c", "kill -9 $$").returncode, -signal.SIGKILL)

    def test_working_folder_is_kept(self):
        here = str(Path(__file__).resolve().parent)
        self.assertEqual(self.cluster.exec("node2", "pwd", cwd=here).stdout.strip(), here)
        result = self.cluster.run("-np", "3", "-N", "1", "pwd", cwd=here)
        self.assertEqual(result.stdout.split(), [here] * 3)

    def test_program_of_the_build_folder_is_found_by_name_on_every_host(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = Path(scratch.name)
        (folder / "apps").mkdir()
        program = folder / "apps" / "tutti"
        program.write_text("#!/bin/sh\necho built on $(hostname)\n")
        program.chmod(0o755)
        for words, env in ((["--build", folder], {}), ([], {"TUTTI_BUILD": str(folder)})):
            result = self.cluster.run(*words, "-np", "3", "-N", "1", "tutti", check=True, env=env)
            self.assertEqual(sorted(result.stdout.splitlines()), [f"built on node{n}" for n in (1, 2, 3)])

    def test_environment_crosses_hosts_only_where_asked(self):
        echo = ["-H", "node1,node2", "sh", "-c", 'echo "$(hostname) ${TUTTI_PROBE-unset}"']
        without = self.cluster.run(*echo, env={"TUTTI_PROBE": "1"}, check=True).stdout
        self.assertEqual(sorted(without.splitlines()), ["node1 1", "node2 unset"])
        asked = self.cluster.run("-x", "TUTTI_PROBE", *echo, env={"TUTTI_PROBE": "1"}, check=True).stdout
        self.assertEqual(sorted(asked.splitlines()), ["node1 1", "node2 1"])

    def test_terminated_run_ends_its_ranks_on_all_hosts(self):
        spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in self.cluster.holders().values()}
        holders = len(processes_in(spaces))
        with self.assertRaises(TimeoutError):
            self.cluster.run("-np", "6", "sleep", "300", timeout=2)
        self.assertTrue(eventually(lambda: len(processes_in(spaces)) == holders), "processes of the job stayed behind")


class Separation(WithHosts):
    def test_namespaces_differ(self):
        for kind in ("net", "ipc", "uts", "mnt"):
            seen = [os.readlink(f"/proc/{pid}/ns/{kind}") for pid in ("self", *self.cluster.holders().values())]
            self.assertEqual(len(set(seen)), 4, f"{kind}: {seen}")

    def test_shared_memory_is_private_to_a_host(self):
        name = f"/dev/shm/probe-{os.getpid()}"
        self.cluster.exec("node1", "touch", name, check=True)
        self.assertEqual(self.cluster.exec("node1", "test", "-e", name).returncode, 0)
        self.assertEqual(self.cluster.exec("node2", "test", "-e", name).returncode, 1)
        leaked = os.path.exists(name)
        if leaked:
            os.unlink(name)
        self.assertFalse(leaked, "the machine sees it")

    def test_hosts_know_each_other_by_name_and_themselves(self):
        for host in ("node1", "node2", "node3"):
            self.assertEqual(self.cluster.exec(host, "hostname").stdout.strip(), host)
            known = self.cluster.exec(host, "getent", "ahostsv4", "node3").stdout.split()
            self.assertEqual(known[0], "10.77.0.3")

    def test_interfaces_are_the_hosts_own(self):
        seen = self.cluster.exec("node2", "ls", "/sys/class/net").stdout.split()
        self.assertEqual(sorted(seen), ["eth0", "lo"])

    def test_bytes_cross_the_link(self):
        before = self.cluster.bytes_sent("node1")
        seen = stream(self.cluster, "node1", "node2", mebibytes=64, seconds=30)
        sent = self.cluster.bytes_sent("node1") - before
        self.assertEqual(seen["bytes"], 64 * MIB)
        self.assertEqual(seen["peer"], "10.77.0.1")
        self.assertGreaterEqual(sent, 64 * MIB)
        self.assertLess(sent, 1.2 * 64 * MIB)


class Rate(unittest.TestCase):
    """A tolerant check that shaping works in both directions: a loaded machine may be slower for a while, but not faster."""

    def shaped(self, rate):
        if reason := why_not():
            self.skipTest(reason)
        cluster = Cluster()
        self.addCleanup(cluster.down)
        done = cluster.up(2, rate=rate, check=False)
        if "sch_tbf" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        return cluster

    def check(self, cluster, source, target, rate):
        for _ in range(3):
            seen = stream(cluster, source, target, mebibytes=10**6, seconds=1.5)["bits_per_second"]
            # Tolerant: data that queued before a loaded receiver counts into its interval. Unshaped, the rate would be a hundred times
            # higher.
            self.assertLess(seen, 1.25 * rate, f"{source} to {target}")
            if seen > 0.75 * rate:
                return
        self.fail(f"{source} to {target}: {seen / 1e6:.0f} Mbit/s of {rate / 1e6:.0f}")

    def test_fast_link_both_ways(self):
        cluster = self.shaped("1gbit")
        self.check(cluster, "node1", "node2", 1e9)
        self.check(cluster, "node2", "node1", 1e9)

    def test_slow_link(self):
        self.check(self.shaped("50mbit"), "node1", "node2", 50e6)


class ComingAndGoing(unittest.TestCase):
    def setUp(self):
        if reason := why_not():
            self.skipTest(reason)
        self.cluster = Cluster()
        self.addCleanup(self.cluster.down)

    def test_down_leaves_nothing(self):
        before = set(os.listdir("/sys/class/net"))
        self.cluster.up(2)
        folder = self.cluster.folder()
        self.assertEqual(self.cluster.status().returncode, 0)
        self.assertEqual(set(os.listdir("/sys/class/net")), before)
        spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in self.cluster.holders().values()}
        self.assertEqual(len(spaces), 2)
        # One process ignores SIGTERM, one is stopped.
        left = [self.cluster.start("node2", "sh", "-c", "trap '' TERM; echo; sleep 300", stdout=subprocess.PIPE),
                self.cluster.start("node1", "sh", "-c", "echo; kill -STOP $$", stdout=subprocess.PIPE)]
        for process in left:
            process.stdout.readline()
        self.cluster.down()
        for process in left:
            process.wait(5)
            process.stdout.close()
        self.assertEqual(processes_in(spaces), [])
        self.assertEqual(self.cluster.namespaces(), [])
        self.assertFalse(folder.exists())
        self.assertEqual(self.cluster.status().returncode, 1)
        self.cluster.down()  # a second time: not an error

    def test_up_after_a_holder_was_killed(self):
        self.cluster.up(3)
        os.kill(self.cluster.holders()["node2"], signal.SIGKILL)
        self.assertTrue(eventually(lambda: "node2" not in self.cluster.holders()))
        self.assertEqual(self.cluster.status().returncode, 1)
        refused = self.cluster.run("-np", "3", "hostname")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("node2", refused.stderr)
        self.cluster.up(2)
        result = self.cluster.run("-np", "2", "hostname", check=True)
        self.assertEqual(sorted(result.stdout.split()), ["node1", "node2"])
        self.assertEqual(len(self.cluster.namespaces()), 3)

    def test_up_after_up_was_killed(self):
        for delay in (0.1, 0.2, 0.3):
            process = subprocess.Popen([sys.executable, SCRIPT, "--name", self.cluster.name, "up", "8"],
                                       stdout=subprocess.DEVNULL)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.cluster.up(1)
        self.assertEqual(len(self.cluster.namespaces()), 2)

    def test_recycled_pid_is_left_alone(self):
        self.cluster.up(1)
        bystander = subprocess.Popen(["sleep", "300"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        path = self.cluster.folder() / "state.json"
        state = json.loads(path.read_text())
        state["hosts"][0]["pid"] = bystander.pid
        path.write_text(json.dumps(state))
        self.assertEqual(self.cluster.exec("node1", "true").returncode, 2)
        self.cluster.down()
        self.assertIsNone(bystander.poll())
        self.assertEqual(self.cluster.namespaces(), [])

    def test_two_clusters_do_not_touch_each_other(self):
        with Cluster(1, name=f"{self.cluster.name}-other") as other:
            self.cluster.up(1)
            self.cluster.down()
            self.assertEqual(other.exec("node1", "hostname").stdout.strip(), "node1")


class Refusals(unittest.TestCase):
    """Errors that need no capabilities: no cluster is created."""

    def refused(self, *words, **options):
        result = command(sys.executable, SCRIPT, "--name", f"test-{os.getpid()}", *words, timeout=20, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def test_bad_arguments_are_named_with_a_remedy(self):
        for words, value, remedy in (
                (["up", "0"], "'0'", "1 to 200"), (["up", "many"], "'many'", "1 to 200"),
                (["up", "3", "--slots", "-1"], "'-1'", "1 to"), (["up", "3", "--rate", "fast"], "'fast'", "1gbit"),
                (["up", "3", "--rate", "0gbit"], "'0gbit'", "1gbit"), (["up", "3", "--color"], "--color", "--help"),
                (["fly"], "'fly'", "use up"), (["up", "3", "--name", "../x"], "'../x'", "a-z")):
            with self.subTest(words):
                said = self.refused(*words)
                self.assertIn(value, said)
                self.assertIn(remedy, said)

    def test_without_rights(self):
        lookup = (sys.executable, SCRIPT, "--name", f"test-{os.getpid()}", "up", "3")
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("giving up root needs setpriv")
            python = next((p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(p)), sys.executable)
            lookup = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", python, *lookup[1:])
        result = command(*lookup, timeout=20)
        if "Permission denied" in result.stderr or "can't open file" in result.stderr:
            self.skipTest("another user cannot read the source tree")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("run this as root", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_without_tools(self):
        if reason := why_not():
            self.skipTest(reason)
        said = self.refused("run", "-np", "1", "true", env={"PATH": "/nonexistent"})
        self.assertRegex(said, "this needs .*mpirun, not found in PATH.*apt install .*openmpi-bin")


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""The scripts beside stand-ins: scripts/test on a machine that gets no packages, what scripts/bench hands on to the peers.

    python3 test/process/test_scripts.py [Class.test…]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
# What a run of tests leaves behind: one has passed, one was skipped.
LOG = """<testsuites><testsuite><testcase classname="unit" name="base"/>
<testcase classname="cluster" name="up"><skipped message="a cluster needs ip"/></testcase></testsuite></testsuites>"""


class Offline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name) / "build"
        self.asked = Path(folder.name) / "asked"
        logs = self.build / "meson-logs"
        self.tools = Path(folder.name) / "tools"
        self.tools.mkdir()
        # Stand for the package manager that reaches nothing, and for a build and its tests.
        for name, lines in (("apt-get", f'echo "$*" >>{self.asked}; exit 100'), ("sudo", "exit 1"), ("ninja", "exit 0"),
                            ("meson", f"[ $1 = setup ] || exit 0; mkdir -p {logs}; echo '{LOG}' >{logs}/testlog.junit.xml")):
            tool = self.tools / name
            tool.write_text(f"#!/bin/sh\n{lines}\n")
            tool.chmod(0o755)

    def run_without(self, *hidden, **variables):
        """scripts/test where these commands are not to be found."""
        pattern = "|".join(hidden)
        env = {key: value for key, value in os.environ.items() if key != "CI"}
        env |= {"PATH": f"{self.tools}:{os.environ['PATH']}", "TUTTI_BUILD": str(self.build),
                # The shell asks `command -v`.
                "BASH_FUNC_command%%": f'() {{ case "${{2:-}}" in {pattern}) return 1 ;; *) builtin command "$@" ;; esac\n}}',
                **variables}
        return subprocess.run([REPO / "scripts" / "test", "--suite", "cluster"], capture_output=True, text=True, timeout=60, env=env)

    def test_without_what_only_some_tests_need(self):
        for variables in ({}, {"CI": "1"}):
            with self.subTest(**variables):
                done = self.run_without("ip", "cmake", **variables)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                lines = done.stdout.splitlines()
                told = [line for line in lines if line.startswith("not installed, so tests that need it are skipped: ")]
                self.assertEqual(len(told), 1, done.stdout)
                self.assertIn("iproute2 cmake", told[0])
                self.assertIn("iproute2", self.asked.read_text())
                self.assertIn("skipped cluster up: a cluster needs ip", lines)
                self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")

    def test_without_what_the_build_needs(self):
        done = self.run_without("mpicxx")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("install packages failed", done.stderr)


# Stands for mpirun: what its ranks would see of the environment, and a report as tutti bench writes it.
MPIRUN = """#!{python}
import json, os, sys
peer = sys.argv[sys.argv.index("--vs") + 1]
json.dump(dict(os.environ), open(os.environ["SEEN"] + "." + peer, "w"))
key = {{"op": "broadcast", "type": "f32", "bytes": 4}}
json.dump({{"job": {{"version": "1", "hosts": 1, "processor": "p", "cores": 2, "device": None, "peers": {{peer: "x"}}}},
           "rows": [], "ratios": [{{**key, "vs": peer, "ratio": 1, "low": 1, "high": 1, "back_to_back_ratio": None}}]}}, sys.stdout)
"""


class PeerVariables(unittest.TestCase):
    """What would slow a peer down stays behind, and is told; what chooses networks is handed on."""

    MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "UCX_TLS": "tcp",
           "I_MPI_FABRICS": "ofi", "MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial",
           "OMPI_MCA_coll_tuned_bcast_algorithm": "1"}
    NCCL = {"NCCL_PROTO": "LL", "NCCL_P2P_DISABLE": "1"}
    KEPT = {"OMPI_MCA_btl_tcp_if_include": "eth7", "OMPI_MCA_orte_tmpdir_base": "/tmp", "UCX_NET_DEVICES": "eth7",
            "NCCL_SOCKET_IFNAME": "eth7", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "me", "TUTTI_TIMEOUT": "9s"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        mpirun = self.folder / "mpirun"
        mpirun.write_text(MPIRUN.format(python=sys.executable))
        mpirun.chmod(0o755)

    def bench(self, opponents):
        env = {**os.environ, **self.MPI, **self.NCCL, **self.KEPT, "PATH": f"{self.folder}:{os.environ['PATH']}",
               "TUTTI_BUILD": str(self.folder / "build"), "SEEN": str(self.folder / "seen")}
        done = subprocess.run([sys.executable, REPO / "scripts" / "lib" / "opponents.py", "--opponents", opponents, "--ranks", "2",
                               "--ops", "broadcast", "--sizes", "4"], capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_what_slows_a_peer_down_is_dropped_and_told(self):
        lines = self.bench("openmpi,nccl").splitlines()
        report = json.loads((self.folder / "build" / "bench" / "bench.json").read_text())
        for opponent, peer, dropped, others in (("openmpi", "mpi", self.MPI, self.NCCL), ("nccl", "nccl", self.NCCL, self.MPI)):
            with self.subTest(opponent):
                seen = json.loads((self.folder / f"seen.{peer}").read_text())
                told = [line for line in lines if line.startswith(f"{opponent}: ")]
                (legend,) = (line for line in lines if line.startswith(f"- {opponent}: "))
                (run,) = (run for run in report["runs"] if run["opponent"] == opponent)
                self.assertEqual(run["dropped"], dropped)
                for name, value in dropped.items():
                    self.assertNotIn(name, seen)
                    self.assertIn(f"{opponent}: {name}={value} is not handed on: it slows the peer down", told)
                    self.assertIn(f"{name}={value}", legend)
                for name, value in {**others, **self.KEPT}.items():
                    self.assertEqual(seen.get(name), value, "not this peer's, or none that slows it down")


if __name__ == "__main__":
    tap.main()

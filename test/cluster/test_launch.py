#!/usr/bin/env python3
"""Starting jobs on several hosts: command lines of tutorials, torchrun on two hosts, and jobs without MPI.

    python3 test/cluster/test_launch.py [Class.test…]
"""
import os
import re
import secrets
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import REPO, Cluster, why_not  # noqa: E402
from support.torchrun import torchrun_words, unprefixed, why_no_torchrun  # noqa: E402

TUTTI = Path(os.environ.get("TUTTI_BUILD", REPO / "build")) / "apps" / "tutti"


class OnTwoHosts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.cluster = Cluster(2, slots=2)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.down)
        cls.secret = tempfile.NamedTemporaryFile("w")
        cls.addClassCleanup(cls.secret.close)
        cls.secret.write(secrets.token_hex(32))
        cls.secret.flush()

    def verified(self, text, ranks=4):
        lines = [unprefixed(line) for line in text.splitlines()]
        self.assertEqual(sum(line.endswith("from rank 0, verified") for line in lines), ranks - 1, text)
        self.assertTrue(any(line.startswith(f"{ranks} ranks on 2 hosts") for line in lines), text)

    def on_both(self, *words_of_host):
        """Runs one command per host in parallel. Returns their outputs."""
        files = [tempfile.TemporaryFile("w+") for _ in words_of_host]
        started = [self.cluster.start(f"node{index + 1}", *words, stdout=file, stderr=file)
                   for index, (words, file) in enumerate(zip(words_of_host, files))]
        results = []
        for process, file in zip(started, files):
            status = process.wait(60)
            file.seek(0)
            results.append((status, file.read()))
            file.close()
        return results


class TutorialLines(OnTwoHosts):
    def test_the_first_works(self):
        """From the tutorial for plain Open MPI: no fast network; MASTER_ADDR and MASTER_PORT are passed on."""
        done = self.cluster.run("-np", 4, "-H", "node1:2,node2:2", "-x", "MASTER_ADDR=node1", "-x", "MASTER_PORT=1234",
                                "-bind-to", "none", "-map-by", "slot", "-mca", "pml", "ob1", "-mca", "btl", "^openib",
                                "tutti", "fan-out", check=True)
        self.verified(done.stdout)

    def test_the_second_says_what_to_do_without_gpus(self):
        done = self.cluster.run("-np", 4, "--bind-to", "none", "--map-by", "slot", "-x", "MASTER_ADDR=node1", "-x", "NCCL_DEBUG=INFO",
                                "-x", "NCCL_SOCKET_IFNAME=^lo,docker0", "tutti", "fan-out", "--backend", "nccl")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("tutti:")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("no rank has a GPU", said[0])
        self.assertIn("--backend cpu", said[0])

    def test_world_size_by_hand_under_eight_processes(self):
        done = self.cluster.run("-np", 8, "--oversubscribe", "-x", "WORLD_SIZE=1", "tutti", "fan-out")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("WORLD_SIZE=1, but MPI (Open MPI"), 1, done.stderr)
        self.assertIn("8 ranks", done.stderr)


class Torchrun(OnTwoHosts):
    def test_two_nodes(self):
        if reason := why_no_torchrun():
            self.skipTest(reason)
        words = [torchrun_words("--nnodes", "2", "--node_rank", node, "--nproc_per_node", "2", "--master_addr", "node1",
                                "--master_port", "29500", "--no_python", TUTTI, "fan-out") for node in (0, 1)]
        for settings in ((f"TUTTI_SECRET_FILE={self.secret.name}",), ("TUTTI_INSECURE=1",)):
            with self.subTest(settings):
                results = self.on_both(*(["env", *settings, *line] for line in words))
                self.assertEqual([status for status, _ in results], [0, 0], results)
                self.verified(results[0][1] + results[1][1])


class WithoutMpi(OnTwoHosts):
    def loop(self, first, *words, settings=""):
        """Runs ranks `first` and `first` + 1 of 4."""
        run = " ".join(map(str, words))
        return ["sh", "-c", f"for l in 0 1; do {settings} RANK=$(({first} + l)) WORLD_SIZE=4 LOCAL_RANK=$l MASTER_ADDR=node1 "
                f"MASTER_PORT=29500 {TUTTI} {run} & done; wait"]

    def test_plain_loops_with_a_secret(self):
        settings = f"TUTTI_SECRET_FILE={self.secret.name}"
        results = self.on_both(self.loop(0, "fan-out", settings=settings), self.loop(2, "fan-out", settings=settings))
        self.verified(results[0][1] + results[1][1])

    def test_insecure(self):
        results = self.on_both(self.loop(0, "fan-out", "--insecure"), self.loop(2, "fan-out", "--insecure"))
        self.verified(results[0][1] + results[1][1])

    def test_no_secret(self):
        for _, text in self.on_both(self.loop(0, "fan-out"), self.loop(2, "fan-out")):
            self.assertIn("TUTTI_SECRET_FILE", text)
            self.assertIn("--insecure", text)
            self.assertNotIn("verified", text)

    def test_a_name_that_is_loopback_on_its_own_host(self):
        """A hosts file may map a host's own name to 127.0.1.1."""
        hosts = "127.0.0.1 localhost\n127.0.1.1 node1\n"
        script = f"printf '{hosts}' > $TMP && mount --bind $TMP /etc/hosts && "
        with tempfile.NamedTemporaryFile("w") as file:
            first = self.loop(0, "fan-out", "--insecure")
            shown = ["env", f"TMP={file.name}", "unshare", "--mount", "sh", "-c", script + first[-1]]
            results = self.on_both(shown, self.loop(2, "fan-out", "--insecure"))
        self.verified(results[0][1] + results[1][1])

    def test_the_wrong_host_for_rank_0(self):
        results = self.on_both(self.loop(2, "fan-out", "--insecure", "--timeout", "3s"),
                               self.loop(0, "fan-out", "--insecure", "--timeout", "3s"))
        self.assertIn("Cannot assign requested address (errno 99)", results[1][1])
        self.assertRegex(results[0][1], r"1 missing: rank 0, .*node1:29500")
        self.assertTrue(re.search("must run on the host", results[1][1]))


if __name__ == "__main__":
    tap.main()

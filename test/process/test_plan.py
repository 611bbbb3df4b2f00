#!/usr/bin/env python3
"""`tutti plan`, without ranks and MPI: its output and errors.

    python3 test/process/test_plan.py [Class.test…]
"""
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import REPO, command  # noqa: E402

TUTTI = Path(os.environ.get("TUTTI_BUILD", REPO / "build")) / "apps" / "tutti"
MIB = 1 << 20
OPERATIONS = ("fan-out", "broadcast", "all-reduce", "reduce", "all-gather", "reduce-scatter", "gather", "scatter", "all-to-all",
              "barrier")


def plan(*words, timeout=60, env=None):
    return command(TUTTI, "plan", *words, timeout=timeout, env=env)


class Plans(unittest.TestCase):
    def json_of(self, *words, **options):
        result = plan(*words, "--json", "-", **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_every_operation_as_text_and_json(self):
        for operation in OPERATIONS:
            with self.subTest(operation):
                words = (operation, "--ranks", 12, "--hosts", 3, "--size", "1MiB")
                result = plan(*words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("12 ranks on 3 hosts (4 each, by slot)", result.stdout)
                report = self.json_of(*words)
                self.assertEqual(report["schema"], 1)
                self.assertIn(f"A call would choose {report['chosen']}: ", result.stdout)
                names = [entry["algorithm"] for entry in report["algorithms"]]
                self.assertIn(report["chosen"], names)
                times = [entry["predicted_us"] for entry in report["algorithms"]]
                self.assertEqual(times, sorted(times))
                if len(names) > 1:
                    self.assertIn(report["runner_up"], names)
                    self.assertNotEqual(report["runner_up"], report["chosen"])

    def test_a_shaped_link_passes_its_burst_at_once(self):
        words = ("fan-out", "--ranks", 2, "--hosts", 2, "--size", "1MiB", "--gbps", 1, "--latency", "50us")
        plain, shaped = self.json_of(*words), self.json_of(*words, "--burst", "128KiB")
        self.assertEqual((plain["model"]["burst_bytes"], shaped["model"]["burst_bytes"]), (0, 128 * 1024))
        self.assertLess(shaped["predicted_us"], plain["predicted_us"])

    def test_a_chain_by_hand(self):
        words = ("broadcast", "--algorithm", "chain", "--ranks", 4, "--hosts", 4, "--size", "16MiB", "--chunk", "256KiB", "--gbps", 1,
                 "--latency", "50us")
        report = self.json_of(*words)
        self.assertEqual(report["link_bytes_most"], 16 * MIB)
        self.assertEqual(report["link_bytes_total"], 48 * MIB)
        self.assertEqual(report["messages"], 3 * 64)
        self.assertEqual(report["sockets"], 2)
        self.assertEqual(report["rounds"], 66)
        wire = (16 * MIB + 2 * 256 * 1024) / (1e9 / 8 * 0.949) * 1e6
        self.assertGreater(report["predicted_us"], wire)
        self.assertLess(report["predicted_us"], 1.02 * wire)

    def test_uneven_hosts(self):
        report = self.json_of("all-reduce", "--layout", "5,1,2", "--map-by", "node", "--size", "1MiB")
        self.assertEqual((report["ranks"], report["hosts"], report["layout"]), (8, 3, [5, 1, 2]))

    def test_rank_order(self):
        for words in (["--type", "bf16"], ["--deterministic"]):
            report = self.json_of("all-reduce", "--ranks", 4, "--size", "16MiB", *words)
            self.assertEqual({entry["algorithm"] for entry in report["algorithms"]}, {"gathered", "slices"})

    def test_thousands_of_ranks(self):
        for operation in ("broadcast", "all-reduce", "all-to-all"):
            with self.subTest(operation):
                report = self.json_of(operation, "--ranks", 4096, "--hosts", 512, "--size", "64MiB", "--gbps", 100, "--latency",
                                      "5us", timeout=60)
                self.assertGreater(report["predicted_us"], 0)

    def test_needs_no_mpi_and_speaks_once(self):
        # Variables of an MPI launcher must not make it call MPI_Init, which would fail here.
        env = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
        self.assertIn("A call would choose", plan("broadcast", "--ranks", 4, env=env).stdout)
        env["OMPI_COMM_WORLD_RANK"] = "2"
        self.assertEqual(plan("broadcast", "--ranks", 4, env=env).stdout, "")

    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            result = plan("broadcast", "--ranks", 4, "--json", path)
            self.assertIn("A call would choose", result.stdout)
            self.assertEqual(json.loads(path.read_text())["ranks"], 4)
            self.refused("--json", "broadcast", "--ranks", 4, "--json", Path(folder) / "no" / "plan.json")

    def test_a_model_for_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            plan("broadcast", "--ranks", 4, "--gbps", 100, "--latency", "5us", "--write-model", path)
            model = json.loads(path.read_text())
            self.assertAlmostEqual(model["link_gbs"], 12.5 * 0.949)
            self.assertAlmostEqual(model["link_latency_us"], 5)
            for content, said in ((path.read_text(), ""), ('{"link_gb": 1}', "is unusable: it has \"link_gb\""), ("[]", "not a JSON object")):
                path.write_text(content)
                result = command(TUTTI, "broadcast", "--size", "4KiB", env={"TUTTI_MODEL": str(path)})
                self.assertEqual(result.returncode, 2 if said else 0, result.stderr)
                self.assertIn(said, result.stderr)
            path.unlink()
            result = command(TUTTI, "broadcast", "--size", "4KiB", env={"TUTTI_MODEL": str(path)})
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"TUTTI_MODEL={path} can't be read", result.stderr)

    def refused(self, said, *words):
        result = plan(*words)
        self.assertEqual(result.returncode, 2, f"{words}: {result.stdout}{result.stderr}")
        self.assertIn(said, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_refusals(self):
        for said, *words in (
                ("--hosts 5 exceeds --ranks 4", "broadcast", "--ranks", 4, "--hosts", 5),
                ("missing number of ranks", "broadcast"),
                ("--ranks", "broadcast", "--ranks", 0),
                ("invalid --size 'x'", "broadcast", "--ranks", 4, "--size", "x"),
                ('has no algorithm "rings"; it has binomial, chain', "broadcast", "--ranks", 4, "--algorithm", "rings"),
                ("invalid --root 4: expected a rank from 0 to 3", "broadcast", "--ranks", 4, "--root", 4),
                ("all-reduce has no root", "all-reduce", "--ranks", 4, "--root", 1),
                ("invalid operation 'nonsense'", "nonsense", "--ranks", 4),
                ("invalid operation 'send-recv'", "send-recv", "--ranks", 4),
                ("invalid --gbps '0'", "broadcast", "--ranks", 4, "--gbps", "0"),
                ("invalid --burst 'x'", "broadcast", "--ranks", 4, "--burst", "x"),
                ("invalid --latency 'x'", "broadcast", "--ranks", 4, "--latency", "x"),
                ("invalid --layout '4,,2'", "broadcast", "--layout", "4,,2"),
                ("contradicts --layout", "broadcast", "--layout", "4,2", "--ranks", 5),
                ("invalid --map-by 'x'", "broadcast", "--ranks", 4, "--map-by", "x"),
                ("invalid --chunk '0'", "broadcast", "--ranks", 4, "--chunk", "0")):
            with self.subTest(words):
                self.refused(said, *words)


if __name__ == "__main__":
    tap.main()

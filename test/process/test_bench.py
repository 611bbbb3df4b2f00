#!/usr/bin/env python3
"""`tutti bench` under mpirun: its output, the check of every baseline's results, and their correctness.

    python3 test/process/test_bench.py [Class.test…]
"""
import csv
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import test_mpirun  # noqa: E402
from test_mpirun import IN_PLACE, OPERATIONS, TUTTI, TYPES, Checks, mpirun  # noqa: E402
from support import tap  # noqa: E402
from support.cluster import REPO, command  # noqa: E402
from support.control_group import ControlGroup  # noqa: E402

HAS_GLOO = not re.search(r"Gloo \(bench --vs gloo\): not", command(TUTTI, "--version").stdout)
BASELINES = "mpi,gloo" if HAS_GLOO else "mpi"
SHORT = ("--iterations", 3, "--warmup", 1)
ONCE = ("--iterations", 1, "--warmup", 0)
ROOTED = ("fan-out", "broadcast", "reduce", "gather", "scatter")


def short_name(operation):
    return operation.replace("-", "_")


class Bench(Checks):
    def bench(self, ranks, *words, length=SHORT):
        """The JSON of a run in which all results are correct."""
        result = mpirun(ranks, "bench", *words, *length, "--json", "-", timeout=200)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)


class Schema(Bench):
    def test_job_rows_and_ratios(self):
        report = self.bench(3, "all-reduce", "broadcast", "--vs", BASELINES, "--sizes", "4,64KiB")
        self.assertEqual(report["schema"], 1)
        job = report["job"]
        for key, due in (("ranks", 3), ("hosts", 1), ("backend", "cpu")):
            self.assertEqual(job[key], due)
        self.assertIn("MPI", job["mpi"])
        self.assertRegex(job["version"], r"^\d+\.\d+\.\d+$")
        self.assertGreater(job["cores"], 0)
        peers = BASELINES.split(",")
        self.assertEqual(sorted(job["peers"]), sorted(peers))
        due = {(operation, peer, size) for operation in ("all_reduce", "broadcast") for peer in ("tutti", *peers)
               for size in (4, 65536)}
        self.assertEqual({(row["op"], row["peer"], row["bytes"]) for row in report["rows"]}, due)
        for row in report["rows"]:
            self.assertEqual(row["type"], "f32")
            self.assertEqual(row["iterations"], 3)
            self.assertEqual(row["wrong"], 0)
            self.assertGreater(row["p10_us"], 0)
            self.assertLessEqual(row["p10_us"], row["median_us"])
            self.assertLessEqual(row["median_us"], row["p90_us"])
            self.assertAlmostEqual(row["algbw_gbs"], row["bytes"] / row["median_us"] / 1e3, delta=1e-9 + 1e-6 * row["algbw_gbs"])
            self.assertAlmostEqual(row["busbw_gbs"], row["algbw_gbs"] * (4 / 3 if row["op"] == "all_reduce" else 1),
                                   delta=1e-9 + 1e-6 * row["busbw_gbs"])
            self.assertGreater(row["back_to_back_us"], 0)
            if row["peer"] == "tutti":
                self.assertNotEqual(row["algorithm"], "")
        self.assertEqual({(ratio["op"], ratio["vs"], ratio["bytes"]) for ratio in report["ratios"]},
                         {entry for entry in due if entry[1] != "tutti"})
        for ratio in report["ratios"]:
            self.assertGreater(ratio["low"], 0)
            self.assertLessEqual(ratio["low"], ratio["ratio"])
            self.assertLessEqual(ratio["ratio"], ratio["high"])
        self.assertEqual(report["missing"], [])

    def test_what_a_peer_can_t_do_is_named(self):
        report = self.bench(2, "all-reduce", "--op", "average", "--vs", BASELINES, "--sizes", "1KiB")
        self.assertEqual({entry["peer"]: entry["reason"] for entry in report["missing"]},
                         {peer: f"{name} has no average" for peer, name in (("mpi", "MPI"), ("gloo", "Gloo"))
                          if peer in BASELINES.split(",")})
        self.assertEqual([row["peer"] for row in report["rows"]], ["tutti"])
        self.assertEqual(report["ratios"], [])

    def test_files_and_table(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: Path(folder) / f"bench.{kind}" for kind in ("csv", "json")}
            result = mpirun(2, "bench", "reduce-scatter", "barrier", "--vs", "mpi", "--sizes", "1KiB", *SHORT,
                            "--csv", files["csv"], "--json", files["json"])
            lines = self.good(result)
            rows = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
            report = json.loads(files["json"].read_text())
        self.assertEqual(result.stderr, "", "progress is for terminals only")
        notes = [line for line in lines if line.startswith("set in the environment: ")]
        self.assertEqual(lines[:len(notes)], notes, "above the table")
        heading = lines[len(notes)]
        self.assertTrue(heading.startswith("reduce-scatter of f32 by sum, in place, 2 ranks on 1 host"), lines)
        self.assertEqual([line.split()[0:3] for line in lines if " tutti " in line][0], ["1", "KiB", "tutti"])
        self.assertEqual([(row["op"], row["peer"], int(row["bytes"])) for row in rows],
                         [("reduce_scatter", "tutti", 1024), ("reduce_scatter", "mpi", 1024), ("barrier", "tutti", 0),
                          ("barrier", "mpi", 0)])
        for row, other in zip(rows, report["rows"]):
            self.assertAlmostEqual(float(row["median_us"]), other["median_us"], places=6)
        self.assertEqual([bool(row["ratio"]) for row in rows], [False, True, False, True])

    def test_iterations_by_time(self):
        """Many iterations of a small call, at least 20 of any."""
        result = mpirun(2, "bench", "broadcast", "--sizes", "4", "--min-time", "200ms", "--json", "-")
        self.assertGreater(json.loads(result.stdout)["rows"][0]["iterations"], 50)
        result = mpirun(2, "bench", "broadcast", "--sizes", "4MiB", "--min-time", "1ms", "--json", "-")
        self.assertEqual(json.loads(result.stdout)["rows"][0]["iterations"], 20)

    def test_tables_of_others(self):
        words = ("bench", "all-gather", "--sizes", "1KiB,4KiB", "--vs", "mpi", *SHORT)
        lines = self.good(mpirun(2, *words, "--format", "nccl-tests"))
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual([row[:5] for row in rows], [["2048", "256", "float", "none", "-1"],
                                                     ["8192", "1024", "float", "none", "-1"]] * 2)
        self.assertEqual({len(row) for row in rows}, {13})
        self.assertEqual(sum(line == "# Out of bounds values : 0 OK" for line in lines), 2)
        lines = self.good(mpirun(2, *words, "--format", "osu"))
        self.assertEqual([line.split()[0] for line in lines if line and not line.startswith("#")], ["1024", "4096"] * 2)
        self.assertEqual(sum(line.startswith("# Allgather Latency Test") for line in lines), 2)

    def test_alone(self):
        report = json.loads(command(TUTTI, "bench", *OPERATIONS, "--sizes", "1KiB", *SHORT, "--json", "-").stdout)
        self.assertEqual(len(report["rows"]), len(OPERATIONS))
        self.assertIsNone(report["job"]["mpi"])

    def test_a_quota_of_processor_time(self):
        with ControlGroup(quota_us=50000, period_us=100000) as group:
            done = command(*group.entering(), TUTTI, "bench", "barrier", *ONCE, "--json", "-", timeout=60)
        self.assertEqual(json.loads(done.stdout)["job"]["core_quota"], 0.5, done.stderr)


class Correctness(Bench):
    """Results of every library on all ranks, before and after the timed calls."""

    def check(self, report, sides, cells):
        self.assertEqual([row for row in report["rows"] if row["wrong"]], [])
        self.assertEqual(len(report["rows"]) + len(report["missing"]), sides * cells)

    def test_every_operation_and_size(self):
        for ranks in (1, 2, 3, 5):
            peers = BASELINES if ranks > 1 else "mpi"  # Gloo needs two ranks or more
            for flags in ((), ("--out-of-place",)):
                with self.subTest(ranks=ranks, flags=flags):
                    report = self.bench(ranks, *OPERATIONS, "--vs", peers, "--sizes", "0,1,4,65540,4MiB", *flags, length=ONCE)
                    self.check(report, 1 + len(peers.split(",")), 5 * (len(OPERATIONS) - 1) + 1)
                    placed = {(row["op"], row["in_place"]) for row in report["rows"]}
                    for operation in IN_PLACE[:-1]:  # all-to-all is always out-of-place
                        self.assertIn((short_name(operation), not flags), placed)

    def test_other_roots(self):
        for ranks in (2, 3, 5):
            for flags in ((), ("--out-of-place",)):
                with self.subTest(ranks=ranks, flags=flags):
                    report = self.bench(ranks, *ROOTED, "--vs", BASELINES, "--sizes", "4,65540", "--root", ranks - 1, *flags, length=ONCE)
                    self.check(report, 1 + len(BASELINES.split(",")), 2 * len(ROOTED))

    def test_every_type(self):
        sides = 1 + len(BASELINES.split(","))
        for kind in TYPES:
            with self.subTest(kind):
                reduces = ("all-reduce", "reduce", "reduce-scatter") if not kind.startswith("f8") else ()
                operations = (*reduces, "broadcast", "all-to-all")
                self.check(self.bench(3, *operations, "--vs", BASELINES, "--sizes", "10000", "--type", kind, length=ONCE),
                           sides, len(operations))

    def test_sides_take_turns_in_one_process(self):
        """With this many baselines, an order that differs between ranks would hang or give wrong data."""
        report = self.bench(4, "all-reduce", "fan-out", "--vs", BASELINES, "--sizes", "64KiB", length=("--iterations", 30))
        self.check(report, 1 + len(BASELINES.split(",")), 2)


class Faults(Bench):
    """A library without effect replaces the baseline's."""

    def test_wrong_results_are_counted_and_fail_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "idle.c", Path(folder) / "idle.so"
            source.write_text("int MPI_Allreduce(const void *send, void *recv, int count, void *type, void *op, void *comm)\n"
                              "{ return 0; }\n")
            command("cc", "-w", "-shared", "-fPIC", source, "-o", library, check=True)
            result = mpirun(3, "bench", "all-reduce", "broadcast", "--vs", "mpi", "--sizes", "1000", *ONCE, "--json", "-",
                            before=["env", f"LD_PRELOAD={library}"])
        self.assertEqual(result.returncode, 1, result.stderr)
        wrong = {(row["op"], row["peer"]): row["wrong"] for row in json.loads(result.stdout)["rows"]}
        # Nearly all of 250 elements on 3 ranks, checked twice.
        self.assertGreater(wrong.pop(("all_reduce", "mpi")), 1400)
        self.assertEqual(set(wrong.values()), {0})


class Usage(Bench):
    def test_bad_values(self):
        for words, said in ((("bench",), "OPERATION is required"),
                            (("bench", "frobnicate"), ("frobnicate", "all-to-all")),
                            (("bench", "broadcast", "--vs", "nobody"), ("nobody", "gloo")),
                            (("bench", "broadcast", "--sizes", "4,huge"), ("huge", "KiB")),
                            (("bench", "broadcast", "--format", "html"), ("html", "osu")),
                            (("bench", "broadcast", "--min-time", "soon"), ("soon",)),
                            (("bench", "broadcast", "--iterations", "0"), ("--iterations",)),
                            (("bench", "broadcast", "--graph"), ("--graph", "no rank has a GPU")),
                            (("bench", "broadcast", "--vs", "nccl"), ("--vs nccl", "no rank has a GPU")),
                            (("bench", "broadcast", "--root", "3"), ("root 3", "0 to 1")),
                            (("bench", "broadcast", "--csv", "/nonexistent/x"), ("--csv /nonexistent/x",))):
            with self.subTest(words):
                self.fails(2, 2, *words, said=said)

    def test_baselines_that_need_a_job(self):
        for peer in ("mpi", "gloo"):
            with self.subTest(peer):
                result = command(TUTTI, "bench", "broadcast", "--vs", peer)
                self.assertEqual(result.returncode, 2)
                self.assertIn(f"--vs {peer}", result.stderr)


class Scripts(unittest.TestCase):
    """Joining and drawing of results. scripts/bench itself builds, and takes long."""

    def report(self, ratio, peer="mpi"):
        key = {"op": "broadcast", "type": "f32", "bytes": 1024}
        row = {"median_us": 2.0, "p10_us": 1.0, "p90_us": 3.0, "wrong": 0}
        job = {"version": "1.2.3", "hosts": 1, "ranks": 2, "processor": "a processor", "cores": 2, "device": None}
        return {"job": job, "rows": [{**key, "peer": side, **row} for side in ("tutti", peer)],
                "ratios": [{**key, "vs": peer, "ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1, "back_to_back_ratio": None}]}

    def run_of(self, baseline, ratio):
        return {"baseline": baseline, "configuration": "C", "release": "Some MPI 1", "conditions": "--with this", "ranks": 2, "report": self.report(ratio)}

    def test_runs_are_joined_by_ratio(self):
        sys.path.insert(0, str(REPO / "scripts" / "lib"))
        import baselines
        runs = [self.run_of("openmpi", 2.0), self.run_of("mpich", 0.5)]
        (row,) = baselines.join(runs)
        self.assertEqual((row["op"], row["ranks"], row["bytes"], row["lowest"]), ("broadcast", 2, 1024, "mpich"))
        self.assertEqual({name: ratio["ratio"] for name, ratio in row["ratios"].items()}, {"openmpi": 2.0, "mpich": 0.5})
        lines = baselines.table([row], runs) + baselines.legend(runs)
        self.assertIn("| broadcast | 1 KiB | 2.00 (1.90 to 2.10) | **0.50 (0.40 to 0.60)** |", lines)
        self.assertIn("- mpich (configuration C): Some MPI 1, --with this", lines)

    def test_every_baseline_is_listed_with_its_conditions(self):
        listed = command(REPO / "scripts" / "bench", "--list").stdout.splitlines()
        self.assertTrue(any("coll_sm_priority 90" in line and "MALLOC_TRIM_THRESHOLD_" in line for line in listed), listed)
        self.assertTrue(any(line.startswith("A openmpi ") and line.endswith("default settings") for line in listed), listed)

    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            single, joined, out = (Path(folder) / name for name in ("single.json", "joined.json", "out.svg"))
            single.write_text(json.dumps(self.report(2.0)))
            joined.write_text(json.dumps({"runs": [self.run_of("mpich", 0.5)]}))
            done = command(sys.executable, REPO / "scripts" / "plot", single, joined, "-o", out)
            if done.returncode == 2 and "matplotlib is missing" in done.stderr:
                self.skipTest("matplotlib is missing: scripts/plot says so, and that is all that can be tested")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<svg", out.read_text())

    def test_plot_of_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("# Page\n\n| configuration | baseline |\n|---|---|\n| A | Some MPI |\n| B | Other MPI |\n\n"
                            "## One host\n\n| operation | ranks | against | 4 B | 1 MiB |\n|---|---|---|---|---|\n"
                            "| broadcast | 2 / 4 | A | 1.21 / **0.90** | – / 3 |\n"
                            "| reduce | 2 | A to B | 1.5 (1.2 B) | 0.98 (0.97 to 0.99) |\n\n"
                            "![Speed-up](picture.svg)\n")
            done = command(sys.executable, REPO / "scripts" / "plot", page)
            if done.returncode == 2 and "matplotlib is missing" in done.stderr:
                self.skipTest("matplotlib is missing")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<svg", (Path(folder) / "picture.svg").read_text())


del test_mpirun, Checks  # their tests do not belong to this file
if __name__ == "__main__":
    tap.main()

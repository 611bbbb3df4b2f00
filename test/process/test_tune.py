#!/usr/bin/env python3
"""`tutti tune` on simulated GPUs, and jobs that read its file.

    meson test -C build tune
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_mpirun import BUILD, TUTTI, mpirun  # noqa: E402
from support import tap  # noqa: E402

TUNED = ("broadcast", "fan_out", "all_reduce", "all_gather", "reduce_scatter")
HAS_KERNELS = (BUILD / "lib" / "device" / "kernels.fatbin").exists()
ROW = re.compile(r"^(\w+) +(\d+ [KM]iB) +\d+\.\d\d +\d+\.\d\d  (direct|NCCL)$", re.M)


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.file = self.home / ".cache" / "tutti" / "tuning.jsonl"
        self.segment = tempfile.NamedTemporaryFile(prefix="tutti_fake_nccl_", dir="/dev/shm")
        self.addCleanup(self.segment.close)

    def run_on(self, ranks, *words, **variables):
        os.truncate(self.segment.name, 0)
        # An empty variable counts as unset: else all tests over fakes have TUTTI_TUNING=off.
        env = {"FAKE_NCCL_SEGMENT": self.segment.name, "FAKE_GPU_DEVICES": "4", "FAKE_GPU_IPC": "1", "HOME": str(self.home),
               "XDG_CACHE_HOME": "", "TUTTI_TUNING": "", **variables}
        return mpirun(ranks, *words, env=env, timeout=120)

    def tune(self, ranks, *words, **variables):
        return self.run_on(ranks, "tune", "--min-time", "1ms", "--max-size", "1MiB", *words, **variables)

    def write_limits(self, limit, ranks=2):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"tutti_tuning": 1, "card": "Fake GPU", "driver": "13.0", "nccl": "2.28.9", "ranks": ranks,
                                         "direct_up_to_bytes": dict.fromkeys(TUNED, limit)}) + "\n")

    def limits_of(self, *words, **variables):
        """What a job says of its limits: its line in `info --verbose`, and its warnings."""
        result = self.run_on(2, "info", "--verbose", *words, **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = re.search(r"direct path [\d.]+ ms(?: \(limits (.*)\))?$", result.stdout, re.M)
        self.assertIsNotNone(said, result.stdout)
        logged = re.findall(r"direct path between GPUs: limits (.*)$", result.stderr, re.M)
        self.assertEqual(logged, [said[1]] if said[1] else [])
        return said[1], [line for line in result.stderr.splitlines() if "tuning.jsonl" in line and "GPUs: limits" not in line]

    def refused(self, result, reason):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        said = [line for line in result.stderr.splitlines() if line.startswith("tutti: ")]
        self.assertEqual(said, ["tutti: nothing to tune on this job: " + reason])
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.file.exists())

    @unittest.skipUnless(HAS_KERNELS, "tutti was built without nvcc")
    def test_the_table_and_the_file_and_who_uses_it(self):
        for ranks in (2, 3):
            result = self.tune(ranks)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            rows = ROW.findall(result.stdout)
            self.assertEqual(sorted({row[0] for row in rows}), sorted(TUNED), result.stdout)
            for operation in TUNED:
                sizes = [row[1] for row in rows if row[0] == operation]
                self.assertEqual(sizes[:2], ["4 KiB", "8 KiB"])
                self.assertIn("512 KiB", sizes[2:])
            self.assertIn(f"written to {self.file}, for jobs of {ranks} ranks on Fake GPU, driver for CUDA 13.0, NCCL 2.28.9\n", result.stdout)
        entries = [json.loads(line) for line in self.file.read_text().splitlines()]
        self.assertEqual([entry["ranks"] for entry in entries], [2, 3])
        self.assertEqual(os.listdir(self.file.parent), [self.file.name])
        self.assertEqual(self.limits_of(), (f"measured by `tutti tune`, in {self.file}", []))
        said, warnings = self.limits_of(FAKE_GPU_NAME="Another GPU")
        self.assertEqual(said, f"built in: {self.file} has none for 2 ranks on Another GPU, driver for CUDA 13.0, NCCL 2.28.9")
        self.assertEqual(warnings, [])
        self.assertEqual(self.limits_of(TUTTI_TUNING="off"), ("built in", []))
        self.assertEqual(self.limits_of(TUTTI_DEVICE_PATH="direct"), (None, []))

    @unittest.skipUnless(HAS_KERNELS, "tutti was built without nvcc")
    def test_measured_limits_decide_which_path_a_call_takes(self):
        def algorithms():
            result = self.run_on(2, "bench", "broadcast", "all-reduce", "--sizes", "4KiB", "--iterations", "1", "--backend", "nccl",
                                 "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            return [row["algorithm"] for row in json.loads(result.stdout)["rows"]]

        self.assertEqual(algorithms(), ["direct", "direct"])
        self.write_limits(0)
        self.assertEqual(algorithms(), ["nccl", "nccl"])
        self.write_limits(4096)
        self.assertEqual(algorithms(), ["direct", "direct"])
        self.write_limits(4095)
        self.assertEqual(algorithms(), ["nccl", "nccl"])

    @unittest.skipUnless(HAS_KERNELS, "tutti was built without nvcc")
    def test_a_malformed_file_costs_one_warning_and_is_replaced(self):
        self.write_limits(0)
        self.file.write_text(self.file.read_text() + "rubbish\n")
        said, warnings = self.limits_of()
        self.assertEqual(said, f"built in: {self.file} is unusable")
        self.assertEqual(warnings, [f"tutti [rank 0] {self.file}: line 2 is no entry of `tutti tune`; the limits between the direct path and "
                                    "NCCL are the built-in ones: run `tutti tune` again, or delete the file"])
        self.assertEqual(self.tune(2).returncode, 0)
        self.assertEqual(len(self.file.read_text().splitlines()), 1)
        self.assertEqual(self.limits_of(), (f"measured by `tutti tune`, in {self.file}", []))

    @unittest.skipUnless(HAS_KERNELS, "tutti was built without nvcc")
    def test_where_the_file_is_written(self):
        out = self.home / "new" / "profile.jsonl"
        for words, variables in ((("--out", str(out)), {}), ((), {"TUTTI_TUNING": str(out)}), ((), {"TUTTI_PROFILE": str(out)})):
            with self.subTest(words, **variables):
                result = self.tune(2, *words, **variables)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"written to {out},", result.stdout)
                self.assertEqual(len(out.read_text().splitlines()), 1)
                out.unlink()
        result = self.tune(2, TUTTI_TUNING="off", TUTTI_DEVICE_PATH="nccl")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nothing is written\n", result.stdout)
        result = self.tune(2, "--out", "/proc/no/such")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(result.stderr.count("tutti: can't make the folder /proc/no: "), 1, result.stderr)
        self.assertFalse(self.file.exists())

    def test_jobs_with_nothing_to_tune(self):
        self.refused(self.tune(2, FAKE_GPU_DEVICES="0"), "its backend is cpu (no rank has a GPU)")
        self.refused(self.tune(2, TUTTI_BACKEND="host"), "its backend is cpu (asked for)")
        self.refused(self.tune(1), "it has one rank, and needs one for each GPU of the host")
        shared = self.tune(2, FAKE_GPU_DEVICES="1")
        self.assertEqual(shared.returncode, 2, shared.stdout + shared.stderr)
        self.assertIn("tutti: nothing to tune on this job: ", shared.stderr)

    def test_gpus_without_access_to_each_other(self):
        result = self.tune(2, FAKE_GPU_IPC="0")
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("no direct path between GPUs: "), 1, result.stderr)
        self.assertEqual(result.stderr.count("tutti: nothing to tune on this job: its GPUs have no direct path between them"), 1, result.stderr)
        self.assertFalse(self.file.exists())

    def test_help_names_the_file(self):
        shown = subprocess.run([TUTTI, "tune", "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        for part in ("--out FILE", "TUTTI_TUNING", "--min-time TIME", "--max-size SIZE", "Example: mpirun -np 2 tutti tune"):
            self.assertIn(part, shown)


if __name__ == "__main__":
    tap.main(devices=True)

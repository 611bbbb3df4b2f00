#!/usr/bin/env python3
"""`tutti doctor` on this host: no false findings on a healthy job, and configured faults are found.

    python3 test/process/test_doctor.py [Class.test…]
"""
import json
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import command  # noqa: E402
from support.control_group import ControlGroup  # noqa: E402

REPO = Path(__file__).resolve().parents[2]
TUTTI = Path(os.environ.get("TUTTI_BUILD", REPO / "build")) / "apps" / "tutti"
CORES = len(os.sched_getaffinity(0))


class OnThisHost(unittest.TestCase):
    def mpirun(self, *words, ranks=4, options=()):
        return command("mpirun", "--oversubscribe", "--bind-to", "none", *options, "-np", ranks, *words, timeout=60)

    def findings(self, *words, status=0, **options):
        done = self.mpirun(*(words or (TUTTI, "doctor", "--json", "-")), **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        report = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])
        for finding in report["findings"]:
            self.assertTrue(finding["sentence"] and finding["remedy"], finding)
        return report["findings"]

    def of_rank(self, rank, before):
        """Runs the doctor on every rank, after a shell line on one of them."""
        return ["sh", "-c", f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then {before}; fi; exec {TUTTI} doctor --json -']

    def found(self, check, *words, status=0, **options):
        found = [finding for finding in self.findings(*words, status=status, **options) if finding["check"] == check]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_healthy_job(self):
        checks = [finding["check"] for finding in self.findings()]
        # More ranks than cores is a correct note. So is single copy, if the process lacks the permission.
        allowed = (["cores"] if CORES < 4 else []) + ["shared memory", "single copy"]
        for check in checks:
            self.assertIn(check, allowed)
        if CORES < 4:
            self.assertIn("cores", checks)

    def test_alone(self):
        done = command(TUTTI, "doctor", timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1].partition(":")[0], "1 rank on 1 host")

    def test_text_has_a_remedy_for_each_finding(self):
        done = self.mpirun(TUTTI, "doctor", options=["-x", "TUTTI_TIMEOUT=30s"])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        reported = [line for line in lines if line.startswith(("stops: ", "slows: ", "note: "))]
        self.assertEqual(len(reported), sum(line.startswith("       remedy: ") for line in lines))
        self.assertIn("4 ranks on 1 host: fit to run" if reported else "no findings", done.stdout)

    def test_a_setting_that_differs_stops_the_job(self):
        finding = self.found("settings", *self.of_rank(2, "export TUTTI_CHUNK=4KiB"), status=3)
        self.assertEqual(finding["severity"], "stops")
        self.assertIn("TUTTI_CHUNK is 4KiB on rank 2", finding["sentence"])
        self.assertIn("-x TUTTI_CHUNK", finding["remedy"])

    def test_a_variable_of_nccl_that_one_rank_lacks(self):
        finding = self.found("settings", *self.of_rank(0, "export NCCL_ALGO=Ring"))
        self.assertEqual(finding["severity"], "slows")
        self.assertIn("not set on rank 1", finding["sentence"])

    def test_few_descriptors(self):
        finding = self.found("descriptors", *self.of_rank(3, "ulimit -n 28"), status=3)
        self.assertIn("rank 3 (", finding["sentence"])
        self.assertIn("ulimit -n", finding["remedy"])

    def test_a_setting_that_can_not_be_used(self):
        finding = self.found("network", *self.of_rank(1, "export TUTTI_SOCKET_IFNAME=nope0"), status=3)
        self.assertIn("rank 1 (", finding["sentence"])
        self.assertIn("TUTTI_SOCKET_IFNAME=nope0", finding["sentence"])
        finding = self.found("ports", status=3, options=["-x", "TUTTI_PORT_RANGE=40000-40000"])
        self.assertIn("TUTTI_PORT_RANGE=40000-40000 has 1 port for the 4 ranks", finding["sentence"])

    @unittest.skipIf(CORES < 2, "one core only")
    def test_two_ranks_on_one_core(self):
        finding = self.found("binding", "taskset", "-c", min(os.sched_getaffinity(0)), TUTTI, "doctor", "--json", "-", ranks=2)
        self.assertEqual(finding["severity"], "slows")
        self.assertIn("ranks 0, 1 of", finding["sentence"])

    def test_a_quota_of_processor_time(self):
        with ControlGroup(quota_us=50000, period_us=100000) as group:
            done = command(*group.entering(), "mpirun", "--oversubscribe", "--bind-to", "none", "-np", 2,
                           TUTTI, "doctor", "--json", "-", timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            findings = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])["findings"]
            found = [finding for finding in findings if finding["check"] == "quota"]
            self.assertEqual(len(found), 1, findings)
            self.assertEqual(found[0]["severity"], "slows")
            self.assertRegex(found[0]["sentence"], f"control group .*{group.name} of .* allows 0.5 cores .* to ranks 0, 1")
            done = command(*group.entering(), TUTTI, "info", timeout=60)
            self.assertIn(f"{CORES} (quota 0.5)", done.stdout, done.stderr)

    def test_secrets_are_not_printed(self):
        done = self.mpirun(TUTTI, "doctor", "--json", "-", options=["-x", "TUTTI_SECRET=" + "5e5a" * 16])
        self.assertNotIn("5e5a", done.stdout + done.stderr)

    def test_measured_between_made_up_hosts(self):
        done = self.mpirun("sh", "-c", f"TUTTI_HOST_ID=host$((OMPI_COMM_WORLD_RANK / 2)) exec {TUTTI} doctor --measure --json -",
                           ranks=6)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        for matrix in (report["latency_us"], report["bandwidth_gbit"]):
            self.assertEqual([len(row) for row in matrix], [3, 3, 3])
            for row in matrix:
                for value in row:
                    self.assertGreater(value, 0)

    def test_measured_on_one_host(self):
        for ranks in (1, 2):
            done = self.mpirun(TUTTI, "doctor", "--measure", "--json", "-", ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            report = json.loads(done.stdout)
            for matrix in (report["latency_us"], report["bandwidth_gbit"]):
                self.assertEqual([len(row) for row in matrix], [1])
                (self.assertEqual if ranks == 1 else self.assertGreater)(matrix[0][0], -1 if ranks == 1 else 0)


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""The command on a machine with fake GPUs (test/unit/device/fake_gpu): any number of devices, and NCCL calls that never return.

    meson test -C build process_devices
"""
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_mpirun import OPERATIONS, Checks, mpirun  # noqa: E402
from support import tap  # noqa: E402


class MadeUpDevices(Checks):
    def setUp(self):
        self.segment = tempfile.NamedTemporaryFile(prefix="tutti_fake_nccl_", dir="/dev/shm")
        self.addCleanup(self.segment.close)

    def run_on(self, devices, ranks, *words, **variables):
        # One file per job: it contains the messages between its ranks.
        os.truncate(self.segment.name, 0)
        env = {"FAKE_NCCL_SEGMENT": self.segment.name, "FAKE_GPU_DEVICES": str(devices), **variables}
        return mpirun(ranks, *words, env=env, timeout=120)

    def test_every_operation_on_8_and_16_devices(self):
        for devices in (8, 16):
            for operation in OPERATIONS:
                with self.subTest(devices=devices, operation=operation):
                    lines = self.good(self.run_on(devices, devices, operation, "--backend", "nccl", "--timeout", "60s",
                                                  *(() if operation == "barrier" else ("--size", "4KiB"))))
                    self.assertRegex(lines[-1], rf"^{devices} ranks on 1 host, backend nccl \(every rank has a device of its own\)")

    def test_the_id_travels_without_mpi(self):
        """Under mpirun, MPI broadcasts NCCL's unique id; otherwise the store does."""
        lines = self.good(self.run_on(4, 4, "all-reduce", "--backend", "nccl", "--init", "tcp://127.0.0.1:29751", "--size", "4KiB"))
        self.assertRegex(lines[-1], r"^4 ranks on 1 host, backend nccl \(every rank has a device of its own\)")

    def test_bench_against_registered_windows(self):
        words = ("bench", "broadcast", "all-gather", "send-recv", "--backend", "nccl", "--vs", "nccl,nccl-windows", "--sizes", "4KiB", "--iterations", "3")
        result = self.run_on(2, 2, *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        # Times, rates and the count of wrong elements.
        self.assertEqual(len(re.findall(r"(?m)^ +nccl-windows(?: +[\d.]+){6} +0 ", result.stdout)), 3, result.stdout)
        result = self.run_on(2, 2, *words, FAKE_NCCL_WINDOW_RESULT="5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("NCCL can't register a window of 4096 bytes", result.stdout + result.stderr)

    def test_one_rank_more_than_devices(self):
        result = self.run_on(8, 9, "broadcast", "--backend", "nccl")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("9 local ranks, 8 devices"), 1, result.stderr)

    def test_an_id_that_can_t_be_made(self):
        for init in ("mpi", "tcp://127.0.0.1:29752"):
            result = self.run_on(3, 3, "all-reduce", "--backend", "nccl", "--init", init, FAKE_NCCL_ID_RESULT="2")
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertEqual(result.stderr.count("can't create the NCCL unique id: NCCL: system error (2)"), 1, result.stderr)

    def test_doctor_reports_devices_without_peer_access(self):
        self.assertNotIn("peer-to-peer access", self.run_on(3, 3, "doctor").stdout)
        reported = self.run_on(3, 3, "doctor", FAKE_GPU_ISLAND="1").stdout
        self.assertIn(f"slows: devices of {os.uname().nodename} have no peer-to-peer access (0 and 1, 1 and 2)", reported)

    def test_a_call_that_never_returns_does_not_keep_the_command(self):
        began = time.monotonic()
        result = self.run_on(2, 2, "all-reduce", "--backend", "nccl", "--timeout", "3s", FAKE_NCCL_CALL_BLOCKS="2")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("NCCL does not return although it was aborted"), 1, result.stderr)
        self.assertIn("all_reduce of", result.stderr)
        # Limit for detecting a failure: the deadline, ending NCCL, and load on the machine.
        self.assertLess(time.monotonic() - began, 40)


del Checks  # its tests do not belong to this file
if __name__ == "__main__":
    tap.main(devices=True)

#!/usr/bin/env python3
"""An NCCL program (nccl_check) on simulated GPUs, with libtutti_nccl.so in front of a simulated libnccl.so.2 and without.

    meson test -C build preload
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
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support import tap  # noqa: E402

BUILD = Path(os.environ["TUTTI_BUILD"])
PROGRAM = BUILD / "test/preload/nccl_check"
PLUGIN = BUILD / "test/preload/libnccl_check_plugin.so"
PRELOAD = BUILD / "preload/libtutti_nccl.so"
ROW = re.compile(r"^tutti:   (nccl\w+) +(\d+) +(\d+)(?:  \((.*)\))?$", re.MULTILINE)


def run(ranks, *checks, preload=True, program=(PROGRAM,), **variables):
    with tempfile.NamedTemporaryFile(prefix="tutti_fake_nccl_", dir="/dev/shm") as segment:
        env = {**os.environ, "FAKE_NCCL_SEGMENT": segment.name, "FAKE_GPU_DEVICES": str(ranks), "FAKE_GPU_IPC": "1",
               "LD_LIBRARY_PATH": str(BUILD / "test/unit/device"), "TUTTI_LOG": "info", "TUTTI_NCCL_REPORT": "1", "TUTTI_TUNING": "off", **variables}
        env.pop("CUDA_VISIBLE_DEVICES", None)
        if preload:
            env["LD_PRELOAD"] = str(PRELOAD)
        return subprocess.run([*program, str(ranks), *checks], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=170, check=False)


def calls(text):
    """{function: (served, handed on, reasons)}, summed over all tables."""
    result = {}
    for function, served, handed_on, reasons in ROW.findall(text):
        before = result.get(function, (0, 0, set()))
        names = {reason.rsplit(" ", 1)[0] for reason in reasons.split(", ") if reason}
        result[function] = (before[0] + int(served), before[1] + int(handed_on), before[2] | names)
    return result


class Preload(unittest.TestCase):
    def good(self, process, *checks):
        for check in checks:
            self.assertRegex(process.stdout, rf"(?m)^passed {check} on")
        self.assertEqual(process.returncode, 0, process.stdout)
        return calls(process.stdout)

    def test_without_preload(self):
        # The simulated NCCL, unlike NCCL, does not order calls on several streams.
        checks = ("calls", "groups", "split", "graph", "nonblocking")
        self.assertEqual(self.good(run(2, *checks, preload=False), *checks), {})

    def test_every_call_is_right_and_counted(self):
        self.assertEqual(self.good(run(2, "calls"), "calls"), {
            "ncclAllReduce": (24, 8, {"too large"}),
            "ncclBroadcast": (60, 4, {"too large"}),
            "ncclAllGather": (30, 2, {"too large"}),
            "ncclReduceScatter": (24, 8, {"too large"}),
            "ncclReduce": (0, 32, {"no such operation"}),
            "ncclSend": (0, 32, {"no such operation"}),
            "ncclRecv": (0, 32, {"no such operation"}),
        })

    def test_random_calls(self):
        for ranks, number in ((2, "600"), (4, "300"), (8, "100")):
            with self.subTest(ranks=ranks):
                counts = self.good(run(ranks, "random", TUTTI_TEST_CALLS=number), "random")
                self.assertGreater(counts["ncclAllReduce"][0], 0)
                self.assertGreater(counts["ncclReduce"][1], 0)

    def test_order_between_streams(self):
        counts = self.good(run(2, "order"), "order")
        self.assertEqual(counts, {"ncclAllReduce": (120, 40, {"type or operator"})})

    def test_groups(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                counts = self.good(run(ranks, "groups"), "groups")
                # Alone on its communicator it is served, with another call on it handed on.
                self.assertEqual(counts["ncclAllReduce"], (10, 10, {"in a group"}))
                self.assertEqual(counts["ncclBroadcast"], (10 * (ranks // 2), 10, {"in a group"}))
                self.assertEqual(counts["ncclSend"], (0, 10 * (ranks - 1), {"no such operation"}))

    def test_splits_destroyed_in_any_order(self):
        for ranks in (2, 3, 4):
            with self.subTest(ranks=ranks):
                counts = self.good(run(ranks, "split"), "split")
                self.assertGreaterEqual(counts["ncclAllReduce"][0], 13)

    def test_graphs(self):
        counts = self.good(run(2, "graph"), "graph")
        # Capturing counts, replays don't.
        self.assertEqual(counts["ncclAllReduce"], (2, 3, {"type or operator"}))
        self.assertEqual(counts["ncclBroadcast"], (4, 0, set()))

    def test_non_blocking_communicator(self):
        counts = self.good(run(4, "nonblocking"), "nonblocking")
        self.assertEqual(counts["ncclAllReduce"], (1, 0, set()))

    def test_a_rank_that_can_not(self):
        for ranks in (2, 3):
            process = run(ranks, "mixed")
            self.assertEqual(self.good(process, "mixed"), {"ncclAllReduce": (0, 1, {"no direct path"}),
                                                           "ncclBroadcast": (0, 1, {"no direct path"})})
            self.assertIn(f"{ranks - 1} of its {ranks} ranks", process.stdout)

    def test_no_peer_access(self):
        process = run(2, "calls", FAKE_GPU_IPC="0")
        self.assertEqual(self.good(process, "calls")["ncclAllReduce"], (0, 32, {"no direct path"}))
        self.assertIn("mapping a peer's device memory failed", process.stdout)

    def test_switched_off(self):
        for name, value in (("TUTTI_DEVICE_PATH", "nccl"), ("NCCL_P2P_DISABLE", "1"), ("FAKE_GPU_MIG", "1")):
            with self.subTest(name):
                process = run(2, "mixed", **{name: value})
                self.assertEqual(self.good(process, "mixed")["ncclAllReduce"], (0, 1, {"no direct path"}))

    def test_a_bad_setting_is_named_and_nothing_else_changes(self):
        process = run(2, "graph", TUTTI_DEVICE_PATH="quick")
        self.good(process, "graph")
        self.assertIn("TUTTI_DEVICE_PATH=quick is unusable: give auto, nccl or direct; NCCL takes all calls", process.stdout)

    def test_all_sizes_with_direct(self):
        counts = self.good(run(2, "calls", TUTTI_DEVICE_PATH="direct"), "calls")
        self.assertEqual(counts["ncclBroadcast"], (64, 0, set()))

    def test_a_late_rank_is_named(self):
        process = run(2, "late", TUTTI_TIMEOUT="1s")
        self.good(process, "late")
        self.assertRegex(process.stdout, r"rank 0 \(.*\): ncclAllReduce of 1234 f32 \(call 2 of a communicator of 2 ranks\) has not "
                                         r"returned for \d+ s: the latest call of rank 1 \(.*, pid \d+\) is call 1, ncclBroadcast of 10 f32")
        self.assertEqual(process.stdout.count("has not returned"), 1)

    def test_an_abort_ends_a_call(self):
        self.good(run(2, "abort"), "abort")

    def test_data_of_a_rank_that_has_ended(self):
        process = run(2, "leave")
        self.good(process, "leave")
        self.assertNotIn("has ended", process.stdout)

    def test_a_graph_that_has_run_needs_no_rank(self):
        for ranks in (2, 3):
            process = run(ranks, "leave-after-graph")
            self.good(process, "leave-after-graph")
            self.assertNotIn("has ended", process.stdout)

    def test_a_killed_rank_whose_calls_are_in_graphs(self):
        process = run(3, "killed-in-graph")
        self.good(process, "killed-in-graph")
        said = re.findall(r"graphs with calls of a communicator of 3 ranks can't run: rank 1 \(.*, pid \d+\) has ended", process.stdout)
        self.assertEqual(len(said), 2, process.stdout)

    def test_a_killed_rank(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                process = run(ranks, "killed")
                self.good(process, "killed")
                said = re.findall(r"rank \d \(.*\): ncclAllReduce of 10000 f32 \(call \d+ of a communicator of \d ranks\) does not return: "
                                  r"rank 1 \(.*, pid \d+\) has ended", process.stdout)
                self.assertEqual(len(said), ranks - 1, process.stdout)

    def test_nccl_of_a_plugin(self):
        """As in Python, where a module brings NCCL: its names are in no other module's scope."""
        code = ("import ctypes, sys; words = [word.encode() for word in sys.argv]; "
                f"sys.exit(ctypes.CDLL({str(PLUGIN)!r}).nccl_check(len(words), (ctypes.c_char_p * len(words))(*words)))")
        counts = self.good(run(2, "calls", program=(sys.executable, "-c", code)), "calls")
        self.assertEqual(counts["ncclAllReduce"], (24, 8, {"too large"}))

    def test_limits_that_tutti_tune_has_measured(self):
        entry = {"tutti_tuning": 1, "card": "Fake GPU", "driver": "13.0", "nccl": "2.28.9", "ranks": 2, "direct_up_to_bytes":
                 dict.fromkeys(("broadcast", "fan_out", "all_reduce", "all_gather", "reduce_scatter"), 0)}
        alone, in_group = 10, 10
        for text, counts in ((json.dumps(entry), (0, alone + in_group, {"too large"})),
                             ("rubbish", (alone, in_group, {"in a group"}))):
            with self.subTest(text), tempfile.NamedTemporaryFile("w") as file:
                file.write(text + "\n")
                file.flush()
                process = run(2, "groups", TUTTI_TUNING=file.name)
                self.assertEqual(self.good(process, "groups")["ncclAllReduce"], counts)
                warning = f"tutti {file.name}: line 1 is no entry of `tutti tune`"
                self.assertEqual(process.stdout.count(warning), 1 if text == "rubbish" else 0, process.stdout)

    def test_nothing_stays(self):
        before = set(Path("/dev/shm").glob("tutti_nccl_*"))
        self.good(run(2, "split", "mixed", "nonblocking"), "split", "mixed", "nonblocking")
        self.assertEqual(set(Path("/dev/shm").glob("tutti_nccl_*")) - before, set())


if __name__ == "__main__":
    tap.main()

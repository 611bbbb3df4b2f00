#!/usr/bin/env python3
"""The command under mpirun on this host: output, files and exit status.

    python3 test/process/test_mpirun.py [Class.test…]
"""
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support import tap  # noqa: E402
from support.cluster import REPO, command, eventually  # noqa: E402

BUILD = Path(os.environ.get("TUTTI_BUILD", REPO / "build"))
TUTTI = BUILD / "apps" / "tutti"
HOST = os.uname().nodename
TIME = r"(\d+ us|\d+\.\d ms|\d+\.\d\d s)"
TYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")
OPERATORS = ("sum", "product", "min", "max", "average", "bit-and", "bit_or", "bit_xor")
OPERATIONS = ("fan-out", "broadcast", "all-reduce", "reduce", "all-gather", "reduce-scatter", "gather", "scatter", "all-to-all",
              "send-recv", "barrier")
IN_PLACE = ("all-reduce", "reduce", "all-gather", "reduce-scatter", "gather", "scatter", "all-to-all")
SIZES = {"0": "0 B", "1": "4 B", "4KiB": "4 KiB", "4MiB": "4 MiB"}  # the printed size is the exact size, of whole f32 elements


def mpirun(ranks, *words, before=(), env=None, timeout=60):
    """Runs the command. `before` is put between mpirun's options and the command: env -u …"""
    return command("mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none", *before, TUTTI, *words,
                   timeout=timeout, env=env)


def alive(pid):
    """True if the process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def prefix(rank, ranks, host=HOST):
    return f"[rank {rank}/{ranks} | local {rank} | {host} | cpu] "


class Checks(unittest.TestCase):
    maxDiff = None

    def good(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout.splitlines()

    def good_summary(self, line, ranks, what):
        count = "1 rank" if ranks == 1 else f"{ranks} ranks"
        self.assertRegex(line, rf"^{count} on 1 host, backend cpu \([^)]*GPU[^)]*\): {re.escape(what)} on every rank in {TIME}$")

    def fails(self, status, ranks, *words, said, times=1, **options):
        """Checks that the job exits with `status` and prints `said` `times` times: once per job."""
        result = mpirun(ranks, *words, **options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        for part in [said] if isinstance(said, str) else said:
            self.assertEqual(result.stderr.count(part), times, f"'{part}' in:\n{result.stderr}")
        return result


class FanOut(Checks):
    def due(self, ranks, root, size):
        lines = []
        for rank in range(ranks):
            if rank != root:
                lines.append(f"{prefix(rank, ranks)}received {size} from rank {root}, verified")
            else:
                lines += [f"{prefix(rank, ranks)}sent {size} to rank {peer}" for peer in range(ranks) if peer != root]
                lines += [f"{prefix(rank, ranks)}is alone: nothing to send"] if ranks == 1 else []
        return lines

    def test_lines_come_in_rank_order_and_then_the_summary(self):
        for ranks in (1, 2, 3, 4, 5, 8):
            for size, shown in SIZES.items():
                with self.subTest(ranks=ranks, size=size):
                    lines = self.good(mpirun(ranks, "fan-out", "--size", size))
                    self.assertEqual(lines[:-1], self.due(ranks, 0, shown))
                    self.good_summary(lines[-1], ranks, f"fan-out of {shown} verified")

    def test_other_roots(self):
        for root in (1, 2):
            with self.subTest(root=root):
                lines = self.good(mpirun(3, "fan-out", "--size", "1000", "--root", root))
                self.assertEqual(lines[:-1], self.due(3, root, "1000 B"))

    def test_64_mib(self):
        lines = self.good(mpirun(4, "fan-out", "--size", "64MiB", timeout=120))
        self.assertEqual(lines[:-1], self.due(4, 0, "64 MiB"))

    def test_default_size_is_4_mib_of_f32(self):
        result = json.loads(mpirun(2, "fan-out", "--json", "-").stdout)
        self.assertEqual((result["bytes"], result["type"]), (4 << 20, "f32"))

    def test_sizes_are_rounded_up_to_whole_elements(self):
        for size, kind, true in (("1", "f64", 8), ("9", "f64", 16), ("3", "i8", 3), ("5", "f16", 6), ("1.5KiB", "f32", 1536)):
            with self.subTest(size=size, type=kind):
                self.assertEqual(json.loads(mpirun(2, "fan-out", "--size", size, "--type", kind, "--json", "-").stdout)["bytes"],
                                 true)

    def test_every_type(self):
        for kind in TYPES:
            with self.subTest(kind):
                self.good(mpirun(2, "fan-out", "--size", "10000", "--type", kind))


class OtherOperations(Checks):
    def test_broadcast_from_every_root(self):
        for ranks, size in ((2, "4KiB"), (4, "4MiB"), (5, "4MiB")):
            for root in range(ranks):
                with self.subTest(ranks=ranks, root=root):
                    lines = self.good(mpirun(ranks, "broadcast", "--size", size, "--root", root))
                    shown = SIZES[size]
                    for rank, line in enumerate(lines[:-1]):
                        self.assertEqual(line, prefix(rank, ranks) + (
                            f"broadcast {shown} to all ranks" if rank == root
                            else f"received {shown} from rank {root}, verified"))
                    self.assertEqual(len(lines), ranks + 1)
                    self.good_summary(lines[-1], ranks, f"broadcast of {shown} verified")

    def test_types_and_operators(self):
        for kind in TYPES[:10]:
            for operator in OPERATORS[:5] if "f" in kind else OPERATORS:
                with self.subTest(type=kind, op=operator):
                    lines = self.good(mpirun(3, "all-reduce", "--size", "100000", "--type", kind, "--op", operator))
                    self.assertEqual(len(lines), 4)
                    shown = operator.replace("-", "_")
                    for rank, line in enumerate(lines[:-1]):
                        self.assertTrue(line.startswith(prefix(rank, 3) + "reduced"), line)
                        self.assertTrue(line.endswith(f"over 3 ranks by {shown}, verified"), line)
                    self.assertRegex(lines[-1], rf"all-reduce of .* verified on every rank in {TIME}$")

    def test_all_reductions_of_some_types(self):
        for operation in ("reduce", "reduce-scatter"):
            for kind, operator in (("i8", "sum"), ("bf16", "average"), ("f64", "product"), ("u32", "bit_xor")):
                with self.subTest(operation=operation, type=kind, op=operator):
                    self.good(mpirun(3, operation, "--size", "100001", "--type", kind, "--op", operator))

    def test_every_operation_in_place_and_not(self):
        for ranks in (1, 2, 3, 5):
            for operation in OPERATIONS[:-1]:
                for flags in ((), ("--in-place",)) if operation in IN_PLACE else ((),):
                    with self.subTest(operation=operation, ranks=ranks, flags=flags):
                        lines = self.good(mpirun(ranks, operation, "--size", "65541", *flags))
                        self.assertRegex(lines[-1], rf"{operation} of \d+ B verified on every rank in {TIME}$")
                        self.assertGreaterEqual(sum(line.endswith(", verified") for line in lines), 1 if ranks > 1 else 0)

    def test_what_each_rank_says(self):
        """The root is rank 1. All-to-all's size is a multiple of the number of ranks."""
        size = {"all-to-all": "1548 B"}
        said = {
            "reduce": ("sent {0} to rank 1", "reduced {0} over 3 ranks by sum, verified"),
            "all-gather": ("gathered {0} from each of 3 ranks, verified",) * 2,
            "gather": ("sent {0} to rank 1", "gathered {0} from each of 3 ranks, verified"),
            "scatter": ("received {0} from rank 1, verified", "scattered {0} to each of 3 ranks, verified"),
            "reduce-scatter": ("received its {0} of the result that 3 ranks reduced by sum, verified",) * 2,
            "all-to-all": ("exchanged {0} with 3 ranks, a block each, verified",) * 2,
        }
        for operation, (other, root) in said.items():
            with self.subTest(operation):
                flags = ("--root", 1) if other != root else ()
                lines = self.good(mpirun(3, operation, "--size", "1.5KiB" if operation not in size else 1537, *flags))
                shown = size.get(operation, "1.5 KiB")
                self.assertEqual(lines[:-1], [prefix(rank, 3) + (root if rank == 1 else other).format(shown) for rank in range(3)])

    def test_all_reduce_of_many_sizes(self):
        for ranks in (1, 2, 8):
            for size in ("0", "1", "4MiB"):
                with self.subTest(ranks=ranks, size=size):
                    self.good(mpirun(ranks, "all-reduce", "--size", size))

    def test_send_recv_is_a_ring(self):
        lines = self.good(mpirun(3, "send-recv", "--size", "1MiB"))
        self.assertEqual(lines[:-1], [f"{prefix(r, 3)}sent 1 MiB to rank {(r + 1) % 3}, received 1 MiB from rank {(r + 2) % 3}, "
                                      "verified" for r in range(3)])
        self.good(mpirun(1, "send-recv"))

    def test_a_message_has_no_algorithm(self):
        lines = self.good(mpirun(2, "send-recv", "--verbose"))
        self.assertEqual([line for line in lines if line.startswith("algorithm")], [])
        self.assertEqual(json.loads(mpirun(2, "send-recv", "--json", "-").stdout)["algorithm"], "")
        self.assertRegex("\n".join(self.good(mpirun(2, "broadcast", "--verbose"))), "algorithm: [a-z]+")

    def test_barrier(self):
        lines = self.good(mpirun(4, "barrier", "--repeat", "20"))
        self.assertEqual(lines[:-1], [f"{prefix(r, 4)}passed" for r in range(4)])
        self.assertRegex(lines[-1], rf"^4 ranks on 1 host, .*: barrier passed on every rank in {TIME} \(median of 20\)$")

    def test_named_algorithms(self):
        for operation, algorithms in (("broadcast", ("binomial", "chain", "scatter_ring", "direct")),
                                      ("all-reduce", ("recursive_doubling", "ring"))):
            for algorithm in algorithms:
                with self.subTest(operation=operation, algorithm=algorithm):
                    result = mpirun(3, operation, "--algorithm", algorithm, "--size", "100001", "--json", "-")
                    self.assertEqual(json.loads(result.stdout)["algorithm"], algorithm)

    def test_algorithm_of_the_environment(self):
        """It applies to the operations that have it, and must not break the command's own small calls."""
        for operation, algorithm in (("broadcast", "chain"), ("all-reduce", "ring")):
            with self.subTest(operation):
                result = mpirun(3, operation, "--size", "1000", "--json", "-", env={"TUTTI_ALGORITHM": algorithm})
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(json.loads(result.stdout)["algorithm"], algorithm)


class Info(Checks):
    def table(self, result):
        lines = self.good(result)
        heading = re.split(r"  +", lines[0])
        rows = [dict(zip(heading, re.split(r"  +", line))) for line in lines[1:-1]]
        return rows, lines[-1]

    def test_one_row_a_rank(self):
        rows, last = self.table(mpirun(4, "info"))
        self.assertEqual([row["rank"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual([row["local rank"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual({row["host"] for row in rows}, {HOST})
        self.assertEqual(len({row["pid"] for row in rows}), 4)
        self.assertEqual(len({row["address"] for row in rows}), 4)
        for row in rows:
            self.assertRegex(row["address"], r":\d+$")
            self.assertEqual(row["device"], "cpu")
            self.assertIn("MPI", row["source"])
        self.assertEqual(last, "4 ranks on 1 host")

    def test_local_ranks_without_the_launchers_variables(self):
        names = [f"OMPI_COMM_WORLD_{name}" for name in ("SIZE", "RANK", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")]
        words = [word for name in names for word in ("-u", name)]
        rows, _ = self.table(mpirun(4, "info", before=["env", *words]))
        self.assertEqual([row["local rank"] for row in rows], ["0", "1", "2", "3"])
        # Checks that the variables were unset:
        shown = command("mpirun", "-np", "1", "env", *words, "env").stdout
        self.assertIn("\nOMPI_", shown)
        self.assertNotIn("\nOMPI_COMM_WORLD_", shown)

    def test_wrong_local_rank_of_the_environment(self):
        result = mpirun(3, "info", before=["env", "OMPI_COMM_WORLD_LOCAL_RANK=7"])
        rows, _ = self.table(result)
        self.assertEqual([row["local rank"] for row in rows], ["0", "1", "2"])
        warnings = [line for line in result.stderr.splitlines() if "OMPI_COMM_WORLD_LOCAL_RANK=7" in line]
        self.assertEqual(len(warnings), 3, result.stderr)
        self.assertEqual(sum("local rank 2 of 3" in line for line in warnings), 1, result.stderr)

    def test_broken_local_rank_of_the_environment(self):
        self.fails(2, 3, "info", before=["env", "OMPI_COMM_WORLD_LOCAL_RANK=abc"], said="OMPI_COMM_WORLD_LOCAL_RANK=abc")

    def test_hosts_by_their_given_identity(self):
        result = command("mpirun", "--oversubscribe", "--bind-to", "none",
                         "-np", 2, "env", "TUTTI_HOST_ID=left", TUTTI, "info", ":",
                         "-np", 2, "env", "TUTTI_HOST_ID=right", TUTTI, "info")
        rows, last = self.table(result)
        self.assertEqual([(row["host"], row["local rank"]) for row in rows],
                         [("left", "0"), ("left", "1"), ("right", "0"), ("right", "1")])
        self.assertEqual(last, "4 ranks on 2 hosts")


class Output(Checks):
    def test_json_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            lines = self.good(mpirun(2, "broadcast", "--size", "1MiB", "--root", "1", "--repeat", "3", "--json", file))
            result = json.loads(file.read_text())
        self.assertEqual(len(lines), 3)
        for key, due in (("schema", 1), ("operation", "broadcast"), ("ranks", 2), ("hosts", 1), ("backend", "cpu"),
                         ("type", "f32"), ("bytes", 1 << 20), ("repeat", 3), ("verified", True)):
            self.assertEqual(result[key], due, key)
        self.assertGreater(result["median_us"], 0)

    def test_json_to_standard_output_is_json_alone(self):
        result = json.loads(mpirun(3, "fan-out", "--size", "4KiB", "--json", "-").stdout)
        self.assertTrue(result["verified"])

    def test_json_to_nowhere(self):
        """Detected before the job runs: no result is printed."""
        result = self.fails(2, 3, "fan-out", "--size", "4KiB", "--json", "/nonexistent/result.json",
                            said="/nonexistent/result.json")
        self.assertEqual(result.stdout, "")

    def test_json_of_a_failed_job_leaves_no_empty_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            self.fails(2, 2, "broadcast", "--root", "7", "--json", file, said="root 7")
            self.assertFalse(file.exists())
            file.write_text("of before")
            self.fails(2, 2, "broadcast", "--root", "7", "--json", file, said="root 7")
            self.assertEqual(file.read_text(), "of before")

    def test_quiet(self):
        result = mpirun(4, "fan-out", "--quiet")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_nothing_on_standard_error_when_all_is_good(self):
        self.assertEqual(mpirun(4, "all-reduce").stderr, "")

    def test_verbose_prints_phases_and_algorithm(self):
        lines = self.good(mpirun(2, "broadcast", "--verbose", "--size", "4KiB"))
        self.assertEqual(sum("MPI_Init" in line and "control links" in line for line in lines), 2)
        self.assertEqual(sum(line.startswith("algorithm: ") for line in lines), 1)

    def test_plain_output(self):
        for words, env in ((["--no-color"], None), ([], {"NO_COLOR": "1"})):
            result = mpirun(2, *words, "fan-out", "--size", "4KiB", env=env)
            self.good(result)
            self.assertNotIn("\x1b", result.stdout)


class Help(Checks):
    def test_every_level_has_an_example(self):
        top = command(TUTTI, "--help")
        self.assertEqual(top.returncode, 0)
        self.assertIn("mpirun -np 4 tutti", top.stdout)
        names = re.findall(r"^  ([a-z][a-z-]+)  ", top.stdout.partition("Subcommands:")[2], re.M)
        for name in (*OPERATIONS, "bench", "info"):
            self.assertIn(name, names)
        for name in names:
            with self.subTest(name):
                shown = command(TUTTI, name, "--help")
                self.assertEqual(shown.returncode, 0)
                self.assertRegex(shown.stdout, rf"Example: .*tutti {name}")

    def test_types_and_operators_are_listed(self):
        shown = command(TUTTI, "reduce", "--help").stdout
        for word in (*TYPES, *(operator.replace("-", "_") for operator in OPERATORS)):
            self.assertRegex(shown, rf"\b{word}\b")

    def test_the_root_is_explained_for_each_operation(self):
        texts = [re.search(r"--root RANK +(.*) \(default 0\)", command(TUTTI, name, "--help").stdout)[1]
                 for name in ("fan-out", "broadcast", "reduce", "gather", "scatter")]
        self.assertEqual(len(set(texts)), 5, texts)

    def test_version_says_what_is_built_in(self):
        shown = command(TUTTI, "--version")
        self.assertEqual(shown.returncode, 0)
        self.assertRegex(shown.stdout, r"^tutti \d+\.\d+\.\d+\n")
        self.assertRegex(shown.stdout, r"MPI: (Open MPI|MPICH|Intel).*\d")
        self.assertRegex(shown.stdout, r"Gloo \(bench --vs gloo\): (\d|not built in)")

    def test_help_under_mpirun_is_printed_once(self):
        result = mpirun(3, "fan-out", "--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("Example:"), 1)


class Usage(Checks):
    """Invalid usage: exit status 2 and one sentence per job, with the value and a remedy."""

    def test_bad_values(self):
        for words, said in ((("fan-out", "--size", "huge"), ("huge", "--size")),
                            (("fan-out", "--size", "-1"), ("--size",)),
                            (("fan-out", "--type", "f7"), ("f7", "bf16")),
                            (("all-reduce", "--op", "median"), ("median", "average")),
                            (("fan-out", "--timeout", "soon"), ("soon", "60s")),
                            (("fan-out", "--timeout", "0"), ("--timeout '0'",)),
                            (("fan-out", "--repeat", "0"), ("--repeat",)),
                            (("fan-out", "--backend", "magic"), ("magic", "nccl")),
                            (("fan-out", "--color"), ("--color",)),
                            (("frobnicate",), ("frobnicate",)),
                            ((), ("subcommand",))):
            with self.subTest(words):
                self.fails(2, 4, *words, said=said)

    def test_bad_root(self):
        self.fails(2, 4, "broadcast", "--root", "4", said=("root 4", "0 to 3"))
        result = self.fails(2, 4, "broadcast", "--root", "-1", said="--root")
        longest = max(map(len, result.stderr.splitlines()))
        self.assertLess(longest, 200, result.stderr)

    def test_unknown_algorithm_lists_those_there_are(self):
        self.fails(2, 4, "broadcast", "--algorithm", "magic", said=("magic", "scatter_ring"))

    def test_what_the_host_path_can_t_do(self):
        self.fails(2, 4, "all-reduce", "--type", "f8e4m3", said="f8e4m3")
        self.fails(2, 4, "all-reduce", "--type", "f32", "--op", "bit_xor", said="bit_xor")
        self.fails(2, 4, "fan-out", "--backend", "nccl", said=("nccl backend", "no rank has a GPU", "--backend cpu"))

    def test_bad_environment(self):
        self.fails(2, 4, "fan-out", env={"TUTTI_TIMEOUT": "abc"}, said="TUTTI_TIMEOUT=abc")

    def test_settings_that_differ(self):
        result = command("mpirun", "--oversubscribe", "--bind-to", "none",
                         "-np", 3, TUTTI, "fan-out", ":", "-np", 1, "env", "TUTTI_CHUNK=128KiB", TUTTI, "fan-out")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("TUTTI_CHUNK is"), 1, result.stderr)
        self.assertIn("131072", result.stderr)

    def test_more_than_memory_is_said_once_in_words(self):
        result = mpirun(3, "fan-out", "--size", "8000GiB")
        self.assertNotEqual(result.returncode, 0)
        lines = [line for line in result.stderr.splitlines() if line.startswith("tutti:")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn("memory", lines[0])
        self.assertNotIn("bad_alloc", lines[0])


class Alone(Checks):
    """Without a launcher: a job of one rank, immediately, without MPI_Init."""

    def test_works_without_mpi(self):
        clean = {name: "" for name in os.environ if name.startswith(("OMPI_COMM", "PMIX_"))}
        self.assertEqual(clean, {}, "this test itself runs under a launcher")
        lines = self.good(command(TUTTI, "fan-out", "--size", "4KiB", "--verbose"))
        self.good_summary(lines[-1], 1, "fan-out of 4 KiB verified")
        phases = [line for line in lines if "set-up:" in line]
        self.assertEqual(len(phases), 1)
        self.assertNotIn("MPI_Init", phases[0])
        under_mpirun = self.good(mpirun(1, "fan-out", "--size", "4KiB", "--verbose"))
        self.assertTrue(any("MPI_Init" in line for line in under_mpirun), under_mpirun)

    def test_every_operation(self):
        for name in (*OPERATIONS, "info"):
            with self.subTest(name):
                self.good(command(TUTTI, name))

    def test_info_says_that_there_is_no_launcher(self):
        self.assertIn("no launcher", command(TUTTI, "info").stdout)


class Starts(Checks):
    def test_starts_in_a_loop(self):
        """TUTTI_TEST_STARTS=200 for a long run."""
        for _ in range(int(os.environ.get("TUTTI_TEST_STARTS", "5"))):
            result = mpirun(4, "barrier", "--quiet", before=["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"])
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


class WithinTorchrun(Checks):
    """Two mpiruns, each started by a worker of torchrun: their ranks are different jobs."""

    def run_both(self, *words, **more):
        def start(worker):
            variables = {"TORCHELASTIC_RUN_ID": "none", "RANK": str(worker), "WORLD_SIZE": "2", "LOCAL_RANK": str(worker), "LOCAL_WORLD_SIZE": "2",
                         "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            done[worker] = mpirun(2, *words, env={**variables, "TUTTI_TIMEOUT": "10s", **more})
        port = 20000 + secrets.randbelow(10000)
        done = [None, None]
        threads = [threading.Thread(target=start, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done

    def test_without_a_word_it_is_an_error_with_both_values(self):
        first, second = self.run_both("info")
        self.assertEqual((first.returncode, second.returncode), (2, 2), first.stdout + second.stdout)
        said = [line for line in (first.stderr + second.stderr).splitlines() if line.startswith("tutti: ")]
        self.assertEqual(len(said), 1, said)
        for part in ("torchrun (RANK=0 WORLD_SIZE=2", "Open MPI (OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "--init mpi", "--init env://"):
            self.assertIn(part, said[0])

    def test_the_ranks_of_mpirun_can_be_meant(self):
        for result in self.run_both("info", TUTTI_INIT="mpi"):
            lines = self.good(result)
            self.assertEqual(lines[-1], "2 ranks on 1 host")
            self.assertIn("MPI (Open MPI", lines[1])


class LongJob:
    """Ranks in a long loop of calls. A block gets control once all are set up; signals before that would meet MPI_Init() or the set-up.

        with LongJob(4, "--size", "4KiB") as job:
            job.signal(2, signal.SIGKILL)
            result = job.end(10)
    """

    def __init__(self, ranks, *words, before=()):
        self.ranks, self.words, self.before = ranks, words, before

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        paths = [Path(self.folder.name) / str(rank) for rank in range(self.ranks)]
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            ["mpirun", "-np", str(self.ranks), "--oversubscribe", "--bind-to", "none", *self.before,
             "sh", "-c", f'echo $$ > {self.folder.name}/$OMPI_COMM_WORLD_RANK; exec "$@"', "sh",
             str(TUTTI), "all-reduce", "--repeat", "1000000", *self.words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.output, start_new_session=True)
        try:
            self.pids = []
            if not eventually(lambda: all(path.exists() and path.read_text().strip() for path in paths), 60):
                raise AssertionError(f"the ranks do not start:\n{self.text()}")
            self.pids = [int(path.read_text()) for path in paths]
            if not eventually(lambda: all(map(self.is_set_up, self.pids)), 60):
                raise AssertionError(f"the ranks do not get through their set-up:\n{self.text()}")
            time.sleep(0.5)  # the last steps of the set-up
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.output.close()
        self.folder.cleanup()

    @staticmethod
    def is_set_up(pid):
        """The rank has mapped the memory that it shares with the others: the end of its set-up."""
        try:
            return "memfd:tutti" in Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False

    def signal(self, rank, number):
        os.kill(self.pids[rank], number)

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def end(self, timeout):
        """Status and standard error of mpirun, which must end within `timeout` seconds."""
        status = self.process.wait(timeout)
        return subprocess.CompletedProcess(self.process.args, status, "", self.text())


class Failures(Checks):
    def test_killed_rank_ends_the_job_with_one_sentence(self):
        """The victim is not mpirun's child: a shell is between them."""
        with LongJob(4, "--size", "4KiB", before=["sh", "-c", '"$@"; exit $?', "sh"]) as job:
            job.signal(2, signal.SIGKILL)
            result = job.end(10)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("a rank is lost: rank 2"), 1, result.stderr)

    def kill_one(self, *more):
        with LongJob(4, "--size", "4KiB", *more) as job:
            job.signal(2, signal.SIGKILL)
            return job.end(30)

    def test_the_launchers_own_killing_swallows_no_sentence(self):
        """mpirun detects the death of its own child and kills the other ranks immediately."""
        for _ in range(3):
            result = self.kill_one()
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count("tutti: a rank is lost: rank 2"), 1, result.stderr)
        result = self.kill_one("--verbose")
        self.assertEqual(result.stderr.count("tutti: a rank is lost: rank 2"), 3, result.stderr)

    def test_a_rank_that_exits_by_itself_ends_the_job(self):
        """Like a program that calls _exit(3): here the shell in place of the rank exits."""
        shell = ["sh", "-c", 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then "$@"; exit 3; fi; exec "$@"', "sh"]
        with LongJob(3, "--size", "4KiB", before=shell) as job:
            job.signal(1, signal.SIGKILL)
            result = job.end(10)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("tutti: a rank is lost: rank 1"), 1, result.stderr)

    def test_ranks_end_soon_after_their_launcher_was_killed(self):
        with LongJob(3, "--size", "1MiB") as job:
            self.assertTrue(all(map(alive, job.pids)), "the ranks ended by themselves")
            job.process.kill()
            job.process.wait()
            since = time.monotonic()
            self.assertTrue(eventually(lambda: not any(map(alive, job.pids)), 10), f"still there: {job.pids}")
            print(f"# all ranks ended {time.monotonic() - since:.1f} s after mpirun")

    def test_a_rank_that_sleeps_is_named_at_the_deadline(self):
        with LongJob(3, "--size", "4KiB", "--timeout", "2s") as job:
            job.signal(1, signal.SIGSTOP)
            result = job.end(30)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("waiting for rank 1 "), 1, result.stderr)


class Recovery(Checks):
    def run_demo(self, *words):
        return command("mpirun", "--enable-recovery", "-np", 4, "--oversubscribe", "--bind-to", "none",
                       BUILD / "apps" / "recovery" / "recovery", *words, timeout=40)

    def test_an_iteration_loses_a_rank_and_finishes_with_the_right_result(self):
        for rank in (0, 2, 3):
            with self.subTest(rank=rank):
                result = self.run_demo(rank, 40)
                self.assertEqual(result.stdout, "pi is 3.141592653590, by 3 of 4 ranks: right\n", result.stderr)
                self.assertEqual(result.stderr.count("recovery: a rank is lost: "), 1, result.stderr)

    def test_without_a_loss(self):
        result = self.run_demo(-1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "pi is 3.141592653590, by 4 of 4 ranks: right\n")


class Trace(Checks):
    def test_records_of_a_job_whose_rank_stops_are_laid_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder:
            # Stopped after a number of calls, not after a time: set-up may take longer on a loaded machine.
            result = mpirun(3, "all-reduce", "--repeat", 1000000, "--size", "4KiB", "--timeout", "2s",
                            env={"TUTTI_RECORD": folder, "TUTTI_FAULT": "stop:rank=1,call=1000"}, timeout=60)
            self.assertEqual(result.returncode, 1, result.stderr)
            # mpirun continues processes before it kills them, so rank 1 may still write its record.
            files = sorted(map(str, Path(folder).glob("rank[02]-*.json")))
            chrome = f"{folder}/timeline"
            table = self.good(command(TUTTI, "trace", *files, "--chrome", chrome))
            self.assertRegex(table[1], r"^ +0 .* in (barrier|all_reduce of \d+ f\d+, \w+) for [\d.]+ s, waits for ranks? ")
            self.assertIn("no record: rank 1", table)
            events = json.loads(Path(chrome).read_text())["traceEvents"]
            self.assertEqual({event["pid"] for event in events}, {0, 2})

    def test_what_is_no_record(self):
        result = command(TUTTI, "trace", "/nonexistent")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/nonexistent", result.stderr)


class Big(Checks):
    def test_more_elements_than_31_bits_count(self):
        needed = 7 << 30  # two ranks with 2 GiB each, plus the expected data
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if pages < needed:
            self.skipTest(f"{pages >> 20} MiB of memory are free and {needed >> 20} MiB are needed")
        lines = self.good(mpirun(2, "broadcast", "--type", "i8", "--size", 2**31 + 7, "--timeout", "150s", timeout=200))
        self.assertIn("received 2147483655 B from rank 0, verified", lines[1])


if __name__ == "__main__":
    tap.main()

#!/usr/bin/env python3
"""Jobs without MPI on this host: plain processes with torchrun's variables or options; their output and exit status.

    python3 test/process/test_env.py [Class.test…]
"""
import os
import re
import secrets
import signal
import socket
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
from support.cluster import REPO, eventually  # noqa: E402
from support.ports import free_port  # noqa: E402

BUILD = Path(os.environ.get("TUTTI_BUILD", REPO / "build"))
TUTTI = BUILD / "apps" / "tutti"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
CLEAN = {name: value for name, value in os.environ.items()
         if name not in LAUNCHERS and not name.startswith(("OMPI_COMM", "PMI", "SLURM_", "TORCHELASTIC"))}


def variables(rank, size, port, address="127.0.0.1", **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": address,
            "MASTER_PORT": str(port), **more}


class Process:
    def __init__(self, *words, env):
        self.begin = time.monotonic()
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([str(word) for word in words], env={**CLEAN, **env}, stdin=subprocess.DEVNULL,
                                      stdout=self.out, stderr=self.err)

    def finish(self, timeout=60):
        try:
            self.status = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            self.status = "hung"
        self.seconds = time.monotonic() - self.begin
        for name in ("out", "err"):
            file = getattr(self, name)
            file.seek(0)
            setattr(self, name + "_text", file.read())
            file.close()
        return self


def job(size, *words, port=None, ranks=None, env=None, timeout=60, **settings):
    """Runs all ranks, or those in `ranks`. Returns the results in rank order."""
    port = port or free_port()
    started = [Process(TUTTI, *words, env={**variables(rank, size, port, **settings), **(env or {})})
               for rank in (range(size) if ranks is None else ranks)]
    return [process.finish(timeout) for process in started]


def waits_for_events(pid):
    """Whether the process sleeps in epoll_wait, as a rank in set-up does that waits for others."""
    try:
        sockets = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        return any("eventpoll" in name for name in sockets) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return False


class Checks(unittest.TestCase):
    maxDiff = None

    def good(self, processes):
        for process in processes:
            self.assertEqual((process.status, process.err_text), (0, ""), process.out_text)
        return processes[0].out_text.splitlines()

    def fails(self, processes, *said, status=1, each=True):
        for process in processes:
            self.assertEqual(process.status, status, process.out_text + process.err_text)
            for part in said if each else ():
                self.assertIn(part, process.err_text)


class Works(Checks):
    def test_every_rank_speaks_in_rank_order(self):
        for size in (1, 2, 3, 4, 8):
            with self.subTest(size):
                lines = self.good(job(size, "fan-out", "--size", "4KiB"))
                received = [line for line in lines if line.endswith("received 4 KiB from rank 0, verified")]
                self.assertEqual([int(re.match(r"\[rank (\d+)/", line)[1]) for line in received], list(range(1, size)))
                self.assertRegex(lines[-1], "verified on every rank")

    def test_operations(self):
        for words in (("all-reduce",), ("broadcast", "--root", "2"), ("all-to-all",), ("barrier",)):
            with self.subTest(words):
                self.good(job(3, *words))

    def test_info_names_the_source(self):
        lines = self.good(job(2, "info"))
        self.assertIn("the environment (RANK=1 WORLD_SIZE=2 LOCAL_RANK=1)", lines[2])
        self.assertEqual(lines[-1], "2 ranks on 1 host")

    def test_options_instead_of_variables(self):
        where = f"tcp://127.0.0.1:{free_port()}"
        ranks = [Process(TUTTI, "info", "--init", where, "--rank", rank, "--ranks", 3, env={}) for rank in range(3)]
        lines = self.good([rank.finish() for rank in ranks])
        self.assertIn("options (--rank=2 --ranks=3)", lines[3])

    def test_our_own_variables(self):
        where = f"tcp://localhost:{free_port()}"
        ranks = [Process(TUTTI, "info", env={"TUTTI_INIT": where, "TUTTI_RANK": str(rank), "TUTTI_SIZE": "2"}) for rank in range(2)]
        self.good([rank.finish() for rank in ranks])

    def test_ipv6(self):
        try:
            port = free_port(socket.AF_INET6, "::1")
        except OSError as error:
            self.skipTest(f"this host has no IPv6: {error}")
        self.good(job(3, "all-reduce", port=port, address="::1"))
        ranks = [Process(TUTTI, "barrier", "--init", f"tcp://[::1]:{port}", "--rank", rank, "--ranks", 2, env={}) for rank in range(2)]
        self.good([rank.finish() for rank in ranks])

    def test_other_launchers_ranks_with_a_rendezvous_address(self):
        """Slurm without PMI, and an MPI launcher's variables for a program without MPI."""
        port = str(free_port())
        for names in (("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE")):
            with self.subTest(names):
                ranks = [Process(TUTTI, "info", "--init", "env://",
                                 env={names[0]: str(rank), names[1]: "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port})
                         for rank in range(2)]
                self.good([rank.finish() for rank in ranks])

    def test_several_jobs_at_once(self):
        jobs = [[] for _ in range(4)]
        threads = [threading.Thread(target=lambda into=into: into.extend(job(3, "all-reduce"))) for into in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for done in jobs:
            self.assertEqual(len(done), 3)
            self.good(done)

    def test_two_programs_in_one_script(self):
        """The second job uses the port of the first, immediately."""
        port = free_port()
        ranks = [Process("sh", "-ec", f"{TUTTI} broadcast --quiet; {TUTTI} all-reduce --quiet", env=variables(rank, 3, port))
                 for rank in range(3)]
        self.good([rank.finish() for rank in ranks])

    def test_starts_in_a_loop(self):
        port = free_port()
        for _ in range(int(os.environ.get("TUTTI_TEST_STARTS", "40"))):
            self.good(job(2, "barrier", "--quiet", port=port))

    def test_with_a_secret(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.chmod(file.name, 0o600)
            self.good(job(3, "all-reduce", env={"TUTTI_SECRET_FILE": file.name}))
        self.good(job(2, "all-reduce", env={"TUTTI_SECRET": secrets.token_hex(32)}))

    def test_torchruns_agent_holds_the_port(self):
        """Rank 0 uses the port after it, and after any leftover."""
        port = free_port()
        with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
            for agent in ("True", "False"):
                self.good(job(3, "all-reduce", port=port, env={"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "3",
                                                               "TORCHELASTIC_USE_AGENT_STORE": agent}))

    def test_local_rank_on_the_command_line(self):
        port = free_port()
        ranks = [Process(TUTTI, *words, env=variables(rank, 2, port))
                 for rank, words in enumerate([("--local_rank=0", "barrier"), ("barrier", "--local-rank", "1")])]
        self.good([rank.finish() for rank in ranks])

    def test_shadowed_sources_are_named_in_one_line(self):
        done = job(2, "barrier", "--verbose", env={"SLURM_PROCID": "0", "SLURM_NTASKS": "1"})
        for rank, process in enumerate(done):
            self.assertEqual(process.status, 0)
            lines = [line for line in process.err_text.splitlines() if "overrides" in line]
            self.assertEqual(len(lines), 1, process.err_text)
            self.assertIn(f"RANK={rank} WORLD_SIZE=2", lines[0])
            self.assertIn("overrides Slurm (SLURM_PROCID=0 SLURM_NTASKS=1)", lines[0])
        table = self.good(job(2, "info", env={"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}))
        self.assertTrue(table[2].endswith("the environment (RANK=1 WORLD_SIZE=2 LOCAL_RANK=1), overrides Slurm (SLURM_PROCID=0 "
                                          "SLURM_NTASKS=1)"), table[2])


class Doctor(Checks):
    def test_a_healthy_job(self):
        lines = self.good(job(2, "doctor"))
        reported = [line for line in lines if line.startswith(("stops: ", "slows: ", "note: "))]
        for line in reported:  # notes about the machine, which are correct
            self.assertRegex(line, r"^note: (more ranks than cores|.*/dev/shm|.*process_vm_readv|.*single copy)")
        self.assertIn("2 ranks on 1 host", lines[-1])

    def test_a_port_that_the_kernel_gives_to_connections(self):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        lines = self.good(job(2, "doctor", "--init", f"tcp://127.0.0.1:{free_port()}", port=first + 1))
        self.assertEqual(len([line for line in lines if line.startswith(f"note: MASTER_PORT={first + 1}: port {first + 1} is one of")]), 1, lines)

    def test_faults_of_one_rank(self):
        port = free_port()
        ranks = [Process(TUTTI, "doctor", env=variables(rank, 3, port, **({"TUTTI_CHUNK": "4KiB", "NCCL_ALGO": "Ring"} if rank == 2 else {})))
                 for rank in range(3)]
        done = [rank.finish() for rank in ranks]
        self.assertEqual([rank.status for rank in done], [3, 3, 3], done[0].out_text + done[0].err_text)
        reported = [line for line in done[0].out_text.splitlines() if line.startswith(("stops: ", "slows: "))]
        self.assertEqual(len(reported), 2, done[0].out_text)
        self.assertRegex(reported[0], "^stops: TUTTI_CHUNK is .*4KiB on rank 2")
        self.assertRegex(reported[1], "^slows: NCCL_ALGO is .*Ring on rank 2")


class Refuses(Checks):
    """Invalid values: exit status 2 and one sentence with the name, the value and the remedy."""

    def refused(self, env, *said, words=("info",)):
        process = Process(TUTTI, *words, env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **env}).finish(20)
        self.fails([process], *said, status=2)
        self.assertEqual(process.err_text.count("\n"), 1, process.err_text)

    def test_broken_variables(self):
        right = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
        self.refused({**right, "RANK": "abc"}, "RANK=abc")
        self.refused({**right, "RANK": "4", "WORLD_SIZE": "4"}, "RANK=4", "WORLD_SIZE=4", "0 to 3")
        self.refused({**right, "WORLD_SIZE": "0"}, "WORLD_SIZE=0")
        self.refused({"RANK": "1", "WORLD_SIZE": "2"}, "RANK=1", "LOCAL_RANK is not")
        self.refused({"WORLD_SIZE": "2"}, "WORLD_SIZE=2", "RANK is not")
        self.refused({**right, "MASTER_PORT": "70000"}, "MASTER_PORT=70000", "65535")
        self.refused({**right, "MASTER_ADDR": ""}, "MASTER_ADDR is not set")
        self.refused(right, "LOCAL_RANK=1", "--local-rank=0", words=("--local_rank=0", "info"))
        self.refused(right, "--init=tcp://127.0.0.1", words=("info", "--init", "tcp://127.0.0.1"))
        self.refused({}, "--init=env://", "RANK", words=("info", "--init", "env://"))
        self.refused({}, "--rank=x", words=("info", "--rank", "x", "--ranks", "2"))

    def test_the_body_of_a_batch_script(self):
        body = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        for place in ({}, {"MASTER_ADDR": "", "MASTER_PORT": ""}):
            self.refused({**body, **place}, "SLURM_NTASKS=4", "srun has not started this process", "start it by srun")

    def test_timeouts_that_are_none(self):
        for value in ("-1", "x", "0", "1e9"):
            self.refused({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "TUTTI_TIMEOUT": value}, f"TUTTI_TIMEOUT={value}")

    def test_other_hosts_without_a_secret(self):
        self.refused({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "192.0.2.1"},
                     "MASTER_ADDR=192.0.2.1", "TUTTI_SECRET_FILE", "--insecure")

    def test_weak_secret(self):
        self.refused({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "TUTTI_SECRET": "swordfish"}, "TUTTI_SECRET", "too weak")


class Meets(Checks):
    def test_missing_ranks_are_named_on_all(self):
        done = job(3, "barrier", "--timeout", "3s", ranks=(0, 1))
        self.fails(done, "1 missing: rank 2")
        for process in done:
            self.assertTrue(2.5 < process.seconds < 8, process.seconds)

    def test_missing_rank_0(self):
        done = job(3, "barrier", "--timeout", "2s", ranks=(1, 2))
        self.fails(done, "1 missing: rank 0", "Connection refused")

    def test_root_comes_late(self):
        port = free_port()
        early = [Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(rank, 3, port)) for rank in (1, 2)]
        time.sleep(2)
        late = Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(0, 3, port))
        self.good([process.finish() for process in [late, *early]])

    def test_root_comes_15_s_late(self):
        """In time for a job with a limit of 30 s, too late for one of 5 s."""
        patient, hasty = free_port(), free_port()
        late = [Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(1, 2, patient)),
                Process(TUTTI, "barrier", "--quiet", "--timeout", "5s", env=variables(1, 2, hasty))]
        self.fails([late[1].finish()], "1 missing: rank 0")
        self.assertTrue(4.5 < late[1].seconds < 10, late[1].seconds)
        time.sleep(max(0.0, 15 - (time.monotonic() - late[0].begin)))
        root = Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(0, 2, patient))
        self.good([root.finish(), late[0].finish()])

    def test_rank_0_with_few_descriptors_says_how_many_it_needs(self):
        """Rank 0 has a connection to every rank for a while. The hard limit counts, since the soft limit is raised to it."""
        port = free_port()
        few = Process("sh", "-c", f"ulimit -n 32; exec {TUTTI} barrier", env=variables(0, 64, port)).finish(20)
        self.fails([few], "rank 0 may open 32 files", "64 ranks", "ulimit -n")
        soft = [Process("sh", "-c", f"ulimit -S -n 32; exec {TUTTI} barrier", env=variables(rank, 24, port)) for rank in range(24)]
        self.good([rank.finish() for rank in soft])

    def test_a_rank_that_dies_in_set_up_ends_the_others(self):
        port = free_port()
        others = [Process(TUTTI, "barrier", "--timeout", "20s", env=variables(rank, 3, port)) for rank in (0, 1)]
        self.fails([Process(TUTTI, "barrier", env=variables(2, 3, port, TUTTI_TIMEOUT="x")).finish()], "TUTTI_TIMEOUT=x", status=2)
        dies = Process(TUTTI, "barrier", "--timeout", "1s", env={**variables(3, 4, port)})
        dies.finish()
        for process in others:
            process.finish()
            self.assertEqual(process.status, 1)
        self.assertIn("rank 3", others[0].err_text + dies.err_text)

    def test_ranks_that_disagree_on_their_number(self):
        port = free_port()
        ranks = [Process(TUTTI, "barrier", "--timeout", "20s", env=variables(rank, size, port)) for rank, size in ((0, 3), (1, 3), (2, 4))]
        self.fails([rank.finish() for rank in ranks][:1], "rank 2", "4 ranks", "3", status=1)
        self.assertLess(ranks[0].seconds, 10)

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = job(2, "barrier", "--timeout", "4s", port=port, ranks=(0,))
        self.fails(done, "rank 0", f"127.0.0.1:{port}", "Address already in use (errno 98)", f"pid {os.getpid()} (",
                   "listens there: use another port", "net.ipv4.ip_local_port_range")

    def test_foreign_servers(self):
        """Servers that send nothing, send first, or send invalid lengths: an error on every rank, in time."""
        for greeting in (b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff" * 64):
            with self.subTest(greeting), socket.create_server(("127.0.0.1", 0)) as server:
                def serve():
                    connections = []
                    while True:
                        try:
                            connections.append(server.accept()[0])
                            connections[-1].sendall(greeting)
                        except OSError:
                            return
                threading.Thread(target=serve, daemon=True).start()
                done = job(3, "barrier", "--timeout", "3s", port=server.getsockname()[1])
                self.fails(done, "rank 0")
                self.assertTrue(all(process.seconds < 8 for process in done), [process.seconds for process in done])
                server.shutdown(socket.SHUT_RDWR)

    def test_a_pause_of_all_ranks_makes_no_rank_late(self):
        """A pause longer than their deadline: while they wait for the last rank, and at a random time of set-up."""
        for missing in (2, 0, None):
            with self.subTest(missing=missing):
                port = free_port()
                start = {rank: variables(rank, 3, port) for rank in range(3)}
                ranks = {rank: Process(TUTTI, "all-reduce", "--quiet", "--timeout", "2s", env=start[rank])
                         for rank in range(3) if rank != missing}
                if missing is not None:
                    self.assertTrue(eventually(lambda: all(waits_for_events(rank.child.pid) for rank in ranks.values()), 20))
                for rank in ranks.values():
                    rank.child.send_signal(signal.SIGSTOP)
                time.sleep(4)
                for rank in ranks.values():
                    rank.child.send_signal(signal.SIGCONT)
                if missing is not None:
                    ranks[missing] = Process(TUTTI, "all-reduce", "--quiet", "--timeout", "20s", env=start[missing])
                self.good([rank.finish() for rank in ranks.values()])

    def test_unauthenticated_connections_block_nobody(self):
        port = free_port()
        root = Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(0, 2, port))
        connections = []
        end = time.monotonic() + 10
        while len(connections) < 80 and time.monotonic() < end:
            try:
                connection = socket.create_connection(("127.0.0.1", port), 1)
                if len(connections) % 4:
                    connection.sendall([b"GET / HTTP/1.1\r\n\r\n" * 8, b"\xff" * 100, os.urandom(300)][len(connections) % 4 - 1])
                connections.append(connection)
            except ConnectionRefusedError:
                time.sleep(0.02)
            except OSError:
                pass
        self.assertGreater(len(connections), 40)
        self.good([root_and_one.finish() for root_and_one in
                   (root, Process(TUTTI, "barrier", "--quiet", "--timeout", "30s", env=variables(1, 2, port)))])

    def test_wrong_secret(self):
        port = free_port()
        ranks = [Process(TUTTI, "barrier", "--timeout", "3s", env=variables(rank, 2, port, TUTTI_SECRET=secrets.token_hex(32)))
                 for rank in range(2)]
        done = [rank.finish() for rank in ranks]
        self.fails(done)
        self.assertIn("1 missing: rank 1", done[0].err_text)
        self.assertIn("the same secret", done[1].err_text)

    def test_loopback_alone_is_served(self):
        """If MASTER_ADDR is a loopback address, rank 0 listens on no other one."""
        port = free_port()
        root = Process(TUTTI, "barrier", "--timeout", "3s", env=variables(0, 2, port))
        listening = ""
        end = time.monotonic() + 3
        while not listening and time.monotonic() < end:
            rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
            listening = " ".join(row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}"))
        root.finish()
        self.assertEqual(listening, f"0100007F:{port:04X}")

    def test_messages_at_the_root_are_linear(self):
        counts = {}
        for size in (8, 16, 32):
            done = job(size, "barrier", "--verbose")
            counts[size] = int(re.search(r"store [\d.]+ ms \((\d+) messages\)", done[0].out_text + done[0].err_text)[1])
        self.assertEqual({size: count / (size - 1) for size, count in counts.items()}, dict.fromkeys(counts, counts[8] / 7))


if __name__ == "__main__":
    tap.main()

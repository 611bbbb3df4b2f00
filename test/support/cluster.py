"""A cluster of network namespaces for a test: `scripts/cluster` with deadlines, and a name of its own per process.

    with Cluster(3, slots=2, rate="1gbit") as cluster:
        result = cluster.run("-np", "6", "hostname")      # .returncode, .stdout, .stderr
        cluster.exec("node2", "ip", "address", check=True)

Leaving the block takes the cluster down, whatever happened in it.
"""
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / "scripts" / "cluster"
HOSTFILES = REPO / "hostfiles"


@functools.cache
def why_not():
    """Why no cluster can be made here, in one sentence; None where it can."""
    missing = [tool for tool in ("ip", "tc", "nsenter", "unshare", "mpirun")
               if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if missing:
        return f"a cluster needs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    with Cluster(name=f"probe-{os.getpid()}") as probe:
        done = probe.up(1, check=False)
        return None if done.returncode == 0 else done.stderr.strip()


# Sanitized programs take several times as long: scripts/sanitize says how many.
TIMES = float(os.environ.get("TUTTI_TEST_TIMES", "1"))


def command(*words, timeout=60, check=False, cwd=None, env=None):
    """Runs a command to its end and gives its output. Past the deadline its whole process group is ended, gently first
    (mpirun passes a SIGTERM on to its ranks), and TimeoutError shows what it had printed. Output goes through files: a
    process that stays behind would hold a pipe open and hang us."""
    words = [str(word) for word in words]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd, start_new_session=True,
                                   env=None if env is None else {**os.environ, **env})
        late = False
        try:
            process.wait(timeout * TIMES)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            for how in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, how)
                    try:
                        process.wait(3)
                    except subprocess.TimeoutExpired:
                        pass
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(words, process.returncode, out.read(), err.read())
    if late:
        raise TimeoutError(f"{' '.join(words)} took more than {timeout} s\n{done.stdout}{done.stderr}")
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


# Stands before a command on each host. As on real hosts: a boot of its own each, so that no kernel reports processes of other hosts.
OWN_KERNEL = ["unshare", "--mount", "sh", "-c", """
file=$(mktemp); echo "boot-of-$(hostname)" >"$file"; mount --bind "$file" /proc/sys/kernel/random/boot_id; rm "$file"; exec "$@"
""", "sh"]


class Cluster:
    """`with Cluster(hosts, slots, rate)` brings it up; Cluster() alone leaves that to the test."""

    def __init__(self, hosts=None, slots=1, rate=None, name=None):
        self.hosts, self.slots, self.rate = hosts, slots, rate
        self.name = name or f"test-{os.getpid()}"

    def __enter__(self):
        if self.hosts:
            try:
                self.up()
            except BaseException:
                self.down()
                raise
        return self

    def __exit__(self, *_):
        self.down()

    def call(self, *words, **options):
        """scripts/cluster with any words, for this cluster."""
        return command(sys.executable, SCRIPT, "--name", self.name, *words, **options)

    def up(self, hosts=None, slots=None, rate=None, *, timeout=30, check=True):
        words = [hosts or self.hosts, "--slots", slots or self.slots, "--rate", rate or self.rate or "none"]
        return self.call("up", *words, timeout=timeout, check=check)

    def run(self, *words, timeout=60, check=False, **options):
        """mpirun over the hosts. Only what `-x` names reaches the ranks on other hosts than node1."""
        return self.call("run", *words, timeout=timeout, check=check, **options)

    def exec(self, host, *words, timeout=60, check=False, **options):
        return self.call("exec", host, *words, timeout=timeout, check=check, **options)

    def start(self, host, *words, **options):
        """A command on a host in the background: a Popen, ended by the caller or at the latest by down()."""
        return subprocess.Popen([sys.executable, str(SCRIPT), "--name", self.name, "exec", host, *map(str, words)],
                                stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def status(self):
        return self.call("status", timeout=10)

    def down(self):
        return self.call("down", timeout=30, check=True)

    def holders(self):
        """The pid of each host's holder, by host, as `status` shows them."""
        rows = [line.split() for line in self.status().stdout.splitlines()[1:]]
        return {row[0]: int(row[3]) for row in rows if row[2] == "holder"}

    def folder(self):
        """Where the hostfile and the state of this cluster are kept while it is up."""
        return Path(self.status().stdout.splitlines()[0].rpartition(" hostfile ")[2]).parent

    def bytes_sent(self, host):
        """What this host's eth0 has sent since it is up, in bytes on the wire."""
        return int(self.exec(host, "cat", "/sys/class/net/eth0/statistics/tx_bytes", check=True).stdout)

    def namespaces(self):
        """The pinned network namespaces of this cluster: none after down()."""
        return sorted(path.name for path in Path("/run/netns").glob(f"{self.name}-*"))


def processes_in(spaces):
    """The pids of all processes in one of these network namespaces, each a string such as 'net:[4026532177]'."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") in spaces:
                found.append(int(pid))
        except OSError:
            pass
    return found


def eventually(condition, timeout=5.0):
    """Whether the condition comes true in time."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True

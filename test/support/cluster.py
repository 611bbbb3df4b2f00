"""A cluster of network namespaces for a test: `scripts/cluster` with deadlines, and a unique name per process.

    with Cluster(3, slots=2, rate="1gbit") as cluster:
        result = cluster.run("-np", "6", "hostname")      # .returncode, .stdout, .stderr
        cluster.exec("node2", "ip", "address", check=True)

Leaving the block removes the cluster in any case.
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
    """Why no cluster can be created here, in one sentence; None if it can."""
    missing = [tool for tool in ("ip", "tc", "nsenter", "unshare", "mpirun")
               if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if missing:
        return f"a cluster needs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    with Cluster(name=f"probe-{os.getpid()}") as probe:
        done = probe.up(1, check=False)
        return None if done.returncode == 0 else done.stderr.strip()


# Factor for time limits, from scripts/sanitize: sanitized programs take several times as long.
TIMES = float(os.environ.get("TUTTI_TEST_TIMES", "1"))


def command(*words, timeout=60, check=False, cwd=None, env=None):
    """Runs a command and returns its output. Kills its process group after `timeout`, first with SIGTERM (which mpirun forwards to its
    ranks), and raises TimeoutError with the output so far. Output goes to files: a process that stays behind would keep a pipe open."""
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


# A prefix for commands on each host. It gives each host its own boot id, as real hosts have, so that no kernel reports processes of other
# hosts.
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
        """Runs scripts/cluster with these arguments for this cluster."""
        return command(sys.executable, SCRIPT, "--name", self.name, *words, **options)

    def up(self, hosts=None, slots=None, rate=None, *, timeout=30, check=True):
        words = [hosts or self.hosts, "--slots", slots or self.slots, "--rate", rate or self.rate or "none"]
        return self.call("up", *words, timeout=timeout, check=check)

    def run(self, *words, timeout=60, check=False, **options):
        """Runs mpirun over the hosts. Ranks on other hosts than node1 get only the variables that `-x` names."""
        return self.call("run", *words, timeout=timeout, check=check, **options)

    def exec(self, host, *words, timeout=60, check=False, **options):
        return self.call("exec", host, *words, timeout=timeout, check=check, **options)

    def start(self, host, *words, **options):
        """Starts a command on a host in the background. Returns a Popen; the caller or down() ends it."""
        return subprocess.Popen([sys.executable, str(SCRIPT), "--name", self.name, "exec", host, *map(str, words)],
                                stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def status(self):
        return self.call("status", timeout=10)

    def down(self):
        return self.call("down", timeout=30, check=True)

    def holders(self):
        """The pid of each host's holder, from `status`."""
        rows = [line.split() for line in self.status().stdout.splitlines()[1:]]
        return {row[0]: int(row[3]) for row in rows if row[2] == "holder"}

    def folder(self):
        """Folder with the hostfile and the state of this cluster while it is up."""
        return Path(self.status().stdout.splitlines()[0].rpartition(" hostfile ")[2]).parent

    def bytes_sent(self, host):
        """Bytes that this host's eth0 has sent since it is up, including headers."""
        return int(self.exec(host, "cat", "/sys/class/net/eth0/statistics/tx_bytes", check=True).stdout)

    def namespaces(self):
        """The pinned network namespaces of this cluster; none after down()."""
        return sorted(path.name for path in Path("/run/netns").glob(f"{self.name}-*"))


def processes_in(spaces):
    """The pids of all processes in these network namespaces, which are strings such as 'net:[4026532177]'."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") in spaces:
                found.append(int(pid))
        except OSError:
            pass
    return found


def eventually(condition, timeout=5.0):
    """Whether the condition becomes true within `timeout` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True

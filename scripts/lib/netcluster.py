"""Hosts made of network namespaces: created, found, entered and removed by `scripts/cluster`.

A stored pid is never trusted: a holder is identified by pid, start time and namespace. Processes are killed through a pidfd that was opened
before they were identified.
"""
import contextlib
import fcntl
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

NETNS = Path("/run/netns")  # folder where `ip netns` pins namespaces by name
SUBNET = "10.77.0"
PACKAGE = {"ip": "iproute2", "tc": "iproute2", "mpirun": "openmpi-bin", "nsenter": "util-linux", "unshare": "util-linux",
           "mount": "mount", "hostname": "hostname", "sleep": "coreutils"}

# Runs as the holder of a host: $1 is its name, $2 the cluster's folder. /sys is mounted again, since it shows the interfaces of the network
# namespace that mounted it. The cgroup mounts below it are kept.
HOLDER = """set -e
hostname "$1"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$2/session"
mount --bind "$2/hosts" /etc/hosts
mount -t sysfs sysfs "$2/sys"
if [ -d "$2/sys/fs/cgroup" ]; then mount --rbind /sys/fs/cgroup "$2/sys/fs/cgroup"; fi
mount --move "$2/sys" /sys
echo ready
exec sleep infinity >/dev/null 2>&1"""


class Problem(Exception):
    """Ends the command with one sentence and an exit status: 2 for errors that the user can fix, 1 for others."""

    def __init__(self, sentence, status=2):
        super().__init__(sentence)
        self.status = status


# ---- machine

def need(*tools):
    """Reports missing tools in one sentence, before anything is changed."""
    effective = int(re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.M)[1], 16)
    if not all(effective >> bit & 1 for bit in (12, 21)):  # CAP_NET_ADMIN, CAP_SYS_ADMIN
        raise Problem("network namespaces need the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN; run this as root")
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        packages = " ".join(sorted({PACKAGE[tool] for tool in missing}))
        raise Problem(f"this needs {', '.join(missing)}, not found in PATH; on Debian or Ubuntu: apt install {packages}")


def tool(*argv):
    """Runs a system tool and waits for it. If it fails, its error is reported."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Problem(f"`{shlex.join(argv)}` failed: {' '.join(done.stderr.split()) or done.returncode}", 1)


def namespace(path):
    """The identity of a namespace; None if it can't be read."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        return None


def namespaces_of(pid):
    return {kind: namespace(f"/proc/{pid}/ns/{kind}") for kind in ("net", "ipc", "uts", "mnt")}


def start_time(pid):
    """The start time of a process. Together with the pid it identifies the process, since a reused pid has another start time."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return None


def state_root():
    """The state folder: /run if it is writable (root: the same in each session), else XDG_RUNTIME_DIR, else /tmp."""
    choices = [Path(folder, "tutti-cluster") for folder in ("/run", os.environ.get("XDG_RUNTIME_DIR"), "/tmp") if folder]
    for path in [path for path in choices if path.is_dir()] + [p for p in choices if os.access(p.parent, os.W_OK)]:
        if not path.exists() or path.stat().st_uid in (0, os.geteuid()):
            return path
    raise Problem("no folder to keep the cluster's state in; set XDG_RUNTIME_DIR to one that can be written")


@contextlib.contextmanager
def locked():
    """Allows one `up` or `down` at a time. The kernel releases the lock when the process ends."""
    root = state_root()
    root.mkdir(mode=0o755, exist_ok=True)
    folder = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


# ---- state

class Cluster:
    """One cluster by name: its namespaces NAME-switch, NAME-node1, …, and its state folder."""

    def __init__(self, name):
        self.name, self.folder = name, state_root() / name
        self.hostfile = self.folder / "hostfile"
        try:
            self.state = json.loads((self.folder / "state.json").read_text())
        except (OSError, ValueError):
            self.state = None

    @property
    def hosts(self):
        return self.state["hosts"] if self.state else []

    def pinned(self):
        """The network namespaces of this cluster by name, including those of an interrupted `up`."""
        ours = re.compile(re.escape(self.name) + r"-(switch|node\d+)")
        return sorted(path for path in NETNS.glob(f"{self.name}-*") if ours.fullmatch(path.name))

    def lives(self, host):
        """Whether the holder is the process that was started here, in its namespace (if that is readable)."""
        net = namespace(f"/proc/{host['pid']}/ns/net")
        return start_time(host["pid"]) == host["start"] and (
            list(net) == host["net"] if net else os.geteuid() != 0)

    def host(self, name):
        if not self.state:
            raise Problem(f"no cluster {self.name} is up; start one with `scripts/cluster up 3`")
        for host in self.hosts:
            if host["name"] == name:
                if not self.lives(host):
                    raise Problem(f"{name} of cluster {self.name} is gone; "
                                  f"`scripts/cluster up {len(self.hosts)}` builds it anew")
                return host
        raise Problem(f"no host {name!r} in cluster {self.name}; it has node1 to {self.hosts[-1]['name']}")

    def spaces(self):
        """All namespaces that certainly belong to this cluster. Pinned ones and those of a living holder can't be reused."""
        found = {namespace(path) for path in self.pinned()}
        for host in filter(self.lives, self.hosts):
            found |= set(namespaces_of(host["pid"]).values())
        own = namespaces_of("self")
        if own["net"] in found:
            raise Problem(f"this shell is inside cluster {self.name}; leave it first")
        return found - set(own.values()) - {None}

    def clear(self):
        """Removes all remaining processes, namespaces and state."""
        spaces = self.spaces()
        for attempt in range(8):  # SIGTERM first, then SIGKILL; repeated for processes that were forked meanwhile
            if not end_processes(spaces, signal.SIGTERM if attempt == 0 else signal.SIGKILL):
                break
        else:
            raise Problem(f"some processes of cluster {self.name} do not end; see `ip netns pids {self.name}-node1`", 1)
        for path in self.pinned():
            if os.path.ismount(path):
                tool("ip", "netns", "del", path.name)
            else:
                path.unlink()  # left by an interrupted `ip netns add`
        if self.folder.is_dir():
            for entry in os.scandir(self.folder):  # not recursive: two of the folders are mount points
                os.rmdir(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
            self.folder.rmdir()
        self.state = None

    def build(self, count, slots, rate, agent):
        """Creates the switch and the hosts. Veth pairs are created in their namespaces, so the machine never shows them."""
        self.folder.mkdir(mode=0o755)
        for place in ("session", "sys"):
            (self.folder / place).mkdir()
        names = [f"node{number}" for number in range(1, count + 1)]
        addresses = [f"{SUBNET}.{number}" for number in range(1, count + 1)]
        hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        (self.folder / "hosts").write_text("\n".join(hosts + list(map(" ".join, zip(addresses, names)))) + "\n")
        self.hostfile.write_text("".join(f"{name} slots={slots}\n" for name in names))
        (self.folder / "rsh").write_text("#!/bin/sh\nexec " + shlex.join(
            [sys.executable, str(agent), "--name", self.name, "rsh"]) + ' "$@"\n')

        switch = f"{self.name}-switch"
        tool("ip", "netns", "add", switch)
        tool("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        tool("ip", "-n", switch, "link", "set", "br0", "up")
        for name, address in zip(names, addresses):
            node = f"{self.name}-{name}"
            tool("ip", "netns", "add", node)
            tool("ip", "-n", switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", node)
            tool("ip", "-n", node, "address", "add", f"{address}/24", "dev", "eth0")
            for where, device in ((node, "lo"), (node, "eth0"), (switch, name)):
                tool("ip", "-n", where, "link", "set", device, "up")
            tool("ip", "-n", switch, "link", "set", name, "master", "br0")
            if rate:
                for where, device in ((node, "eth0"), (switch, name)):
                    shape(where, device, rate)

        holders = [subprocess.Popen(
            ["nsenter", f"--net={NETNS}/{self.name}-{name}", "unshare", "--uts", "--ipc", "--mount",
             "/bin/sh", "-c", HOLDER, "holder", name, str(self.folder)], cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for name in names]
        state = []
        try:
            for name, address, holder in zip(names, addresses, holders):
                said = holder.stdout.readline().strip()
                if said != "ready":
                    raise Problem(f"{name} could not be set up: {said or 'its holder ended'}", 1)
                state.append({"name": name, "address": address, "pid": holder.pid, "start": start_time(holder.pid),
                              "net": namespace(f"/proc/{holder.pid}/ns/net")})
        except BaseException:
            for holder in holders:  # a holder that has not entered its namespace yet would not be found there
                holder.kill()
            raise
        partial = self.folder / "state.new"
        partial.write_text(json.dumps({"slots": slots, "rate": rate, "hosts": state}, indent=1))
        partial.rename(self.folder / "state.json")
        self.state = json.loads((self.folder / "state.json").read_text())

    def summary(self):
        count, slots = len(self.hosts), self.state["slots"]
        return (f"cluster {self.name}: {count} host{'s' * (count > 1)}, {slots} slot{'s' * (slots > 1)} each, "
                f"rate {self.state['rate'] or 'none'}, hostfile {self.hostfile}")

    def enter(self, host, argv, environment):
        """Replaces this process by the command on that host, with its exit status and signals."""
        os.environ.clear()
        os.environ.update(environment)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and the command would inherit that
            signal.signal(number, signal.SIG_DFL)
        # nsenter starts in the root of the mount namespace, so the working directory must be set again.
        os.execvp("nsenter", ["nsenter", "-t", str(host["pid"]), "-n", "-u", "-i", "-m", "/bin/sh", "-c",
                              'cd -- "$0" && exec "$@"', os.getcwd(), *argv])


def bits(rate):
    number, unit = re.fullmatch(r"([\d.]+)([kmg]?)bit", rate).groups()
    return int(float(number) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[unit])


def burst_of(rate):
    """Size of the token bucket of a link, in bytes."""
    return max(16384, bits(rate) * 131072 // 10**9)


def shape(where, device, rate):
    """Shapes a device with a token bucket of about 1 ms. A smaller bucket splits the 64 KiB packets of TCP segmentation offload, which
    costs rate; a larger one passes whole messages unshaped. With a queue of 20 ms, a plain TCP stream reaches 949 Mbit/s at 1gbit."""
    try:
        tool("tc", "-n", where, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{bits(rate)}bit",
             "burst", str(burst_of(rate)), "latency", "20ms")
    except Problem as problem:
        raise Problem(f"{problem}; --rate needs the kernel module sch_tbf (on Ubuntu in linux-modules-extra)", 1) from None


def end_processes(spaces, how):
    """Signals every process in these namespaces and waits a second. Returns whether there were any. Opens the pidfd before it identifies
    a process, so a reused pid can't be hit."""
    held = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if spaces.isdisjoint(namespaces_of(pid).values()):
            continue
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(int(pid))
            held.append(process)
            if not spaces.isdisjoint(namespaces_of(pid).values()):
                signal.pidfd_send_signal(process, how)
                signal.pidfd_send_signal(process, signal.SIGCONT)
    poll = select.poll()
    for process in held:
        poll.register(process, select.POLLIN)
    rest = set(held)
    while rest:
        ended = [process for process, _ in poll.poll(1000)]
        if not ended:
            break
        for process in ended:
            poll.unregister(process)
            rest.remove(process)
    for process in held:
        os.close(process)
    return bool(held)

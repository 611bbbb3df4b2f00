"""A Slurm of one host for a test, with its own munge, all in a temporary folder. Uses no service of the machine.

    with Slurm() as slurm:
        result = slurm.srun("-n", "4", "--mpi=pmix", "hostname")
"""
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from support.cluster import command
from support.ports import free_port

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:8
"""


def why_not():
    """Why there can be no Slurm here; None where it can be tried."""
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=SEARCH)]
    if missing:
        return f"no {', '.join(missing)} (scripts/launchers --system installs slurm-wlm and munge)"
    return None if os.geteuid() == 0 else "slurmd needs root"


class Slurm:
    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-slurm-", dir="/tmp"))
        self.daemons = []
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o400)
        host = os.uname().nodename.partition(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, folder=self.folder, controller_port=free_port(), daemon_port=free_port()))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": SEARCH}
        self._daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                     f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munge.pid",
                     f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munge.log")
        self._await(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._daemon("slurmctld", "-D")
        self._daemon("slurmd", "-D", "-N", host)
        self._await(lambda: "idle" in command("sinfo", "-h", "-o", "%T", env=self.environment).stdout, "slurmd")

    def _daemon(self, *words):
        log = (self.folder / f"{words[0]}.out").open("w")
        self.daemons.append(subprocess.Popen([shutil.which(words[0], path=SEARCH), *words[1:]], stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, start_new_session=True,
                                             env={**os.environ, **self.environment}))
        log.close()

    def _await(self, condition, what, timeout=60):
        end = time.monotonic() + timeout
        while not condition():
            late = time.monotonic() > end
            if late or any(daemon.poll() is not None for daemon in self.daemons):
                logs = "".join(f"{path.name}: {path.read_text()[-600:]}\n" for path in self.folder.glob("*.out"))
                raise RuntimeError(f"{what} does not come up\n{logs}")
            time.sleep(0.2)

    def srun(self, *words, timeout=120, env=None):
        return command("srun", *words, timeout=timeout, env={**self.environment, **(env or {})})

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

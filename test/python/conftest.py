"""How the tests start ranks."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXAMPLES = ROOT / "docs" / "examples" / "pytorch"

_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TUTTI_", "OMPI_", "PMI", "SLURM_")


def require_backend() -> None:
    """Skips the module without torch, or with one that the backend does not serve."""
    pytest.importorskip("torch", reason="torch is not installed")
    try:
        import tutti.torch  # noqa: F401
    except RuntimeError as error:
        pytest.skip(str(error), allow_module_level=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**settings) -> dict:
    """This process's, without what a launcher may have left there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS) or name == "TUTTI_TORCH_CACHE"}
    return {**kept, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in settings.items()}}


class Ranks:
    """Processes of one scenario of ranks.py or communicator_ranks.py."""

    def __init__(self, script: str, scenario: str, size: int, **settings):
        port = free_port()
        self.files, self.processes = [], []
        for rank in range(size):
            output = tempfile.TemporaryFile("w+")
            self.files.append(output)
            variables = environment(
                RANK=rank, WORLD_SIZE=size, LOCAL_RANK=rank, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **settings
            )
            self.processes.append(
                subprocess.Popen([sys.executable, HERE / script, scenario], env=variables, stdout=output, stderr=subprocess.STDOUT)
            )

    def wait(self, timeout: float) -> tuple:
        """Exit statuses and outputs. Kills what still runs at the timeout, in seconds."""
        try:
            statuses = [process.wait(timeout) for process in self.processes]
        except subprocess.TimeoutExpired:
            statuses = [process.poll() for process in self.processes]
            for process in self.processes:
                process.kill()
                process.wait()
        outputs = []
        for file in self.files:
            file.seek(0)
            outputs.append(file.read())
            file.close()
        return statuses, outputs


@pytest.fixture
def run_ranks():
    def run(script: str, scenario: str, size: int, timeout: float = 120, **settings) -> list:
        """Each rank's output. Fails where a rank does not end with status 0."""
        statuses, outputs = Ranks(script, scenario, size, **settings).wait(timeout)
        assert statuses == [0] * size, "\n".join(f"--- rank {rank}: {status}\n{text[-3000:]}" for rank, (status, text) in enumerate(zip(statuses, outputs)))
        return outputs

    return run

"""Which torch is served, and what `import torch` does."""

import subprocess
import sys

import pytest
from conftest import environment, require_backend

require_backend()
import torch  # noqa: E402
from tutti.torch._versions import require_served_version  # noqa: E402


def run(program: str, **settings) -> None:
    result = subprocess.run([sys.executable, "-c", program], env=environment(**settings), capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


def test_import_of_torch_registers_the_names_and_loads_nothing():
    run(
        "import sys, torch.distributed as dist\n"
        "assert 'TUTTI' in dist.Backend._plugins and 'tutti' not in sys.modules\n"
        "dist.init_process_group('tutti', init_method='tutti://')\n"
        "assert 'tutti' in sys.modules and dist.get_world_size() == 1\n"
        "dist.destroy_process_group()"
    )


def test_without_autoload_the_program_imports_the_package():
    run("import torch, tutti.torch; assert 'TUTTI' in torch.distributed.Backend._plugins", TORCH_DEVICE_BACKEND_AUTOLOAD=0)


@pytest.mark.parametrize("version", ["1.13.0a0", "2.5.1+cu124"])
def test_an_old_version_is_refused(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match=rf"needs torch 2\.6 or later, and this is torch {version.replace('+', '.')}: install"):
        require_served_version()


def test_the_old_abi_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "compiled_with_cxx11_abi", lambda: False)
    with pytest.raises(RuntimeError, match="_GLIBCXX_USE_CXX11_ABI=1, and this torch .* is not: install torch 2.7"):
        require_served_version()

"""The plugin of pytest: light, and quiet in projects that do not use it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import clean_environ

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = ("-p", "app.pytest_plugin")
RUN_S = 300


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project as one does from its folder; Rollcall is found behind the project itself."""
    environ = clean_environ() | {"PYTHONPATH": f"{folder}:{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *PLUGIN, *words]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=RUN_S)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_a_project_that_does_not_use_it_loads_nothing_of_a_node(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import sys\n"
        "def test_nothing_is_loaded():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] in ('app', 'distro')}\n"
        "    assert ours == {'app', 'app.pytest_plugin'}\n"
        "    assert not {'flask', 'grpc', 'uvloop'} & set(sys.modules)\n"
    )
    done = run_pytest(project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_fixtures_bring_a_registry_and_a_cluster_with_the_settings_of_the_project(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def rollcall_settings():\n"
        "    return {'nacos.naming.expireInstance': False}\n"
    )
    (project / "test_it.py").write_text(
        "def test_one(rollcall):\n"
        "    rollcall.register('orders')\n"
        "    rollcall.clock.advance(60)\n"
        "    assert len(rollcall.instances('orders')) == 1\n"
        "def test_each_has_its_own(rollcall):\n"
        "    assert rollcall.instances('orders') == []\n"
        "def test_three(rollcall_cluster):\n"
        "    rollcall_cluster[0].register('orders')\n"
        "    assert rollcall_cluster.wait_for_instances('orders')\n"
    )
    done = run_pytest(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout

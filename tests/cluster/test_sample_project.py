"""Rollcall in the tests of another project, from the wheel, in an environment of its own."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.built import install, run
from tests.support.other_packages import DISTRO, OURS_BESIDE
from tests.support.processes import clean_environ

SAMPLE = Path(__file__).parent / "sample_project"
RUN_S = 300


@pytest.fixture(scope="module")
def installed(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel and pytest."""
    return install(tmp_path_factory.mktemp("sample"), archives[1], "pytest")


def run_pytest(installed: Path, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a project's tests from its folder, with warnings as errors."""
    environ = {name: value for name, value in clean_environ().items() if not name.startswith(("PYTHONPATH", "PYTEST"))}
    command = [installed / "python", "-m", "pytest", "-q", "-W", "error", *words]
    return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=RUN_S)


def test_the_sample_project_runs_its_tests(installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = shutil.copytree(SAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    begun_s = time.monotonic()
    done = run_pytest(installed, project, "--durations=0", "-vv")
    taken_s = time.monotonic() - begun_s
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 6 passed" in f" {done.stdout.splitlines()[-1].strip('= ')}"
    with capsys.disabled():
        print(f"\nthe sample project's tests: {done.stdout.splitlines()[-1].strip('= ')}, {taken_s:.1f} s with pytest")
        for line in re.findall(r"^[0-9.]+s (?:setup|call|teardown) .*$", done.stdout, re.MULTILINE):
            print(f"  {line}")


def test_a_project_with_packages_of_the_names_in_our_repository_works_beside_it(
    installed: Path, tmp_path: Path
) -> None:
    """Its own `app`, and PyPI's `distro`, which is installed after ours and removed before it."""
    pip = (installed / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "distro", folder=tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_it.py").write_text(
        "import app, distro\n"
        "def test_of_the_project():\n"
        "    assert app.ANSWER == 42 and distro.id()\n"
        "def test_with_the_fixture(rollcall):\n"
        "    rollcall.register('orders')\n"
        "    assert rollcall.instances('orders')\n"
        "    assert app.ANSWER == 42 and distro.id()\n"
    )
    done = run_pytest(installed, tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    run(installed / "python", "-c", DISTRO + OURS_BESIDE + DISTRO, folder=tmp_path)
    run(*pip, "uninstall", "--yes", "distro", folder=tmp_path)
    run(installed / "python", "-c", OURS_BESIDE, folder=tmp_path)


def test_a_run_that_uses_no_fixture_loads_nothing_of_a_node(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_nothing_is_loaded():\n"
        "    ours = {name for name in sys.modules if name.startswith('rollcall')}\n"
        "    assert ours == {'rollcall_registry', 'rollcall_registry.pytest_plugin'}\n"
    )
    done = run_pytest(installed, tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

"""Rollcall in the tests of another project, from the wheel, in an environment of its own."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.built import install
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


def test_a_project_with_a_package_of_the_same_name_runs_on_and_is_told(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_it.py").write_text(
        "import app\n"
        "def test_of_the_project():\n"
        "    assert app.ANSWER == 42\n"
        "def test_with_the_fixture(rollcall):\n"
        "    raise AssertionError('never called')\n"
    )
    done = run_pytest(installed, tmp_path)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert f"here `app` is {tmp_path / 'app'}." in done.stdout
    done = run_pytest(installed, tmp_path, "-p", "no:rollcall", "-k", "of_the_project")
    assert done.returncode == 0, done.stdout + done.stderr

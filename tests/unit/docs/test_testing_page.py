"""docs/testing.md: each example runs, and its table has what there is to call."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import app
from app import testing
from tests.support.processes import clean_environ

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FIXTURES = [one for one in EXAMPLES if "@pytest.fixture" in one]
TESTS = [one for one in EXAMPLES if "def test_" in one]
PROGRAMS = [one for one in EXAMPLES if one not in FIXTURES + TESTS]
RUN_S = 300


def first_call(example: str) -> str:
    return next(line for line in example.splitlines() if line.startswith("with "))


@pytest.mark.parametrize("example", PROGRAMS, ids=first_call)
def test_an_example_runs(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The name under which the wheel installs this code; tests/cluster/test_sample_project.py uses the wheel itself.
    monkeypatch.setitem(sys.modules, "rollcall_registry", app)
    monkeypatch.setitem(sys.modules, "rollcall_registry.testing", testing)
    exec(compile(example, "docs/testing.md", "exec"), {"__name__": "example"})


def test_the_examples_of_pytest_run(tmp_path: Path) -> None:
    [settings], [tests] = FIXTURES, TESTS
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(settings)
    (tmp_path / "test_it.py").write_text(tests)
    environ = clean_environ() | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "app.pytest_plugin"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=RUN_S
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_page_names_what_there_is_to_call() -> None:
    told = set(re.findall(r"`([a-z_]+)(?:\(|`)", PAGE)) | set(re.findall(r"\.([a-z_]+)\(", PAGE))
    for kind in (testing.Registry, testing.Cluster):
        there = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
        assert there - told == set(), kind

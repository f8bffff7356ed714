"""The tables of docs/compatibility*.md have a cell for each test of libraries and real Nacos that there is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs.compatibility import NACOS_TARGET, SHOWN_AS, TARGET, documents, read_results
from tests.support.processes import clean_environ

ROOT = Path(__file__).resolve().parents[3]
TESTS = ("tests/sdk", "tests/conformance/test_conformance.py", "tests/conformance/test_conformance_v2.py",
         "tests/peers/test_real_nacos.py", "tests/peers/test_real_nacos_2.py",
         "tests/peers/test_real_nacos_3.py", "tests/peers/test_rolling_change.py",
         "tests/peers/test_sdk_programs.py")  # fmt: skip
CELL = re.compile(rf"(?<=\| )({'|'.join(re.escape(text) for text in SHOWN_AS.values() if text)})(?= \|)")


def shape(page: str) -> list[str]:
    """The rows of all tables, without what became of the tests."""
    return [CELL.sub("?", line) for line in page.splitlines() if line.startswith("|")]


def test_the_tables_are_those_of_the_tests() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *TESTS]
    said = subprocess.run(command, cwd=ROOT, check=True, env=clean_environ(), capture_output=True, text=True).stdout
    there = [line.removeprefix("tests/") for line in said.splitlines() if "::" in line]
    assert len(there) > 100
    made = documents(dict.fromkeys(there, "passed"), "")
    assert list(made) == [TARGET, NACOS_TARGET]
    for page, text in made.items():
        assert shape(page.read_text(encoding="utf-8")) == shape(text), "run them, then scripts.docs.compatibility"


def test_results_are_those_that_pytest_wrote(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    cases = {"one[a-b]": "", "two": "<failure/>", "three": "<error/>", "four": "<skipped/>"}
    lines = [f'<testcase classname="tests.sdk.job" name="{name}">{child}</testcase>' for name, child in cases.items()]
    file.write_text(f"<testsuites><testsuite>{''.join(lines)}</testsuite></testsuites>")
    assert read_results([file]) == {
        "sdk/job.py::one[a-b]": "passed",
        "sdk/job.py::two": "failed",
        "sdk/job.py::three": "failed",
        "sdk/job.py::four": "skipped",
    }


def test_a_test_that_no_table_has_is_named() -> None:
    with pytest.raises(LookupError, match=r"sdk/job\.py::test_it"):
        documents({"sdk/job.py::test_it": "passed"}, "")

"""A Python that lacks a package has no verdict, and says so with the exit code of that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
HIDING = """
import runpy, sys

class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
sys.argv = [{script!r}, *{arguments!r}]
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.mark.parametrize("package", ["pyspark", "marshmallow", "fsspec"])
def test_the_missing_package_is_named(package: str, tmp_path: Path) -> None:
    arguments = ["--dumps", str(tmp_path), "--out", str(tmp_path / "out"), "--night", "2026-11-20"]
    code = HIDING.format(package=package, script=str(ROOT / "scripts" / "distro_check.py"), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("could not judge: ")
    assert package in done.stdout.lower()
    assert "pip install 'rollcall-registry[audit]'" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_verdict_as_json_says_the_same(tmp_path: Path) -> None:
    arguments = ["--dumps", str(tmp_path), "--out", str(tmp_path / "out"), "--night", "2026-11-20", "--json"]
    code = HIDING.format(package="pyspark", script=str(ROOT / "scripts" / "distro_check.py"), arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert (done.returncode, told["night"], told["verdict"]) == (2, "2026-11-20", "unjudged")
    assert told["line"].startswith("could not judge: ")

"""Wheel and source archive: made from the tree, complete, and enough for a node in an empty environment."""

import json
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.built import ROOT, install, run
from tests.support.client import OK, Client
from tests.support.processes import clean_environ, eventually, free_ports

PACKAGE = "rollcall_registry"


@pytest.fixture(scope="module")
def installed(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that holds the wheel, and what that needs, and nothing else."""
    return install(tmp_path_factory.mktemp("empty"), archives[1])


def test_archives_have_all_modules_and_data_and_the_wheel_has_one_import_name(archives: tuple[Path, Path]) -> None:
    source, wheel = archives
    tree = {str(path.relative_to(ROOT)) for top in ("app", "distro") for path in (ROOT / top).rglob("*.py")}
    templates = {str(path.relative_to(ROOT)) for path in (ROOT / "app").rglob("*.html")}
    catalogues = {str(path.relative_to(ROOT)) for path in (ROOT / "app").rglob("*.po")}
    assert len(catalogues) == 2
    data = templates | catalogues | {"app/tools/audit/check/log4j2.properties", "app/py.typed", "distro/py.typed"}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    installed = {f"{PACKAGE}/{name.removeprefix('app/')}" for name in tree | data}
    assert installed <= in_wheel
    deployed = subprocess.run(["git", "ls-files", "deploy"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {f"{PACKAGE}/{name}" for name in deployed.stdout.split() if not name.endswith(".gitignore")}
    assert files | {f"{PACKAGE}/deploy/distro_check.py"} <= in_wheel
    assert {name.partition("/")[0] for name in in_wheel if ".dist-info/" not in name} == {PACKAGE}
    with tarfile.open(source) as archive:
        in_source = {name.partition("/")[2] for name in archive.getnames()}
    assert tree | data | {"deploy/rollcall.service", "deploy/docker/Dockerfile", "LICENSE"} <= in_source


def test_a_node_starts_in_an_empty_environment(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(run(installed / "python", "-m", "pip", "list", "--format=json", folder=tmp_path))
    assert not {one["name"].lower() for one in listed} & {"pytest", "psutil", "hypothesis"}
    assert run(installed / "python", "-m", "pip", "check", folder=tmp_path).startswith("No broken requirements")
    assert run(installed / "rollcall", "--version", folder=tmp_path).startswith("rollcall ")
    [port] = free_ports(1)
    environ = {**clean_environ(), "rollcall.announce": "false"}
    environ.pop("PYTHONPATH", None)
    with (tmp_path / "log").open("wb") as log:
        command = [installed / "rollcall", "serve", "--port", str(port), "--data", str(tmp_path / "data")]
        node = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log, process_group=0)
    try:
        client = Client(f"127.0.0.1:{port}")
        eventually(lambda: client.call("GET", "/v1/console/health/readiness").status == 200)
        assert client.register("installed", "10.0.0.1").body == OK
        assert client.register("installed", "10.0.0.2", ephemeral="false").body == OK
        assert len(client.hosts("installed")) == 2
        asked = Request(f"http://127.0.0.1:{port}/nacos/", headers={"Accept-Language": "zh-CN"})
        with urlopen(asked, timeout=60) as page:
            assert "命名空间" in page.read().decode()
        chinese = environ | {"ROLLCALL_LANGUAGE": "zh-CN"}
        command = [installed / "rollcall", "instances", "installed", "--server", f"127.0.0.1:{port}"]
        table = subprocess.run(command, cwd=tmp_path, env=chinese, capture_output=True, text=True, check=True).stdout
        assert table.startswith("实例")
        node.terminate()
        assert node.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        if node.poll() is None:
            os.killpg(node.pid, 9)
            node.wait(60)

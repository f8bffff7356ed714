"""The shipped files of compose and Grafana, read by the code that reads them in Docker and in Grafana."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sdk.environments import NotInstallable, install_compose, install_grafana
from tests.support.prometheus import DASHBOARDS
from tests.support.shipped import DEPLOY, secrets_in, variables

TIMEOUT_S = 60


def run(*words: str | Path, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=folder)


@pytest.fixture(scope="module")
def compose() -> str:
    try:
        return install_compose()
    except NotInstallable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def dashboard_fields() -> tuple[str, ...]:
    try:
        return install_grafana().command
    except NotInstallable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The file of the composition in a copy of the tree, and the folder of its secrets."""
    root = tmp_path_factory.mktemp("tree")
    secrets = secrets_in(root)
    folder = root / "deploy" / "compose"
    shutil.copytree(DEPLOY / "compose", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("secrets"))
    return folder / "compose.yaml", secrets


def test_docker_reads_the_composition(compose: str, composed: tuple[Path, Path]) -> None:
    file, secrets = composed
    assert variables((secrets / "rollcall.env").read_text())
    done = run(compose, "-format", "json", file, folder=file.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    services = json.loads(done.stdout)["services"]
    for name in ("member1", "member2", "member3"):
        # The key that says whether it is required is left out while it is.
        assert [one["path"] for one in services[name]["env_file"]] == [str(secrets / "rollcall.env")]
        assert services[name]["environment"]["NACOS_SERVER_IP"] == name
        assert services[name]["read_only"] is True
    assert {"prometheus", "grafana"} <= services.keys()


def test_docker_refuses_a_misspelt_key(compose: str, composed: tuple[Path, Path]) -> None:
    file = composed[0].with_name("misspelt.yaml")
    file.write_text(composed[0].read_text().replace("cap_drop:", "cap_drops:"))
    done = run(compose, file, folder=file.parent)
    assert (done.returncode != 0, "cap_drops" in done.stdout + done.stderr) == (True, True)


def test_grafana_knows_every_field_of_the_dashboards(dashboard_fields: tuple[str, ...]) -> None:
    done = run(*dashboard_fields, *DASHBOARDS)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_field_that_grafana_does_not_know_is_found(dashboard_fields: tuple[str, ...], tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARDS[0].read_text())
    dashboard["panels"][0]["tittle"] = "misspelt"
    file = tmp_path / "board.json"
    file.write_text(json.dumps(dashboard))
    done = run(*dashboard_fields, file)
    assert (done.returncode, done.stdout.strip()) == (1, "board.json.panels[0].tittle"), done.stderr

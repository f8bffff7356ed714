"""The files of the Helm chart, without Helm: one source of rules, of settings and of sizes. tests/peers renders it."""

import configparser
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from app.config.settings import ALL_KEYS
from scripts.docs.settings import CHART_SCHEMA, CHARTS_OWN, chart_schema
from tests.support.helm import CHART, SHAPES, values_of
from tests.support.prometheus import DASHBOARDS, RULES
from tests.support.shipped import DEPLOY

ROOT = DEPLOY.parent
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def test_rules_and_dashboards_are_those_of_deploy() -> None:
    """Links, or, where an archive of the sources has none, the same files."""
    files = {file.name: file for file in (CHART / "files").iterdir()}
    assert files.keys() == {file.name for file in (*RULES, *DASHBOARDS)}
    for file in (*RULES, *DASHBOARDS):
        assert files[file.name].read_bytes() == file.read_bytes()


def test_the_schema_has_the_settings_as_they_are() -> None:
    """Else: python -m scripts.docs.settings"""
    assert CHART_SCHEMA.read_text(encoding="utf-8") == chart_schema()


def test_no_secret_is_a_setting_of_the_chart() -> None:
    secrets = {key.name for key in ALL_KEYS if re.search(r"secret|token|identity\..*[vV]alue", key.name)}
    assert len(secrets) >= 4
    assert {name for name in secrets if not CHARTS_OWN.fullmatch(name)} == {
        "nacos.core.auth.plugin.nacos.token.expire.seconds"
    }


@pytest.mark.parametrize("values", [CHART / "values.yaml", *map(values_of, SHAPES)], ids=lambda path: path.stem)
def test_the_schema_takes_the_values(values: Path) -> None:
    jsonschema.validate(yaml.safe_load(values.read_text()), json.loads(CHART_SCHEMA.read_text()))


def test_every_value_is_in_the_schema_and_every_one_of_the_schema_has_a_default() -> None:
    def names(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> list[str]:
        declared, found = schema.get("properties"), []
        if declared is None or path in ("/resources", "/nightlyCheck/resources", "/tls/certManager/issuerRef"):
            return []
        found += [f"{path}/{name}" for name in declared.keys() ^ values.keys()]
        for name in declared.keys() & values.keys():
            if isinstance(values[name], dict):
                found += names(declared[name], values[name], f"{path}/{name}")
        return found

    assert names(json.loads(CHART_SCHEMA.read_text()), VALUES) == ["/global"], "which Helm adds for subcharts"


def test_the_sizes_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", (ROOT / "docs" / "sizing.md").read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(VALUES["sizes"])
    for name, row in rows:
        *load, cores, memory, disk = [cell.strip() for cell in row.split("|")]
        size = VALUES["sizes"][name]
        assert memory.replace(" ", "") == f"{size['memory']},{size['memoryLimit']}"
        assert disk.replace(" ", "") == size["disk"]
        request = float(size["cpu"].removesuffix("m")) / (1000 if size["cpu"].endswith("m") else 1)
        assert float(cores.split(",")[1]) <= request, "what is requested is enough with one member away"
        comment = re.search(rf"# (.*)\n  {name}:", (CHART / "values.yaml").read_text())
        assert comment is not None
        for number in load:
            assert number in comment[1]


def test_the_manifests_have_the_smallest_size() -> None:
    state = yaml.safe_load((DEPLOY / "k8s" / "statefulset.yaml").read_text())["spec"]
    [container] = state["template"]["spec"]["containers"]
    small = VALUES["sizes"]["small"]
    assert container["resources"]["requests"] == {"cpu": small["cpu"], "memory": small["memory"]}
    assert container["resources"]["limits"] == {"memory": small["memoryLimit"]}
    [claim] = state["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == small["disk"]


def test_chart_and_manifests_name_the_image_of_this_release() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    version = parser["metadata"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version
    [image] = yaml.safe_load((DEPLOY / "k8s" / "kustomization.yaml").read_text())["images"]
    assert image["newTag"] == version

"""The members' rules and dashboard: of metrics that a node has, and in a form that Prometheus takes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.promtool import promtool
from tests.support.scrape import member_node, sample_names

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus-node-rules.yml", DEPLOY / "grafana-node.json"
CASES = Path(__file__).with_name("prometheus_node_cases.yml")
NAME = re.compile(r"\b(?:(?:rollcall|process)_[a-z_]*[a-z]|up)\b")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Those of a node, and the one that Prometheus has of each target."""
    return {*sample_names(member_node(tmp_path_factory.mktemp("node"))), "up"}


def rule_expressions() -> Iterator[str]:
    for match in re.findall(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", RULES.read_text(), re.MULTILINE):
        yield "".join(match)


def panel_expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("expressions", [rule_expressions, panel_expressions])
def test_every_metric_is_one_that_a_node_has(expressions: object, names: set[str]) -> None:
    named = [NAME.findall(one) for one in expressions()]  # type: ignore[operator]
    assert len(named) >= 18
    assert all(named), "each asks for something"
    assert {name for one in named for name in one} <= names


def test_panels_have_numbers_of_their_own_and_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        rows, columns = range(place["y"], place["y"] + place["h"]), range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in rows}
        assert columns.stop <= 24
        assert not cells & taken
        taken |= cells


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS: 30 rules found" in promtool("check", "rules", RULES)


def test_the_rules_tell_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("- RULES", f"- {RULES}"))
    assert "SUCCESS" in promtool("test", "rules", cases)


def test_each_rule_has_a_case_in_which_it_fires() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert list(dict.fromkeys(re.findall(r'alertname="(\w+)"', CASES.read_text()))) == alerts


def test_prometheus_takes_the_dashboards_expressions(tmp_path: Path) -> None:
    lines = [one.replace("$__rate_interval", "5m").replace("$instance", ".*") for one in panel_expressions()]
    rules = [{"record": f"panel:{number}", "expr": line} for number, line in enumerate(lines)]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    assert f"SUCCESS: {len(lines)} rules found" in promtool("check", "rules", file)

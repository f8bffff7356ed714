"""The rules and the dashboard: of metrics that are written, and in a form that Prometheus takes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("prometheus_client")

from app.rows.summary import Summary, Verdict
from app.tools.audit.compare.link_look import KINDS
from app.tools.audit.report.textfile import registry_of
from app.tools.audit.watch.rounds import RoundOutcome
from app.tools.audit.watch.watch_metrics import metrics_of
from tests.support.promtool import promtool

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
RULES = DEPLOY / "prometheus-rules.yml"
DASHBOARD = DEPLOY / "grafana-dashboard.json"
OF_MEMBERS = {"rollcall_member_planned_state"}
"""A metric of the members: who is away by plan."""
NAME = re.compile(r"\brollcall_[a-z_]+\b")
SELECTOR = re.compile(r"\b(rollcall_[a-z_]+)\{(\w+)=\"([^\"]*)\"\}")


@pytest.fixture(scope="module")
def written() -> dict[str, set[tuple[str, str]]]:
    """The label values of each metric that a check and a watch write, by the metric's name."""
    at = "2026-11-21T03:20:00Z"
    links = [{"link": "dc-b", **dict.fromkeys(KINDS, 0)}]
    summary = Summary("2026-11-21", Verdict.AGREED, "agreed", checked_at=at, links=links)
    found: dict[str, set[tuple[str, str]]] = {}
    for registry in (registry_of(summary), metrics_of(RoundOutcome(summary))):
        for family in registry.collect():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels.items())
    return found


def expressions() -> Iterator[str]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_metric_is_one_that_is_written(written: dict[str, set[tuple[str, str]]]) -> None:
    named = {name for one in expressions() for name in NAME.findall(one)}
    assert len(named) > 10
    assert named <= written.keys() | OF_MEMBERS


def test_every_label_has_a_value_that_is_written(written: dict[str, set[tuple[str, str]]]) -> None:
    selected = [match for one in expressions() for match in SELECTOR.findall(one)]
    assert selected
    assert all((label, value) in written[name] for name, label, value in selected)


def test_every_metric_of_a_verdict_is_on_the_dashboard(written: dict[str, set[tuple[str, str]]]) -> None:
    shown = set(NAME.findall(DASHBOARD.read_text()))
    assert written.keys() - shown == {"rollcall_check_rows"}


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place: dict[str, Any] = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS: 11 rules found" in promtool("check", "rules", RULES)


def test_the_rules_tell_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(Path(__file__).with_name("prometheus_rules_cases.yml").read_text().replace("RULES", str(RULES)))
    assert "SUCCESS" in promtool("test", "rules", cases)

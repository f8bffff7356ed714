"""Charts of the last day, and the overview on which what is wrong comes first."""

import re

from app.metrics.day_history import DaySample
from app.naming.registry.operations import RegisterInstance
from distro.model.types import Member, MemberState
from tests.support.fake_node import PEER, FakeNode
from tests.unit.http.console.conftest import Browser

MINUTE_MS = 60_000


def sample(minute: int, unhealthy: int = 0) -> DaySample:
    return DaySample(minute * MINUTE_MS, 100 + minute, unhealthy, 3.5, None, 0.0, 12.0, 0.2)


def titles(text: str) -> list[str]:
    return re.findall(r'<section class="card chart[^"]*" id="chart-(\w+)"', text)


def test_charts_are_drawn_and_lead_to_their_metrics(browser: Browser, node: FakeNode) -> None:
    assert browser.get("/console/charts").text.count("No samples yet") == 7
    node.instruments.day._samples.extend(sample(minute) for minute in range(180))
    assert "One sample a minute; the last is" in browser.get("/").text, "a number of the charts is no number of now"
    day, hour = browser.get("/console/charts").text, browser.get("/console/charts", hours="1").text
    assert "100 to 279" in day
    assert "219 to 279" in hour
    assert day.count('<svg class="curve"') == 6  # no beats were counted
    assert (day.count("Nothing was measured in this time"), day.count("No samples yet")) == (1, 0)
    found = re.findall(r'href="/nacos(/console/metric[^"]+)"', day)
    assert "/console/metric?name=rollcall_loop_lag_seconds" in found
    assert "Instances of these services." in browser.get("/console/metric", name="rollcall_instances").text
    assert browser.get("/console/metric", name="rollcall_none").status_code == 404


def test_a_chart_that_is_wrong_comes_first(browser: Browser, node: FakeNode) -> None:
    node.instruments.day._samples.extend([sample(1), sample(2)])
    assert titles(browser.get("/").text)[0] == "unhealthy"  # in the usual order
    node.instruments.day._samples.append(sample(3)._replace(loop_lag_ms=900.0))
    text = browser.get("/").text
    assert titles(text)[:2] == ["lag", "unhealthy"]
    assert 'class="card chart alarm" id="chart-lag"' in text


def test_the_overview_begins_with_what_is_wrong(browser: Browser, node: FakeNode) -> None:
    assert "problems-head" not in browser.get("/").text
    node.cluster.others.append(Member(PEER, MemberState.DOWN))
    node.naming.register(RegisterInstance("g@@s", "10.0.0.1", 80, healthy=False))
    text = browser.get("/").text
    found = re.findall(r'<li><span class="badge (\w+)">[^<]+</span> <a[^>]*>([^<]+)</a>', text)
    assert found == [
        ("bad", f"{PEER} is DOWN."),
        ("wait", "1 unhealthy instance."),
    ]
    assert text.index("problems-head") < text.index("region-tiles")

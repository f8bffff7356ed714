"""The metrics of Nacos's own dashboards: every expression of two published boards has data, and true data."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import nacos_metrics, node_metrics
from app.metrics.node_metrics import ReadOnce
from app.naming.registry.operations import RegisterInstance
from app.node.node import Node
from tests.support.promql import SPAN_S, Evaluator, Sample, Value
from tests.support.scrape import member_node

BOARDS: Mapping[str, list[str]] = json.loads((Path(__file__).parent / "nacos_boards.json").read_text())["boards"]
INSTANCE = "127.0.0.1:8848"
QUERIES = [(board, query) for board, queries in BOARDS.items() for query in queries]


def scrape(node: Node) -> list[Sample]:
    return [
        Sample(one.name, {**one.labels, "instance": INSTANCE}, one.value)
        for family in node.services.metrics.families()
        for one in family.samples
    ]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    node = member_node(tmp_path_factory.mktemp("node"))
    for number in range(3):
        node.services.naming.register(RegisterInstance("g@@a", f"10.0.0.{number}", 80))
    return node


@pytest.fixture(scope="module")
def evaluator(node: Node) -> Evaluator:
    http, grpc = node.services.instruments.http, node.services.instruments.grpc

    def work(count: int) -> None:
        for _ in range(count):
            http.count("GET", "/v1/ns/instance/list", 200, 0.25)
            http.count("POST", "/v1/ns/instance", 400, 0.5)
            grpc.count("", "InstanceRequest", 200, 0.125)

    work(10)
    before = scrape(node)
    work(60)
    return Evaluator(before, scrape(node))


def value(evaluator: Evaluator, query: str) -> float:
    found = evaluator.query(query)
    assert isinstance(found, dict)
    (one,) = found.values()
    return one


def test_two_boards_are_known() -> None:
    assert {board: len(queries) for board, queries in BOARDS.items()} == {
        "nacos-grafana.json": 39,
        "nacos-grafana-upper-2.4.json": 33,
    }


@pytest.mark.parametrize(("board", "query"), QUERIES)
def test_every_query_of_a_board_has_data(evaluator: Evaluator, board: str, query: str) -> None:
    found: Value = evaluator.query(query.replace("$instance", INSTANCE))
    assert isinstance(found, dict)
    assert found, f"no data for {query} of {board}"


def test_the_data_are_those_of_the_node(evaluator: Evaluator) -> None:
    assert value(evaluator, "max(nacos_monitor{name='serviceCount'})") == 1
    assert value(evaluator, "max(nacos_monitor{name='ipCount'})") == 3
    assert value(evaluator, "count(nacos_monitor{name='configCount'})") == 1
    assert value(evaluator, "sum(rate(http_server_requests_seconds_count[1m]))") == 120 / SPAN_S
    assert value(evaluator, "sum(rate(http_server_requests_seconds_sum{status='400'}[1m]))") == 30 / SPAN_S
    assert value(evaluator, "sum(rate(grpc_server_requests_seconds_count{requestClass='InstanceRequest'}[1m]))") == 1
    mean = "sum(rate(grpc_server_requests_seconds_sum[1m]))/sum(rate(grpc_server_requests_seconds_count[1m])) * 1000"
    assert value(evaluator, mean) == 125
    assert value(evaluator, "sum(rate(nacos_exception_total{name='illegalArgument'}[1m])) * 60") == 60
    assert value(evaluator, "max(jvm_memory_used_bytes{area='heap'})") > 1_000_000
    assert 0 <= value(evaluator, "max(system_cpu_usage)") <= 1


def test_both_formats_can_be_read(node: Node) -> None:
    metrics = node.services.metrics
    plain, _ = metrics.page("text/plain")
    names = {one.name for one in text_string_to_metric_families(plain.decode())}
    assert {"nacos_monitor", "http_server_requests_seconds", "jvm_gc_pause_seconds"} <= names
    open_page, _ = metrics.page("application/openmetrics-text; version=1.0.0")
    assert names <= {one.name for one in openmetrics_families(open_page.decode())}


def test_the_costly_counts_are_read_once_for_a_page(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    counts = node_metrics.NodeSources.counts
    monkeypatch.setattr(node_metrics.NodeSources, "counts", lambda sources: read.append("counts") or counts(sources))
    list(node.services.metrics.families())
    assert read == ["counts"]
    list(node.services.metrics.families())
    assert read == ["counts"] * 2


def test_values_are_kept_until_the_next_page(node: Node) -> None:
    once = ReadOnce(node.services.metrics._once._sources)
    kept = once.counters()
    assert once.counters() is kept
    once.forget()
    assert once.counters() is not kept


def test_without_a_proc_file_system_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(nacos_metrics, "open", missing, raising=False)
    assert nacos_metrics._cpu_times() == (0.0, 0.0)
    assert nacos_metrics._resident_bytes() == 0.0

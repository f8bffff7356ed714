"""The metrics of a whole node: each counter has a description, and each family the form that Prometheus wants."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics.catalogue import COUNTERS, MEASURED_ELSEWHERE
from app.metrics.node_metrics import NodeMetrics
from app.naming.model.keys import datum_key
from app.naming.registry.operations import RegisterInstance
from app.node.node import Node
from app.replication.instance_list_type import INSTANCE_LIST
from distro.model.types import DistroKey, Outcome, Received, SyncData
from tests.support.scrape import PORTS, member_node

OF_NACOS = ("nacos_", "http_server_requests_", "grpc_server_", "jvm_", "system_")
"""The families that dashboards of Nacos draw: `test_nacos_metrics.py`."""
PEER = f"127.0.0.1:{PORTS[1]}"
UNITS = re.compile(
    r"_(total|seconds|bytes|ready|services|instances|clients|copies|connections|keys|info|state|still|subscribers"
    r"|watches|patterns|links|followers)$"
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return member_node(tmp_path_factory.mktemp("node"))


def page_of(metrics: NodeMetrics) -> dict[str, float]:
    """All samples of a page, by name and labels."""
    page, content_type = metrics.page("text/plain")
    assert content_type.startswith("text/plain")
    return {
        sample.name + "".join(f"|{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_every_counter_of_a_node_has_a_description(node: Node) -> None:
    named = node.services.counters.by_name().keys()  # type: ignore[attr-defined]
    assert named - COUNTERS.keys() == MEASURED_ELSEWHERE


def test_families_have_a_help_and_one_name_each(node: Node) -> None:
    families = list(node.services.metrics.families())
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    ours = [family for family in families if not family.name.startswith(("process_", *OF_NACOS))]
    assert all(
        family.name.startswith("rollcall_") and family.documentation.endswith(".")
        for family in ours
        if family.name != "rollcall_build"
    )
    assert not [one.name for one in ours if one.type == "gauge" and not UNITS.search(one.name)]
    assert not [one.name for one in ours if one.type == "histogram" and not one.name.endswith("_seconds")]


def test_both_formats_are_served(node: Node) -> None:
    page, content_type = node.services.metrics.page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")


def test_a_page_is_shown_again_for_a_second(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = node.services.metrics
    now_ms = [10_000_000_000]
    monkeypatch.setattr(metrics, "_monotonic_ms", lambda: now_ms[0])
    first = metrics.page("")[0]
    node.services.http.connections += 7
    assert metrics.page("")[0] == first
    now_ms[0] += 1_000
    assert metrics.page("")[0] != first


def test_requests_are_cumulative_by_bound(tmp_path: Path) -> None:
    node = member_node(tmp_path)
    node.services.instruments.http.count("GET", "/a", 200, 0.000_2)
    node.services.instruments.http.count("GET", "/a", 400, 0.5)
    node.services.instruments.grpc.of_loop("", "InstanceRequest").add(200, 0.001)
    page = page_of(node.services.metrics)
    assert page["rollcall_http_requests_total|GET|/a|400"] == 1
    buckets = [value for name, value in page.items() if name.startswith("rollcall_http_request_seconds_bucket|")]
    assert buckets == sorted(buckets)
    assert (buckets[-1], page["rollcall_http_request_seconds_count|GET|/a"]) == (2, 2)
    assert page["rollcall_grpc_requests_total|200|InstanceRequest"] == 1


def test_sends_to_a_peer_are_timed_from_the_change(tmp_path: Path) -> None:
    node = member_node(tmp_path)
    protocol = node.engine.runtime._protocol
    protocol.replace_members([f"127.0.0.1:{port}" for port in PORTS], 0)
    queue = protocol.peers.queues[PEER]
    queue.reachable = True
    name = datum_key("public", "g@@k")
    key = DistroKey(INSTANCE_LIST, name)
    node.domain.registry.writes.register(RegisterInstance("g@@k", "10.1.0.1", 80), 1_000)
    protocol.sync({key: 1.0}, 1_000)
    for outcome, now_ms in ((Outcome.FAILED, 2_000), (Outcome.DELIVERED, 61_000)):
        queue.in_flight = tuple(queue.tasks.pop_due(1 << 40, 10))
        queue.call = action = SyncData(PEER, INSTANCE_LIST, (name,), 0)
        protocol.peers.traces[PEER].begun([key])
        protocol.on_sync_done(action, outcome, Received(ages_ms={name: 500.0}, pushed_ms={name: 20.0}), now_ms)
        protocol.sync({key: now_ms / 1_000}, now_ms)
    protocol.times.sent(PEER, 500)
    protocol.publish(61_000)
    page = page_of(node.services.metrics)
    assert page[f"rollcall_peer_sends_total|{PEER}|failed"] == page[f"rollcall_peer_sends_total|{PEER}|delivered"] == 1
    assert page[f"rollcall_peer_convergence_seconds_sum|{PEER}"] == 59.5, "from the change, failed tries included"
    assert page[f"rollcall_peer_pushed_seconds_sum|{PEER}"] == 0, "a push of an earlier change is not counted twice"
    assert page[f"rollcall_peer_unapplied_keys|{PEER}"] == 1
    assert page[f"rollcall_peer_unapplied_age_seconds|{PEER}"] > 0
    assert page[f"rollcall_peer_pending_keys|{PEER}"] == 1
    assert page[f"rollcall_peer_sent_bytes_total|{PEER}"] == 500


def test_a_peer_that_left_has_no_metrics(tmp_path: Path) -> None:
    node = member_node(tmp_path)
    protocol = node.engine.runtime._protocol
    protocol.replace_members([f"127.0.0.1:{port}" for port in PORTS], 0)
    protocol.replace_members([f"127.0.0.1:{PORTS[0]}"], 0)
    protocol.times.sent(PEER, 500)
    assert not [name for name in page_of(node.services.metrics) if PEER in name]


def test_a_data_folder_that_is_gone_has_no_numbers(tmp_path: Path) -> None:
    node = member_node(tmp_path / "gone")
    assert "rollcall_data_free_bytes" not in page_of(node.services.metrics)
    assert page_of(member_node(tmp_path).services.metrics)["rollcall_data_free_bytes"] > 0


def test_this_member_is_not_ready_while_it_loads(node: Node) -> None:
    page = page_of(node.services.metrics)
    assert page["rollcall_ready"] == 0
    assert page[f"rollcall_member_state|127.0.0.1:{PORTS[0]}|STARTING"] == 1

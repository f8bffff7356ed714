"""Events of whole nodes: what a node does by itself is told, at every member and after a restart."""

import json
from typing import Any

from app.testing import Cluster, Registry

EVENTS = "/v1/ns/operator/events"


def said(node: Any, **query: object) -> list[str]:
    return [one["says"] for one in json.loads(node.call("GET", EVENTS, **query))["events"]]


def test_a_life_of_an_instance_is_told_by_any_member() -> None:
    with Cluster(2) as cluster:
        first, second = cluster[0], cluster[1]
        first.register("orders", "10.0.0.1", 80)
        cluster.clock.advance(20)
        second.wait_until(
            lambda: "10.0.0.1:80 became unhealthy, because no beat arrived" in said(second, ip="10.0.0.1")
        )
        first.beat("orders", "10.0.0.1", 80)
        second.wait_until(lambda: "10.0.0.1:80 became healthy" in said(second, ip="10.0.0.1"))
        cluster.clock.advance(40)
        gone = ["10.0.0.1:80 removed, because no beat arrived"]
        second.wait_until(lambda: said(second, ip="10.0.0.1")[:1] == gone)
        assert said(first, ip="10.0.0.1") == said(second, ip="10.0.0.1")
        assert sum("started, release" in one for one in said(first, kinds="cluster", limit=1000)) == 2
        cluster.kill(second)
        down = f"sees {second.address} DOWN"
        first.wait_until(lambda: any(one.startswith(down) for one in said(first, kinds="cluster", limit=1000)), 30)


def test_a_node_remembers_over_a_restart() -> None:
    with Registry() as registry:
        registry.register("orders", "10.0.0.1", 80)
        registry.wait_until(lambda: said(registry, ip="10.0.0.1"))
        registry.stop()
        registry.restart()
        assert said(registry, ip="10.0.0.1") == ["10.0.0.1:80 registered"]
        registry.wait_until(lambda: len(said(registry, kinds="cluster")) == 3)
        told = [one.partition(" ")[2].partition(",")[0] for one in said(registry, kinds="cluster")]
        assert told == ["started", "stopped", "started"]

"""What the clients of the rolling restart plan and count."""

from typing import Any

from scripts.chaos.rolling_load import Pushes, percentiles, planned


def pushed(*hosts: tuple[str, bool]) -> dict[str, Any]:
    shown = [{"ip": ip, "port": 8080, "healthy": healthy} for ip, healthy in hosts]
    return {"name": "DEFAULT_GROUP@@orders", "hosts": shown}


def test_instances_are_spread_over_services_and_each_is_another() -> None:
    instances = list(planned("grpc", 600, 7))
    assert len({service for service, _ in instances}) == 7
    assert len({ip for _, ip in instances}) == 600
    assert not {ip for _, ip in instances} & {ip for _, ip in planned("http", 600, 7)}


def test_percentiles_of_few_and_of_no_times() -> None:
    assert percentiles([]) == []
    assert percentiles([2.0]) == [2.0, 2.0, 2.0]
    assert percentiles([float(second) for second in range(200)]) == [100.0, 198.0, 199.0]


def test_a_push_is_compared_with_what_is_live() -> None:
    pushes = Pushes({"orders": {"10.0.0.1:8080", "10.0.0.2:8080"}})
    pushes.note(pushed(("10.0.0.1", True), ("10.0.0.2", True)))
    pushes.note(pushed(("10.0.0.1", False)))
    pushes.note(pushed())
    assert (pushes.count, pushes.empty, pushes.lacking, pushes.unhealthy) == (3, 1, 2, 1)
    assert pushes.missing == {"10.0.0.1:8080", "10.0.0.2:8080"}

"""The plan of active checks: which are due when, and which results change an instance's health."""

from dataclasses import replace

import pytest

from app.naming.health.checks import (
    FIRST_DELAY_MS,
    Check,
    CheckBoard,
    CheckedCluster,
    CheckResult,
    ClusterKey,
    checked_clusters,
)
from app.naming.model.meta import NO_META, ClusterConfig, HealthChecker
from app.naming.model.model import Instance
from app.naming.model.switches import CheckParams, SwitchDomain
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry

OK, FAILED, REFUSED = CheckResult.OK, CheckResult.FAILED, CheckResult.REFUSED
KEY = ClusterKey("public", "g@@s", "DEFAULT")
SWITCHES = SwitchDomain()
TCP_MIN_MS, TCP_MAX_MS = SWITCHES.tcp_health_params.min, SWITCHES.tcp_health_params.max


def instance(number: int = 1, **attributes: bool) -> Instance:
    return replace(Instance(f"10.0.0.{number}", 80, ephemeral=False), **attributes)


def cluster(*instances: Instance, config: ClusterConfig | None = None, key: ClusterKey = KEY) -> CheckedCluster:
    return CheckedCluster(key, config or ClusterConfig(), instances or (instance(),))


class Board:
    """A board with its own clock, whose clusters' first checks come at the least delay."""

    def __init__(self, *clusters: CheckedCluster) -> None:
        self.board = CheckBoard(lambda bound: 0)
        self.clusters = list(clusters)
        self.now_ms = 0
        self.switches = SWITCHES

    def tick(self, after_ms: int = 0) -> list[Check]:
        self.now_ms += after_ms
        return self.board.tick(self.clusters, self.now_ms, self.switches)

    def first(self) -> list[Check]:
        self.tick()
        return self.tick(FIRST_DELAY_MS)

    def result(self, check: Check, result: CheckResult, healthy: bool, took_ms: int = 1) -> bool:
        return self.board.on_result(check, result, took_ms, healthy, self.now_ms, self.switches)

    def rounds(self, results: list[CheckResult], healthy: bool) -> list[bool]:
        """Play results of one instance; return the flips that came, with the health that follows them."""
        [check] = self.first()
        flips = []
        for number, result in enumerate(results):
            if number:
                [check] = self.tick(TCP_MAX_MS)
            if self.result(check, result, healthy):
                healthy = not healthy
                flips.append(healthy)
        return flips


class TestWhen:
    def test_the_first_check_waits_and_is_spread(self) -> None:
        board = CheckBoard(lambda bound: bound - 1)
        assert board.tick([cluster()], 0, SWITCHES) == []
        assert board.tick([cluster()], 6_998, SWITCHES) == []
        assert len(board.tick([cluster()], 6_999, SWITCHES)) == 1

    def test_no_round_before_the_last_has_ended(self) -> None:
        board = Board(cluster(instance(1), instance(2)))
        one, two = board.first()
        assert board.tick(60_000) == []
        board.result(one, OK, True)
        assert board.tick(60_000) == []
        board.result(two, OK, True)
        assert len(board.tick(TCP_MAX_MS)) == 2

    def test_quick_checks_come_more_often_down_to_the_least(self) -> None:
        board = Board(cluster())
        [check] = board.first()
        waits = []
        for _ in range(20):
            board.result(check, OK, True, took_ms=1)
            begun_ms = board.now_ms
            while not (checks := board.tick(100)):
                pass
            [check] = checks
            waits.append(board.now_ms - begun_ms)
        assert waits == sorted(waits, reverse=True)
        assert waits[0] > waits[-1] == TCP_MIN_MS

    def test_slow_checks_come_less_often_up_to_the_most(self) -> None:
        board = Board(cluster())
        [check] = board.first()
        for _ in range(30):
            board.result(check, FAILED, True, took_ms=60_000)
            assert board.tick(TCP_MAX_MS - 1) == [] or _ < 5
            [check] = board.tick(1) or [check]
        board.result(check, FAILED, True, took_ms=60_000)
        assert board.tick(TCP_MAX_MS - 1) == []
        assert len(board.tick(1)) == 1

    def test_the_wait_is_a_moving_average_of_what_checks_took(self) -> None:
        board = Board(cluster())
        board.switches = replace(SWITCHES, tcp_health_params=CheckParams(9_000, 100, 0.75))
        [check] = board.first()
        board.result(check, OK, True, took_ms=1_000)
        assert board.tick(1_749) == [], "three quarters of 2 s and one of 1 s"
        [check] = board.tick(1)
        board.result(check, OK, True, took_ms=150)
        assert board.tick(1_349) == []
        assert len(board.tick(1)) == 1

    def test_each_kind_has_its_own_pace(self) -> None:
        board = Board(cluster(config=ClusterConfig(HealthChecker("HTTP", "/"))))
        board.switches = replace(SWITCHES, http_health_params=CheckParams(9_000, 8_000, 0.5))
        [check] = board.first()
        board.result(check, OK, True)
        assert board.tick(7_999) == []
        assert len(board.tick(1)) == 1

    def test_none_while_the_switch_is_off(self) -> None:
        board = Board(cluster())
        board.switches = replace(SWITCHES, health_check_enabled=False)
        assert board.first() == []
        assert board.tick(600_000) == []
        board.switches = SWITCHES
        assert len(board.tick()) == 1

    def test_what_is_abandoned_comes_again(self) -> None:
        board = Board(cluster())
        [check] = board.first()
        board.board.abandon(check, board.now_ms)
        assert board.tick(1) == []
        assert len(board.tick(TCP_MAX_MS)) == 1


class TestWhich:
    def test_a_cluster_that_is_left_alone_holds_up_no_other(self) -> None:
        slow, other, none = (ClusterKey("public", "g@@s", name) for name in ("slow", "other", "none"))
        board = Board(cluster(key=slow))
        [check] = board.first()
        unchecked = cluster(key=none, config=ClusterConfig(HealthChecker("NONE")))
        board.clusters = [unchecked, cluster(key=slow), cluster(key=other)]
        board.tick()
        assert [one.cluster for one in board.tick(FIRST_DELAY_MS)] == [other], "the slow one has not answered yet"
        board.result(check, OK, True)
        assert [one.cluster for one in board.tick(TCP_MAX_MS)] == [slow]

    @pytest.mark.parametrize("kind", ["NONE", "MYSQL"])
    def test_other_checkers_are_left_alone(self, kind: str) -> None:
        board = Board(cluster(config=ClusterConfig(HealthChecker(kind))))
        assert board.first() == []

    def test_marked_instances_are_left_alone(self) -> None:
        board = Board(cluster(instance(1, marked=True), instance(2)))
        assert [check.ip for check in board.first()] == ["10.0.0.2"]

    def test_a_cluster_of_marked_ones_is_looked_at_again(self) -> None:
        board = Board(cluster(instance(1, marked=True)))
        assert board.first() == []
        board.clusters = [cluster(instance(1))]
        assert len(board.tick(1)) == 1

    def test_the_clusters_port_where_the_instances_is_not_to_be_checked(self) -> None:
        board = Board(cluster(config=ClusterConfig(check_port=9_999, use_instance_port=False)))
        assert [check.port for check in board.first()] == [9_999]

    def test_a_cluster_that_went_is_forgotten(self) -> None:
        board = Board(cluster())
        [check] = board.first()
        board.clusters = []
        board.tick(1)
        assert not board.result(check, REFUSED, True)
        board.clusters = [cluster()]
        assert board.tick(1) == [], "it begins anew"

    def test_only_the_services_of_this_member(self) -> None:
        registry = Registry.of("a:1~1")
        registry.writes.register(RegisterInstance("g@@without", "10.9.9.9", 80), 0)
        for service in ("g@@theirs", "g@@ours"):
            for number, name in ((1, "DEFAULT"), (2, "other")):
                found = instance(number)
                registry.table.set_persistent("public", service, found.key, replace(found, cluster_name=name), 0)
        registry.writes.register(RegisterInstance("g@@ours", "10.9.9.9", 80), 0)
        config = ClusterConfig(HealthChecker("NONE"))
        registry.table.set_meta("public", "g@@ours", NO_META.with_cluster("other", config), 0)
        found = checked_clusters(registry.table, lambda service: service == "g@@ours")
        assert {one.key.cluster: (one.config, [each.ip for each in one.instances]) for one in found} == {
            "DEFAULT": (ClusterConfig(), ["10.0.0.1"]),
            "other": (config, ["10.0.0.2"]),
        }
        assert [one.full_name for one in registry.table.durable_services()] == ["g@@theirs", "g@@ours"]
        for number in (1, 2):
            assert checked_clusters(registry.table, lambda service: service == "g@@ours")
            registry.table.set_persistent("public", "g@@ours", instance(number).key, None, 0)
        assert [one.full_name for one in registry.table.durable_services()] == ["g@@theirs"], (
            "the others are not looked at"
        )


class TestFlips:
    @pytest.mark.parametrize(
        ("results", "healthy", "flips"),
        [
            ([FAILED, FAILED], True, []),
            ([FAILED, FAILED, FAILED], True, [False]),
            ([FAILED, FAILED, OK, FAILED, FAILED], True, []),
            ([REFUSED], True, [False]),
            ([OK, REFUSED], True, [False]),
            ([OK] * 10, True, []),
            ([OK, OK], False, []),
            ([OK, OK, OK], False, [True]),
            ([OK, OK, FAILED, OK, OK], False, []),
            ([REFUSED] * 5, False, []),
            ([REFUSED, OK, OK], True, [False]),
            ([REFUSED, OK, OK, OK], True, [False, True]),
            ([OK, FAILED, FAILED], True, []),
            ([OK, FAILED, FAILED, FAILED], True, [False]),
            ([FAILED] * 9, True, [False]),
        ],
    )
    def test_results_in_a_row(self, results: list[CheckResult], healthy: bool, flips: list[bool]) -> None:
        assert Board(cluster()).rounds(results, healthy) == flips

    def test_as_often_as_the_switch_says(self) -> None:
        board = Board(cluster())
        board.switches = replace(SWITCHES, check_times=1)
        assert board.rounds([FAILED, OK], True) == [False, True]

    def test_a_health_set_meanwhile_by_hand_counts(self) -> None:
        """Checks say what they say; what is to change is decided by what the instance is now."""
        board = Board(cluster())
        [check] = board.first()
        assert not board.result(check, REFUSED, healthy=False)
        [check] = board.tick(TCP_MAX_MS)
        assert board.result(check, REFUSED, healthy=True)

    def test_each_instance_counts_for_itself(self) -> None:
        board = Board(cluster(instance(1), instance(2)))
        board.first()
        one, two = (Check(KEY, instance(n).key, f"10.0.0.{n}", 80, HealthChecker()) for n in (1, 2))
        for _ in range(2):
            assert not board.result(one, FAILED, True)
            assert not board.result(two, OK, True)
        assert board.result(one, FAILED, True)

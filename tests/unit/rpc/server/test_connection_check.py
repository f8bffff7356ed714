"""Rounds over the connections: idle ones are asked, dead ones closed, surplus ones sent elsewhere."""

import pytest

from app.naming.model.nacos_errors import InvalidParam
from app.rpc.server.connection_check import ANSWER_MS, IDLE_MS, RESET_ROUNDS_MAX, ROUND_MS, ConnectionCheck
from app.rpc.server.connections import (
    CONTROLS_MAX,
    Connection,
    Connections,
    parse_peer,
)
from app.rpc.server.limits import LimitRule, LimitWatch, parse_rule

NO_RULE = LimitRule()


def connect(number: int = 1, ip: str = "10.0.0.1", app: str = "-", now_ms: int = 0) -> Connection:
    made = Connection(f"{number}_{ip}_1", f"ipv4:{ip}:{number}", False, now_ms)
    made.opened_ms, made.app = number, app
    return made


class TestDetection:
    def test_who_is_silent_for_long_is_asked_and_closed_without_an_answer(self) -> None:
        check, one = ConnectionCheck(0), connect()
        rounds = range(ROUND_MS, IDLE_MS, ROUND_MS)
        assert not any(check.tick(now_ms, [one], NO_RULE)[0].detect for now_ms in rounds)
        asked_ms = rounds[-1] + ROUND_MS
        findings, due_ms = check.tick(asked_ms, [one], NO_RULE)
        assert (findings.detect, due_ms) == ([one], asked_ms + ANSWER_MS)
        assert check.tick(due_ms - 1, [one], NO_RULE)[0].close == []
        assert check.tick(due_ms, [one], NO_RULE)[0].close == [one]

    def test_an_answer_or_a_call_keeps_it(self) -> None:
        check, one = ConnectionCheck(0), connect()
        asked_ms = IDLE_MS + ROUND_MS
        check.tick(asked_ms, [one], NO_RULE)
        one.active_ms = asked_ms + 1
        assert check.tick(asked_ms + ANSWER_MS, [one], NO_RULE)[0].close == []
        assert check.tick(asked_ms + ROUND_MS, [one], NO_RULE)[0].detect == []

    def test_a_pause_of_this_process_is_not_held_against_its_clients(self) -> None:
        check, one = ConnectionCheck(0), connect()
        asked_ms = IDLE_MS + ROUND_MS
        check.tick(asked_ms, [one], NO_RULE)
        woken_ms = asked_ms + 60_000
        findings, due_ms = check.tick(woken_ms, [one], NO_RULE)
        assert findings.close == []
        assert woken_ms < due_ms <= woken_ms + ANSWER_MS
        assert check.tick(due_ms, [one], NO_RULE)[0].close == [one]


class TestLimits:
    def test_the_address_of_a_client_counts_before_its_application_before_the_default(self) -> None:
        rule = LimitRule(ip_default=5, per_ip={"10.0.0.1": 1}, per_app={"shop": 2})
        assert rule.of_client("10.0.0.1", "shop") == 1
        assert rule.of_client("10.0.0.2", "shop") == 2
        assert rule.of_client("10.0.0.2", "other") == 5
        assert NO_RULE.of_client("10.0.0.1", "shop") is None
        assert LimitRule(per_ip={"10.0.0.1": 0}).of_client("10.0.0.1", "-") == 0

    def test_one_more_is_refused_at_the_limit_but_never_a_member(self) -> None:
        one = connect()
        assert not LimitRule(ip_default=2).refuses(one, 1, 100)
        assert LimitRule(ip_default=2).refuses(one, 2, 100)
        assert LimitRule(total=2).refuses(one, 0, 2)
        assert not LimitRule(total=0).refuses(one, 0, 2)
        one.is_member = True
        assert not LimitRule(total=2, ip_default=1).refuses(one, 9, 9)

    def test_the_latest_of_an_address_and_of_all_are_the_surplus(self) -> None:
        first, second, third = connect(1), connect(2), connect(3, "10.0.0.2")
        all_three = [third, second, first]
        assert LimitRule(ip_default=1).surplus(all_three) == [second]
        assert LimitRule(total=2).surplus(all_three) == [third]
        assert LimitRule(total=1, ip_default=1).surplus(all_three) == [second, third]
        assert NO_RULE.surplus(all_three) == []

    def test_who_stays_though_it_was_reset_is_closed_after_some_rounds(self) -> None:
        check, rule = ConnectionCheck(0), LimitRule(total=1)
        stays, goes = connect(1), connect(2)
        now_ms = 0
        for _ in range(RESET_ROUNDS_MAX):
            now_ms += ROUND_MS
            findings, _ = check.tick(now_ms, [stays, goes], rule)
            assert (findings.reset, findings.close) == ([goes], [])
        findings, _ = check.tick(now_ms + ROUND_MS, [stays, goes], rule)
        assert (findings.reset, findings.close) == ([], [goes])

    def test_who_is_sent_away_goes_without_any_limit_and_others_stay(self) -> None:
        check, stays, goes = ConnectionCheck(0), connect(1), connect(2)
        goes.must_go = True
        for number in range(1, RESET_ROUNDS_MAX + 1):
            assert check.tick(number * ROUND_MS, [stays, goes], NO_RULE)[0].reset == [goes]
        assert check.tick((RESET_ROUNDS_MAX + 1) * ROUND_MS, [stays, goes], NO_RULE)[0].close == [goes]

    def test_a_limit_that_is_lifted_in_time_forgives(self) -> None:
        check, one = ConnectionCheck(0), connect()
        check.tick(ROUND_MS, [one], LimitRule(per_ip={"10.0.0.1": 0}))
        check.tick(2 * ROUND_MS, [one], NO_RULE)
        assert one.reset_rounds == 0

    def test_the_five_keys_of_the_file(self) -> None:
        text = b"""{"monitorIpList": ["10.0.0.9"], "countLimit": 100, "countLimitPerClientIpDefault": 3,
            "countLimitPerClientIp": {"10.0.0.1": 1}, "countLimitPerClientApp": {"shop": 2}, "other": 1}"""
        assert parse_rule(text) == LimitRule(100, 3, {"10.0.0.1": 1}, {"shop": 2}, frozenset({"10.0.0.9"}))
        assert parse_rule(b"{}") == NO_RULE

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"[]",
            b'{"countLimit": "1"}',
            b'{"countLimit": true}',
            b'{"monitorIpList": {}}',
            b'{"monitorIpList": [1]}',
            b'{"countLimitPerClientIp": []}',
            b'{"countLimitPerClientApp": {"a": "b"}}',
        ],
    )
    def test_a_file_that_is_wrong_is_refused(self, text: bytes) -> None:
        with pytest.raises(InvalidParam):
            parse_rule(text)

    def test_the_file_is_followed_and_a_wrong_one_changes_nothing(
        self, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path_factory.mktemp("rule") / "limitRule"
        watch = LimitWatch(path)
        watch.tick(0)
        assert watch.rule == NO_RULE
        path.write_bytes(b'{"countLimit": 7}')
        watch.tick(1)
        assert watch.rule.total == 7
        path.write_bytes(b'{"countLimit": ')
        watch.tick(2)
        assert watch.rule.total == 7
        assert "the limits of connections stay" in caplog.text
        path.unlink()
        watch.tick(3)
        assert watch.rule == NO_RULE


class TestConnections:
    def test_far_ends_of_transports(self) -> None:
        assert parse_peer("ipv4:10.1.2.3:5") == ("10.1.2.3", 5)
        assert parse_peer("ipv6:[::1]:5") == ("::1", 5)
        assert parse_peer("ipv6:[::ffff:10.1.2.3]:5") == ("10.1.2.3", 5)
        assert parse_peer("unix:")[1] == 0

    def test_no_id_is_given_twice(self) -> None:
        known = Connections(lambda: 1_000, lambda: 0)
        one = known.opened("ipv4:10.1.2.3:5", False)
        assert one.id == "1000_10.1.2.3_5"
        known.register(one)
        assert not one.is_gone
        assert known.forget(one)
        assert one.is_gone
        assert not known.forget(one)
        assert known.opened("ipv4:10.1.2.3:5", False).id not in (one.id, "")
        assert (len(known), known.sdk_count, known.count_of_ip("10.1.2.3")) == (0, 0, 0)

    def test_counts_go_by_the_address_that_a_client_comes_from(self) -> None:
        known = Connections(lambda: 1_000, lambda: 0)
        for port in (1, 2):
            one = known.opened(f"ipv4:10.1.2.3:{port}", False)
            one.client_ip = f"10.9.9.{port}"
            known.register(one)
        member = known.opened("ipv4:10.1.2.3:3", True)
        member.is_member = True
        known.register(member)
        assert (len(known), known.sdk_count) == (3, 2)
        assert [known.count_of_ip(ip) for ip in ("10.1.2.3", "10.9.9.1", "10.9.9.2")] == [2, 0, 0]
        one.client_ip = "10.9.9.9"
        assert known.get(member.id) is member
        known.forget(one)
        assert (known.sdk_count, known.count_of_ip("10.1.2.3")) == (1, 1)

    def test_what_waits_for_a_client_that_does_not_read_has_a_bound(self) -> None:
        one = connect()
        assert all(one.offer(b"x") for _ in range(CONTROLS_MAX))
        assert not one.offer(b"x")
        for _ in range(1_000):
            one.add_pending(("public", "G@@a"))
        assert len(one.pending) == 1

"""What a member answers to reports of others."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from app.http.api.answers import refusal_by_switch
from app.members.member_ips import MemberSenders
from app.members.member_reports import MemberReports
from app.members.membership import Membership
from app.members.reports import OWN_FIELD, parse_report
from app.naming.model.switches import SwitchDomain
from app.peers.beats import TOLD_MS_MIN, BeatCollector
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.errors import RejectedError, TransportError
from distro.model.monitor import DistroStats
from distro.model.types import CAPABILITY_CLIENTS_ONLY, CAPABILITY_VERSIONS, MemberState, PeerReport
from distro.protocol.protocol import DistroProtocol
from distro.receive.call_times import CallDeadlines
from distro.timing.clock import SystemClock
from distro.wire.peer_calls import PeerAnswer
from tests.support.fake_node import make_settings

SELF, LISTED, UNLISTED = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.2:8849"


class Clock(SystemClock):
    """One clock for all times, which stands still until it is set."""

    def __init__(self) -> None:
        self.now_ms = 100_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    boot_ms = wall_ms = monotonic_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


class MembershipOf(Membership):
    """A membership with the protocol that a test moves."""

    protocol: DistroProtocol
    senders: MemberSenders
    reports: MemberReports
    believed: list[PeerReport]
    """The reports that the engine is given."""
    beats: BeatCollector
    durable: "Switched"
    taken: list[tuple[str, dict[str, int]]]


class Switched:
    """The switches of an operator."""

    def __init__(self) -> None:
        self.overridden_status: str | None = None
        self.switches = SwitchDomain()


@pytest.fixture
def membership(clock: Clock) -> Iterator[Membership]:
    """A member that lists one other."""
    config = DistroConfig()
    members = MemberList(SELF, config, 0)
    protocol = DistroProtocol(members, f"{SELF}~1", config, {}, DistroStats(), 0)
    protocol.replace_members([SELF, LISTED], 0)
    settings = replace(make_settings(), standalone=False, self_address=SELF, members=(SELF, LISTED))
    beats, taken = BeatCollector(), list[tuple[str, dict[str, int]]]()
    durable: Any = Switched()
    deadlines = CallDeadlines(protocol.reader.own_writer, clock)
    made = MembershipOf(settings, protocol.reader, clock, deadlines, partial(refusal_by_switch, durable, "/nacos"))
    made.believed = []
    made.senders = MemberSenders(protocol.reader, deadlines)
    made.reports = MemberReports(
        settings,
        made,
        made.senders,
        protocol.reader,
        clock,
        deadlines,
        beats=beats,
        take_beats=lambda key, ages_ms: taken.append((key, dict(ages_ms))),
        on_report=made.believed.append,
    )
    made.protocol, made.beats, made.taken, made.durable = protocol, beats, taken, durable
    made.senders.take_list((SELF, LISTED))
    made.take_list((SELF, LISTED))
    made.reports.take_list((SELF, LISTED))
    yield made
    made.reports.close()
    made.senders.close()


def report_of(address: str, *capabilities: str) -> dict[str, Any]:
    ip, _, port = address.partition(":")
    info = {OWN_FIELD: {"capabilities": list(capabilities)}} if capabilities else {"version": "1.4.1"}
    return {"ip": ip, "port": int(port), "address": address, "state": "UP", "extendInfo": info}


def test_a_listed_member_of_our_kind_gets_our_own_report(membership: MembershipOf) -> None:
    answer = membership.reports.receive_report(report_of(LISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    assert (answer["code"], answer["data"]) == (200, "true")
    assert OWN_FIELD in answer


def test_one_that_is_not_listed_does_not_take_this_member_for_real_nacos(membership: MembershipOf) -> None:
    """Another member at its IP is listed, so the call itself is allowed."""
    answer = membership.reports.receive_report(report_of(UNLISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    assert answer["code"] == 403, "a success without our own field is what real Nacos answers"


def test_real_nacos_that_is_not_listed_is_answered_as_by_nacos(membership: MembershipOf) -> None:
    answer = membership.reports.receive_report(report_of(UNLISTED), "10.0.0.2")
    assert answer == {"code": 200, "message": None, "data": "false"}


def test_a_member_that_is_not_listed_there_learns_of_it(
    membership: MembershipOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = membership.reports.receive_report(report_of(UNLISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    answer = PeerAnswer(200, orjson.dumps(answered), {})
    monkeypatch.setattr("app.members.member_reports.call_peer", lambda *_arguments, **_options: answer)
    with pytest.raises(RejectedError):
        membership.reports.report(LISTED, 100)


def test_beats_that_wait_for_a_peer_go_with_the_answer_to_it_and_with_no_report(
    membership: MembershipOf, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R12. A report to a member that cannot be called is lost."""
    sent: list[dict[str, Any]] = []

    def refuse(*_arguments: object, body: bytes, **_options: object) -> Any:
        sent.append(orjson.loads(body))
        raise TransportError("refused", refused=True)

    monkeypatch.setattr("app.members.member_reports.call_peer", refuse)
    membership.beats.collect(LISTED, "key", "one", clock.now_ms - TOLD_MS_MIN)
    membership.beats.collect(UNLISTED, "key", "two", clock.now_ms - TOLD_MS_MIN)
    answered = membership.reports.receive_report(report_of(LISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    told = parse_report(answered[OWN_FIELD])
    assert told is not None
    assert told.beats == {"key": {"one": TOLD_MS_MIN}}
    with pytest.raises(TransportError):
        membership.reports.report(LISTED, 100)
    assert "beats" not in sent[0]["extendInfo"][OWN_FIELD]


def versioned(writer: str, clock_ms: int) -> dict[str, Any]:
    made = report_of(LISTED, CAPABILITY_VERSIONS)
    made["extendInfo"][OWN_FIELD] |= {"writer": writer, "clockMs": clock_ms}
    return made


@pytest.mark.parametrize(("late_ms", "is_believed"), [(0, True), (1_500, True), (1_510, False), (60_000, False)])
def test_a_report_that_its_sender_has_given_up_is_not_believed(
    membership: MembershipOf, clock: Clock, late_ms: int, is_believed: bool
) -> None:
    """R13. A kernel or a paused process may keep it for a minute: its view and its rejoin delays are of before."""
    membership.reports.receive_report(versioned(f"{LISTED}~1", 5_000), "10.0.0.2")
    clock.now_ms += 2_000 + late_ms
    answer = membership.reports.receive_report(versioned(f"{LISTED}~1", 7_000), "10.0.0.2")
    assert answer["code"] == 200
    assert [one.clock_ms for one in membership.believed] == [5_000, 7_000][: 1 + is_believed]


def test_a_report_of_a_run_that_another_one_followed_is_not_believed(membership: MembershipOf, clock: Clock) -> None:
    runs = membership.protocol.members.runs
    for writer in (f"{LISTED}~1", f"{LISTED}~2"):
        runs.follow(LISTED, writer, clock.now_ms)
    membership.protocol.publish(clock.now_ms)
    for writer in (f"{LISTED}~1", f"{LISTED}~2"):
        membership.reports.receive_report(versioned(writer, 5_000), "10.0.0.2")
    assert [one.writer for one in membership.believed] == [f"{LISTED}~2"]
    assert (membership.deadline(LISTED, 1_000) or "").startswith(f"{LISTED}~2 ")


@pytest.mark.parametrize("names_clock", [True, False], ids=["clock", "earlier release"])
def test_a_member_of_which_only_others_told_is_not_called(membership: MembershipOf, names_clock: bool) -> None:
    """R13. A call without a deadline may be executed a minute after its caller gave it up."""
    assert membership.deadline(LISTED, 1_000) == "", "of no known kind, as real Nacos before its first answer"
    members = membership.protocol.members
    peer, members._is_changed = members._peers[LISTED], True
    peer.member = replace(peer.member, capabilities=frozenset({CAPABILITY_VERSIONS}))  # as ``_revive`` has it
    membership.protocol.publish(0)
    assert membership.deadline(LISTED, 1_000) is None
    assert membership.next_hop(LISTED) is None
    made = versioned(f"{LISTED}~1", 5_000) if names_clock else report_of(LISTED, CAPABILITY_VERSIONS)
    membership.reports.receive_report(made, "10.0.0.2")
    assert bool(membership.deadline(LISTED, 1_000)) is names_clock
    assert membership.next_hop(LISTED) == LISTED


def test_a_run_that_only_seemed_to_be_over_is_believed(membership: MembershipOf, clock: Clock) -> None:
    runs = membership.protocol.members.runs
    runs.follow(LISTED, f"{LISTED}~1", clock.now_ms)
    runs.end(LISTED, clock.now_ms)
    membership.protocol.publish(clock.now_ms)
    membership.reports.receive_report(versioned(f"{LISTED}~1", 5_000), "10.0.0.2")
    assert [one.writer for one in membership.believed] == [f"{LISTED}~1"]


@pytest.mark.parametrize(("oldest_ms", "left_out_ms"), [(None, 0), (300, 300), (5_000, TOLD_MS_MIN)])
def test_an_answer_says_for_how_long_the_beats_wait_that_it_leaves_out(
    membership: MembershipOf, clock: Clock, oldest_ms: int | None, left_out_ms: int
) -> None:
    """R12. Who takes what it tells for all that waits calls instances silent whose beats came just before."""
    if oldest_ms is not None:
        membership.beats.collect(LISTED, "key", "one", clock.now_ms - oldest_ms)
    answered = membership.reports.receive_report(report_of(LISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    told = parse_report(answered[OWN_FIELD])
    assert told is not None
    assert (bool(told.beats), told.beats_wait_ms) == (oldest_ms == 5_000, left_out_ms)


@pytest.mark.parametrize("late_ms", [0, 1_500])
def test_beats_have_waited_longer_in_what_came_late(membership: MembershipOf, clock: Clock, late_ms: int) -> None:
    """R12. On a slow link an answer is read seconds after it was made, and so is a report."""
    first = versioned(f"{LISTED}~1", 5_000)
    membership.reports.receive_report(first, "10.0.0.2")
    clock.now_ms += 2_000 + late_ms
    made = versioned(f"{LISTED}~1", 7_000)
    made["extendInfo"][OWN_FIELD]["beatsWaitMs"] = 400
    answer = membership.reports.read_answer(LISTED, "url", orjson.dumps({"code": 200, OWN_FIELD: made}))
    membership.reports.receive_report(made, "10.0.0.2")
    assert answer is not None
    for one in (answer, membership.believed[-1]):
        assert one.beats_wait_ms is not None
        assert late_ms - 5 <= one.beats_wait_ms - 400 <= late_ms, "less what clocks may drift apart"


def test_beats_in_an_answer_that_came_late_are_as_old_as_it_says_and_it_is(
    membership: MembershipOf, clock: Clock
) -> None:
    """R9. If the answer waited while this process stood still, they may not make a deregistered instance look alive."""
    answer = report_of(LISTED, CAPABILITY_VERSIONS)
    own = answer["extendInfo"][OWN_FIELD]
    own |= {"writer": f"{LISTED}~1", "clockMs": 5_000}
    membership.reports.receive_report(answer, "10.0.0.2")
    clock.now_ms += 1_000 + 800  # the second answer was made 1 s after the first report, and read 0.8 s later
    own |= {"clockMs": 6_000, "beats": {"key": {"one": 5}}}
    membership.reports.read_answer(LISTED, "url", orjson.dumps({"code": 200, OWN_FIELD: answer}))
    assert membership.taken == [("key", {"one": 805 - 1})], "less what two clocks may drift apart in 1.8 s"


def test_a_member_that_left_the_list_may_send_what_it_has_and_reports_nothing(membership: MembershipOf) -> None:
    """Not one that restarted since: what that one has nobody heard of while it was listed."""
    reported = report_of(LISTED, CAPABILITY_VERSIONS)
    reported["extendInfo"][OWN_FIELD] |= {"writer": f"{LISTED}~1", "clockMs": 5}
    membership.reports.receive_report(reported, "10.0.0.2")
    membership.senders.take_list((SELF,))
    membership.take_list((SELF,))
    membership.reports.take_list((SELF,))
    membership.protocol.replace_members([SELF], 0)
    assert not membership.senders.is_listed("10.0.0.2")
    assert membership.senders.is_heard("10.0.0.2")
    assert not membership.senders.is_heard("10.0.0.3")
    assert membership.senders.sender_of(LISTED, "10.0.0.2") is None
    assert membership.senders.parting_sender_of(LISTED, "10.0.0.2", f"{LISTED}~1 7") == LISTED
    assert membership.senders.parting_sender_of(LISTED, "10.0.0.3", f"{LISTED}~1 7") is None
    assert membership.senders.parting_sender_of(UNLISTED, "10.0.0.2", f"{LISTED}~1 7") is None
    assert membership.senders.parting_sender_of(LISTED, "10.0.0.2", f"{LISTED}~2 7") is None
    assert membership.senders.parting_sender_of(None, "10.0.0.2", f"{LISTED}~1 7") is None
    answer = membership.reports.receive_report(reported, "10.0.0.2")
    assert (answer["code"], answer[OWN_FIELD]) == (403, {"listed": False})


# --- leaving --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "others", "is_nacos_2"),
    [({CAPABILITY_VERSIONS}, [], False), (set(), [LISTED], False), ({CAPABILITY_CLIENTS_ONLY}, [LISTED], True)],
)
def test_members_of_another_kind_are_found_by_their_address(
    membership: MembershipOf, capabilities: set[str], others: list[str], is_nacos_2: bool
) -> None:
    membership.protocol.on_report(PeerReport(LISTED, MemberState.UP, frozenset(capabilities)), 100_000)
    membership.protocol.publish(100_000)
    senders = membership.senders
    assert senders.java_peers_at("::ffff:10.0.0.2") == others
    assert senders.nacos_at("10.0.0.2") == "".join(others)
    assert senders.is_nacos_2_at("10.0.0.2") is is_nacos_2
    assert not senders.is_nacos_2_at("10.0.0.3")


def hear(membership: MembershipOf) -> dict[str, Any]:
    answer = membership.reports.receive_report(report_of(LISTED, CAPABILITY_VERSIONS), "10.0.0.2")
    membership.protocol.on_report(PeerReport(LISTED, MemberState.UP, frozenset({CAPABILITY_VERSIONS})), 100_000)
    return answer


def test_a_leave_is_known_when_all_that_can_be_reached_were_answered_so(membership: MembershipOf) -> None:
    hear(membership)
    membership.leave()
    assert not membership.reports.is_leave_known(), "it was answered before"
    assert hear(membership)[OWN_FIELD]["state"] == "DOWN"
    assert membership.reports.is_leave_known()


def test_a_leave_waits_for_nobody_who_cannot_be_reached(membership: MembershipOf) -> None:
    membership.leave()
    assert membership.reports.is_leave_known()


def test_a_drained_member_says_so_to_our_kind_alone_until_it_leaves(membership: MembershipOf) -> None:
    assert "draining" not in hear(membership)[OWN_FIELD]["extendInfo"][OWN_FIELD]
    membership.drain(True)
    own = hear(membership)[OWN_FIELD]
    assert (own["state"], own["extendInfo"][OWN_FIELD]["draining"]) == ("STARTING", True)
    assert parse_report(own).draining  # type: ignore[union-attr]
    membership.leave()
    assert "draining" not in hear(membership)[OWN_FIELD]["extendInfo"][OWN_FIELD]


def test_refused_beats_are_told_and_count_from_their_time(membership: MembershipOf, clock: Clock) -> None:
    assert "beatsRefusedMs" not in hear(membership)[OWN_FIELD]["extendInfo"][OWN_FIELD]
    membership.refusals.note()
    refused_ms = clock.monotonic_ms()
    clock.now_ms += 700
    assert hear(membership)[OWN_FIELD]["extendInfo"][OWN_FIELD]["beatsRefusedMs"] == 700
    for age_ms, expected_ms in (("x", refused_ms), (-1, refused_ms), (300, refused_ms + 400)):
        mine = {"capabilities": [CAPABILITY_VERSIONS], "beatsRefusedMs": age_ms}
        body = {**report_of(LISTED, CAPABILITY_VERSIONS), "extendInfo": {OWN_FIELD: mine}}
        membership.reports.read_answer(LISTED, "url", orjson.dumps({"code": 200, OWN_FIELD: body}))
        assert membership.refusals.last_ms() == expected_ms


@pytest.mark.parametrize(
    ("status", "is_ready"),
    [(None, True), ("", True), ("UP", True), ("READ_ONLY", False), ("WRITE_ONLY", False), ("DOWN", False)],
)
def test_a_member_that_refuses_reads_or_beats_by_a_switch_is_not_ready(
    membership: MembershipOf, status: str | None, is_ready: bool
) -> None:
    membership.protocol.loads.load = None
    membership.protocol.members.serving = True
    membership.protocol.publish(0)
    membership.standalone, membership.durable.overridden_status = True, status
    assert (membership.unready_reason() == "") is is_ready
    assert is_ready or status in membership.unready_reason()  # type: ignore[operator]


def test_a_member_of_which_a_limited_path_refuses_beats_is_not_ready(membership: MembershipOf) -> None:
    membership.protocol.loads.load = None
    membership.protocol.members.serving = membership.standalone = True
    membership.protocol.publish(0)
    assert membership.unready_reason() == ""
    membership.durable.switches = replace(SwitchDomain(), limited_url_map={"/nacos/v1/ns/instance/beat": 503})
    assert membership.unready_reason() == "the switch limitedUrlMap refuses beats"


def test_all_is_handed_over_when_no_view_has_this_member(membership: MembershipOf) -> None:
    hear(membership)
    membership.drain(True)

    def told(*view: str) -> bool:
        mine = {"capabilities": [CAPABILITY_VERSIONS], "view": list(view)}
        body = {**report_of(LISTED, CAPABILITY_VERSIONS), "extendInfo": {OWN_FIELD: mine}}
        membership.reports.read_answer(LISTED, "url", orjson.dumps({"code": 200, OWN_FIELD: body}))
        return membership.reports.is_handed_over()

    assert not told(SELF, LISTED)
    assert told(LISTED)


def test_before_its_end_a_member_serves_and_is_not_ready(membership: MembershipOf) -> None:
    membership.protocol.loads.load = None
    membership.protocol.members.serving = True
    membership.protocol.publish(0)
    membership.retire()
    assert (membership.state(), membership.unready_reason()) == (MemberState.UP, "this node leaves the cluster soon")
    membership.leave()
    assert (membership.state(), membership.unready_reason()) == (MemberState.DOWN, "this node leaves the cluster")

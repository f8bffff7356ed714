"""UdpSubscribers: which subscriber gets which push when, and which is forgotten."""

from collections.abc import Iterable

import pytest

from app.naming.push import udp_subscribers as push
from app.naming.push.push_budget import UNANSWERED_BYTES_MAX
from app.naming.push.schedule import SPACING_MS
from app.naming.push.udp_subscribers import (
    ACK_TIMEOUT_MS,
    FORGET_MS,
    LATENCIES_KEPT,
    NUMBER_MASK,
    SUBSCRIBERS_OF_PORT_MAX,
    SWEEP_MS,
    TEXT_CHARS_MAX,
    TURN_BITS,
    TURN_MASK,
    UNANSWERED_MAX,
    Push,
    Subscriber,
    UdpSubscribers,
    is_one_machine,
)

NAMESPACE, SERVICE = "public", "DEFAULT_GROUP@@orders"
BEGIN_MS = 1_000_000


@pytest.fixture
def subscribers() -> UdpSubscribers:
    return UdpSubscribers()


def client(port: int = 50_000, ip: str = "10.0.0.1", service: str = SERVICE, clusters: str = "") -> Subscriber:
    return Subscriber(NAMESPACE, service, clusters, ip, port, "Nacos-Java-Client:v1.4.8", "", 65_507)


def pushes_at(subscribers: UdpSubscribers, now_ms: int) -> list[Push]:
    return subscribers.tick(now_ms)[0]


def change(subscribers: UdpSubscribers, now_ms: int, service: str = SERVICE) -> list[Push]:
    """Make a change, and return what is sent at once."""
    subscribers.changed((NAMESPACE, service), now_ms)
    return pushes_at(subscribers, now_ms)


def targets(pushes: Iterable[Push]) -> list[int]:
    return [one.subscriber.port for one in pushes]


# --- what is due ---------------------------------------------------------------------------------


def test_a_change_goes_at_once_to_all_who_asked_for_that_service(subscribers: UdpSubscribers) -> None:
    for port in (50_000, 50_001):
        subscribers.subscribe(client(port), BEGIN_MS)
    subscribers.subscribe(client(50_002, service="DEFAULT_GROUP@@other"), BEGIN_MS)
    assert targets(change(subscribers, BEGIN_MS)) == [50_000, 50_001]
    assert pushes_at(subscribers, BEGIN_MS) == []


def test_a_change_of_a_service_without_subscribers_is_nothing(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    assert not subscribers.changed((NAMESPACE, "DEFAULT_GROUP@@other"), BEGIN_MS)
    assert not subscribers.changed(("elsewhere", SERVICE), BEGIN_MS)
    assert subscribers.tick(BEGIN_MS) == ([], None)


def test_a_burst_is_one_push_now_and_one_at_the_end_of_the_spacing(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    assert len(change(subscribers, BEGIN_MS)) == 1
    for later_ms in range(1, SPACING_MS):
        assert change(subscribers, BEGIN_MS + later_ms) == []
    assert subscribers.tick(BEGIN_MS + SPACING_MS - 1)[1] == BEGIN_MS + SPACING_MS
    [one] = pushes_at(subscribers, BEGIN_MS + SPACING_MS)
    subscribers.acknowledged(one.reference, BEGIN_MS + SPACING_MS)
    assert change(subscribers, BEGIN_MS + 3 * SPACING_MS), "after a pause the next change goes at once"


def test_services_do_not_wait_for_each_other(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(50_000), BEGIN_MS)
    subscribers.subscribe(client(50_001, service="DEFAULT_GROUP@@other"), BEGIN_MS)
    change(subscribers, BEGIN_MS)
    assert targets(change(subscribers, BEGIN_MS + 1, "DEFAULT_GROUP@@other")) == [50_001]


def test_one_client_may_ask_twice_and_each_cluster_list_is_one_subscriber(subscribers: UdpSubscribers) -> None:
    for clusters in ("", "", "c1"):
        subscribers.subscribe(client(clusters=clusters), BEGIN_MS)
    assert len(subscribers) == 2
    assert [one.subscriber.clusters for one in change(subscribers, BEGIN_MS)] == ["", "c1"]


def test_the_subscribers_of_a_namespace(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    assert subscribers.subscribers(NAMESPACE) == [client()]
    assert subscribers.subscribers("elsewhere") == []


# --- acknowledgements ----------------------------------------------------------------------------


def test_without_an_acknowledgement_it_is_sent_once_more_and_then_given_up(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [first] = change(subscribers, BEGIN_MS)
    assert subscribers.tick(BEGIN_MS + ACK_TIMEOUT_MS - 1) == ([], BEGIN_MS + ACK_TIMEOUT_MS)
    [second] = pushes_at(subscribers, BEGIN_MS + ACK_TIMEOUT_MS)
    assert (second.subscriber, second.reference) == (first.subscriber, first.reference)
    assert subscribers.waiting() == [(client(), first.reference, 2)]
    assert pushes_at(subscribers, BEGIN_MS + 2 * ACK_TIMEOUT_MS) == []
    assert subscribers.waiting() == []
    assert (subscribers.stats.total, subscribers.stats.succeeded, subscribers.stats.failed) == (1, 0, 1)
    assert not subscribers.acknowledged(first.reference, BEGIN_MS + 2 * ACK_TIMEOUT_MS + 1)
    assert subscribers.stats.succeeded == 0, "it was counted as failed"


def test_an_acknowledged_push_is_not_repeated(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [one] = change(subscribers, BEGIN_MS)
    assert subscribers.acknowledged(one.reference, BEGIN_MS + 7)
    assert subscribers.tick(BEGIN_MS + ACK_TIMEOUT_MS) == ([], None)
    assert (subscribers.stats.succeeded, list(subscribers.stats.latencies_ms)) == (1, [7])
    assert not subscribers.acknowledged(one.reference, BEGIN_MS + 8), "once"
    assert subscribers.stats.succeeded == 1


@pytest.mark.parametrize("reference", [0, 1, -1, 1 << 70])
def test_an_acknowledgement_of_nothing_is_nothing(subscribers: UdpSubscribers, reference: int) -> None:
    assert not subscribers.acknowledged(reference, BEGIN_MS)
    subscribers.subscribe(client(), BEGIN_MS)
    assert not subscribers.acknowledged(reference, BEGIN_MS)
    change(subscribers, BEGIN_MS)
    assert not subscribers.acknowledged(reference, BEGIN_MS)


def test_a_newer_state_takes_the_place_of_one_under_way(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [old] = change(subscribers, BEGIN_MS)
    [new] = change(subscribers, BEGIN_MS + SPACING_MS)
    assert subscribers.waiting() == [(client(), new.reference, 1)]
    # The acknowledgement of the older one is late, but the push arrived; the newer is still waited for.
    assert subscribers.acknowledged(old.reference, BEGIN_MS + SPACING_MS + 1)
    assert subscribers.waiting() == [(client(), new.reference, 1)]
    assert pushes_at(subscribers, BEGIN_MS + ACK_TIMEOUT_MS) == []
    [again] = pushes_at(subscribers, BEGIN_MS + ACK_TIMEOUT_MS + SPACING_MS)
    assert again.reference == new.reference
    assert subscribers.acknowledged(new.reference, BEGIN_MS + ACK_TIMEOUT_MS + SPACING_MS)
    assert subscribers.stats.succeeded == 2


def test_a_reference_can_be_read_by_clients_whose_numbers_are_floating(subscribers: UdpSubscribers) -> None:
    subscribers = UdpSubscribers(first_number=(1 << 32) - 1)
    for port in (50_000, 50_001):
        subscribers.subscribe(client(port), BEGIN_MS)
    references = [one.reference for one in change(subscribers, BEGIN_MS)]
    assert all(1 << 20 < one <= 1 << 53 and int(float(one)) == one for one in references)
    assert len(set(references)) == 2


def test_counts_of_pushes_may_pass_the_bits_that_name_them() -> None:
    subscribers = UdpSubscribers()
    subscribers.subscribe(client(), BEGIN_MS)
    [known] = subscribers._numbers.values()
    known.pushed = known.acknowledged = TURN_MASK
    [one] = change(subscribers, BEGIN_MS)
    assert one.reference & TURN_MASK == 0
    assert subscribers.acknowledged(one.reference, BEGIN_MS)


def test_the_latest_latencies_are_kept(subscribers: UdpSubscribers) -> None:
    now_ms = BEGIN_MS
    subscribers.subscribe(client(), now_ms)
    for number in range(LATENCIES_KEPT + 1):
        now_ms += SPACING_MS
        [one] = change(subscribers, now_ms)
        subscribers.acknowledged(one.reference, now_ms + (number == 0))
    assert list(subscribers.stats.latencies_ms) == [0] * LATENCIES_KEPT


def test_a_client_that_does_not_acknowledge_is_marked_until_it_does_or_queries(subscribers: UdpSubscribers) -> None:
    now_ms = BEGIN_MS
    subscribers.subscribe(client(), now_ms)
    assert [one.answering for one in change(subscribers, now_ms)] == [True]
    now_ms += SPACING_MS
    [one] = change(subscribers, now_ms)
    assert not one.answering, "the one before is not acknowledged"
    subscribers.acknowledged(one.reference, now_ms)
    now_ms += SPACING_MS
    assert [one.answering for one in change(subscribers, now_ms)] == [True]
    for answering in (False, True):
        # The second time two datagrams are unanswered already, and there is no third.
        assert [one.answering for one in pushes_at(subscribers, now_ms + ACK_TIMEOUT_MS)] == [False] * (not answering)
        pushes_at(subscribers, now_ms + 2 * ACK_TIMEOUT_MS)
        if answering:
            subscribers.subscribe(client(), now_ms + 2 * ACK_TIMEOUT_MS)
        now_ms += 2 * ACK_TIMEOUT_MS + 1
        assert [one.answering for one in change(subscribers, now_ms)] == [True] * answering


def test_numbers_may_be_drawn() -> None:
    drawn = iter([7, 7, 0, 1 << 32, (1 << 32) + 9, 7])
    subscribers = UdpSubscribers(draw=lambda: next(drawn))
    for port in (50_000, 50_001):
        subscribers.subscribe(client(port), BEGIN_MS)
    assert [one.reference >> TURN_BITS for one in change(subscribers, BEGIN_MS)] == [7, 9]


# --- what a liar gets ------------------------------------------------------------------------------


def test_no_third_datagram_goes_to_a_client_that_never_answers(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    sent = sum(len(change(subscribers, BEGIN_MS + turn * SPACING_MS)) for turn in range(1_000))
    assert sent == UNANSWERED_MAX
    assert pushes_at(subscribers, BEGIN_MS + 50_000 + 2 * ACK_TIMEOUT_MS) == []
    assert subscribers.stats.held_back == 998
    assert subscribers.stats.failed == 1


def test_a_client_that_answers_late_is_told_what_it_missed(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    first = [change(subscribers, BEGIN_MS + turn * SPACING_MS) for turn in range(3)]
    assert [len(pushes) for pushes in first] == [1, 1, 0]
    subscribers.acknowledged(first[1][0].reference, BEGIN_MS + 3 * SPACING_MS)
    pushes, next_ms = subscribers.tick(BEGIN_MS + 3 * SPACING_MS)
    assert targets(pushes) == [50_000]
    assert next_ms == BEGIN_MS + 3 * SPACING_MS + ACK_TIMEOUT_MS
    assert pushes_at(subscribers, BEGIN_MS + 4 * SPACING_MS) == []


def test_a_client_that_asks_again_has_the_latest_state(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    for turn in range(3):
        change(subscribers, BEGIN_MS + turn * SPACING_MS)
    subscribers.subscribe(client(), BEGIN_MS + 3 * SPACING_MS)
    assert pushes_at(subscribers, BEGIN_MS + 3 * SPACING_MS) == []
    assert len(change(subscribers, BEGIN_MS + 4 * SPACING_MS)) == 1


def test_one_port_has_few_subscribers_of_a_service(subscribers: UdpSubscribers) -> None:
    for number in range(20):
        subscribers.subscribe(client(clusters=str(number)), BEGIN_MS)
        subscribers.subscribe(client(service=f"DEFAULT_GROUP@@{number}"), BEGIN_MS)
        subscribers.subscribe(client(50_001 + number), BEGIN_MS)
    assert subscribers.stats.refused == 20 - SUBSCRIBERS_OF_PORT_MAX
    assert len(change(subscribers, BEGIN_MS)) == 20 + SUBSCRIBERS_OF_PORT_MAX
    pushes_at(subscribers, BEGIN_MS + FORGET_MS + SWEEP_MS)
    assert len(subscribers) == 0
    subscribers.subscribe(client(clusters="again"), BEGIN_MS + FORGET_MS + SWEEP_MS)
    assert len(subscribers) == 1


def test_what_is_too_much_for_a_destination_waits(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [one] = change(subscribers, BEGIN_MS)
    assert not subscribers.admit(one, UNANSWERED_BYTES_MAX + 1, BEGIN_MS)
    assert subscribers.stats.over_budget == 1
    [again] = pushes_at(subscribers, BEGIN_MS + ACK_TIMEOUT_MS)
    assert again.reference == one.reference
    assert subscribers.admit(again, UNANSWERED_BYTES_MAX, BEGIN_MS + ACK_TIMEOUT_MS)
    [other] = change(subscribers, BEGIN_MS + 2 * ACK_TIMEOUT_MS)
    assert not subscribers.admit(other, 1, BEGIN_MS + 2 * ACK_TIMEOUT_MS), "nothing of it is acknowledged"
    subscribers.acknowledged(again.reference, BEGIN_MS + 2 * ACK_TIMEOUT_MS)
    [other] = change(subscribers, BEGIN_MS + 3 * ACK_TIMEOUT_MS)
    assert subscribers.admit(other, UNANSWERED_BYTES_MAX, BEGIN_MS + 3 * ACK_TIMEOUT_MS)


def test_a_push_that_is_too_large_is_counted_and_not_waited_for(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [one] = change(subscribers, BEGIN_MS)
    subscribers.unsendable(one)
    assert subscribers.waiting() == []
    assert subscribers.stats.too_large == 1
    assert subscribers.tick(BEGIN_MS + ACK_TIMEOUT_MS) == ([], None)


def test_too_large_in_hindsight_leaves_the_newer_push_alone(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [old] = change(subscribers, BEGIN_MS)
    [new] = change(subscribers, BEGIN_MS + SPACING_MS)
    subscribers.unsendable(old)
    assert subscribers.waiting() == [(client(), new.reference, 1)]


# --- who is kept ---------------------------------------------------------------------------------


def test_each_subscriber_of_a_push_that_fails_or_is_too_large_is_counted(subscribers: UdpSubscribers) -> None:
    for port in (50_000, 50_001, 50_002, 50_003):
        subscribers.subscribe(client(port), BEGIN_MS)
    for push_ in change(subscribers, BEGIN_MS)[2:]:
        subscribers.unsendable(push_)
    for later_ms in (ACK_TIMEOUT_MS, 2 * ACK_TIMEOUT_MS):
        pushes_at(subscribers, BEGIN_MS + later_ms)
    assert (subscribers.stats.failed, subscribers.stats.too_large) == (2, 2)


@pytest.mark.parametrize(
    ("first", "numbers"), [(None, [1, 2, 3]), (7, [7, 8, 9]), (NUMBER_MASK, [NUMBER_MASK, 1, 2]), (0, [1, 2, 3])]
)
def test_numbers_go_up_from_the_first_and_round(first: int | None, numbers: list[int]) -> None:
    subscribers = UdpSubscribers() if first is None else UdpSubscribers(first)
    for port in (50_000, 50_001, 50_002):
        subscribers.subscribe(client(port), BEGIN_MS)
    assert [one.reference >> TURN_BITS for one in change(subscribers, BEGIN_MS)] == numbers


def test_the_silent_are_looked_for_now_and_then_alone(subscribers: UdpSubscribers) -> None:
    pushes_at(subscribers, BEGIN_MS)
    subscribers.subscribe(client(), BEGIN_MS)
    for later_ms, left in (
        (FORGET_MS, 1),
        (FORGET_MS + 1, 1),
        (FORGET_MS + SWEEP_MS - 1, 1),
        (FORGET_MS + SWEEP_MS, 0),
    ):
        pushes_at(subscribers, BEGIN_MS + later_ms)
        assert len(subscribers) == left


def test_the_silent_are_forgotten(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    assert change(subscribers, BEGIN_MS + FORGET_MS)
    assert change(subscribers, BEGIN_MS + FORGET_MS + SPACING_MS) == []
    assert len(subscribers) == 0
    assert not subscribers.has((NAMESPACE, SERVICE))
    assert subscribers.waiting() == []


def test_the_silent_are_forgotten_without_a_change_too(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    for now_ms in range(BEGIN_MS, BEGIN_MS + FORGET_MS + SWEEP_MS + 1_000, 1_000):
        subscribers.tick(now_ms)
    assert len(subscribers) == 0
    assert subscribers.subscribers(NAMESPACE) == []


@pytest.mark.parametrize("late", [False, True])
def test_who_polls_or_acknowledges_is_kept(subscribers: UdpSubscribers, late: bool) -> None:
    """``late``: the client is so far away that each acknowledgement comes after the next push."""
    polls, acknowledges = client(50_000), client(50_001)
    for one in (polls, acknowledges):
        subscribers.subscribe(one, BEGIN_MS)
    former: dict[int, int] = {}
    for now_ms in range(BEGIN_MS, BEGIN_MS + 5 * FORGET_MS, FORGET_MS // 2):
        subscribers.subscribe(polls, now_ms)
        sent = {one.subscriber.port: one.reference for one in change(subscribers, now_ms)}
        assert sent.keys() == {50_000, 50_001}
        answered = former if late else sent
        if 50_001 in answered:
            subscribers.acknowledged(answered[50_001], now_ms)
        former = sent


def test_more_subscribers_than_the_bound_are_refused_and_leave_nothing_behind(
    subscribers: UdpSubscribers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "SUBSCRIBERS_MAX", 2)
    for number in range(5):
        subscribers.subscribe(client(50_000 + number, service=f"DEFAULT_GROUP@@s{number}"), BEGIN_MS)
    subscribers.subscribe(client(50_001, service="DEFAULT_GROUP@@s1"), BEGIN_MS + 1)
    assert (len(subscribers), subscribers.stats.refused) == (2, 3)
    assert [subscribers.has((NAMESPACE, f"DEFAULT_GROUP@@s{number}")) for number in range(5)] == [True, True] + 3 * [
        False
    ]


@pytest.mark.parametrize(
    "refused",
    [
        client(ip="localhost"),
        client(ip=""),
        client(ip="10.0.0"),
        client(port=0),
        client(port=65_536),
        client(port=1_023),
        client(port=53),
        client(clusters="x" * TEXT_CHARS_MAX),
    ],
)
def test_who_cannot_be_reached_is_not_kept(subscribers: UdpSubscribers, refused: Subscriber) -> None:
    subscribers.subscribe(refused, BEGIN_MS)
    assert (len(subscribers), subscribers.stats.refused) == (0, 1)


@pytest.mark.parametrize(
    ("ip", "allowed"),
    [
        ("10.0.0.1", True),
        ("127.0.1.1", True),
        ("fe80::1", True),
        ("::ffff:10.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("255.255.255.255", False),
        ("240.0.0.1", False),
        ("0.0.0.1", False),
        ("::ffff:224.0.0.1", False),
        ("::ffff:0.0.0.0", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1 ", False),
        ("host.example", False),
    ],
)
def test_pushes_go_to_plain_addresses_of_one_machine(ip: str, allowed: bool) -> None:
    assert is_one_machine(ip) is allowed


# --- the record ----------------------------------------------------------------------------------


def test_a_copy_of_the_record_stays_as_it_was(subscribers: UdpSubscribers) -> None:
    subscribers.subscribe(client(), BEGIN_MS)
    [one] = change(subscribers, BEGIN_MS)
    before = subscribers.stats.copy()
    subscribers.acknowledged(one.reference, BEGIN_MS)
    assert (before.total, before.succeeded, list(before.latencies_ms)) == (1, 0, [])
    subscribers.reset_stats()
    assert subscribers.stats.total == 0

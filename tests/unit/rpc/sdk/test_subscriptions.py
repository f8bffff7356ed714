"""GrpcSubscriptions: pushes merged, spaced and repeated, and never more than one pending for a subscription."""

import pytest

from app.naming.push.schedule import SPACING_MS
from app.rpc.sdk.subscriptions import ACK_MS, RETRY_MS, SUBSCRIPTIONS_MAX, GrpcSubscriptions, Subscription

KEY, OTHER = ("public", "G@@a"), ("public", "G@@b")


def due(subscriptions: GrpcSubscriptions, now_ms: int) -> list[tuple[str, str]]:
    """The pushes that are ready at that time: client and service."""
    subscriptions.tick(now_ms)
    return [(one.client_id, one.key[1]) for one in subscriptions.ready()]


def send(subscriptions: GrpcSubscriptions, client_id: str, request_id: str, now_ms: int, content: int = 7) -> None:
    subscriptions.sent(found(subscriptions, client_id), request_id, content, now_ms)


def found(subscriptions: GrpcSubscriptions, client_id: str) -> Subscription:
    one = subscriptions.find(client_id, KEY)
    assert one is not None
    return one


@pytest.fixture
def subscriptions() -> GrpcSubscriptions:
    made = GrpcSubscriptions()
    made.subscribe("c1", KEY, "")
    made.subscribe("c2", KEY, "A")
    return made


def test_a_change_is_pushed_at_once_to_all_subscriptions(subscriptions: GrpcSubscriptions) -> None:
    subscriptions.changed(OTHER, 1_000)
    assert due(subscriptions, 1_000) == []
    subscriptions.changed(KEY, 1_000)
    assert due(subscriptions, 1_000) == [("c1", "G@@a"), ("c2", "G@@a")]
    assert due(subscriptions, 1_000) == []


def test_changes_within_the_spacing_are_one_push_at_its_end(subscriptions: GrpcSubscriptions) -> None:
    subscriptions.changed(KEY, 1_000)
    due(subscriptions, 1_000)
    for now_ms in range(1_001, 1_020):
        subscriptions.changed(KEY, now_ms)
        assert due(subscriptions, now_ms) == []
    assert subscriptions.tick(1_020) == 1_000 + SPACING_MS
    assert len(due(subscriptions, 1_000 + SPACING_MS)) == 2
    subscriptions.changed(KEY, 5_000)
    assert len(due(subscriptions, 5_000)) == 2


def test_a_push_that_is_ready_and_not_taken_is_not_ready_twice(subscriptions: GrpcSubscriptions) -> None:
    subscriptions.changed(KEY, 1_000)
    subscriptions.tick(1_000)
    subscriptions.changed(KEY, 2_000)
    assert len(due(subscriptions, 2_000)) == 2


def test_a_first_push_is_pending_for_one_client_alone(subscriptions: GrpcSubscriptions) -> None:
    subscriptions.add_pending("c1", KEY)
    subscriptions.add_pending("c1", OTHER)
    subscriptions.add_pending("nobody", KEY)
    assert due(subscriptions, 1_000) == [("c1", "G@@a")]


def test_without_an_acknowledgement_a_push_is_repeated_again_and_again(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "1", 1_000)
    assert due(subscriptions, 1_000 + ACK_MS - 1) == []
    assert subscriptions.next_due_ms() == 1_000 + ACK_MS
    now_ms = 1_000
    for number in range(2, 5):
        assert due(subscriptions, now_ms + ACK_MS) == []
        assert due(subscriptions, now_ms + ACK_MS + RETRY_MS - 1) == []
        now_ms += ACK_MS + RETRY_MS
        assert due(subscriptions, now_ms) == [("c1", "G@@a")]
        send(subscriptions, "c1", str(number), now_ms)
    assert subscriptions.stats.timed_out == 3
    assert subscriptions.answered("c1", "4", True, now_ms + 1)
    assert due(subscriptions, now_ms + 1_000_000) == []


def test_a_refused_push_is_repeated_sooner(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "1", 1_000)
    assert subscriptions.answered("c1", "1", False, 1_010)
    assert due(subscriptions, 1_010 + RETRY_MS - 1) == []
    assert due(subscriptions, 1_010 + RETRY_MS) == [("c1", "G@@a")]


def test_what_a_subscription_was_shown_last_is_no_news_to_it(subscriptions: GrpcSubscriptions) -> None:
    one, other = found(subscriptions, "c1"), found(subscriptions, "c2")
    assert subscriptions.is_news(one, 7)
    send(subscriptions, "c1", "r1", 1_000, content=7)
    assert not subscriptions.is_news(one, 7)
    assert subscriptions.is_news(one, 8)
    assert subscriptions.is_news(other, 7)
    send(subscriptions, "c1", "r2", 1_000, content=8)
    assert subscriptions.is_news(one, 7), "as before, but not as shown last"
    assert (subscriptions.stats.sent, subscriptions.stats.unchanged) == (2, 1)


@pytest.mark.parametrize("answered", [True, False])
def test_a_push_that_is_repeated_is_sent_whatever_it_shows(subscriptions: GrpcSubscriptions, answered: bool) -> None:
    send(subscriptions, "c1", "r1", 1_000)
    if answered:
        subscriptions.answered("c1", "r1", False, 1_000)
    assert not subscriptions.is_news(found(subscriptions, "c1"), 7)
    subscriptions.tick(1_000 + ACK_MS)
    assert due(subscriptions, 1_000 + ACK_MS + RETRY_MS) == [("c1", "G@@a")]
    assert subscriptions.is_news(found(subscriptions, "c1"), 7)


def test_the_push_to_one_who_subscribes_is_sent_whatever_it_shows(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "r1", 1_000)
    subscriptions.add_pending("c1", KEY)
    assert subscriptions.is_news(found(subscriptions, "c1"), 7)


def test_a_newer_push_is_the_only_one_waited_for(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "1", 1_000)
    send(subscriptions, "c1", "2", 1_100)
    assert not subscriptions.answered("c1", "1", False, 1_200)
    assert subscriptions.answered("c1", "2", True, 1_200)
    assert subscriptions.next_due_ms() is None
    assert (subscriptions.stats.sent, subscriptions.stats.acknowledged, subscriptions.stats.refused) == (2, 1, 0)


def test_one_number_may_go_to_several_clients(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "7", 1_000)
    send(subscriptions, "c2", "7", 1_000)
    assert subscriptions.answered("c1", "7", True, 1_001)
    assert not subscriptions.answered("c1", "7", True, 1_001)
    assert due(subscriptions, 1_000 + ACK_MS + RETRY_MS) == []
    assert due(subscriptions, 1_000 + 2 * ACK_MS + 2 * RETRY_MS) == [("c2", "G@@a")]


def test_a_client_that_unsubscribed_or_is_gone_gets_no_push(subscriptions: GrpcSubscriptions) -> None:
    send(subscriptions, "c1", "1", 1_000)
    send(subscriptions, "c2", "1", 1_000)
    subscriptions.answered("c2", "1", False, 1_000)
    subscriptions.changed(KEY, 1_000)
    subscriptions.tick(1_000)
    subscriptions.unsubscribe("c1", KEY)
    subscriptions.forget("c2")
    assert list(subscriptions.ready()) == []
    assert (subscriptions.has(KEY), subscriptions.find("c1", KEY), subscriptions.next_due_ms()) == (False, None, None)
    assert due(subscriptions, 1_000_000) == []
    subscriptions.forget("c2")
    subscriptions.unsubscribe("c2", KEY)


def test_other_clusters_are_the_same_subscription(subscriptions: GrpcSubscriptions) -> None:
    subscriptions.subscribe("c1", KEY, "B")
    found = subscriptions.find("c1", KEY)
    assert found is not None
    assert found.clusters == "B"
    subscriptions.changed(KEY, 1_000)
    assert len(due(subscriptions, 1_000)) == 2


def test_a_client_subscribes_to_so_much_and_no_more() -> None:
    subscriptions = GrpcSubscriptions()
    assert all(subscriptions.subscribe("c", ("public", f"G@@{number}"), "") for number in range(SUBSCRIPTIONS_MAX))
    assert not subscriptions.subscribe("c", KEY, "")
    assert subscriptions.subscribe("c", ("public", "G@@0"), "A")
    subscriptions.unsubscribe("c", ("public", "G@@0"))
    assert subscriptions.subscribe("c", KEY, "")

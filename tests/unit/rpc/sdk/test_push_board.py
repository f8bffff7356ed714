"""Who is owed what: merged, spaced, repeated, and never more than the latest."""

import pytest

from app.rpc.sdk.push_board import ACK_MS, RETRY_MS, SPACING_MS, SUBSCRIPTIONS_MAX, PushBoard

KEY, OTHER = ("public", "G@@a"), ("public", "G@@b")


def due(board: PushBoard, now_ms: int) -> list[tuple[str, str]]:
    """Who is to be told of what at that moment."""
    board.tick(now_ms)
    return [(one.client_id, one.key[1]) for one in board.ready()]


def send(board: PushBoard, client_id: str, request_id: str, now_ms: int) -> None:
    one = board.find(client_id, KEY)
    assert one is not None
    board.sent(one, request_id, now_ms)


@pytest.fixture
def board() -> PushBoard:
    made = PushBoard()
    made.subscribe("c1", KEY, "")
    made.subscribe("c2", KEY, "A")
    return made


def test_a_change_is_told_at_once_to_all_who_subscribed(board: PushBoard) -> None:
    board.changed(OTHER, 1_000)
    assert due(board, 1_000) == []
    board.changed(KEY, 1_000)
    assert due(board, 1_000) == [("c1", "G@@a"), ("c2", "G@@a")]
    assert due(board, 1_000) == []


def test_changes_within_the_spacing_are_one_push_at_its_end(board: PushBoard) -> None:
    board.changed(KEY, 1_000)
    due(board, 1_000)
    for now_ms in range(1_001, 1_020):
        board.changed(KEY, now_ms)
        assert due(board, now_ms) == []
    assert board.tick(1_020) == 1_000 + SPACING_MS
    assert len(due(board, 1_000 + SPACING_MS)) == 2
    board.changed(KEY, 5_000)
    assert len(due(board, 5_000)) == 2


def test_what_is_ready_and_not_taken_is_not_ready_twice(board: PushBoard) -> None:
    board.changed(KEY, 1_000)
    board.tick(1_000)
    board.changed(KEY, 2_000)
    assert len(due(board, 2_000)) == 2


def test_a_first_push_is_owed_to_one_client_alone(board: PushBoard) -> None:
    board.add_pending("c1", KEY)
    board.add_pending("c1", OTHER)
    board.add_pending("nobody", KEY)
    assert due(board, 1_000) == [("c1", "G@@a")]


def test_without_an_acknowledgement_a_push_is_repeated_again_and_again(board: PushBoard) -> None:
    send(board, "c1", "1", 1_000)
    assert due(board, 1_000 + ACK_MS - 1) == []
    assert board.next_due_ms() == 1_000 + ACK_MS
    now_ms = 1_000
    for number in range(2, 5):
        assert due(board, now_ms + ACK_MS) == []
        assert due(board, now_ms + ACK_MS + RETRY_MS - 1) == []
        now_ms += ACK_MS + RETRY_MS
        assert due(board, now_ms) == [("c1", "G@@a")]
        send(board, "c1", str(number), now_ms)
    assert board.stats.timed_out == 3
    assert board.answered("c1", "4", True, now_ms + 1)
    assert due(board, now_ms + 1_000_000) == []


def test_a_refused_push_is_repeated_sooner(board: PushBoard) -> None:
    send(board, "c1", "1", 1_000)
    assert board.answered("c1", "1", False, 1_010)
    assert due(board, 1_010 + RETRY_MS - 1) == []
    assert due(board, 1_010 + RETRY_MS) == [("c1", "G@@a")]


def test_a_newer_push_is_the_only_one_waited_for(board: PushBoard) -> None:
    send(board, "c1", "1", 1_000)
    send(board, "c1", "2", 1_100)
    assert not board.answered("c1", "1", False, 1_200)
    assert board.answered("c1", "2", True, 1_200)
    assert board.next_due_ms() is None
    assert (board.stats.sent, board.stats.acknowledged, board.stats.refused) == (2, 1, 0)


def test_one_number_may_go_to_several_clients(board: PushBoard) -> None:
    send(board, "c1", "7", 1_000)
    send(board, "c2", "7", 1_000)
    assert board.answered("c1", "7", True, 1_001)
    assert not board.answered("c1", "7", True, 1_001)
    assert due(board, 1_000 + ACK_MS + RETRY_MS) == []
    assert due(board, 1_000 + 2 * ACK_MS + 2 * RETRY_MS) == [("c2", "G@@a")]


def test_who_unsubscribed_or_is_gone_is_owed_nothing(board: PushBoard) -> None:
    send(board, "c1", "1", 1_000)
    send(board, "c2", "1", 1_000)
    board.answered("c2", "1", False, 1_000)
    board.changed(KEY, 1_000)
    board.tick(1_000)
    board.unsubscribe("c1", KEY)
    board.forget("c2")
    assert list(board.ready()) == []
    assert (board.has(KEY), board.find("c1", KEY), board.next_due_ms()) == (False, None, None)
    assert due(board, 1_000_000) == []
    board.forget("c2")
    board.unsubscribe("c2", KEY)


def test_other_clusters_are_the_same_subscription(board: PushBoard) -> None:
    board.subscribe("c1", KEY, "B")
    found = board.find("c1", KEY)
    assert found is not None
    assert found.clusters == "B"
    board.changed(KEY, 1_000)
    assert len(due(board, 1_000)) == 2


def test_a_client_subscribes_to_so_much_and_no_more() -> None:
    board = PushBoard()
    assert all(board.subscribe("c", ("public", f"G@@{number}"), "") for number in range(SUBSCRIPTIONS_MAX))
    assert not board.subscribe("c", KEY, "")
    assert board.subscribe("c", ("public", "G@@0"), "A")
    board.unsubscribe("c", ("public", "G@@0"))
    assert board.subscribe("c", KEY, "")

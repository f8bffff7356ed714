"""Calls that were allowed are remembered until a right changes or the token ends."""

from app.auth.access_control import Session
from app.auth.decision_memo import CALL_BYTES_MAX, ENTRIES_MAX, DecisionMemo, key_of_call

SESSION = Session("bob", "g1", 5_000)


def test_a_call_is_known_until_its_token_ends_or_any_right_changes() -> None:
    memo = DecisionMemo()
    assert memo.find(1, b"k", 0) is None
    memo.keep(1, b"k", SESSION)
    assert memo.find(1, b"k", 4_999) == SESSION
    assert memo.find(1, b"k", 5_000) is None
    assert memo.find(2, b"k", 0) is None
    assert memo.find(1, b"k", 0) is None


def test_what_was_decided_by_older_rights_is_not_kept() -> None:
    memo = DecisionMemo()
    memo.find(2, b"k", 0)
    memo.keep(1, b"k", SESSION)
    assert memo.find(2, b"k", 0) is None


def test_calls_that_differ_in_one_part_have_keys_of_their_own() -> None:
    parts = [b"PUT /a", "token", b"q=1", b"body"]
    keys = {key_of_call(*parts)}
    for place, other in enumerate([b"GET /a", "toke", b"q=2", b"bod"]):
        keys.add(key_of_call(*[*parts[:place], other, *parts[place + 1 :]]))
    assert len(keys) == 5
    assert None not in keys


def test_a_long_call_has_none() -> None:
    assert key_of_call(b"", "", b"x" * CALL_BYTES_MAX, b"") is not None
    assert key_of_call(b"", "", b"x" * CALL_BYTES_MAX, b"x") is None


def test_it_is_bounded() -> None:
    memo = DecisionMemo()
    memo.find(1, b"", 0)
    for number in range(ENTRIES_MAX + 10):
        memo.keep(1, number.to_bytes(4), SESSION)
    assert len(memo.allowed) <= ENTRIES_MAX

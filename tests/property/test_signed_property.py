"""Signed calls: any change is refused, and no number of a session counts twice."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.auth.member_calls import Caller, Unidentified
from app.auth.signed import SIGNATURE, SIGNED_HEADERS, WINDOW, Nonces
from tests.support.identified import IdentifiedPair, SentCall

VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=12)
HEADERS = st.dictionaries(st.sampled_from([one for one in SIGNED_HEADERS if one != "rollcall-member"]), VALUES)
TARGETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30).map(lambda text: "/" + text)


@given(TARGETS, st.binary(max_size=40), HEADERS, st.data())
def test_any_change_of_a_call_is_refused(
    target: str, body: bytes, headers: dict[str, str], data: st.DataObject
) -> None:
    pair = IdentifiedPair()
    sent = pair.first.call(pair.second, body, headers, target=target)
    changed = data.draw(st.one_of(_other_line(sent), _other_header(sent), _other_signature(sent)))
    assert isinstance(pair.second.take(changed), Unidentified), changed
    assert isinstance(pair.second.take(sent), Caller), "as it was sent, it is taken all the same"


def _other_line(sent: SentCall) -> st.SearchStrategy[SentCall]:
    methods = st.sampled_from(["GET", "POST", "DELETE", "put"]).map(lambda method: replace(sent, method=method))
    targets = TARGETS.filter(lambda target: target != sent.target).map(lambda target: replace(sent, target=target))
    bodies = st.binary(max_size=40).filter(lambda body: body != sent.body).map(lambda body: replace(sent, body=body))
    return st.one_of(methods, targets, bodies)


def _other_header(sent: SentCall) -> st.SearchStrategy[SentCall]:
    def with_value(name: str, value: str | None) -> SentCall:
        headers = {one: text for one, text in sent.headers.items() if one != name}
        return replace(sent, headers=headers if value is None else {**headers, name: value})

    pairs = st.tuples(st.sampled_from(SIGNED_HEADERS), st.none() | VALUES)
    return pairs.filter(lambda pair: pair[1] != sent.headers.get(pair[0])).map(lambda pair: with_value(*pair))


def _other_signature(sent: SentCall) -> st.SearchStrategy[SentCall]:
    """The signature with one field of another value: version, sender, run, time, session, number, digest or MAC."""
    parts = sent.headers[SIGNATURE].split(" ")

    def with_part(at: int, value: str) -> SentCall:
        text = " ".join([*parts[:at], value, *parts[at + 1 :]])
        return replace(sent, headers={**sent.headers, SIGNATURE: text})

    texts = st.one_of(st.integers(0, 10**9).map(str), st.text("abcdef0123456789.:~=", min_size=1, max_size=20))
    places = st.tuples(st.integers(0, len(parts) - 1), texts)
    return places.filter(lambda pair: pair[1] != parts[pair[0]]).map(lambda pair: with_part(*pair))


NUMBERS = st.lists(st.integers(1, 40) | st.integers(1, 3 * WINDOW), max_size=40)


@given(NUMBERS)
def test_no_number_is_taken_twice(numbers: list[int]) -> None:
    nonces, taken, highest = Nonces(), set[int](), 0
    for number in numbers:
        may = number not in taken and number > highest - WINDOW
        assert nonces.take("a", number, 0) is may, number
        if may:
            taken.add(number)
            highest = max(highest, number)

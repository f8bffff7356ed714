"""Batches of writes that are passed on: what one member writes the other reads, and any other body is refused."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.api.answers import NOT_RESPONSIBLE
from app.http.api.call import CHANGE, CLIENT_ADDRESS, CLIENT_AGENT, CLOCK, JSON, OK, TEXT, WANTS_CHANGE, Call, Reply
from app.peers.write_batches import (
    BATCH_BYTES_MAX,
    CALL_BYTES_MAX,
    CALLS_MAX,
    BatchedCall,
    DoneAnswer,
    batched,
    decode_answers,
    decode_calls,
    encode_answers,
    encode_calls,
    entry_of,
)
from distro.model.errors import CodecError

BYTES = st.binary(max_size=60)
LATIN = st.text(st.characters(max_codepoint=255), max_size=20)
GIVEN = st.none() | LATIN
CALLS = st.builds(BatchedCall, LATIN, LATIN, BYTES, BYTES, GIVEN, LATIN, LATIN, GIVEN, GIVEN)
HEADERS = st.dictionaries(st.sampled_from([CHANGE, CLOCK, NOT_RESPONSIBLE, "Retry-After"]), LATIN)
REPLIES = st.builds(
    Reply, st.integers(200, 599), BYTES | st.just(OK.body), st.sampled_from([TEXT, JSON, None]), HEADERS
)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=5),
    lambda of: st.lists(of, max_size=10) | st.dictionaries(st.text(max_size=3), of, max_size=3),
)


@given(st.lists(CALLS, max_size=CALLS_MAX))
def test_calls_arrive_as_they_were_sent(calls: list[BatchedCall]) -> None:
    assert decode_calls(encode_calls(calls)) == calls


def with_object(reply: Reply) -> Reply:
    """The reply with a change that is JSON, as those are that a member asks for as objects."""
    changed = {CHANGE: orjson.dumps({"word": reply.headers[CHANGE]}).decode()} if CHANGE in reply.headers else {}
    return Reply(reply.status, reply.body, reply.content_type, {**reply.headers, **changed})


@given(st.lists(st.none() | REPLIES, max_size=5), st.booleans())
def test_answers_arrive_as_they_were_given(given_replies: list[Reply | None], is_dated: bool) -> None:
    replies = [one if one is None or not is_dated else with_object(one) for one in given_replies]
    entries = [None if one is None else entry_of(one, is_dated=is_dated) for one in replies]
    of_all = "of all" if is_dated else ""
    answers = decode_answers(encode_answers(entries), len(replies), of_all)
    for reply, found in zip(replies, answers, strict=True):
        if reply is None or found is None:
            assert found is reply
            continue
        if isinstance(found, DoneAnswer):
            assert (reply.status, reply.body, reply.content_type) == (OK.status, OK.body, OK.content_type)
            assert reply.headers.keys() <= {CHANGE, CLOCK}
            told = reply.headers.get(CHANGE)
            if is_dated and CLOCK not in reply.headers:
                assert (found.change, found.clock) == (None if told is None else orjson.loads(told), of_all)
                continue
            assert not isinstance(found.change, dict)
            change = None if found.change is None else found.change.decode("latin-1")
            assert (change, found.clock) == (told, reply.headers.get(CLOCK, ""))
            continue
        typed = {} if reply.content_type is None else {"Content-Type": reply.content_type}
        sent = {name.lower().encode(): value.encode("latin-1") for name, value in {**reply.headers, **typed}.items()}
        if of_all and CHANGE in reply.headers:
            sent.setdefault(CLOCK.encode(), of_all.encode())
        assert (found.status, found.body, found.headers) == (reply.status, reply.body, sent)


@given(VALUES)
def test_other_values_are_refused_or_read(value: object) -> None:
    for read in (decode_calls, lambda body: decode_answers(body, 2)):
        try:
            found = read(orjson.dumps(value))
        except CodecError:
            continue
        assert isinstance(found, list)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b"[1]", b'[["POST"]]', b'[["POST","/x","\\u0100","",null,"","",null,null]]', b'["\xff"]']
)
def test_bodies_that_are_no_batch(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode_calls(body)


def test_a_batch_is_bounded() -> None:
    one = BatchedCall("POST", "/x", b"", b"", None, "", "", None, None)
    with pytest.raises(CodecError):
        decode_calls(encode_calls([one] * (CALLS_MAX + 1)))
    with pytest.raises(CodecError):
        decode_calls(b"[" + b" " * BATCH_BYTES_MAX + b"]")


def test_the_longest_calls_of_all_fit_into_a_batch() -> None:
    longest = Call("POST", "/v1/ns/instance", b"\xff" * CALL_BYTES_MAX, {}, b"", "10.9.9.9")
    one = batched(longest)
    assert one is not None
    assert len(decode_calls(encode_calls([one] * CALLS_MAX))) == CALLS_MAX
    longest.raw_query += b"x"
    assert batched(longest) is None


def test_what_goes_with_a_call() -> None:
    headers = {"user-agent": "curl", "content-type": "a/b", "authorization": "Bearer t", "accesstoken": "t", "x": "y"}
    call = Call("POST", "/x", b"a=1", headers, b"b=2", "10.9.9.9")
    plain = batched(call)
    assert plain is not None
    own = {"user-agent": "Nacos-Server:1.4.8"}
    marks = {CLIENT_AGENT: "curl", CLIENT_ADDRESS: "10.9.9.9", WANTS_CHANGE: "2", "content-type": "a/b"}
    assert plain.headers(own) == {**own, **marks}, "a token goes with the calls of users alone"
    call.user = "nacos"
    of_user = batched(call)
    assert of_user is not None
    assert of_user.headers(own) == {**own, **marks, "authorization": "Bearer t", "accesstoken": "t"}
    call.hop_token = "h"
    assert batched(call) is None, "its password is taken out first"

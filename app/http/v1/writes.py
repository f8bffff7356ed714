"""Writes of clients that a peer passes on in one call; each is decided, executed and answered as if it came alone."""

from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

from app.auth.access_rules import MEMBERS, Action, Scope
from app.http.api.call import BATCH_CHANGE, CLOCK, JSON, ROUTES, Answer, Call, Reply, Route, Services, route
from app.http.api.loop_call import run_hot
from app.http.api.passed_on import PassedOnCall
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import WRITES_ANSWERED, WRITES_BODY
from app.peers.write_batches import WRITES_PATH, decode_calls, encode_answers, entry_of

_ROWS_KEPT = 64
Run = Callable[[Route, Call, Services], Answer]
"""As ``run_hot``."""


@route("PUT", WRITES_PATH, access=MEMBERS, hot=True, described=Described(WRITES_ANSWERED, body=WRITES_BODY))
def put_writes(call: Call, services: Services) -> Answer:
    """Execute writes that a peer of our kind passes on, in their order. Shape: ``app.peers.write_batches``."""
    return answer_writes(call, services, run_hot)


def answer_writes(call: Call, services: Services, run: Run) -> Reply:
    """The answers to the writes of a batch; ``run`` answers one as if it had come alone.

    One that the event loop does not answer at once is not executed: the peer makes it by itself.

    Raises:
        CodecError: the body is not a batch; nothing was executed.
    """
    calls = decode_calls(call.body)
    if not call.on_loop:
        return Reply(200, encode_answers([None] * len(calls)), JSON)
    counts = services.instruments.counts_requests
    is_dated = call.wants_change == BATCH_CHANGE

    entries: list[bytes | None] = []
    for one in calls:
        begun_s = perf_counter()
        row = _row(one.method, one.path)
        answer = None if row is None else run(row, PassedOnCall(call, row, one, services.written), services)
        if row is None or type(answer) is not Reply or answer.stream is not None:
            entries.append(None)
            continue
        entries.append(entry_of(answer, is_dated=is_dated))
        if counts:
            services.instruments.http.of_loop(row.method, row.path).add(answer.status, perf_counter() - begun_s)
    body = encode_answers(entries)
    # Behind the writes: no age counts from before its change.
    return Reply(200, body, JSON, {CLOCK: services.cluster.stamp()} if is_dated else {})


@lru_cache(_ROWS_KEPT)
def _row(method: str, path: str) -> Route | None:
    """The row of a write of clients that the event loop answers; None for any other call, which is not for a batch."""
    for row in ROUTES:
        if row.hot and row.method == method and row.path == path and not row.for_members:
            is_write = row.access.scope is Scope.NAMING and row.access.action is Action.WRITE
            return row if is_write else None
    return None

"""Verify rounds to real Nacos: one call a client, and no client is left out for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.naming.clients.client_codec import decode_verify
from app.naming.model.json_fields import Fields
from app.peers import payload as wire
from app.peers.distro_payload import RESPONSE, decode_request, failure, success
from app.peers.grpc_clients import SIDE_BY_SIDE, ClientAgent, NacosClientAgent
from app.peers.grpc_link import LinkClosed
from app.peers.payload import Payload
from app.replication.client_type import ClientCodec, client_key
from distro.model.errors import TransportError
from distro.model.types import Datum, Received
from distro.timing.clock import SystemClock

PEER = "10.0.0.9:8848"
KEYS = [client_key(f"10.9.0.{number}:80#true") for number in range(4 * SIDE_BY_SIDE)]
STAND = dict.fromkeys(KEYS, "7")
Result = Received | TransportError


class SlowLinks:
    """Answers ``left`` calls, and none after them; ``strange`` clients are not held by the peer as they are."""

    def __init__(self) -> None:
        self.left = len(KEYS)
        self.strange: set[str] = set()
        self.requests: list[str] = []
        self.results: list[Result] = []

    def is_running(self, peer: str) -> bool:
        return True

    def is_nacos(self, peer: str) -> bool:
        return True

    async def request(self, peer: str, request_type: str, body: bytes, timeout_s: float) -> Payload:
        if not self.left:
            await asyncio.Event().wait()
        self.left -= 1
        client_id, revision = decode_verify(decode_request(Fields(orjson.loads(body))).content)
        assert revision == 7
        self.requests.append(client_key(client_id))
        answer = failure("") if client_key(client_id) in self.strange else success()
        return wire.decode(wire.encode(RESPONSE, orjson.dumps(answer)))

    def begin(self, work: Coroutine[Any, Any, Result], done: Callable[[Result], None]) -> None:
        async def run() -> Result:
            try:
                return await work
            except TransportError as error:
                return error

        done(asyncio.run(run()))

    def wait(self, work: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
        raise AssertionError("a round is not waited for")


@pytest.fixture
def links() -> SlowLinks:
    return SlowLinks()


@pytest.fixture
def agent(links: Any) -> ClientAgent:
    http: Any = None
    return ClientAgent(http, links, ClientCodec(), SystemClock(), lambda _peer: "2.3.1", 1_000_000)


def verify(agent: ClientAgent, links: SlowLinks, answered: int) -> Result:
    links.left = answered
    links.requests.clear()
    agent.start_verify(PEER, STAND, 50 if answered < len(KEYS) else 5_000, links.results.append)
    return links.results.pop()


def test_what_the_peer_does_not_hold_so_is_wanted(agent: ClientAgent, links: SlowLinks) -> None:
    links.strange = {KEYS[3], KEYS[20]}
    result = verify(agent, links, len(KEYS))
    assert isinstance(result, Received)
    assert set(result.wanted) == links.strange
    assert set(links.requests) == set(KEYS)


def test_clients_that_a_round_had_no_time_for_come_first_in_the_next(agent: ClientAgent, links: SlowLinks) -> None:
    part = len(KEYS) // 2
    seen = set[str]()
    for _ in range(2):
        verify(agent, links, part)
        seen |= set(links.requests)
    assert seen == set(KEYS)
    verify(agent, links, len(KEYS))
    assert set(links.requests) == set(KEYS)


def test_without_clients_there_is_no_call(agent: ClientAgent, links: SlowLinks) -> None:
    agent.start_verify(PEER, {client_key("gone#true"): ""}, 50, links.results.append)
    assert (links.results, links.requests) == ([Received()], [])


def test_a_round_that_nobody_answers_failed(agent: ClientAgent, links: SlowLinks) -> None:
    assert isinstance(verify(agent, links, 0), TransportError)


def test_clients_of_addresses_go_to_no_member_of_our_own_kind(links: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though this node may still expect real Nacos at the address: one of our kind took its place a moment ago."""
    http: Any = SimpleNamespace(verify=pytest.fail, sync_data=pytest.fail)
    agent = NacosClientAgent(http, links, ClientCodec(), SystemClock(), lambda _peer: "3.0.3", 1_000_000)
    assert agent.takes(PEER)
    assert verify(agent, links, len(KEYS)) == Received()
    monkeypatch.setattr(links, "is_nacos", lambda _peer: False)
    assert not agent.takes(PEER)
    agent.start_verify(PEER, STAND, 1_000, links.results.append)
    agent.start_sync(PEER, list[Datum](), 1_000, links.results.append)
    assert [type(one) for one in links.results] == [LinkClosed, LinkClosed]
    for call in (partial(agent.sync_data, PEER, [], 1_000), partial(agent.verify, PEER, STAND, 1_000)):
        with pytest.raises(LinkClosed):
            call()

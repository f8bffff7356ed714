"""Calls to several members at once, by a thread, over the connections of the loop."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from app.peers import grpc_links as rpc_links
from app.peers.grpc_links import GrpcLinks
from app.peers.payload import Payload
from distro.model.errors import TransportError

A, B = "10.0.0.1:8848", "10.0.0.2:8848"
REQUESTS = {A: {"keep": 1}, B: {"keep": 2}}
NO_PORT: Any = None


class FakeLinks(GrpcLinks):
    """Members that answer with what they were asked; ``silent`` ones never, ``strange`` ones what is no JSON."""

    def __init__(self) -> None:
        super().__init__("10.0.0.9:8848", NO_PORT, {})
        self.silent: set[str] = set()
        self.strange: set[str] = set()
        self.asked: list[str] = []
        self.together = asyncio.Barrier(1)

    async def request(self, peer: str, request_type: str, body: bytes, timeout_s: float) -> Payload:
        self.asked.append(peer)
        await self.together.wait()
        if peer in self.silent:
            await asyncio.sleep(timeout_s)
            raise TransportError(f"{request_type} to {peer}: DEADLINE_EXCEEDED")
        return Payload("XResponse", "", b"{" if peer in self.strange else body)

    async def call_members(self, timeout_ms: int = 60_000) -> Mapping[str, Any]:
        return await asyncio.to_thread(self.call_all, "XRequest", REQUESTS, timeout_ms)


def test_all_are_asked_at_once_each_for_its_own() -> None:
    async def main() -> None:
        links = FakeLinks()
        links.together = asyncio.Barrier(2)
        await links.start()
        assert await links.call_members() == {peer: {"headers": {}, **asked} for peer, asked in REQUESTS.items()}

    asyncio.run(main())


def test_who_answers_too_late_or_nonsense_is_missing() -> None:
    async def main() -> None:
        links = FakeLinks()
        await links.start()
        links.silent = {A}
        assert await links.call_members(50) == {B: {"headers": {}, **REQUESTS[B]}}
        links.silent, links.strange = set(), {B}
        assert await links.call_members() == {A: {"headers": {}, **REQUESTS[A]}}

    asyncio.run(main())


def test_a_loop_that_does_not_come_to_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_links, "LATE_S", 0.05)

    async def main() -> None:
        links = FakeLinks()
        links.together = asyncio.Barrier(3)
        await links.start()
        assert await links.call_members(50) == {}
        await links.stop()

    asyncio.run(main())


def test_after_the_end_nobody_is_asked() -> None:
    async def main() -> None:
        links = FakeLinks()
        await links.start()
        await links.stop()
        assert await links.call_members() == {}
        assert links.asked == []

    asyncio.run(main())

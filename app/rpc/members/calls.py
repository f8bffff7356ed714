"""Calls to several other members at once."""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from app.ports.grpc_ports import PeerLinks
from distro.errors import TransportError

LOG = logging.getLogger(__name__)
CALL_MS_MAX = 3_000
"""Source: Nacos 2.2.3, its time-out of calls."""
ALL_MS_MAX = 4_000
"""For all members together, also when there are more than threads."""
THREADS = 8

Json = Mapping[str, Any]


class MemberCalls:
    """A pool for calls to other members. ``ask`` blocks: not for the event loop.

    Its queue is bounded by its callers: each waits for its own calls, one a member, and cancels those that have not
    begun in time.
    """

    def __init__(self, links: PeerLinks | None) -> None:
        """Without ``links`` there are no others."""
        self._links = links
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="rpc-members")

    def stop(self) -> None:
        """Start no more calls. Running ones are waited for when the process ends."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self, type_name: str, requests: Mapping[str, Json]) -> dict[str, dict[str, Any]]:
        """The answers to these requests, each by the address of its member; without those that gave none in time."""
        calls = self._links
        if calls is None:
            return {}
        running: dict[str, Future[dict[str, Any]]] = {}
        for peer, fields in requests.items():
            try:
                running[peer] = self._pool.submit(calls.call, peer, type_name, fields, CALL_MS_MAX)
            except RuntimeError:  # this node stops
                return {}
        wait(running.values(), ALL_MS_MAX / 1_000)
        answers = {peer: _answer_of(peer, type_name, one) for peer, one in running.items()}
        return {peer: answer for peer, answer in answers.items() if answer is not None}


def _answer_of(peer: str, type_name: str, running: Future[dict[str, Any]]) -> dict[str, Any] | None:
    if running.cancel() or not running.done():
        LOG.info("%s of %s: no answer in %d ms", type_name, peer, ALL_MS_MAX)
        return None
    try:
        return running.result()
    except TransportError as error:
        LOG.info("%s of %s: %s", type_name, peer, error)
        return None

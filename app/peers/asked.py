"""Asking another member for data that only that member has."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.peers.link import ANSWER_BYTES_MAX
from app.peers.peer_parts import PeerParts
from distro.model.errors import TransportError
from distro.model.types import MemberKind, MemberState
from distro.wire.peer_calls import call_peer, peer_session

ASKED_AT_ONCE_MAX = 16

log = logging.getLogger(__name__)


def ask_members(
    services: PeerParts,
    method: str,
    path: str,
    parameters: Mapping[str, str | int],
    timeout_s: float,
    *,
    down_too: bool = True,
) -> tuple[dict[str, dict[str, Any] | None], list[str]]:
    """Ask all other members of our kind at once, by ``down_too`` DOWN ones too. Blocks, for ``timeout_s`` at most.

    Returns their answers by address, None for one without; and the addresses of members of other software.
    """
    others = [one for one in services.cluster.members() if one.address != services.cluster.self_address]
    own_kind = [one.address for one in others if one.kind is MemberKind.OWN or not one.extend_info]
    other_kinds = [one.address for one in others if one.address not in own_kind]
    if services.cluster.standalone or not own_kind:
        return {}, other_kinds

    def ask(member: str) -> dict[str, Any] | None:
        return ask_member(services, member, path, parameters, timeout_s, method)

    down = {one.address for one in others if one.state is MemberState.DOWN and not down_too}
    asked = [address for address in own_kind if address not in down]
    none: dict[str, dict[str, Any] | None] = dict.fromkeys(own_kind)
    if not asked:
        return none, other_kinds
    with ThreadPoolExecutor(min(len(asked), ASKED_AT_ONCE_MAX), thread_name_prefix="http-ask") as pool:
        return {**none, **dict(zip(asked, pool.map(ask, asked), strict=True))}, other_kinds


class AllAnswers(NamedTuple):
    """The answers of the members that gave a whole one, by address, this member's first; and the other members."""

    told: dict[str, dict[str, Any]]
    silent: list[str]
    """Members of our kind without a whole answer, sorted: absent, slow, or of another release."""
    other_kinds: list[str]


def ask_all(
    services: PeerParts,
    path: str,
    parameters: Mapping[str, str | int],
    own: dict[str, Any],
    is_whole: Callable[[dict[str, Any]], bool],
    timeout_s: float,
    *,
    down_too: bool = False,
) -> AllAnswers:
    """Ask all other members for their part, each with ``local=true``. Blocks, for ``timeout_s`` at most.

    ``own``: this member's part. An answer that is not whole, or names another member as its address, counts as none.
    """
    asked = {**parameters, "local": "true"}
    found, other_kinds = ask_members(services, "GET", path, asked, timeout_s, down_too=down_too)
    told = {services.cluster.self_address: own} | {
        address: one
        for address, one in found.items()
        if one is not None and one.get("address", address) == address and is_whole(one)
    }
    return AllAnswers(told, sorted(found.keys() - told.keys()), other_kinds)


def ask_member(
    services: PeerParts,
    member: str,
    path: str,
    parameters: Mapping[str, str | int],
    timeout_s: float,
    method: str = "GET",
) -> dict[str, Any] | None:
    """Return the JSON object that a member answers; None without one within ``timeout_s``. Blocks."""
    settings = services.settings
    headers = {"Client-Version": NACOS_VERSION, "Accept-Encoding": "identity"}
    url = f"{settings.scheme}://{member}{settings.context_path}{path}?{urlencode(parameters)}"
    with peer_session(MEMBER_AGENT, headers, services.tls.members, services.signer) as session:
        try:
            status, body, _ = call_peer(session, method, url, int(timeout_s * 1_000), body_bytes_max=ANSWER_BYTES_MAX)
            value = orjson.loads(body) if status == 200 else None
        except (TransportError, orjson.JSONDecodeError) as error:
            log.info("%s of %s: %s", path, member, error)
            return None
    return value if isinstance(value, dict) else None

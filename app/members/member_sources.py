"""The three sources of a member list: a file, an address server, and the addresses of a host name."""

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import orjson

from app.config.addresses import join_address, split_address
from app.config.cluster_conf import parse_members
from app.config.file_stamp import file_stamp
from app.config.lookup_settings import ADDRESS_SERVER, DNS, FILE, LookupSettings
from app.config.settings_keys import SettingError
from app.config.version import MEMBER_AGENT
from app.members.member_ips import Resolve, literal, look_up
from distro.model.errors import TransportError
from distro.wire.peer_calls import call_peer, peer_session

FILE_BYTES_MAX = ANSWER_BYTES_MAX = 256 * 1024
MEMBERS_MAX = 1_000
ANSWER_MS = 3_000
"""The deadline for the whole answer of an address server."""
FILE_INTERVAL_S = 1.0
POLL_INTERVAL_S = 5.0
"""Source: Nacos 1.4.1 AddressServerMemberLookup, DEFAULT_SYNC_TASK_DELAY_MS."""


class NoListError(Exception):
    """A look found no usable list. The text is for the operator."""


class MemberSource(Protocol):
    """One source of a member list. ``read`` may block, and is called by one thread at a time."""

    interval_s: float
    """The time between two looks."""

    def read(self) -> tuple[str, ...] | None:
        """Return the members in the current list, at least one; None if the source is to be read again first.

        Raises:
            NoListError: it cannot be read, or is not a member list.
        """
        ...

    def close(self) -> None: ...


class MemberFile:
    """The file cluster.conf, or the setting nacos.member.list while there is no file."""

    interval_s = FILE_INTERVAL_S

    def __init__(self, path: Path, listed: tuple[str, ...]) -> None:
        self._path = path
        self._listed = listed
        self._was_there = False
        self._looked = False
        self._stamp: tuple[int, ...] | None = None

    def read(self) -> tuple[str, ...] | None:
        """Return the members in the file. A file that changed since the last look is left to the next look.

        The changed file may be half written. A missing file leaves the list as it was: a new one may be about to come.
        """
        stamp = file_stamp(self._path)
        is_new = self._looked and stamp != self._stamp
        self._stamp, self._looked = stamp, True
        if stamp is None:
            if self._was_there or not self._listed:
                raise NoListError(f"{self._path} cannot be found")
            return self._listed
        if is_new:
            return None
        self._was_there = True
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise NoListError(f"{self._path} cannot be read: {error.strerror}") from None
        return parse_list(content, str(self._path))

    def close(self) -> None:
        """Do nothing: no resource is open."""


class AddressServer:
    """A server that answers with the list. Source: Nacos 1.4.1 AddressServerMemberLookup."""

    interval_s = POLL_INTERVAL_S

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = peer_session(MEMBER_AGENT, {"Accept-Encoding": "identity", "Connection": "close"})

    def read(self) -> tuple[str, ...]:
        try:
            answer = call_peer(self._session, "GET", self._url, ANSWER_MS, body_bytes_max=ANSWER_BYTES_MAX)
        except TransportError as error:
            raise NoListError(f"the address server does not answer: {error}") from None
        if answer.status != 200:
            raise NoListError(f"the address server {self._url} answers {answer.status}")
        if answer.headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
            raise NoListError(f"the address server {self._url} answers in an encoding that was not requested")
        return parse_list(_plain_list(answer.body, self._url), f"the answer of {self._url}")

    def close(self) -> None:
        self._session.close()


class DnsName:
    """A host name. Each of its addresses is a member, at one common port."""

    interval_s = POLL_INTERVAL_S

    def __init__(self, name: str, self_address: str, resolve: Resolve | None = None) -> None:
        """``name``: with the port of all members. ``resolve``: as in ``MemberIps``."""
        self._host, self._port = split_address(name)
        self._resolve = resolve or look_up
        own = literal(self_address)
        self._version = ipaddress.ip_address(next(iter(own))).version if own else 4

    def read(self) -> tuple[str, ...]:
        """Return the addresses as members.

        If the name has both IPv4 and IPv6, those of the family of this node's own address.
        """
        try:
            found = self._resolve(self._host)
        except (OSError, UnicodeError) as error:
            raise NoListError(f"{self._host} cannot be looked up: {error}") from None
        usable = sorted(ip for ip in map(_address, found) if ip is not None)
        own_family = [ip for ip in usable if ipaddress.ip_address(ip).version == self._version]
        members = tuple(join_address(ip, self._port) for ip in own_family or usable)
        if not 0 < len(members) <= MEMBERS_MAX:
            raise NoListError(f"{self._host} has {len(members)} addresses that a member can have")
        return members

    def close(self) -> None:
        """Do nothing: no resource is open."""


def _address(text: str) -> str | None:
    """Return the address in canonical form; None if no member can be called at it."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    is_scoped = getattr(ip, "scope_id", None) is not None
    return None if ip.is_unspecified or ip.is_multicast or is_scoped else str(ip)


def _plain_list(body: bytes, url: str) -> bytes:
    """Return the list in an answer: the answer itself, or ``data`` of Nacos's ``{"code": 200, "data": "..."}``."""
    if not body.lstrip().startswith(b"{"):
        return body
    try:
        fields: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NoListError(f"the answer of {url} is not a member list") from None
    code, data = fields.get("code"), fields.get("data")
    if code not in (0, 200) or not isinstance(data, str):
        raise NoListError(f"the address server {url} answers code {code!r}")
    return data.encode("utf-8", "replace")


def parse_list(content: bytes, origin: str) -> tuple[str, ...]:
    """Return the members in the text of a list, at least one.

    Raises:
        NoListError: the text is not a member list; the error names ``origin``.
    """
    if len(content) > FILE_BYTES_MAX:
        raise NoListError(f"{origin} is over {FILE_BYTES_MAX} bytes")
    try:
        members = parse_members(content.decode("utf-8-sig"), origin)
    except UnicodeDecodeError:
        raise NoListError(f"{origin} is not UTF-8 text") from None
    except SettingError as error:
        raise NoListError(str(error)) from None
    if not members:
        raise NoListError(f"{origin} names no member")
    if len(members) > MEMBERS_MAX:
        raise NoListError(f"{origin} names {len(members)} members, which is over {MEMBERS_MAX}")
    return members


def source_maker(settings: LookupSettings, cluster_conf: Path, self_address: str) -> Callable[[str], MemberSource]:
    """Return a function that makes the source of a kind.

    It raises NoListError for a kind that lacks a setting.
    """

    def make(kind: str) -> MemberSource:
        if kind == ADDRESS_SERVER and settings.server_url:
            return AddressServer(settings.server_url)
        if kind == DNS and settings.dns:
            return DnsName(settings.dns, self_address)
        if kind == FILE:
            return MemberFile(cluster_conf, settings.listed)
        raise NoListError(f"this node has no settings for a member list from {kind}")

    return make

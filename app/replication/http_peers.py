"""Peers' calls over HTTP about datums of all resource types, answered by the receiver."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from app.members.member_ips import MemberSenders
from app.members.membership import Membership
from app.naming.model.keys import CLIENT_KEY_PREFIX, EPHEMERAL_PREFIX, parse_datum_key
from app.naming.model.nacos_errors import NoRight
from app.naming.records.record_keys import parse_record_key
from app.replication.client_type import CLIENTS
from app.replication.foreign_type import FOREIGN
from app.replication.foreign_type import PREFIX as FOREIGN_PREFIX
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.large_bodies import LargeBodies
from app.replication.nacos_1_names import NacosOneNames
from app.replication.record_type import RECORDS
from distro.model.errors import CodecError, DistroError, NotInitialized
from distro.model.ports import Clock, Components
from distro.model.types import Datum, Received, Version, value
from distro.receive.receive import DistroReceiver
from distro.verify.digest_answers import DigestAnswers
from distro.wire.call_trust import CLOCK_HEADER
from distro.wire.codec import (
    cut_entries,
    decode_entries,
    decode_versions,
    encode_entries,
    encode_received,
    encode_versions,
    frame_parts,
    gzip_parts,
    json_object,
    versions_of,
)
from distro.wire.digest_wire import DigestRequest
from distro.wire.http_agent import GZIP_FROM_BYTES, MEMBER_HEADER, SNAPSHOT_HEADER, SNAPSHOT_VERSIONS

LOG = logging.getLogger(__name__)
T = TypeVar("T")
REFRESH_TIMEOUT_MS = 1_000
PAGE_BYTES = 2 * 1024 * 1024
"""The bytes of JSON in a page, plus one datum: a tenth of a second's work for its reader."""
FRAME_KEYS_MAX = 100_000
"""The most datums in one call. Members send at most as many, by a setting, and 1,000 by default."""
FAILED_TOLD_MAX = 1_000
"""The most failed keys that are named in the answer to a Rollcall member, which only logs them, too."""
KEYS_SHOWN, KEY_CHARS_SHOWN = 10, 200
"""The most failed keys, and characters of each, that are named in the answer to real Nacos, which only logs it."""


@value
class _Source:
    """The sender of datums, and the time of sending."""

    sender: str | None
    """A Rollcall member; None for real Nacos, which does not name itself."""
    remote_ip: str
    sent_ms: int
    is_parting: bool
    """True if it recently left the list."""


@dataclass(frozen=True, slots=True)
class NodeReplication:
    """The functions behind the HTTP endpoints under ``/distro``. Thread-safe."""

    receiver: DistroReceiver
    components: Components
    membership: Membership
    senders: MemberSenders
    clock: Clock
    bodies: LargeBodies
    digests: DigestAnswers
    nacos_1: NacosOneNames

    def receive(
        self, body: bytes, headers: Mapping[str, str], remote_ip: str, frame: Mapping[str, object] | None = None
    ) -> bytes:
        """Take the datums of ``{key: datum}``. Return ``ok``, or to our own kind the refused and failed keys.

        ``frame``: the object in the body, if it was parsed already.

        Raises:
            CodecError: the body cannot be read or, for other callers, one of its keys; the good keys were taken.
            NotInitialized: this member has not loaded yet (R7).
            NoRight: the caller is not listed, and its present run was not listed until recently either.
        """
        named, clock = headers.get(MEMBER_HEADER.lower()), headers.get(CLOCK_HEADER.lower())
        sender, is_parting = self.senders.sender_of(named, remote_ip), False
        if sender is None:
            sender = self.senders.parting_sender_of(named, remote_ip, clock)
            is_parting = sender is not None
        if sender is None and not self.senders.is_listed(remote_ip):
            raise NoRight(f"{remote_ip} is not the address of a listed member")
        # The ages in the body count from when it was sent: it may have waited in a socket of this process.
        source = _Source(sender, remote_ip, self.membership.sent_ms(sender or "", clock), is_parting)
        if frame is not None:
            return self._receive_frame(frame, source)
        with self.bodies.unpacked(body) as plain:
            return self._receive_frame(json_object(plain, FRAME_KEYS_MAX), source)

    def _receive_frame(self, frame: Mapping[str, object], source: "_Source") -> bytes:
        refused: dict[str, Version] = {}
        failed: dict[str, str] = {}
        wanted: list[str] = []
        ages_ms: dict[str, float | None] = {}
        types = _by_type(frame)
        for resource_type, entries in types.items():
            if source.sender is not None or resource_type == INSTANCE_LIST:
                for part in self._receive_type(resource_type, entries, source):
                    refused.update(part.refused)
                    failed.update(part.failed)
                    wanted += part.wanted
                    ages_ms.update(part.ages_ms)
        if source.sender is not None:
            told = dict(islice(failed.items(), FAILED_TOLD_MAX))
            answer = Received(refused, told, tuple(wanted), ages_ms)
            return encode_received(self.receiver.applied.with_pushes(answer, source.sender, next(iter(types), "")))
        if not frame:
            if self.senders.java_peers_at(source.remote_ip):
                return b"ok"  # real Nacos sends an empty map when its keys vanished, and repeats it until it is taken
            raise CodecError("receive empty entity!")
        if failed:
            if len(frame) == 1:
                raise CodecError(*failed.values())  # as real Nacos: the sender of one key knows which it was
            shown = [f"{key[:KEY_CHARS_SHOWN]}: {reason}" for key, reason in islice(failed.items(), KEYS_SHOWN)]
            more = [f"and {len(failed) - KEYS_SHOWN} more keys"] if len(failed) > KEYS_SHOWN else []
            raise CodecError("; ".join([*shown, *more]))
        return b"ok"

    def _receive_type(self, resource_type: str, entries: Mapping[str, object], source: "_Source") -> list[Received]:
        """Take the datums of one type. Return the receiver's answers, and one with the keys that cannot be read."""
        component, receiver, now_ms = self.components[resource_type], self.receiver, self.clock.monotonic_ms()
        codec = component.codec
        if source.sender is None:
            datums, failed = decode_entries(entries, codec, source.sent_ms)
            taken = [
                receiver.receive(resource_type, self._java_sender(datum, source.remote_ip), [datum], now_ms)
                for datum in datums
            ]
            return [Received(failed=failed), *taken]
        versions = versions_of(entries, component.store.version)
        known, answer = receiver.receive_known(resource_type, versions, now_ms)
        if len(known) == len(entries):
            return [answer]
        if known:
            entries = {key: entry for key, entry in entries.items() if key not in known}
        datums, failed = decode_entries(entries, codec, source.sent_ms, versions)
        # A member that left the list is not queried any more: its datums are merged as if they had been fetched.
        fetched = source.is_parting
        taken_now = receiver.receive(resource_type, source.sender, datums, now_ms, fetched=fetched)
        return [answer, Received(failed=failed), taken_now]

    def _java_sender(self, datum: Datum, remote_ip: str) -> str:
        """Return the sender of a datum from real Nacos (R8): the key's owner, if it has the caller's address."""
        peers = self.senders.java_peers_at(remote_ip)
        parsed = parse_datum_key(datum.key)
        owner = self.membership.map_srv(parsed[1]) if parsed else ""
        return owner if owner in peers else (peers[0] if peers else remote_ip)

    def verify(
        self, body: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> bytes:
        """Compare the versions or checksums of the source's keys with the stored ones. Return the keys newer here.

        Raises:
            CodecError: the body cannot be read, or its type is unknown.
            NotInitialized: this member has not loaded yet.
        """
        with self.bodies.unpacked(body) as plain:
            return self._verify_plain(plain, source, headers, remote_ip, resource_type)

    def _verify_plain(
        self, plain: bytes, source: str, headers: Mapping[str, str], remote_ip: str, resource_type: str
    ) -> bytes:
        sender = self.senders.sender_of(headers.get(MEMBER_HEADER.lower()), remote_ip)
        now_ms = self.clock.monotonic_ms()
        if sender is not None and sender == source:
            versions = decode_versions(json_object(plain))
            name = self._type(resource_type)
            received = self.receiver.verify(name, sender, versions, now_ms)
            return encode_received(self.receiver.applied.with_pushes(received, sender, name))
        if source in self.senders.java_peers_at(remote_ip):
            checksums = {key: text for key, text in json_object(plain).items() if isinstance(text, str)}
            self.receiver.verify_checksums(INSTANCE_LIST, source, checksums, now_ms)
        else:
            json_object(plain)  # the source is no member at this address: the body has no effect, as with real Nacos
        return b"ok"

    def compare(self, body: bytes, headers: Mapping[str, str], remote_ip: str) -> bytes:
        """Answer one message of a digest round, from a Rollcall member.

        Raises:
            CodecError: the body cannot be read.
            NotInitialized: this member has not loaded yet.
            NoRight: the caller is not a listed Rollcall member.
        """
        sender = self.senders.sender_of(headers.get(MEMBER_HEADER.lower()), remote_ip)
        if sender is None:
            raise NoRight(f"{remote_ip} is not the address of a listed member of this kind")
        with self.bodies.unpacked(body) as plain:
            request = DigestRequest.from_bytes(plain)
        return self.digests.answer(sender, request, self.clock.monotonic_ms()).to_bytes()

    def datums(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        """Return the JSON of these keys' datums, or of all of a type for None, in parts; and the answer's headers.

        The headers tell our own kind when the answer was made: the ages in it count from then.

        Raises:
            CodecError: the type is unknown.
            NotInitialized: everything was requested, and this member has nothing because it has not loaded yet.
        """
        sender = self.senders.sender_of(headers.get(MEMBER_HEADER.lower()), remote_ip)
        now_ms = self.clock.monotonic_ms()
        answered = {} if sender is None else {CLOCK_HEADER: self.membership.stamp()}
        entries: list[Iterator[bytes]] = []
        wanted = {self._type(resource_type): None} if keys is None else _by_type(dict.fromkeys(keys))
        for name, asked in wanted.items():
            if sender is None and name != INSTANCE_LIST:
                continue
            datums = self.receiver.serve(name, asked, sender)
            if sender is None:
                datums = self.nacos_1.datums(datums, remote_ip)
            if keys is None and not datums and self.receiver.is_loading():
                raise NotInitialized("Distro protocol is not initialized")
            entries.append(encode_entries(datums, self.components[name].codec, now_ms, versioned=sender is not None))
        return _packed(chain.from_iterable(entries), answered, may_zip=sender is not None)

    def page(
        self, keys: list[str] | None, headers: Mapping[str, str], remote_ip: str, resource_type: str = ""
    ) -> tuple[Iterator[bytes], dict[str, str]]:
        """As ``datums``, but our own kind gets only the first of these keys, until a page of ``PAGE_BYTES`` is full.

        For None, return the versions of all keys: the caller then requests the datums that it lacks. Shape:
        ``{key: version}``.

        Raises:
            CodecError, NotInitialized: as ``datums``.
        """
        sender = self.senders.sender_of(headers.get(MEMBER_HEADER.lower()), remote_ip)
        if sender is None:
            return self.datums(keys, headers, remote_ip, resource_type)
        now_ms = self.clock.monotonic_ms()
        answered = {CLOCK_HEADER: self.membership.stamp()}
        if keys is not None:
            entries = chain.from_iterable(
                encode_entries(
                    self.receiver.serve_each(name, asked), self.components[name].codec, now_ms, versioned=True
                )
                for name, asked in _by_type(dict.fromkeys(keys)).items()
            )
            return _packed(cut_entries(entries, PAGE_BYTES), answered, may_zip=True)
        versions = self.components[self._type(resource_type)].store.versions()
        if not versions and self.receiver.is_loading():
            raise NotInitialized("Distro protocol is not initialized")
        return _packed(encode_versions(versions), answered | {SNAPSHOT_HEADER: SNAPSHOT_VERSIONS}, may_zip=True)

    def _type(self, name: str) -> str:
        if name and name not in self.components:
            raise CodecError(f"Parameter 'type' is illegal: {name[:100]!r} is not a resource type")
        return name or INSTANCE_LIST

    def refresh(self, peer: str, keys: tuple[str, ...], timeout_ms: int) -> bool:
        """Fetch datums that the peer has just written, so that the next read here shows them. Return False if it fails.

        ``timeout_ms``: for each resource type.
        """
        for resource_type, entries in _by_type(dict.fromkeys(keys)).items():
            component = self.components[resource_type]
            try:
                datums = component.agent.query(peer, tuple(entries), min(timeout_ms, REFRESH_TIMEOUT_MS))
                received = self.receiver.receive(resource_type, peer, datums, self.clock.monotonic_ms(), fetched=True)
            except DistroError as error:
                LOG.info("a write at %s shows here only when it is sent: %s", peer, error)
                return False
            if received.failed or received.refused:
                return False
        return True


def _packed(
    entries: Iterable[bytes], headers: dict[str, str], *, may_zip: bool
) -> tuple[Iterator[bytes], dict[str, str]]:
    """Return the frame of these entries in parts, compressed if allowed and useful; and the headers that say so."""
    parts = frame_parts(entries)
    first = next(parts)
    whole = chain([first], parts)
    if may_zip and len(first) >= GZIP_FROM_BYTES:
        return gzip_parts(whole), headers | {"Content-Encoding": "gzip"}
    return whole, headers


def _by_type(entries: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Return the entries by the resource type of their keys. Keys of unknown types are left out, as by real Nacos."""
    parts: dict[str, dict[str, T]] = {}
    for key, entry in entries.items():
        if key.startswith(EPHEMERAL_PREFIX):
            parts.setdefault(INSTANCE_LIST, {})[key] = entry
        elif key.startswith(CLIENT_KEY_PREFIX):
            parts.setdefault(CLIENTS, {})[key] = entry
        elif key.startswith(FOREIGN_PREFIX):
            parts.setdefault(FOREIGN, {})[key] = entry
        elif parse_record_key(key) is not None:
            parts.setdefault(RECORDS, {})[key] = entry
    return parts

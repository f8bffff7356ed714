"""The resource type of clients with connections. Each key belongs for ever to the member that holds the connection."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from app.naming.clients.client_codec import check_client_id, decode_client, encode_client, own_fields
from app.naming.clients.client_copies import ClientCopies, is_of_nacos
from app.naming.clients.client_model import REVISION_MAX, ClientInfo, ClientSnapshot
from app.naming.clients.client_table import EPOCH, ClientTable
from app.naming.clients.own_clients import OwnClients
from app.naming.model.contents import client_content
from app.naming.model.keys import CLIENT_KEY_PREFIX, CLIENT_TEXTS_CHARS_MAX, PORT_MAX
from app.naming.model.nacos_errors import NacosError
from distro.model.errors import CodecError
from distro.model.stores import DistroStore
from distro.model.types import Datum, Merged, Version

CLIENTS = CLIENT_KEY_PREFIX[:-1]
"""Source: Nacos 2.2.3 DistroClientDataProcessor."""
VERSION_COUNTER_MAX = REVISION_MAX + 1
"""The counter of a removal, which is one above the last state."""


def client_key(client_id: str) -> str:
    """Return the Distro key of a client."""
    return CLIENT_KEY_PREFIX + client_id


def client_id_of(key: str) -> str:
    """Return the client's id in a key; empty, which no client has as its id, if the key is not a client's."""
    return key[len(CLIENT_KEY_PREFIX) :] if key.startswith(CLIENT_KEY_PREFIX) else ""


def member_of(version: Version) -> str:
    """Return the address of the member that wrote a version."""
    return version.writer.partition("~")[0]


class ClientStore(DistroStore):
    """The DistroStore and DeltaStore of clients. A client that never published anything has no datum.

    No member claims a client (R2), as a connection does not move.
    """

    def __init__(
        self,
        table: ClientTable,
        own: OwnClients,
        copies: ClientCopies,
        self_address: str,
        has_left: Callable[[str], bool],
        is_listed: Callable[[str], bool] = lambda _client_id: False,
    ) -> None:
        """``has_left``: returns whether a writer, one member's run, is known to be over.

        ``is_listed``: returns whether a client is the address of instances in our own lists.
        """
        self._table = table
        self._own = own
        self._copies = copies
        self._self_address = self_address
        self._has_left = has_left
        self._is_listed = is_listed

    def version(self, key: str) -> Version | None:
        version = self._table.version(client_id_of(key))
        return version if version is not None and version.counter else None

    def versions(self) -> Mapping[str, Version]:
        return {client_key(name): one for name, one in self._table.versions().items() if one.counter}

    def pop_changed(self) -> str | None:
        client_id = self._table.pop_changed()
        return None if client_id is None else client_key(client_id)

    def is_empty(self, key: str) -> bool:
        return self._table.is_removed(client_id_of(key)) and self._table.client(client_id_of(key)) is None

    def content(self, key: str) -> tuple[Version, int] | None:
        """Return None for a client that is expected elsewhere: each member leaves out clients that it knows to be
        back."""
        snapshot = self._table.snapshot(client_id_of(key))
        if snapshot is None or not snapshot.version.counter or (snapshot.state and snapshot.state.ended_from):
            return None
        published = snapshot.state.publications.items() if snapshot.state is not None else ()
        return snapshot.version, client_content(key, published)

    def highest_own(self) -> Version:
        """Return a version above all: no datum changes a client connected here; a removal answers any other."""
        return Version(EPOCH, VERSION_COUNTER_MAX, self._table.writer)

    def tag(self, key: str) -> str:
        """Return the address of the member that writes the key; empty for an unknown one."""
        version = self.version(key)
        return member_of(version) if version is not None else ""

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        datums = []
        for key in keys:
            snapshot = self._table.snapshot(client_id_of(key))
            if snapshot is not None and snapshot.version.counter:
                datums.append(Datum(key, snapshot.version, snapshot))
        return datums

    def delta(self, key: str, base: Version) -> Datum | None:
        snapshot = self._table.delta(client_id_of(key), base)
        return Datum(key, snapshot.version, snapshot, base) if snapshot is not None else None

    def claim_delta(self, key: str) -> Datum | None:
        """Return None: no member claims a client."""
        return None

    def apply_delta(self, datum: Datum, now_ms: int) -> bool:
        client_id, snapshot = _parts(datum)
        if datum.base is None or self._has_left(datum.version.writer):
            return False  # the whole datum is taken or not, depending on its writer
        try:
            return self._copies.take_delta(snapshot, client_id, datum.base)
        except NacosError as error:
            raise CodecError(error.text) from error

    def is_covered(self, datum: Datum) -> bool:
        """Return whether a datum of another run may replace the stored one (R3): only a datum of the same member may.

        No other member changes a client, and no datum brings a removed client back.
        """
        version = self.version(datum.key)
        if version is None:
            return True
        snapshot: ClientSnapshot = datum.value
        is_back = self._table.is_removed(client_id_of(datum.key)) and snapshot.state is not None
        return member_of(version) == member_of(datum.version) and not is_back

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        return self._table.is_forgettable(client_id_of(key), now_ms)

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        client_id, snapshot = _parts(datum)
        if snapshot.state is not None and "#" in client_id:
            # A member of our kind sends clients of addresses to real Nacos alone: it meant this one for such (R8).
            is_misled = not is_of_nacos(snapshot.version)
            if is_misled or self._is_listed(client_id):
                return True
        if snapshot.version.writer == self._table.writer and expected is None:
            # This run knows neither such a client nor that it had one (R10).
            self._copies.add_tombstone(client_id, snapshot.version)
            return True
        if snapshot.state is not None:
            has_left = self._has_left(datum.version.writer)
            if has_left and member_of(datum.version) == self._self_address:
                # It was connected to an earlier run of this member, and its time to come back is over (R17).
                self._copies.add_tombstone(client_id, datum.version)
            if has_left:
                return True
        try:
            return self._copies.take(snapshot, client_id, expected)
        except NacosError as error:
            raise CodecError(error.text) from error

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        """Put a removal above the state that a peer still has of a client that is no longer connected here (R4)."""
        client_id, snapshot = _parts(datum)
        if snapshot.state is not None and self._copies.add_tombstone(client_id, datum.version):
            return Merged.MADE
        return Merged.NOTHING

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        """Give a client's state or removal the next version.

        Nothing is restored: only a connection changes a client.
        """
        client_id, snapshot = _parts(datum)
        if self._table.is_removed(client_id) and snapshot.version.writer == self._table.writer:
            return self._copies.add_tombstone(client_id, snapshot.version)
        return self._own.reissue(client_id, snapshot)

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        self._copies.forget(client_id_of(key), absent=absent)

    def on_verified(self, keys: Collection[str], now_ms: int) -> None:
        """Restart the expiry of copies that their owner confirmed in a verify round."""
        self._copies.confirm(map(client_id_of, keys), now_ms)

    def on_compared(self, members: Collection[str], differing: Collection[str], now_ms: int) -> None:
        """Restart the expiry of all copies of these members' clients, except those that differ."""
        self._copies.confirm_all(members, frozenset(map(client_id_of, differing)), now_ms)


def _parts(datum: Datum) -> tuple[str, ClientSnapshot]:
    client_id = client_id_of(datum.key)
    if not client_id:
        raise CodecError(f"not the key of a client: {datum.key[:200]!r}")
    snapshot: ClientSnapshot = datum.value
    # Real Nacos sends no version: the datum got one when it was received.
    return client_id, snapshot if snapshot.version == datum.version else replace(snapshot, version=datum.version)


class ClientCodec:
    """The DatumCodec of clients.

    Shape: ``{"key", "version", "client": the sync data of Nacos 2.x, "own": {"at", "seen", "info": [ip, port, app,
    agent]}}``; only key and version for a removed client. A delta (R5) also has ``"since"``, the counter of its base,
    which has the epoch and writer of its version; its ``"own"`` part names the removed services.
    """

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        snapshot: ClientSnapshot = datum.value
        fields: dict[str, Any] = {"key": datum.key, "version": datum.version.to_text()}
        if datum.base is not None:
            fields["since"] = datum.base.counter
        head = orjson.dumps(fields)
        if snapshot.state is None or snapshot.info is None:
            return head
        info = snapshot.info
        own = own_fields(snapshot.state) | {"info": [info.ip, info.port, info.app, info.agent]}
        return b'%b,"client":%b,"own":%b}' % (head[:-1], encode_client(snapshot.state), orjson.dumps(own))

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        """Return the client of a JSON object.

        Raises:
            CodecError: names the field that is missing or wrong.
        """
        client_id, version = check_client_id(client_id_of(key)), version or Version.from_text(body.get("version"))
        if not version.counter:
            raise CodecError("field 'version' of a client is that of no change")
        if version.epoch > EPOCH or version.counter > VERSION_COUNTER_MAX:
            raise CodecError(f"field 'version' of a client is above all that a member gives: {version.to_text()}")
        if body.get("client") is None:
            return Datum(key, version, ClientSnapshot(version, None, None))
        own = body.get("own")
        state = decode_client(body["client"], own if own is not None else {})
        if state.client_id != client_id:
            raise CodecError("field 'clientId' is that of another client")
        snapshot = ClientSnapshot(version, _info(client_id, own), state)
        if (since := body.get("since")) is None:
            if state.gone:
                raise CodecError("field 'gone' of a client is for deltas")
            return Datum(key, version, snapshot)
        if type(since) is not int or not 0 < since < version.counter:
            raise CodecError(f"field 'since' of {key[:200]!r} must be a version before that of the delta")
        return Datum(key, version, snapshot, Version(version.epoch, since, version.writer))

    def checksum(self, datum: Datum) -> str:
        """Return the client's revision as text, which real Nacos compares.

        Empty for a removed client, which is sent once.
        """
        state = datum.value.state
        return str(state.revision) if state is not None else ""


def _info(client_id: str, own: Any) -> ClientInfo:
    match own.get("info"):
        case [str(ip), int(port), str(app), str(agent)] if type(port) is int and 0 <= port <= PORT_MAX:
            if len(ip) + len(app) + len(agent) <= CLIENT_TEXTS_CHARS_MAX:
                return ClientInfo(client_id, ip, port, app, agent)
    raise CodecError("field 'info' of a client is not its description of itself")

"""Clients in the calls of other members over gRPC, and the answers. Thread-safe.

A Rollcall member sends frames of versioned datums; real Nacos sends one client per call, without a version.
"""

from collections.abc import Iterable
from dataclasses import replace

from app.naming.clients.client_codec import (
    check_client_id,
    decode_client,
    decode_verify,
    encode_client,
    encode_snapshot,
)
from app.naming.clients.client_copies import ClientCopies, is_of_nacos
from app.naming.clients.client_model import ClientSnapshot, ClientState
from app.naming.clients.client_table import ClientTable
from app.naming.model.json_fields import parse_json
from app.replication.address_clients import HttpClients
from app.replication.client_type import CLIENTS, ClientCodec, client_key
from app.replication.large_bodies import LargeBodies
from distro.model.errors import CodecError
from distro.model.ports import Clock
from distro.model.types import NO_VERSION, Datum
from distro.receive.receive import DistroReceiver
from distro.wire.codec import (
    decode_frame,
    decode_keys,
    decode_versions,
    encode_frame,
    encode_received,
    json_object,
)


class ClientReceiver:
    """Takes, verifies and serves clients."""

    def __init__(
        self,
        receiver: DistroReceiver,
        table: ClientTable,
        copies: ClientCopies,
        http_clients: HttpClients,
        clock: Clock,
        bodies: LargeBodies,
    ) -> None:
        self._receiver = receiver
        self._table = table
        self._copies = copies
        self._http_clients = http_clients
        self._clock = clock
        self._bodies = bodies
        self._codec = ClientCodec()

    # --- our own kind -----------------------------------------------------------------------------

    def take_frame(self, sender: str, content: bytes) -> bytes:
        """Take the datums of a frame ``{key: datum}``. Return the answer with the refused and the failed keys.

        Raises:
            CodecError: the content cannot be read.
            NotInitialized: this member has not loaded yet.
        """
        now_ms = self._clock.monotonic_ms()
        with self._bodies.unpacked(content) as plain:
            datums, failed = decode_frame(plain, self._codec, now_ms)
            received = self._receiver.receive(CLIENTS, sender, datums, now_ms)
        return encode_received(replace(received, failed=failed | dict(received.failed)))

    def verify_frame(self, sender: str, content: bytes) -> bytes:
        """Compare ``{key: version}`` with the stored versions. Return the answer: keys newer here, and keys wanted.

        Raises:
            CodecError, NotInitialized: as above.
        """
        with self._bodies.unpacked(content) as plain:
            versions = decode_versions(json_object(plain))
        return encode_received(self._receiver.verify(CLIENTS, sender, versions, self._clock.monotonic_ms()))

    def query_frame(self, content: bytes) -> bytes:
        """Return the frame of the datums of ``[key ...]``, without unknown keys.

        Raises:
            CodecError: the content cannot be read.
        """
        with self._bodies.unpacked(content) as plain:
            keys = decode_keys(parse_json(plain, "the content"), "the content")
        datums = self._receiver.serve(CLIENTS, keys)
        return encode_frame(datums, self._codec, self._clock.monotonic_ms(), versioned=True)

    # --- real Nacos -------------------------------------------------------------------------------

    def take(self, sent_by: str, client_id: str, content: bytes) -> None:
        """Put a client's state in place of the stored one, unless the client is an address of the local instance lists.

        Raises:
            CodecError: the state cannot be read, or is that of a persistent client, or not of ``client_id``.
            NotInitialized: this member has not loaded yet.
        """
        state = decode_client(json_object(content), None, self._clock.wall_ms())
        if state.client_id != client_id:
            raise CodecError("field 'clientId' is that of another client")
        if not self._http_clients.on_echo(client_id, state):
            self._receive(sent_by, client_id, state)

    def remove(self, sent_by: str, client_id: str) -> None:
        """Remove a client, unless it is unknown here or an address of the local instance lists.

        Raises:
            CodecError, NotInitialized: as above.
        """
        is_own = self._http_clients.on_echo(check_client_id(client_id), None)
        if not is_own and self._table.client(client_id) is not None:
            self._receive(sent_by, client_id, None)

    def confirm(self, sent_by: str, content: bytes) -> bool:
        """Return whether a client is stored here with its member's revision. If so, restart the copy's expiry.

        Only the member of a client confirms it: that is ``sent_by`` from now on.

        Raises:
            CodecError: the content cannot be read.
        """
        client_id, revision = decode_verify(content)
        if self._http_clients.holds(client_id):
            return True  # the member repeats our own report of the client
        if sent_by:
            self._copies.hand_to(client_id, sent_by)
        return self._copies.confirm_revision(client_id, revision, self._clock.monotonic_ms())

    def client(self, client_id: str) -> bytes | None:
        """Return the sync data of a client; None if it is unknown."""
        return next(map(encode_client, self._states([client_id])), None)

    def snapshot(self) -> bytes:
        """Return the sync data of all clients: connected here, copies from other members, and listed addresses."""
        return encode_snapshot(self._states(dict.fromkeys([*self._http_clients.ids(), *self._table.ids()])))

    def _states(self, client_ids: Iterable[str]) -> Iterable[ClientState]:
        for client_id in client_ids:
            if (own := self._http_clients.state(client_id)) is not None:
                yield own
                continue
            snapshot = self._table.snapshot(client_id)
            if snapshot is not None and snapshot.state is not None and snapshot.version.counter:
                yield snapshot.state

    def _receive(self, sent_by: str, client_id: str, state: ClientState | None) -> None:
        key = client_key(client_id)
        datum = Datum(key, NO_VERSION, ClientSnapshot(NO_VERSION, None, state))
        if sent_by:
            self._copies.hand_to(client_id, sent_by)
        sender = sent_by or self._nacos_of(client_id)
        received = self._receiver.receive(CLIENTS, sender, [datum], self._clock.monotonic_ms())
        for reason in received.failed.values():
            raise CodecError(reason)

    def _nacos_of(self, client_id: str) -> str:
        """Return the real Nacos that a client was stored for; empty if none."""
        version = self._table.version(client_id)
        return version.writer if version is not None and is_of_nacos(version) else ""

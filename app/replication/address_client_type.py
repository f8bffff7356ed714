"""The resource type of clients by address: sent only to members of real Nacos since 2.0, and never received."""

from collections.abc import Iterable, Mapping

from app.naming.clients.client_model import ClientSnapshot
from app.replication.address_clients import HttpClients, tag_of
from app.replication.client_type import ClientCodec, client_id_of, client_key
from distro.model.errors import CodecError
from distro.model.ports import Component, DistroCallbackAgent, DistroTransportAgent
from distro.model.stores import DistroStore
from distro.model.types import Datum, MemberKind, Merged, Version

HTTP_CLIENTS = "rollcall.http-clients"
"""The type's name inside the engine. On the wire these clients are like all others."""


class HttpClientStore(DistroStore):
    """The DistroStore of the index. A client that is not in it counts as gone. Only instance lists change the index."""

    def __init__(self, clients: HttpClients, writer: str) -> None:
        self._clients = clients
        self._version = Version(1, 1, writer)  # real Nacos gets none, and only revisions are compared

    def version(self, key: str) -> Version | None:
        return self._version if self._clients.holds(client_id_of(key)) else None

    def versions(self) -> Mapping[str, Version]:
        return {client_key(client_id): self._version for client_id in self._clients.ids()}

    def pop_changed(self) -> str | None:
        """Return None: digests are compared only with Rollcall members, which do not take this type."""
        return None

    def highest_own(self) -> Version:
        return self._version

    def tag(self, key: str) -> str:
        return tag_of(client_id_of(key))

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        datums = []
        for key in keys:
            client_id = client_id_of(key)
            if client_id:
                snapshot = ClientSnapshot(self._version, None, self._clients.state(client_id))
                datums.append(Datum(key, self._version, snapshot))
        return datums

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        return False

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        raise CodecError(f"clients of type {HTTP_CLIENTS} are made here, and not taken from members")

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        return Merged.NOTHING

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        return False

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        """Forget nothing: the instance lists determine which clients exist."""


def http_client_component(
    clients: HttpClients, writer: str, agent: DistroTransportAgent, callbacks: DistroCallbackAgent | None
) -> Component:
    """Return the index as a resource type. ``agent``, ``callbacks``: reach members of real Nacos alone."""
    return Component(
        HttpClientStore(clients, writer),
        ClientCodec(),
        agent,
        callbacks=callbacks,
        taken_by=frozenset({MemberKind.NACOS_2}),
    )

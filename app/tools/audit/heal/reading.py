"""One running member's state of a service, and the call that has it exchange the service with the others."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Self

import orjson

from app.languages.phrases import phrase
from app.naming.model.keys import DEFAULT_NAMESPACE, compose_service_name
from app.rows.rows import RowKind
from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import CallError, MemberClient, Patience, Refused, Unusable
from app.tools.audit.compare.input import valid_row
from app.tools.audit.dump.nacos import read_nodes
from app.tools.audit.dump.sources import take_all, take_service
from app.tools.audit.format.manifest import MemberDump, Seen

HEAL_PATH = "/v1/ns/operator/heal"
PUBLISHED_PATH = "/v2/ns/client/publish/list"
ROWS_MAX = 500_000
"""The most rows of one member; all rows of a service are held at once."""
ONE_BY_ONE_MAX = 20
"""The number of services up to which a member is asked for each; one dump of all costs it less than more calls."""
_SETTINGS = ("metadata", "protect_threshold", "selector", "clusters")

InstanceKey = tuple[str, str, int, bool]
"""The cluster, ip and port of an instance, and true if it is ephemeral."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The service that is healed, by namespace and full name."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class Row:
    """An instance as one member holds it."""

    healthy: bool
    enabled: bool
    weight: float
    metadata: Mapping[str, Any]
    version: str | None = None
    owner: str | None = None
    client: str | None = None
    beat_age_ms: int | None = None
    delete_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ClientHeld:
    """A gRPC client as one member holds it: its revision, and the member that it is connected to."""

    revision: int | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """One Rollcall member's state of the service. ``address`` is its name among the members."""

    address: str
    is_known: bool = False
    """True if the member lists the service."""
    version: str | None = None
    """The version of its instance list."""
    owner: str | None = None
    """The member that it names as responsible."""
    instances: Mapping[InstanceKey, Row] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The service's own values, by their names in its row."""
    settings_version: str | None = None
    members: tuple[Seen, ...] = ()
    """The members that it lists."""
    clients: Mapping[str, ClientHeld] = field(default_factory=dict)
    """The gRPC clients that publish the service, by id; empty if all services were read at once."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A member that did not answer; ``reason`` says how."""

    reason: str


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A member that is not a Rollcall member; ``name`` is its software with its release."""

    name: str


Answered = Held | NoAnswer | OtherKind


def read_member(asked: str, access: Access, wanted: Wanted, stop: Event) -> Answered:
    """Ask a member for its state of the service; failed calls are tried again as often as ``access`` says."""
    patience = Patience(access.retries, stop)
    with contextlib.closing(MemberClient(asked, access, patience)) as client:
        while True:
            try:
                return _read(client, wanted)
            except CallError as error:
                if not patience.try_again(error):
                    return NoAnswer(error.args[0])


def read_services(
    asked: str, access: Access, wanted: Collection[Wanted], stop: Event, *, with_clients: bool = False
) -> "dict[Wanted, Held] | NoAnswer | OtherKind":
    """Ask a member for its state of many services: one by one if they are few, else by one dump of all.

    ``with_clients``: one by one, however many they are: only then the clients that publish a service are known.
    """
    patience = Patience(access.retries, stop)
    with contextlib.closing(MemberClient(asked, access, patience)) as client:
        while True:
            try:
                return _read_many(client, wanted, with_clients=with_clients)
            except CallError as error:
                if not patience.try_again(error):
                    return NoAnswer(error.args[0])


def published_at(asked: str, access: Access, clients: Collection[str], stop: Event) -> list[Wanted]:
    """Return the services that gRPC clients publish in a member's eyes; none of a member that does not answer."""
    found: list[Wanted] = []
    patience = Patience(access.retries, stop)
    with contextlib.closing(MemberClient(asked, access, patience)) as client:
        for one in clients:
            try:
                answer = client.get(PUBLISHED_PATH, {"clientId": one})
            except Refused:
                continue  # it does not know the client
            except CallError:
                break
            found += _published(answer.body)
    return found


def _published(body: bytes) -> Iterator[Wanted]:
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return
    rows = told.get("data") if isinstance(told, dict) else None
    for row in rows if isinstance(rows, list) else ():
        match row:
            case {"namespace": str(namespace), "group": str(group), "serviceName": str(name)}:
                yield Wanted(namespace or DEFAULT_NAMESPACE, compose_service_name(name, group))


def _read_many(
    client: MemberClient, wanted: Collection[Wanted], *, with_clients: bool
) -> "dict[Wanted, Held] | OtherKind":
    found: dict[Wanted, Held] = {}
    if with_clients or len(wanted) <= ONE_BY_ONE_MAX:
        for one in wanted:
            answer = _read(client, one)
            if isinstance(answer, OtherKind):
                return answer
            found[one] = answer
        return found
    rows = {(one.namespace, one.service): _Rows(one) for one in wanted}
    budget = ROWS_MAX

    def keep(line: bytes, given: Mapping[str, Any]) -> None:
        nonlocal budget
        kept = rows.get((str(given.get("namespace")), str(given.get("service"))))
        if kept is not None:
            budget -= 1
            if budget < 0:
                raise Unusable(
                    phrase(
                        "it has over %(count)s rows of these services, more than this command compares", count=ROWS_MAX
                    )
                )
            kept.take(line, given)

    dumped = take_all(client, keep)
    if dumped is None:
        return _other_kind(client)
    return {one: _held(client, dumped, rows[one.namespace, one.service]) for one in wanted}


def _read(client: MemberClient, wanted: Wanted) -> Held | OtherKind:
    rows = _Rows(wanted)
    dumped = take_service(client, wanted.namespace, wanted.service, rows.take)
    return _other_kind(client) if dumped is None else _held(client, dumped, rows)


def _other_kind(client: MemberClient) -> OtherKind:
    version = read_nodes(client).version
    return OtherKind(f"Nacos {version}" if version[:2] in ("1.", "2.", "3.") else f"another server {version}".strip())


def _held(client: MemberClient, dumped: MemberDump, rows: "_Rows") -> Held:
    return Held(
        dumped.address or client.address,
        rows.service is not None,
        _text(rows.service, "version"),
        _text(rows.service, "owner"),
        rows.instances,
        _settings(rows.service) if rows.service is not None else {},
        _text(rows.service, "settings_version"),
        tuple(dumped.members),
        rows.clients,
    )


class _Rows:
    """Takes the lines of a dump, and keeps the rows of the service."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = (wanted.namespace, wanted.service)
        self.service: Mapping[str, Any] | None = None
        self.instances: dict[InstanceKey, Row] = {}
        self.clients: dict[str, ClientHeld] = {}

    def take(self, _line: bytes, given: Mapping[str, Any]) -> None:
        """Keep a row of the dump.

        Raises:
            CallError: the line is invalid, or there are more than ``ROWS_MAX``.
        """
        is_client = given.get("kind") == RowKind.CLIENT
        if given.get("service") != self._wanted[1] and not is_client:
            return
        row = valid_row(given)
        if row is None:
            raise CallError(phrase("a line of its dump is not a row"))
        if is_client and len(self.clients) < ROWS_MAX:
            self.clients[row["name"]] = ClientHeld(_whole(row, "revision"), _text(row, "owner"))
        if (row.get("namespace"), row.get("service")) != self._wanted:
            return
        if row["kind"] == RowKind.SERVICE:
            self.service = row
        elif row["kind"] == RowKind.INSTANCE:
            if len(self.instances) >= ROWS_MAX:
                raise CallError(
                    phrase(
                        "it has over %(count)s instances of the service, more than this command compares",
                        count=ROWS_MAX,
                    )
                )
            self.instances[row["cluster"], row["ip"], row["port"], row["ephemeral"]] = _row(row)


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        row["healthy"],
        row["enabled"],
        float(row["weight"]),
        row["metadata"],
        _text(row, "version"),
        _text(row, "owner"),
        _text(row, "client"),
        _whole(row, "silent_ms" if "silent_ms" in row else "beat_age_ms"),
        _whole(row, "delete_timeout_ms"),
    )


def _text(row: Mapping[str, Any] | None, name: str) -> str | None:
    value = row.get(name) if row is not None else None
    return value if isinstance(value, str) else None


def _whole(row: Mapping[str, Any], name: str) -> int | None:
    value = row.get(name)
    return value if type(value) is int else None


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the service's own values by name; a member of an earlier release does not give them."""
    return {name: row[name] for name in _SETTINGS if name in row}


def ask_to_heal(
    asked: str, access: Access, wanted: Wanted, stop: Event, source: str = "", instances: tuple[str, ...] = ()
) -> str:
    """Have a member exchange the service with the others; return why it refused, empty if it began.

    ``source``: the member from which it fetches the instances that it does not know. ``instances``: keys of durable
    instances that it may not know.
    """
    with MemberAsked(asked, access, stop) as member:
        return member.heal(wanted, source, instances)


class MemberAsked:
    """A connection to a member, for several calls that have it exchange a service."""

    def __init__(self, asked: str, access: Access, stop: Event) -> None:
        self._client = MemberClient(asked, access, Patience(access.retries, stop))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def heal(self, wanted: Wanted, source: str, instances: tuple[str, ...]) -> str:
        """Have the member exchange a service; return why it refused, empty if it began: see ``ask_to_heal``."""
        parameters: dict[str, str | int] = {"namespaceId": wanted.namespace, "serviceName": wanted.service}
        if source:
            parameters["source"] = source
        if instances:
            parameters["instances"] = ",".join(instances)
        try:
            self._client.post(HEAL_PATH, parameters)
        except CallError as error:
            return str(error)
        return ""

"""One member's digests: a Rollcall member gives them, for other kinds they are computed here from the rows."""

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.rows.rows import BUCKETS, DIGEST_FORMAT, ClientKind, RowKind, bucket_of, digest_text, instance_digest
from app.tools.audit.client.http_client import CallError, MemberClient, Patience, Refused, Unusable
from app.tools.audit.compare.compare import Row, is_seen
from app.tools.audit.compare.input import valid_row
from app.tools.audit.dump.nacos import found_row, read_service
from app.tools.audit.dump.sources import take, take_service

DIGEST_PATH = "/v1/ns/operator/digest"
DIFFERENCES_PATH = "/v1/ns/operator/differences"
REPORTED_MAX = 20
"""The most differing services in a report to a member."""
BUCKETS_AT_ONCE = 64
"""The buckets of one call: a quarter of the services, some 80 bytes each."""
ROWS_MAX = 50_000
"""The most instances of one service that are read, some 600 bytes each: those of all members are held at a time."""
_UNKNOWN = {400, 401, 403, 404, 405, 500, 501}
"""Statuses of members of other software, and of earlier releases, for a path that they do not know."""

ServiceKey = tuple[str, str]
"""The namespace and full name of a service."""
Digests = Mapping[ServiceKey, str]


@dataclass(frozen=True, slots=True)
class MemberLook:
    """One member's state at one moment. ``held``: all its services, for members that give no digests."""

    address: str
    """The address that the member gives itself; it may be empty."""
    kind: str
    services: int
    instances: int
    buckets: tuple[str, ...]
    held: Digests | None = None


class DigestReader:
    """Reads the digests of one member. For one thread at a time."""

    def __init__(self, client: MemberClient, patience: Patience, namespaces: Sequence[str]) -> None:
        self._client = client
        self._patience = patience
        self._namespaces = namespaces

    def close(self) -> None:
        self._client.close()

    def look(self) -> MemberLook:
        """Return the digests of all buckets.

        Raises:
            CallError: the member did not answer, or answered wrongly.
        """
        answer = self._ask({})
        if answer is None:
            return self._made_here()
        buckets = answer.get("buckets")
        if not isinstance(buckets, list) or len(buckets) != BUCKETS or not all(isinstance(one, str) for one in buckets):
            raise CallError(f"{DIGEST_PATH}: the answer has no {BUCKETS} buckets")
        services, instances = (_number(answer.get(name)) for name in ("services", "instances"))
        return MemberLook(str(answer.get("address") or ""), "rollcall", services, instances, tuple(buckets))

    def services(self, look: MemberLook, buckets: Collection[int]) -> Digests:
        """Return the digests of the services with instances in these buckets, at most ``BUCKETS_AT_ONCE`` buckets.

        Raises:
            CallError: the member did not answer, or answered wrongly.
        """
        if look.held is not None:
            return {key: one for key, one in look.held.items() if bucket_of(*key) in buckets}
        answer = self._ask({"buckets": ",".join(map(str, buckets))})
        listed = answer.get("services") if answer else None
        if not isinstance(listed, list):
            raise CallError(f"{DIGEST_PATH}: the answer has no services")
        found: dict[ServiceKey, str] = {}
        for one in listed:
            match one:
                case [str(namespace), str(name), int(), str(digest)]:
                    found[namespace, name] = digest
                case _:
                    raise CallError(f"{DIGEST_PATH}: a service is not a list of its names, count and digest")
        return found

    def rows(self, key: ServiceKey) -> list[Row]:
        """Return the rows of one service's instances, with their values.

        Raises:
            CallError: the member did not answer, or answered wrongly, or the service has over ``ROWS_MAX`` instances.
        """
        namespace, name = key
        rows: list[Row] = []

        def emit(_: bytes, found: Mapping[str, Any]) -> None:
            row = valid_row(found)
            if row and row["kind"] == RowKind.INSTANCE and (row["namespace"], row["service"]) == key and is_seen(row):
                if len(rows) == ROWS_MAX:
                    raise Unusable(f"{name} has over {ROWS_MAX:,} instances")
                rows.append(row)

        if take_service(self._client, namespace, name, emit) is not None:
            return rows
        clusters = read_service(self._client, namespace, name) or {}
        found = [one for instances in clusters.values() for one in instances]
        return [found_row(namespace, name, one, ClientKind.HTTP) for one in found]

    def report(self, services: Collection[ServiceKey]) -> None:
        """Report to the member that these services differ, for its console. A refusal is ignored."""
        named: dict[str, list[str]] = {}
        for namespace, name in services:
            named.setdefault(namespace, []).append(name)
        with contextlib.suppress(CallError):
            self._client.post(DIFFERENCES_PATH, {"services": json.dumps(named)})

    def _ask(self, parameters: Mapping[str, str | int]) -> dict[str, Any] | None:
        """Return the answer's object; None from a member that does not know the call."""
        try:
            answer = self._client.get(DIGEST_PATH, parameters)
        except Refused as error:
            if error.status in _UNKNOWN:
                return None
            raise
        value: Any = None
        with contextlib.suppress(CallError):
            value = answer.json()
        if not isinstance(value, dict) or "format" not in value:
            return None  # a page of another kind of server
        if value["format"] != DIGEST_FORMAT:
            raise Unusable(f"{DIGEST_PATH}: its format is {value['format']!r}; this version reads {DIGEST_FORMAT}")
        return value

    def _made_here(self) -> MemberLook:
        """Compute the digests of a member without that call, after as many tries as needed."""
        while True:
            try:
                return self._taken()
            except CallError as error:
                if not self._patience.try_again(error):
                    raise

    def _taken(self) -> MemberLook:
        """Compute the digests in one try. Memory: some 200 bytes for each service, besides the needs of ``take``."""
        totals: dict[ServiceKey, int] = {}
        instances = 0

        def emit(_: bytes, found: Mapping[str, Any]) -> None:
            nonlocal instances
            row = valid_row(found)
            if not row or row["kind"] != RowKind.INSTANCE or not is_seen(row):
                return
            instances += 1
            key = row["namespace"], row["service"]
            totals[key] = totals.get(key, 0) + instance_digest(row)

        told = take(self._client, self._namespaces, emit)
        buckets = [0] * BUCKETS
        for key, total in totals.items():
            buckets[bucket_of(*key)] += total
        held = {key: digest_text(total) for key, total in totals.items()}
        return MemberLook(told.address, told.kind, len(held), instances, tuple(map(digest_text, buckets)), held)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

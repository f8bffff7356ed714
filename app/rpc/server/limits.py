"""Limits of connections: the rule file, its parser, and the connections above its limits."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from app.config.file_stamp import file_stamp
from app.naming.model.nacos_errors import InvalidParam
from app.rpc.server.connections import Connection

LOG = logging.getLogger(__name__)
RULE_BYTES_MAX = 1 << 20
WATCH_INTERVAL_MS = 1_000
NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class LimitRule:
    """The five keys of the rule file. A negative limit means none; ``total`` and ``ip_default`` of 0 mean none, too.

    Source: Nacos 2.0 ConnectionLimitRule.
    """

    total: int = NO_LIMIT
    """The limit for all SDK connections; members' connections are not counted."""
    ip_default: int = NO_LIMIT
    per_ip: Mapping[str, int] = field(default_factory=dict)
    per_app: Mapping[str, int] = field(default_factory=dict)
    """The limits by the client's application, for an address that is not in ``per_ip``."""
    traced_ips: frozenset[str] = frozenset()
    """The addresses of clients whose messages are logged."""

    def of_client(self, remote_ip: str, app: str) -> int | None:
        """Return the most connections from ``remote_ip`` with this client's application; None without a limit."""
        own = self.per_ip.get(remote_ip, NO_LIMIT)
        if own >= 0:
            return own
        own = self.per_app.get(app, NO_LIMIT)
        if own >= 0:
            return own
        return self.ip_default if self.ip_default > 0 else None

    def refuses(self, connection: Connection, of_ip: int, of_all: int) -> bool:
        """Return whether a new connection is over a limit, given the connections of its address and of all SDKs."""
        if not connection.is_sdk:
            return False
        allowed = self.of_client(connection.remote_ip, connection.app)
        return (allowed is not None and of_ip >= allowed) or 0 < self.total <= of_all

    def surplus(self, connections: Iterable[Connection]) -> list[Connection]:
        """Return the connections above the limits: the latest of an address, or of all."""
        if self.total <= 0 and self.ip_default <= 0 and not self.per_ip and not self.per_app:
            return []
        found, kept = [], 0
        of_ip = Counter[str]()
        for one in sorted((one for one in connections if one.is_sdk), key=lambda one: one.opened_ms):
            if self.refuses(one, of_ip[one.remote_ip], kept):
                found.append(one)
            else:
                of_ip[one.remote_ip] += 1
                kept += 1
        return found


def parse_rule(text: bytes) -> LimitRule:
    """Return the rule in the JSON of a rule file; absent keys mean no limit.

    Raises:
        InvalidParam: the text is not JSON, or a field has a wrong type, which the message names.
    """
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidParam(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidParam("not a JSON object")
    traced = [] if (given := fields.get("monitorIpList")) is None else given
    if not isinstance(traced, list) or not all(isinstance(one, str) for one in traced):
        raise InvalidParam("'monitorIpList' should be a list of texts")
    return LimitRule(
        _limit("countLimit", fields.get("countLimit")),
        _limit("countLimitPerClientIpDefault", fields.get("countLimitPerClientIpDefault")),
        _limits("countLimitPerClientIp", fields),
        _limits("countLimitPerClientApp", fields),
        frozenset(traced),
    )


def _limits(name: str, fields: Mapping[str, Any]) -> Mapping[str, int]:
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidParam(f"'{name}' should be an object of numbers")
    return {key: _limit(name, one) for key, one in value.items()}


def _limit(name: str, value: Any) -> int:
    if value is None:
        return NO_LIMIT
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParam(f"'{name}' should be a number")
    return value


class LimitWatch:
    """Reads the rule file again when it has changed; without a file there are no limits. For the naming timer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self.rule = LimitRule()
        """The present rule. Read from any thread."""

    def tick(self, now_ms: int) -> int:
        """Check the file for a change. If it cannot be read, the rule stays, and a warning is logged."""
        stamp = file_stamp(self._path)
        if stamp != self._seen:
            self._seen = stamp
            self._read()
        return now_ms + WATCH_INTERVAL_MS

    def _read(self) -> None:
        if self._seen is None:
            self.rule = LimitRule()
            LOG.info("no limits of connections: %s is gone", self._path)
            return
        try:
            with self._path.open("rb") as file:
                text = file.read(RULE_BYTES_MAX + 1)
            if len(text) > RULE_BYTES_MAX:
                raise InvalidParam(f"over {RULE_BYTES_MAX} bytes")
            self.rule = parse_rule(text)
        except (OSError, InvalidParam) as error:
            LOG.warning("%s cannot be read, the limits of connections stay: %s", self._path, error)
            return
        LOG.info("limits of connections: %s", self.rule)

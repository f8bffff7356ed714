"""OverrideExpiry: the end of operators' changes whose instances are gone. Decides; the caller removes the records."""

from collections.abc import Callable
from typing import NamedTuple

from app.naming.model.keys import parse_datum_key
from app.naming.model.model import Service
from app.naming.model.override import Overrides
from app.naming.registry.service_table import ServiceTable

UNSEEN_TIMES = 10
"""An instance that this run never had may take so many times longer: clients come back after a restart of all."""
CUT_OFF_TIMES = 60
"""And so many times longer while a listed member is DOWN, as the instance may live there."""


class ExpiryGate(NamedTuple):
    """The conditions under which this member may end changes, and for which services."""

    may_expire: bool
    """True if this member serves, and its view of the members is steady."""
    has_all: bool
    """True if no listed member is DOWN."""
    owns: Callable[[str], bool]
    """Returns whether this member owns the records of a service, by its full name."""


class Expired(NamedTuple):
    """Changes to be removed."""

    namespace: str
    service: str
    keys: tuple[str, ...]
    """The instance keys."""


class _Absence(NamedTuple):
    since_ms: int
    was_held: bool
    """True if this run had the instance before."""


class OverrideExpiry:
    """Finds changes whose instances no source has had for a time. One thread calls ``find``.

    Source of the default time: Nacos 2.3.1 GlobalConfig (``nacos.naming.clean.expired-metadata.expired-time``).
    """

    def __init__(self, table: ServiceTable, expiry_ms: int) -> None:
        self._table = table
        self._expiry_ms = expiry_ms
        self._absences: dict[tuple[str, str], _Absence] = {}
        """By datum key and instance key; of an instance that is held, the time of the last look."""
        self._complete_ms: int | None = None
        """The first look since which no listed member was DOWN; None while one is."""

    def find(self, now_ms: int, late_ms: int, gate: ExpiryGate) -> list[Expired]:
        """Return the changes to be removed now.

        ``late_ms``: for how long this process stood still since the last call. This time does not count (R9).
        """
        before, self._absences = self._absences, {}
        if not gate.has_all:
            self._complete_ms = None
        else:
            self._complete_ms = now_ms if self._complete_ms is None else self._complete_ms + late_ms
        found: list[Expired] = []
        for service_key, overrides in list(self._table.overrides.items()):
            if (names := parse_datum_key(service_key)) is None:
                continue
            absent = _absent(self._table.find(service_key), overrides)
            ended: list[str] = []
            for key in overrides:
                last = before.get(where := (service_key, key))
                if key not in absent:
                    last = _Absence(now_ms, was_held=True)
                elif last is None:
                    last = _Absence(now_ms, was_held=False)
                else:
                    last = last._replace(since_ms=last.since_ms + late_ms)
                self._absences[where] = last
                if self._is_over(last, now_ms):
                    ended.append(key)
            if ended and gate.may_expire and gate.owns(names[1]):
                found.append(Expired(*names, tuple(ended)))
        return found

    def _is_over(self, last: _Absence, now_ms: int) -> bool:
        if self._complete_ms is None:
            return now_ms - last.since_ms > self._expiry_ms * CUT_OFF_TIMES
        # A member that was DOWN may still have to tell of the instance.
        since_ms = max(last.since_ms, self._complete_ms)
        return now_ms - since_ms > (self._expiry_ms if last.was_held else self._expiry_ms * UNSEEN_TIMES)


def _absent(service: Service | None, overrides: Overrides) -> set[str]:
    """Return the instance keys that no source of the service has."""
    absent = set(overrides)
    if service is not None:
        for held in (service.stored, service.persistent, service.retained):
            absent = {key for key in absent if key not in held}
        for publication in list((service.published or {}).values()) if absent else ():
            absent.difference_update(publication.instances)
    return absent

"""The cost of a member's work in virtual time, so that a scan of many keys, or a disk, shows in its ticks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distro.model.stores import DistroStore
from distro.model.types import Datum, Merged, Version


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs in µs of one thread, measured on a machine of two cores, rounded to about a power of two.

    The model counts the calls that the real code makes to its stores and disk, not the intended ones: an accidental
    scan makes a tick long here, too.
    """

    step_us: float = 0.01
    """The cost of each key in a list of all keys, which is made in one call of C."""
    scan_us: float = 0.25
    """The cost of each key in a copy of all versions."""
    look_us: float = 0.5
    """The cost of looking up one key: its version, the values that decide its owner, if it may be forgotten."""
    read_us: float = 2.0
    """The cost of reading one datum, to send or compare it."""
    change_us: float = 16.0
    """The cost of replacing, merging, claiming or dropping one datum in memory."""
    transaction_us: float = 4_000.0
    """The cost of one transaction on disk, for any number of records."""
    record_us: float = 16.0
    """The cost of one record in a transaction."""


class CostMeter:
    """Adds up the costs of one member's calls; the difference of two readings is the cost of the work between them."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.us = 0.0

    def charge(self, each_us: float, count: int = 1) -> None:
        self.us += each_us * count


class CostedStore:
    """A store whose calls cost time: the DistroStore of one resource type, with all its other attributes."""

    def __init__(self, store: DistroStore, meter: CostMeter) -> None:
        self._store = store
        self._meter = meter
        self._model = meter.model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def version(self, key: str) -> Version | None:
        self._meter.charge(self._model.look_us)
        return self._store.version(key)

    def versions(self) -> Mapping[str, Version]:
        versions = self._store.versions()
        self._meter.charge(self._model.scan_us, len(versions))
        return versions

    def all_keys(self) -> list[str]:
        keys = self._store.all_keys()
        self._meter.charge(self._model.step_us, len(keys))
        return keys

    def highest_own(self) -> Version:
        return self._store.highest_own()

    def tag(self, key: str) -> str:
        self._meter.charge(self._model.look_us)
        return self._store.tag(key)

    def datums(self, keys: Iterable[str]) -> Iterable[Datum]:
        for datum in self._store.datums(keys):
            self._meter.charge(self._model.read_us)
            yield datum

    def is_covered(self, datum: Datum) -> bool:
        self._meter.charge(self._model.read_us)
        return self._store.is_covered(datum)

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        self._meter.charge(self._model.look_us)
        return self._store.is_forgettable(key, now_ms)

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        self._meter.charge(self._model.change_us)
        return self._store.apply(datum, expected, now_ms)

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        self._meter.charge(self._model.change_us)
        return self._store.merge(datum, now_ms)

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        self._meter.charge(self._model.change_us)
        return self._store.reissue(datum, now_ms, restoring=restoring)

    def claim_all(self, keys: Collection[str], now_ms: int) -> list[str]:
        claimed = self._store.claim_all(keys, now_ms)
        self._meter.charge(self._model.look_us, len(keys))
        self._meter.charge(self._model.change_us, len(claimed))
        return claimed

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        self._meter.charge(self._model.look_us + self._model.change_us, len(keys))
        return self._store.forget_all(keys, now_ms)

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        self._meter.charge(self._model.change_us)
        self._store.forget(key, now_ms, absent=absent)

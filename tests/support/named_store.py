"""A store of opaque values by name, whose decisions a test makes, for the engine's classes that call one."""

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from distro.model.digest import ChangedKeys, hash_of
from distro.model.ports import Component
from distro.model.types import NO_VERSION, Datum, MemberKind, Merged, Version


@dataclass
class NamedStore:
    """A DistroStore in which a key is its own tag."""

    stored: dict[str, Datum] = field(default_factory=dict)
    forgettable: set[str] = field(default_factory=set)
    uncovered: set[str] = field(default_factory=set)
    """Keys of whose state no datum has all changes."""
    merged: Merged = Merged.NOTHING
    refusals: int = 0
    """So many calls of ``apply`` fail from now on, as after a change from elsewhere."""
    forgotten: list[tuple[str, int, bool]] = field(default_factory=list)
    """Shape: ``(key, now_ms, absent)``."""
    changed: ChangedKeys = field(default_factory=ChangedKeys)

    def put(self, key: str, version: Version, value: object = None) -> None:
        self.stored[key] = Datum(key, version, value)
        self.changed.note(key)

    def version(self, key: str) -> Version | None:
        one = self.stored.get(key)
        return one.version if one else None

    def versions(self) -> dict[str, Version]:
        return {key: one.version for key, one in self.stored.items()}

    def all_keys(self) -> list[str]:
        return list(self.stored)

    def pop_changed(self) -> str | None:
        return self.changed.pop()

    def is_empty(self, key: str) -> bool:
        return key in self.forgettable

    def content(self, key: str) -> tuple[Version, int] | None:
        one = self.stored.get(key)
        return None if one is None else (one.version, hash_of(f"{key} {one.value}"))

    def highest_own(self) -> Version:
        return NO_VERSION

    def grouped(self, keys: Collection[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def tag(self, key: str) -> str:
        return key

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        return [self.stored[key] for key in keys if key in self.stored]

    def is_covered(self, datum: Datum) -> bool:
        return datum.key not in self.uncovered

    def is_forgettable(self, key: str, _now_ms: int) -> bool:
        return key in self.forgettable

    def apply(self, datum: Datum, expected: Version | None, _now_ms: int) -> bool:
        if self.refusals or expected != self.version(datum.key):
            self.refusals -= 1
            return False
        self.stored[datum.key] = datum
        self.changed.note(datum.key)
        return True

    def merge(self, _datum: Datum, _now_ms: int) -> Merged:
        return self.merged

    def reissue(self, datum: Datum, _now_ms: int, *, restoring: bool) -> bool:
        """A stored value that differs, or a restoring, makes the next version of its writer."""
        stored = self.stored[datum.key]
        if not restoring and stored.value == datum.value:
            return False
        self.put(datum.key, stored.version.next(stored.version.writer), stored.value)
        return True

    def claim_all(self, keys: Collection[str], _now_ms: int) -> list[str]:
        return list(keys)

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        del self.stored[key]
        self.changed.note(key)
        self.forgotten.append((key, now_ms, absent))

    def forget_all(self, keys: Collection[str], now_ms: int) -> int:
        spent = [key for key in keys if key in self.stored and key in self.forgettable]
        for key in spent:
            self.forget(key, now_ms)
        return len(spent)


class ValueChecksum:
    """A codec whose checksum is the value itself."""

    def checksum(self, datum: Datum) -> str:
        return str(datum.value)


def component(store: NamedStore, **fields: object) -> Component:
    """A component with that store, for members of all kinds."""
    taken_by = frozenset({MemberKind.OWN, MemberKind.NACOS_1})
    return Component(store, ValueChecksum(), None, **{"taken_by": taken_by} | fields)  # type: ignore[arg-type]

"""The checksums that real Nacos is told: of own keys alone, and each made once for a version."""

from collections.abc import Iterable
from typing import Any

import pytest

from distro.engine.peer_call_runner import OwnChecksums
from distro.members.mapper import DistroMapper
from distro.model.types import Datum, MemberKind, Version
from tests.support.named_store import NamedStore, component

A, B = "10.0.0.1:8848", "10.0.0.2:8848"
ME, OTHER = f"{A}~1", f"{B}~1"
MAPPER = DistroMapper.over(A, (A, B))
OWN = [name for number in range(40) if MAPPER.responsible(name := f"k{number}")]
THEIRS = next(name for number in range(40) if not MAPPER.responsible(name := f"k{number}"))


class Counting(NamedStore):
    """Notes which datums are asked for."""

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        asked = list(keys)
        self.asked = [*getattr(self, "asked", []), *asked]
        return super().datums(asked)


class Planned:
    """What the checksums ask of the protocol."""

    own_writer = ME

    def mapper_of(self, _resource_type: str) -> DistroMapper:
        return MAPPER


def made(store: NamedStore, **fields: Any) -> OwnChecksums:
    return OwnChecksums({"t": component(store, **fields)}, Planned())  # type: ignore[arg-type]


def test_keys_that_this_run_wrote_and_is_responsible_for_are_told() -> None:
    store = NamedStore()
    store.put(OWN[0], Version(1, 1, ME), "one")
    store.put(OWN[1], Version(1, 1, OTHER), "to be claimed")
    store.put(THEIRS, Version(1, 1, ME), "moved")
    checksums = made(store)
    assert checksums.of("t") == {OWN[0]: "one"}
    store.forget(OWN[0], 0)
    assert checksums.of("t") == {}, "an empty map says that the last one is gone"


@pytest.mark.parametrize(("kind", "again"), [(MemberKind.NACOS_1, [1]), (MemberKind.NACOS_2, [0, 1])])
def test_a_list_is_read_again_when_its_version_changes(kind: MemberKind, again: list[int]) -> None:
    store = Counting()
    for name in OWN[:2]:
        store.put(name, Version(1, 1, ME), "old")
    checksums = made(store, taken_by=frozenset({kind}))
    assert checksums.of("t") == dict.fromkeys(OWN[:2], "old")
    store.put(OWN[1], Version(1, 2, ME), "new")
    store.asked = []
    assert checksums.of("t") == {OWN[0]: "old", OWN[1]: "new"}
    assert store.asked == [OWN[one] for one in again]


def test_a_key_that_goes_meanwhile_is_left_out() -> None:
    store = NamedStore()
    store.put(OWN[0], Version(1, 1, ME))
    versions = store.versions()
    store.forget(OWN[0], 0)
    store.versions = lambda: versions  # type: ignore[method-assign]
    assert made(store).of("t") == {}

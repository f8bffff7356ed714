"""A store of the eight required methods alone: the engine's defaults do the rest."""

from collections.abc import Iterable, Mapping

from distro.model.digest import LEAVES
from distro.model.ports import Component
from distro.model.stores import DistroStore, RequiredStore
from distro.model.types import (
    NO_VERSION,
    Datum,
    DistroKey,
    Load,
    MemberKind,
    Merged,
    Outcome,
    Query,
    Received,
    SyncData,
    Verify,
    Version,
)
from distro.receive.receive import DistroReceiver
from tests.support.engine import CONFIG, ME, OTHER, B, Engine, NoEvents
from tests.support.named_store import ValueChecksum

REQUIRED_MAX = 8


class EightMethods(DistroStore):
    """Values without parts: the later version counts."""

    def __init__(self) -> None:
        self.stored: dict[str, Datum] = {}

    def version(self, key: str) -> Version | None:
        return self.stored[key].version if key in self.stored else None

    def versions(self) -> Mapping[str, Version]:
        return {key: one.version for key, one in self.stored.items()}

    def datums(self, keys: Iterable[str]) -> list[Datum]:
        return [self.stored[key] for key in keys if key in self.stored]

    def is_forgettable(self, key: str, now_ms: int) -> bool:
        one = self.stored.get(key)
        return one is not None and one.value is None and now_ms >= one.version.counter

    def apply(self, datum: Datum, expected: Version | None, now_ms: int) -> bool:
        self.stored[datum.key] = datum
        return True

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        return Merged.NOTHING

    def reissue(self, datum: Datum, now_ms: int, *, restoring: bool) -> bool:
        return False

    def forget(self, key: str, now_ms: int, *, absent: bool = False) -> None:
        del self.stored[key]


def made(**fields: object) -> tuple[EightMethods, Component]:
    store = EightMethods()
    parts = {"taken_by": frozenset({MemberKind.OWN})} | fields
    return store, Component(store, ValueChecksum(), None, **parts)  # type: ignore[arg-type]


def test_a_resource_type_has_to_implement_eight_methods() -> None:
    # Without the copies of methods that mutation testing adds: their names have other letters.
    required = {name for name in vars(RequiredStore) if name.isascii() and not name.startswith("_")}
    assert len(required) <= REQUIRED_MAX
    assert required == {name for name in vars(EightMethods) if not name.startswith("_")}


def test_what_a_store_leaves_out_has_a_default() -> None:
    store = EightMethods()
    store.stored = {"a": Datum("a", Version(1, 5, ME), "x"), "b": Datum("b", Version(1, 9, ME), None)}
    assert store.tag("a") == "a"
    assert store.all_keys() == ["a", "b"]
    assert store.highest_own() == NO_VERSION
    assert store.is_covered(Datum("a", Version(2, 0, OTHER), "y"))
    assert (store.is_empty("a"), store.is_empty("b")) == (False, True)
    assert store.content("a") is None
    assert store.claim_all(["a"], 0) == []
    with store.grouped(["a"]):
        assert store.apply(Datum("c", Version(1, 9, ME), None), None, 0)
    assert store.forget_all(["a", "b", "c", "unknown"], 8) == 0
    assert store.forget_all(["a", "b", "c", "unknown"], 9) == 2
    assert store.all_keys() == ["a"]


def test_the_digest_of_a_store_that_notes_no_changes_visits_all_keys() -> None:
    store, component = made()
    store.stored["a"] = Datum("a", Version(1, 1, ME), "x")
    store.stored["b"] = Datum("b", Version(1, 1, ME), None)
    digest = component.digest
    digest.refresh()
    assert (len(digest), sorted(digest.keys_in(range(LEAVES))), digest.empty_keys()) == (2, ["a", "b"], ["b"])
    root = digest.root()
    digest.refresh()
    assert digest.root() == root
    store.stored["a"] = Datum("a", Version(1, 2, ME), "x")
    digest.refresh()
    assert digest.root() != root
    store.stored.clear()
    digest.refresh()
    assert (len(digest), digest.root(), digest.empty_keys()) == (0, 0, [])


def test_the_engine_sends_and_takes_the_datums_of_such_a_store() -> None:
    store, component = made()
    engine = Engine(B, more={"t": component})
    engine.hear()
    while calls := engine.tick():
        for call in calls:
            if isinstance(call, Load):
                engine.protocol.on_load_done(call, Outcome.DELIVERED, frozenset(), engine.now_ms)
            elif isinstance(call, Verify):
                engine.protocol.on_verify_done(call, Outcome.DELIVERED, Received(), engine.now_ms)
    assert not engine.protocol.loading
    store.stored["k"] = Datum("k", Version(1, 1, ME), "x")
    engine.protocol.sync({DistroKey("t", "k"): None}, engine.now_ms)
    [send] = [call for call in engine.tick(CONFIG.sync_delay_ms) if isinstance(call, SyncData)]
    assert (send.resource_type, send.keys) == ("t", ("k",))
    reader = engine.protocol.reader
    receiver = DistroReceiver(ME, engine.components, reader, NoEvents(), engine.stats)
    name = next(f"k{number}" for number in range(99) if not reader.is_responsible(DistroKey("t", f"k{number}")))
    receiver.receive("t", B, [Datum(name, Version(1, 1, OTHER), "y")], engine.now_ms)
    assert store.stored[name].value == "y"
    assert not [call for call in engine.tick() if isinstance(call, Query)]

"""Claims, forgetting and the end of a load, as they are done beside the engine's thread."""

from collections.abc import Iterable

import pytest

from app.naming.registry.operations import RegisterInstance
from app.replication.instance_list_type import INSTANCE_LIST
from distro.engine.local_actions import LocalActions
from distro.model.digest import LEAVES
from distro.model.ports import Component
from distro.model.types import Claim, DistroKey, FinishLoad, Forget, MemberKind, Outcome, Received, Verify, Version
from distro.protocol import claims, forgetting
from distro.protocol.claims import REFUSED_MS, Claimer, Claims
from distro.protocol.load import END_TRIES_MAX, SnapshotLoad
from tests.support.engine import CONFIG, ME, SELF, B, Engine

OWN, OTHER = "10.0.0.1:8848~2", "10.0.0.2:8848~1"


class KeyStore:
    """A store of key names, that says what was done with them."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.names = list(keys)
        self.claimed: list[list[str]] = []
        self.forgotten: list[list[str]] = []
        self.absent: set[bool] = set()
        self.needed: set[str] = set()
        self.writers: dict[str, str] = {}
        """By key, of all keys; a store without these claims all."""

    def version(self, key: str) -> Version | None:
        if not self.writers:
            return Version(1, 0, OTHER)
        return Version(1, 0, self.writers[key]) if key in self.writers else None

    def all_keys(self) -> list[str]:
        return list(self.names)

    def claim_all(self, keys: list[str], _now_ms: int) -> list[str]:
        self.claimed.append(keys)
        return [] if self.writers else keys

    def is_forgettable(self, key: str, _now_ms: int) -> bool:
        return key not in self.needed

    def forget(self, key: str, _now_ms: int, *, absent: bool = False) -> None:
        self.absent.add(absent)
        self.names.remove(key)

    def forget_all(self, keys: list[str], now_ms: int) -> int:
        spent = [key for key in keys if key in self.names and self.is_forgettable(key, now_ms)]
        for key in spent:
            self.forget(key, now_ms)
        self.forgotten.append(spent)
        return len(spent)


def component(store: KeyStore, **fields: bool) -> Component:
    return Component(store, None, None, taken_by=frozenset({MemberKind.OWN}), **fields)  # type: ignore[arg-type]


def all_of(view_since_ms: int = 0) -> Claim:
    return Claim(view_since_ms, (), all_keys=True)


def yes() -> bool:
    return True


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9])
def test_a_claim_of_all_keys_reaches_each_key_once_in_slices(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMED_MAX", 4)
    store = KeyStore(f"k{number}" for number in range(count))
    claimer = Claimer({"t": component(store)}, OWN)
    action, sizes, unfinished = all_of(), [], True
    while unfinished:
        claimed, _, unfinished = claimer.run(action, 0, yes, lambda _key: True)
        action = Claim(0, (), all_keys=False)
        sizes.append(len(claimed))
    assert set(sizes[:-1]) <= {4}
    assert [key for keys in store.claimed for key in keys] == store.names


def test_a_pass_examines_a_bounded_number_of_keys_and_no_key_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "EXAMINED_MAX", 3)
    store = KeyStore(f"k{number}" for number in range(7))
    store.writers = dict.fromkeys(store.names, OWN)
    asked: list[str] = []
    version = store.version
    store.version = lambda key: asked.append(key) or version(key)  # type: ignore[func-returns-value, method-assign]
    claimer, action, counts, unfinished = Claimer({"t": component(store)}, OWN), all_of(), [], True
    while unfinished:
        _, _, unfinished = claimer.run(action, 0, yes, lambda _key: True)
        action = Claim(0, (), all_keys=False)
        counts.append(len(asked))
    assert counts == [3, 6, 7]
    assert asked == store.names
    assert store.claimed == [], "no store is asked to claim what this run wrote"


def test_single_keys_go_before_the_rest_of_a_pass_however_often_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMED_MAX", 1)
    store = KeyStore(f"k{number}" for number in range(3_000))
    claimer = Claimer({"t": component(store)}, OWN)
    claimer.run(all_of(), 0, yes, lambda _key: True)
    for number in range(2_000):  # each would be a level of recursion in a chain of iterators
        claimer.run(Claim(0, (DistroKey("t", f"one{number}"),), all_keys=False), 0, yes, lambda _key: True)
    assert store.claimed[-1] == ["one1999"]
    claimer.run(Claim(0, (), all_keys=False), 0, yes, lambda _key: True)
    assert store.claimed[-1] == ["k1"]


def test_a_new_view_begins_the_pass_anew() -> None:
    store = KeyStore(["a", "b", "c"])
    claimer = Claimer({"t": component(store)}, OWN)
    claimer.run(all_of(), 0, lambda: False, lambda _key: True)
    claimer.run(all_of(), 0, yes, lambda _key: True)
    assert store.claimed == [["a", "b", "c"]], "each key once, not once a view"


def test_a_claim_leaves_out_keys_of_others_and_types_owned_by_their_writers() -> None:
    lists, clients = KeyStore(["mine", "theirs"]), KeyStore(["client"])
    claimer = Claimer({"t": component(lists), "c": component(clients, owned_by_writer=True)}, OWN)
    claimed, _, unfinished = claimer.run(all_of(), 0, yes, lambda key: key.key != "theirs")
    assert (claimed, unfinished) == ([DistroKey("t", "mine")], False)
    assert clients.claimed in ([], [[]])


def test_what_its_store_refused_is_claimed_later() -> None:
    """As a full disk does: without it the key had a former writer until the next change of the view."""
    store = KeyStore(["old", "own", "gone"])
    store.writers = {"old": OTHER, "own": OWN}
    claimer = Claimer({"t": component(store), "c": component(store, owned_by_writer=True)}, OWN)
    claimed, refused, _ = claimer.run(all_of(), 0, yes, lambda _key: True)
    assert (claimed, refused) == ([], [DistroKey("t", "old")])
    counted = Claims(1_000, 0)
    counted.next_action(0, 0)
    counted.on_done(unfinished=False)
    counted.refused(refused, 500)
    assert counted.next_action(0, 500 + REFUSED_MS - 1) is None
    assert counted.next_due_ms(0, 600, steady=True) == 500 + REFUSED_MS
    assert counted.next_action(0, 500 + REFUSED_MS) == Claim(0, (DistroKey("t", "old"),), all_keys=False)


def test_keys_wait_while_the_view_of_a_claim_is_not_steady() -> None:
    store = KeyStore(["a", "b"])
    claimer = Claimer({"t": component(store)}, OWN)
    assert claimer.run(all_of(), 0, lambda: False, lambda _key: True) == ([], [], True)
    assert store.claimed == []
    claimed, _, unfinished = claimer.run(Claim(0, (), all_keys=False), 0, yes, lambda _key: True)
    assert ([key.key for key in claimed], unfinished) == (["a", "b"], False)


def test_one_claim_is_under_way_at_a_time_and_a_failed_one_begins_again_later() -> None:
    counted = Claims(1_000, 0)
    assert counted.next_action(7, 0) == all_of(7)
    assert counted.next_action(8, 0) is None
    assert counted.next_due_ms(8, 0, steady=True) is None
    counted.on_failed(100)
    assert counted.next_action(8, 1_099) is None
    assert counted.next_due_ms(8, 200, steady=True) == 1_100
    assert counted.next_action(8, 1_100) == all_of(8)
    counted.on_done(unfinished=False)
    assert counted.next_action(8, 1_100) is None
    assert counted.next_due_ms(8, 1_100, steady=True) is None


def test_single_keys_are_examined_once_in_an_interval() -> None:
    counted, key = Claims(1_000, 0), DistroKey("t", "k")
    counted.next_action(0, 0)
    counted.on_done(unfinished=False)
    counted.later(key)
    assert counted.next_due_ms(0, 0, steady=False) is None
    assert counted.next_due_ms(0, 0, steady=True) == 0
    assert counted.next_action(0, 0) == Claim(0, (key,), all_keys=False)
    counted.on_done(unfinished=False)
    counted.later(key)
    assert counted.next_action(0, 999) is None
    assert counted.next_due_ms(0, 5, steady=True) == 1_000
    assert counted.next_action(0, 1_000) == Claim(0, (key,), all_keys=False)


@pytest.fixture
def engine() -> Engine:
    made = Engine(B)
    made.load()
    return made


def actions_over(engine: Engine, **stores: KeyStore) -> LocalActions:
    return LocalActions(
        engine.protocol.reader, {name: component(store) for name, store in stores.items()}, engine.serve
    )


def test_only_what_may_be_forgotten_still_is(engine: Engine) -> None:
    """A key may have been written between the decision and the deed."""
    store = KeyStore(["old", "written"])
    store.needed.add("written")
    event = actions_over(engine, t=store).run(Forget((DistroKey("t", "old"), DistroKey("t", "written"))), 0)
    event(engine.protocol, 0)
    assert store.names == ["written"]
    assert store.absent == {False}
    assert engine.stats.forgotten == 1


def test_the_end_of_a_second_load_drops_what_no_peer_has_of_the_types_that_a_peer_gave(engine: Engine) -> None:
    given, not_given = KeyStore(["kept", "gone"]), KeyStore(["k"])
    served = []
    engine.before_serving = served.append
    actions_over(engine, lists=given, clients=not_given).run(FinishLoad({"lists": [{"kept"}, set()]}), 77)
    assert (given.names, not_given.names) == (["kept"], ["k"])
    assert given.absent == {True}
    assert served == [77]


def test_a_load_that_cannot_be_ended_properly_ends_all_the_same() -> None:
    engine = Engine(B)
    engine.hear()
    tries = 0

    def fail(_now_ms: int) -> None:
        nonlocal tries
        tries += 1
        raise OSError("disk")

    engine.before_serving = fail
    for load in engine.tick():
        engine.protocol.on_load_done(load, Outcome.DELIVERED, frozenset(), engine.now_ms)  # type: ignore[arg-type]
    while engine.protocol.loading:
        actions, engine.now_ms = engine.protocol.tick(engine.now_ms)
        for action in actions:
            if isinstance(action, FinishLoad):
                with pytest.raises(OSError, match="disk"):
                    engine.local.run(action, engine.now_ms)
                engine.local.failed(action)(engine.protocol, engine.now_ms)
    assert tries == END_TRIES_MAX
    assert engine.protocol.members.serving


def test_a_view_of_any_time_is_new_to_claims_that_saw_none() -> None:
    for view_since_ms in (0, 1):
        one = Claims(2_000, 0)
        assert one.next_due_ms(view_since_ms, 5, steady=True) == 5
        assert one.next_action(view_since_ms, 5) == Claim(view_since_ms, (), all_keys=True)
        one.on_done(unfinished=False)
        assert one.next_action(view_since_ms, 5) is None
        one.recheck_all()
        assert one.next_action(view_since_ms, 6) == Claim(view_since_ms, (), all_keys=True)
        one.on_failed(7)
        assert one.next_action(view_since_ms, 2_007) == Claim(view_since_ms, (), all_keys=True)
        one.on_done(unfinished=False)
        assert one.next_action(view_since_ms, 2_008) is None, "the failure is made good"


def test_a_single_key_waits_for_the_interval_and_for_the_time_after_a_failure() -> None:
    one = Claims(2_000, 0)
    one.next_action(0, 0)
    one.on_done(unfinished=False)
    assert one.next_due_ms(0, 10, steady=True) is None
    one.later(DistroKey("t", "a"))
    assert one.next_due_ms(0, 10, steady=True) == 10, "never in the past"
    assert one.next_action(0, 10) == Claim(0, (DistroKey("t", "a"),), all_keys=False)
    one.on_failed(500)
    one.next_action(0, 2_500)
    one.on_done(unfinished=False)
    one.later(DistroKey("t", "b"))
    assert one.next_due_ms(0, 2_400, steady=True) == 2_500
    assert one.next_due_ms(0, 2_600, steady=True) == 2_600
    assert one.next_due_ms(0, 2_600, steady=False) is None


def test_single_keys_are_claimed_in_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMED_MAX", 4)
    store = KeyStore([])
    claimer = Claimer({"t": component(store)}, OWN)
    action = Claim(0, tuple(DistroKey("t", f"k{number}") for number in range(6)), all_keys=False)
    *_, unfinished = claimer.run(action, 0, yes, lambda _key: True)
    assert (store.claimed, unfinished) == ([["k0", "k1", "k2", "k3"]], True)


def test_what_raised_is_told_as_a_failure(engine: Engine) -> None:
    engine.tick(5_000)
    engine.protocol.claims.later(DistroKey("t", "a"))
    before = engine.stats.forgotten
    engine.local.failed(Forget(()))(engine.protocol, 0)
    assert engine.stats.forgotten == before
    failed: list[int] = []
    engine.protocol.on_claim_failed = failed.append  # type: ignore[method-assign]
    engine.local.failed(all_of())(engine.protocol, 77)
    assert failed == [77]


def test_keys_of_a_claim_wait_when_the_view_changed_or_is_not_steady(engine: Engine) -> None:
    store = KeyStore(["a"])
    actions = actions_over(engine, t=store)
    engine.protocol.reader.is_responsible = lambda _key: True  # type: ignore[method-assign]
    since_ms = engine.protocol.members.view_since_ms
    steady = {True: engine.now_ms + engine.config.report_interval_ms, False: since_ms}
    for view_since_ms, is_steady in ((since_ms, False), (since_ms - 1, True), (since_ms - 1, False)):
        assert engine.protocol.steady(steady[is_steady]) is is_steady
        actions.run(all_of(view_since_ms), steady[is_steady])
        assert store.claimed == []
    actions.run(all_of(since_ms), steady[True])
    assert store.claimed == [["a"]]


def test_all_keys_that_were_forgotten_are_counted(engine: Engine) -> None:
    store = KeyStore(["a", "b", "c"])
    store.needed.add("b")
    actions = actions_over(engine, t=store)
    actions.run(Forget(tuple(DistroKey("t", key) for key in "abc")), 0)(engine.protocol, 0)
    assert (store.names, engine.stats.forgotten) == (["b"], 2)


# --- what is given up, and what is done again -----------------------------------------------------


def test_a_stopping_node_gives_up_the_end_of_a_load_at_its_next_step(engine: Engine) -> None:
    store = KeyStore(f"k{number}" for number in range(10))
    actions = actions_over(engine, t=store)
    forget = store.forget

    def stop_at_the_third(key: str, now_ms: int, *, absent: bool = False) -> None:
        forget(key, now_ms, absent=absent)
        if len(store.names) == 7:
            actions.stop()

    store.forget = stop_at_the_third  # type: ignore[method-assign]
    served: list[int] = []
    engine.before_serving = served.append
    engine.protocol.members.serving = False
    action = FinishLoad({"t": [frozenset()]})
    engine.protocol.loads.finishing = action
    actions.run(action, 0)(engine.protocol, 0)
    assert (len(store.names), served) == (7, [])
    assert not engine.protocol.members.serving, "what was not done to its end is not told as done"


def test_keys_without_a_version_are_not_forgotten_at_the_end_of_a_load(engine: Engine) -> None:
    store = KeyStore(["list", "description"])
    store.writers = {"list": OTHER}
    actions_over(engine, t=store).run(FinishLoad({"t": [frozenset()]}), 0)
    assert store.names == ["description"]


def test_the_end_of_a_load_that_failed_is_tried_again_after_a_wait() -> None:
    load = SnapshotLoad(CONFIG, {}, 0)
    wait_ms = CONFIG.load_retry_delay_ms
    assert load.is_over(0, lambda _peer: True)
    assert load.end_failed(1_000)
    assert [load.is_over(at_ms, lambda _peer: True) for at_ms in (999 + wait_ms, 1_000 + wait_ms)] == [False, True]
    assert load.end_failed(2_000)
    assert [load.is_over(at_ms, lambda _peer: True) for at_ms in (1_999 + 2 * wait_ms, 90_000)] == [False, True]
    assert not load.end_failed(3_000), "a member that never serves is of no use"


def test_many_keys_are_forgotten_in_batches_and_no_round_names_them_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "FORGOTTEN_MAX", 2)
    keys = [
        DistroKey(INSTANCE_LIST, engine.copy(f"DEFAULT_GROUP@@s{number}", Version(1, 1, ME))) for number in range(5)
    ]
    for key in keys:
        engine.protocol.rounds.forgetting.drop(key)
    batches, named = list[tuple[DistroKey, ...]](), list[str]()
    for _ in range(10):
        actions, engine.now_ms = engine.protocol.tick(engine.now_ms)
        batches += [action.keys for action in actions if isinstance(action, Forget)]
        for action in actions:
            if isinstance(action, Verify):
                named += action.keys
                engine.protocol.on_verify_done(action, Outcome.FAILED, Received(), engine.now_ms)
    assert batches == [tuple(keys[:2])], "one batch at a time"
    assert named == []
    for start in (2, 4):
        engine.protocol.on_forget_done(2)
        [forget] = [one for one in engine.protocol.tick(engine.now_ms)[0] if isinstance(one, Forget)]
        assert forget.keys == tuple(keys[start : start + 2])
    engine.protocol.on_forget_done(0)
    assert not engine.protocol.rounds.forgetting.dropped, "what was not forgotten after all is named again"
    assert not [one for one in engine.protocol.tick(engine.now_ms)[0] if isinstance(one, Forget)]


def test_digests_are_brought_up_to_date_though_nobody_compares_them() -> None:
    """Or what is noted for them would only grow."""
    engine = Engine(B)
    engine.load()
    replaced = engine.registry.writes.register(RegisterInstance(engine.service_of(SELF), "10.1.0.1", 80), engine.now_ms)
    assert replaced is not None
    engine.verify_all(engine.tick(2 * CONFIG.verify_interval_ms))
    engine.verify_all(engine.tick(CONFIG.verify_interval_ms))
    assert engine.registry.lists.pop_changed() is None
    lists = engine.components[INSTANCE_LIST]
    assert lists.digest.keys_in(range(LEAVES)) == [replaced.key]

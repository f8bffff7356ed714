"""The page of replication at one member: of an engine in virtual time."""

import json
from typing import Any

from app.operator.engine_page import EnginePage
from distro.model.ports import Component
from distro.model.types import DistroKey, MemberState, Outcome, PeerReport, Received, SyncData, Verify, Version
from distro.protocol.engine_view import KEYS_SHOWN
from tests.support.engine import INSTANCE_LIST, ME, OTHER, OWN_KIND, B, Engine
from tests.support.snippets import ROOT, snippets_of

NOBODY: Any = None


def page_of(engine: Engine) -> dict[str, Any]:
    """As JSON has it."""
    components = {INSTANCE_LIST: Component(engine.components[INSTANCE_LIST].store, NOBODY, NOBODY)}
    engine.protocol.publish(engine.now_ms)
    workers: dict[str, dict[str, object]] = {"distro-peer-b": {"waiting": 0}}
    page = EnginePage(lambda: engine.protocol.reader.view, ME, components, engine.stats, engine, lambda: workers)  # type: ignore[arg-type]
    engine.monotonic_ms = lambda: engine.now_ms  # type: ignore[attr-defined]
    return json.loads(json.dumps(page.facts()))  # type: ignore[no-any-return]


def write(engine: Engine, number: int) -> DistroKey:
    own = [
        name for name in (f"DEFAULT_GROUP@@svc{one}" for one in range(300)) if engine.protocol.mapper.responsible(name)
    ]
    key = DistroKey(INSTANCE_LIST, engine.write(own[number]))
    engine.protocol.sync({key: engine.now_ms / 1_000}, engine.now_ms)
    return key


def test_a_page_of_a_quiet_member() -> None:
    engine = Engine(B)
    engine.load()
    info = {"version": "1.4.8", "rollcall": {"wire": 2}}
    engine.protocol.on_report(PeerReport(B, MemberState.UP, OWN_KIND, info), engine.now_ms)
    page = page_of(engine)
    assert (page["writer"], page["loading"], page["workers"]) == (ME, False, {"distro-peer-b": {"waiting": 0}})
    assert page["versions"] == {INSTANCE_LIST: {"highestOwn": None}}
    assert page["counters"]["sync_sent"] == 0
    [(address, peer)] = page["peers"].items()
    told = {name: peer[name] for name in ("state", "kind", "release", "wireVersion", "capabilities")}
    assert (address, told) == (
        B,
        {"state": "UP", "kind": "own", "release": "1.4.8", "wireVersion": 2, "capabilities": sorted(OWN_KIND)},
    )
    assert (peer["unapplied"], peer["oldestUnapplied"], peer["notCounted"]) == (0, None, 0)
    assert peer["convergence"]["applied"] == {"count": 0, "p50Ms": None, "p90Ms": None, "p99Ms": None}
    assert peer["verify"][INSTANCE_LIST]["outcome"] == "delivered"
    assert peer["queue"]["call"] is None


def test_the_pages_example_has_this_shape() -> None:
    engine = Engine(B)
    engine.load()
    engine.protocol.on_report(PeerReport(B, MemberState.UP, OWN_KIND, {"version": "1.4.8"}), engine.now_ms)
    [example] = [one for one in snippets_of(ROOT / "docs" / "operations" / "inspect.md") if one.language == "json"]
    shown, told = json.loads(example.text), page_of(engine)["peers"][B]
    assert shown.keys() == told.keys()
    for part in ("queue", "convergence", "verify"):
        assert shown[part].keys() == told[part].keys()
    assert shown["convergence"]["applied"].keys() == told["convergence"]["applied"].keys()
    [[rounds], [round_]] = [list(one["verify"].values()) for one in (shown, told)]
    assert rounds.keys() == round_.keys()


def test_a_page_names_what_is_under_way_and_stuck() -> None:
    engine = Engine(B)
    engine.load()
    keys = [write(engine, number) for number in range(KEYS_SHOWN + 5)]
    [send] = [action for action in engine.tick() if isinstance(action, SyncData)]
    engine.now_ms += 500
    later = write(engine, 99)
    engine.now_ms += 1_000
    peer = page_of(engine)["peers"][B]
    assert peer["queue"] | {"keys": len(peer["queue"]["keys"])} == {
        "reachable": True,
        "inFlight": KEYS_SHOWN + 5,
        "toSend": 1,
        "toFetch": 0,
        "keys": KEYS_SHOWN,
        "call": {"what": "SyncData", "resourceType": INSTANCE_LIST, "ageMs": 1_500},
        "failing": False,
        "nextSendInMs": -1_000,
    }
    assert peer["oldestUnapplied"] == {
        "resourceType": INSTANCE_LIST,
        "key": keys[0].key,
        "ageMs": 1_500,
        "cause": "failing",
    }
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), engine.now_ms)
    page = page_of(engine)
    peer = page["peers"][B]
    assert peer["convergence"]["applied"]["count"] == KEYS_SHOWN + 5
    assert 1_000 < peer["convergence"]["applied"]["p50Ms"] <= 2_500
    assert (peer["unapplied"], peer["oldestUnapplied"]["key"]) == (1, later.key)
    assert page["versions"][INSTANCE_LIST]["highestOwn"].endswith(ME)


def test_a_page_has_the_outcome_of_the_last_round() -> None:
    engine = Engine(B)
    engine.load()
    key = write(engine, 1)
    [send] = [action for action in engine.tick() if isinstance(action, SyncData)]
    engine.protocol.on_sync_done(send, Outcome.DELIVERED, Received(), engine.now_ms)
    [verify] = [action for action in engine.tick(6_000) if isinstance(action, Verify)]
    refused = {key.key: Version(9, 9, OTHER)}
    engine.protocol.on_verify_done(verify, Outcome.DELIVERED, Received(refused, fetching=3), engine.now_ms)
    engine.now_ms += 250
    told = {"ageMs": 250, "outcome": "delivered", "compared": "versions", "keys": 1}
    assert page_of(engine)["peers"][B]["verify"] == {INSTANCE_LIST: told | {"newerThere": 1, "lackingThere": 3}}

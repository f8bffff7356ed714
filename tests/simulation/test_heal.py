"""The exchange of one service that an operator begins: what verify rounds cannot notice is repaired by the rules."""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

import orjson
import pytest

from app.http.api.call import Call, Reply
from app.naming.model.keys import datum_key
from app.naming.model.model import DELETE_TIMEOUT_MS, Instance, StoredInstance
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.scenarios import steady_world
from app.tools.simulation.world.sim_clients import SimOperator
from app.tools.simulation.world.world import World, settle_ms
from distro.model.config import DistroConfig
from distro.model.types import Version
from tests.support.thorough import usually

pytestmark = [pytest.mark.simulation]
SEEDS = range(3)
SERVICE = "DEFAULT_GROUP@@svc0"
KEY = datum_key("public", SERVICE)
STRANGER = "10.9.9.9"
WAIT_MS = 5_000
"""A fetch, a send, and each once more."""
Depart = Callable[[SimMember], None]


def ask(world: World, member: SimMember, **fields: str) -> list[Reply]:
    """Have an operator make the call; the answers that come, of which a lossy network may give none."""
    query = urlencode({"serviceName": "svc0", **fields}).encode()
    call = Call("POST", "/v1/ns/operator/heal", query, {}, b"", STRANGER)
    answers: list[Reply] = []
    member.http.take(call, answers.append)
    return answers


def parts(world: World) -> tuple[SimMember, list[SimMember]]:
    """The owner of the service, and the others."""
    members = list(world.members.values())
    [owner] = [one for one in members if one.owns(SERVICE)]
    return owner, [one for one in members if one is not owner]


def some_key(member: SimMember) -> str:
    return min(member.instances(KEY))


def lose(member: SimMember) -> None:
    del member.registry.table.find(KEY).stored[some_key(member)]  # type: ignore[union-attr]


def gain(member: SimMember) -> None:
    one = member.instances(KEY)[some_key(member)]
    instance = replace(one.instance, ip="10.66.0.1")
    member.registry.table.find(KEY).stored[instance.key] = StoredInstance(  # type: ignore[union-attr]
        instance, one.version, member.clock.monotonic_ms()
    )


def change(**fields: object) -> Depart:
    def depart(member: SimMember) -> None:
        one = member.instances(KEY)[some_key(member)]
        one.instance = replace(one.instance, **fields)  # type: ignore[arg-type]

    return depart


def fall_behind(member: SimMember) -> None:
    one = member.instances(KEY)[some_key(member)]
    one.version = one.client_version = Version(0, 1, one.version.writer)


DEPARTURES: dict[str, Depart] = {
    "MISSING": lose,
    "EXTRA": gain,
    "HEALTH": change(healthy=False),
    "ENABLED": change(enabled=False),
    "WEIGHT": change(weight=9.0),
    "METADATA": change(metadata={"revision": "1", "forged": "yes"}),
    "BEHIND": fall_behind,
}


def held(member: SimMember) -> dict[str, tuple[Version, Instance]]:
    return {key: (one.version, one.instance) for key, one in member.instances(KEY).items()}


def agree(world: World) -> bool:
    """Whether all members hold the same instances of the service, in the same versions."""
    first, *others = world.members.values()
    versions = {one.registry.lists.version(KEY) for one in world.members.values()}
    return len(versions) == 1 and all(held(one) == held(first) for one in others)


def damaged(seed: int, depart: Depart, members: Callable[[World], list[SimMember]]) -> World:
    """A quiet world whose verify rounds go on, and in which some members hold another state under the same version."""
    world = steady_world(seed, SimMember)
    world.checker.looking = False  # it would see at once that one version has two states
    for one in members(world):
        depart(one)
    world.run(3 * world.config.verify_interval_ms)
    assert not agree(world)
    return world


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", DEPARTURES)
def test_what_rounds_do_not_notice_lasts_until_it_is_healed(name: str, seed: int) -> None:
    world = damaged(seed, DEPARTURES[name], lambda one: parts(one)[1][:1])
    owner, _ = parts(world)
    before = held(owner)
    [answer] = ask(world, owner)
    assert answer.status == 200, answer.body
    world.run(WAIT_MS)
    assert agree(world)
    assert held(owner) == before, "what the owner holds, and in the versions of its clients' words"
    world.run(settle_ms(world.config) + DELETE_TIMEOUT_MS)
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_at_the_member_that_departs_does_not_make_its_state_the_owners(seed: int) -> None:
    world = damaged(seed, lose, lambda one: parts(one)[1][:1])
    owner, [departing, _] = parts(world)
    known = set(owner.instances(KEY))
    ask(world, departing)
    world.run(WAIT_MS)
    assert set(owner.instances(KEY)) == known
    ask(world, owner)
    world.run(WAIT_MS)
    assert agree(world)
    assert set(departing.instances(KEY)) == known


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_owner_lost_comes_back_from_the_member_that_is_named(seed: int) -> None:
    world = damaged(seed, gain, lambda one: parts(one)[1])
    owner, [source, _] = parts(world)
    [answer] = ask(world, owner, source=source.address)
    assert answer.status == 200, answer.body
    world.run(WAIT_MS)
    assert agree(world)
    assert "10.66.0.1:8080:unknown:DEFAULT" in owner.instances(KEY), "it has one fresh time-out"
    world.run(DELETE_TIMEOUT_MS + settle_ms(world.config))
    world.checker.check_agreement()
    assert "10.66.0.1:8080:unknown:DEFAULT" not in owner.instances(KEY), "nobody beats for it"


@pytest.mark.parametrize("seed", range(usually(len(DEPARTURES), 20)))
def test_calls_and_answers_that_are_lost_late_or_come_twice_do_no_harm(seed: int) -> None:
    """An operator asks all members, again and again; once the network is calm, all agree."""
    world = damaged(seed, DEPARTURES[list(DEPARTURES)[seed % len(DEPARTURES)]], lambda one: parts(one)[1][:1])
    world.network.calm(loss=0.3, duplicates=0.3, late_ms_max=3_000)
    owner, others = parts(world)
    known = set(owner.instances(KEY))
    for _ in range(5):
        for one in (owner, *others):
            world.after(world.between(0, 4_000), lambda one=one: ask(world, one))  # type: ignore[misc]
        world.run(4_000)
    world.network.calm(loss=0.0, duplicates=0.0)
    world.run(4_000)
    ask(world, owner)
    world.run(settle_ms(world.config))
    world.checker.check_agreement()
    assert set(owner.instances(KEY)) == known
    world.run(DELETE_TIMEOUT_MS)
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_durable_record_is_healed(seed: int) -> None:
    world = steady_world(seed, SimMember)
    world.checker.looking = False
    operator: SimOperator = world.add_operator(SERVICE, "10.77.0.1")
    operator.put()
    world.run(20_000)
    owner, [departing, _] = parts(world)
    [mine] = owner.records.datums([operator.key])
    corrupt = replace(mine.value, value={**mine.value.value, "weight": 7.0})
    departing.records._records[operator.key] = corrupt
    world.run(3 * world.config.verify_interval_ms)
    assert departing.records.value(operator.key) != owner.records.value(operator.key)
    ask(world, owner)
    world.run(WAIT_MS)
    versions = {one.records.version(operator.key) for one in world.members.values()}
    assert versions == {mine.version.next(owner.writer)}
    assert departing.records.value(operator.key) == owner.records.value(operator.key) == mine.value.value
    assert departing.records._records[operator.key].changed == mine.value.changed, "no new word (R14)"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_record_that_its_owner_never_heard_of_is_taken_once_it_is_named(seed: int) -> None:
    world = steady_world(seed, SimMember)
    world.checker.looking = False
    operator: SimOperator = world.add_operator(SERVICE, "10.77.0.1")
    operator.put()
    world.run(20_000)
    owner, others = parts(world)
    del owner.records._records[operator.key]
    owner.registry.table.set_persistent("public", SERVICE, "10.77.0.1:80:unknown:DEFAULT", None, 0)
    for one in others:
        one.protocol.rounds.of[owner.address].due_ms = 1 << 60
    for rounds in owner.protocol.rounds.of.values():
        rounds.due_ms = 1 << 60  # the next round of the owner would ask for it, too
    ask(world, owner)
    world.run(WAIT_MS)
    assert owner.records.version(operator.key) is None
    ask(world, owner, instances="10.77.0.1:80:unknown:DEFAULT")
    world.run(WAIT_MS)
    assert len({str(one.records.value(operator.key)) for one in world.members.values()}) == 1
    assert owner.records.value(operator.key) is not None


def test_members_that_agree_give_no_new_version() -> None:
    world = steady_world(1, SimMember)
    owner, others = parts(world)
    before = owner.registry.lists.version(KEY)
    for _ in range(3):
        for one in (owner, *others):
            assert ask(world, one)[0].status == 200
        world.run(WAIT_MS)
    assert owner.registry.lists.version(KEY) == before
    world.checker.check_quiet()


def test_whoever_asks_too_often_is_told_to_wait() -> None:
    world = steady_world(1, SimMember)
    owner, _ = parts(world)
    assert orjson.loads(ask(world, owner)[0].body) == {
        "address": owner.address,
        "owner": owner.address,
        "keys": 2,
        "owned": 2,
        "asked": {one: 2 for one in world.addresses if one != owner.address},
    }
    [again] = ask(world, owner)
    assert (again.status, again.headers["Retry-After"]) == (503, "2")
    world.run(2_000)
    assert ask(world, owner)[0].status == 200


def sampled(seed: int, sample_ms: int) -> World:
    """A steady world in which one copy of a service is damaged, and then one of another member's."""
    world = steady_world(seed, SimMember, config=DistroConfig(sample_ms=sample_ms))
    world.checker.looking = False
    _, copies = parts(world)
    change(weight=9.0)(copies[0])
    lose(copies[1])
    world.run(30_000 + 3 * world.config.verify_interval_ms)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_contents_that_differ_in_equal_versions_are_found_in_time_by_themselves(seed: int) -> None:
    assert not agree(sampled(seed, 86_400_000))
    world = sampled(seed, 30_000)
    assert agree(world)
    assert sum(member.stats.contents_differed for member in world.members.values()) >= 1
    assert sum(member.stats.reissued for member in world.members.values()) >= 1
    world.run(settle_ms(world.config))
    world.checker.check_agreement()
    world.checker.check_digests()

"""Courses of events that once went wrong, or that users were promised, each in a world of its own."""

from functools import partial
from itertools import permutations

import pytest

from app.http.api.call import Call
from app.naming.model.model import BEAT_TIMEOUT_MS, DELETE_TIMEOUT_MS
from app.naming.registry.merge import InstanceList
from app.replication.instance_list_type import INSTANCE_LIST
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.rules import change_often
from app.tools.simulation.scenarios.rules_10_to_17 import members_restart_apart
from app.tools.simulation.scenarios.rules_of_words import removals_are_late, sides_speak, words_are_repeated
from app.tools.simulation.scenarios.scenarios import live_randomly, steady_world
from app.tools.simulation.world import faults
from app.tools.simulation.world.sim_clients import SimClient
from app.tools.simulation.world.world import World, settle_ms
from distro.members.mapper import DistroMapper
from distro.model.config import DistroConfig
from distro.model.types import Datum, Version
from distro.protocol.tasks import SPACING_FACTOR_MAX
from distro.wire.codec import encode_frame
from distro.wire.http_agent import MEMBER_HEADER
from tests.support.thorough import usually

pytestmark = [pytest.mark.simulation]
SEEDS = range(usually(4, 10))


def cut_off(world: World, member: SimMember, clients: list[SimClient]) -> None:
    """Part a member, and these clients with it, from all others."""
    for other in world.addresses:
        if other == member.address:
            continue
        for one in (member.address, *(client.address for client in clients)):
            world.network.cut(one, other)
            world.network.cut(other, one)


def owned_by(world: World, member: SimMember) -> list[SimClient]:
    return [client for client in world.clients if member.owns(client.service)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_costs_no_instance_and_the_return_is_quick(seed: int) -> None:
    """No survivor's list ever lacks an instance that beats; all are equal 10 s after the member is back."""
    world = steady_world(seed, SimMember, services=20, clients=60)
    world.checker.strict = True
    member = world.any_member()
    world.kill(member)
    world.checker.watch(world.between(5_000, 40_000))
    world.start(member)
    world.checker.watch(10_000)
    world.checker.check_agreement()
    world.checker.watch(20_000)
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rolling_restart_costs_no_instance(seed: int) -> None:
    world = steady_world(seed, SimMember, services=20, clients=60)
    world.checker.strict = True
    for member in list(world.members.values()):
        member.leave()
        world.checker.watch(world.between(3_000, 6_000))
        world.start(member)
        world.checker.watch(world.between(12_000, 20_000))
    world.checker.watch(settle_ms(world.config))
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pause_of_everybody_drops_nobody(seed: int) -> None:
    """The machine below all members and clients was suspended."""
    world = steady_world(seed, SimMember)
    world.checker.strict = True
    for member in world.members.values():
        member.pause()
    world.run(DELETE_TIMEOUT_MS + world.between(1_000, 20_000))
    for member in world.members.values():
        world.after(world.between(0, 1_000), partial(world.resume, member))
    world.checker.watch(DELETE_TIMEOUT_MS)
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_word_of_a_client_outweighs_the_health_that_others_found(seed: int) -> None:
    """One side takes a registration; the other, which hears no beats, counts a change of health under a new epoch."""
    world = steady_world(seed, SimMember)
    member = world.any_member()
    clients = owned_by(world, member)
    cut_off(world, member, clients)
    world.run(2_000)
    for client in clients:
        client.appear()
    config = world.config
    world.run(config.silent_down_ms + 2 * config.report_interval_ms + BEAT_TIMEOUT_MS)
    world.heal()
    world.checker.watch(settle_ms(config))
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_heard_no_beats_makes_nobody_ill_that_the_others_heard(seed: int) -> None:
    """A member that is alone hears nothing of the others' clients, and does not take that for their silence (R12)."""
    world = steady_world(seed, SimMember)
    member = world.any_member()
    cut_off(world, member, [])
    for client in world.clients:
        world.network.cut(client.address, member.address)
    world.run(world.config.silent_down_ms + 2 * world.config.report_interval_ms + BEAT_TIMEOUT_MS)
    ill = [
        stored for _, service in member.stored() for stored in service.stored.values() if not stored.instance.healthy
    ]
    assert not ill
    world.heal()
    for _ in range(100):
        world.run(100)
        for other in world.members.values():
            for _, service in other.stored() if other is not member else ():
                assert all(stored.instance.healthy for stored in service.stored.values()), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_is_not_up_without_the_data_of_members_that_serve(seed: int) -> None:
    """Its first calls were lost; that it was loading for three seconds is no reason to answer with nothing."""
    world = steady_world(seed, SimMember)
    world.checker.strict = True
    member = world.any_member()
    world.kill(member)
    world.checker.watch(8_000)
    cut_off(world, member, [])
    world.start(member)
    world.checker.watch(1_200)
    world.heal()
    world.checker.watch(settle_ms(world.config))
    world.checker.check_quiet()


def disagree(world: World) -> None:
    """One member does not hear a second one, which a third hears: their views differ for as long as that lasts."""
    deaf, _, unheard = sorted(world.addresses)
    world.network.cut(unheard, deaf)


@pytest.mark.parametrize("seed", SEEDS)
def test_members_that_disagree_do_not_claim_in_a_circle(seed: int) -> None:
    """Each would answer the other's claim with the next one, as fast as the network carries them."""
    world = steady_world(seed, SimMember, services=12)
    disagree(world)
    span_ms = 30_000
    world.run(span_ms)
    claims = sum(member.stats.claims for member in world.members.values())
    sends = sum(member.stats.sync_keys + member.stats.query_keys for member in world.members.values())
    rounds = span_ms // world.config.claim_interval_ms
    assert claims <= 2 * 12 * rounds
    assert sends <= 3 * (claims + 100)
    world.heal()
    world.checker.watch(settle_ms(world.config))
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_both_owners_of_a_disagreement_keep_what_the_other_took(seed: int) -> None:
    world = steady_world(seed, SimMember, services=12)
    disagree(world)
    change_often(world, 20_000, 400)
    world.run(25_000)
    world.heal()
    world.checker.watch(settle_ms(world.config))
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_key_that_all_forgot_begins_above_its_old_versions(seed: int) -> None:
    """Services empty out, are forgotten by one member after the other, and fill again, in any order."""
    world = World(seed, config=DistroConfig(tombstone_slack_ms=5_000))
    for number in range(6):
        client = world.add_client(f"DEFAULT_GROUP@@svc{number % 4}")
        at_ms = world.between(0, 20_000)
        while at_ms < 240_000:
            world.after(at_ms, client.appear)
            at_ms += world.between(2_000, 20_000)
            world.after(at_ms, client.disappear if world.chance(0.7) else client.die)
            at_ms += world.between(5_000, 90_000)
    world.start_all(settle_ms=5_000)
    kinds = ((faults.crash, 8_000), (faults.lose_some, 15_000), (faults.repeat, 20_000), (faults.lose_many, 4_000))
    faults.plan(world, 220_000, 8, kinds)
    world.run(240_000)
    world.heal()
    world.checker.watch(settle_ms(world.config) + DELETE_TIMEOUT_MS)
    world.checker.check_quiet()
    assert sum(member.stats.forgotten for member in world.members.values()) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_member_acknowledges_until_it_knows_that_it_left_the_list_stays(seed: int) -> None:
    """The others have removed it, one has taken its keys over, and none can ask it anything any more."""
    world = steady_world(seed, SimMember, services=20, clients=40)
    first, second, gone = world.members.values()
    rest = [first.address, second.address]
    first.take_list(rest)
    world.run(world.between(2_500, 6_000))
    second.take_list(rest)
    world.run(5)
    clients = owned_by(world, gone)
    for client in clients:
        client.members = [gone.address]
        client.disappear()
    world.run(30)
    clients = [client for client in clients if client.is_gone]
    assert clients, "it had learned of it by then"
    world.run(SPACING_FACTOR_MAX * world.config.sync_spacing_ms)  # what waits for the next send is told by then
    gone.kill()
    world.run(3_000)
    for member in (first, second):
        left = {(key, name) for key, service in member.stored() for name in service.stored}
        assert not left & {(client.datum_key, client.instance_key) for client in clients}


@pytest.mark.parametrize("seed", SEEDS)
def test_two_members_part_and_meet(seed: int) -> None:
    """Neither side is the larger; one of them waits, and it is the same one in both their eyes."""
    world = World(seed, members=2)
    live_randomly(world, services=4, clients=12, span_ms=70_000)
    world.start_all(settle_ms=12_000)
    for _ in range(3):
        faults.partition(world, world.between(500, 18_000))
        world.run(world.between(5_000, 25_000))
    world.heal()
    world.checker.watch(settle_ms(world.config) + DELETE_TIMEOUT_MS)
    world.checker.check_quiet()


@pytest.mark.parametrize("seed", [9, 41, 84, 147])
def test_who_restarted_alone_in_a_cut_waits_from_its_first_contact_on(seed: int) -> None:
    """It met one member of the other side before the next, and compared its new view with that of the second one."""
    members_restart_apart(seed, SimMember)


def test_a_world_is_its_seed() -> None:
    """Replaying a seed shows the same course of events."""
    first, second = (steady_world(7, SimMember) for _ in range(2))
    for world in (first, second):
        faults.plan(world, 20_000, 5)
        world.run(40_000)
    assert first.events == second.events
    assert [member.dump() for member in first.members.values()] == [member.dump() for member in second.members.values()]
    assert DistroMapper.over("", first.addresses).servers == tuple(first.addresses)


@pytest.mark.parametrize(("epochs", "changes"), [(0, 999_999_999_999_999), (0, 1_000_000), (0, 1), (1_000_000, 0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_said_in_the_name_of_a_run_splits_no_key(seed: int, epochs: int, changes: int) -> None:
    """All members are sent a key of its owner's run above what that gave, by each other one, and by none less.

    Bound: a verify round, a query, a send, and as much again for what the clients change meanwhile.
    """
    world = steady_world(seed, SimMember)
    world.checker.looking = False
    owner = world.any_member()
    key, service = world.choice([(key, one) for key, one in owner.stored() if owner.owns(one.full_name)])
    given = service.version
    version = Version(given.epoch + epochs, given.counter + changes, given.writer)
    [stored] = owner.registry.lists.datums([key])
    codec = owner.components[INSTANCE_LIST].codec
    forged = Datum(key, version, InstanceList({}, {}))
    body = encode_frame([forged], codec, owner.clock.monotonic_ms(), versioned=True)
    for target, sender in permutations(world.addresses, 2):
        call = Call("PUT", "/v1/ns/distro/datum", b"", {MEMBER_HEADER.lower(): sender}, body, sender.partition(":")[0])
        world.members[target].http.take(call, lambda _reply: None)
    config = world.config
    world.run(2 * (config.verify_interval_ms + config.verify_timeout_ms + 2 * config.sync_timeout_ms))
    world.checker.check_agreement()
    world.checker.check_revisions()
    for member in world.members.values():
        [found] = member.registry.lists.datums([key])
        assert found.value.stored.keys() >= stored.value.stored.keys()
        assert found.version > given


@pytest.mark.parametrize("seed", [0, 2, 4, 5, *range(100, 106)])
def test_what_is_deregistered_on_one_side_soon_after_a_word_on_the_other_is_listed_by_nobody(seed: int) -> None:
    """Registered at one member at 34.6 s, deregistered at another at 35.0 s, healed at 40 s: it was listed to 64 s."""
    removals_are_late(seed, SimMember)


@pytest.mark.parametrize("seed", [1, 7, 25, 31])
def test_after_a_heal_all_lists_agree_before_the_side_that_waits_has_keys_again(seed: int) -> None:
    """What one side alone had was named by nobody for a round, and what the owner had fetched waited for its claim."""
    sides_speak(seed, SimMember)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_registration_that_repeats_what_its_member_has_is_the_last_word(seed: int) -> None:
    """Another one, which only the other side of a cut had heard before, was listed after the heal."""
    words_are_repeated(seed, SimMember)

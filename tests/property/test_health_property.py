"""BeatCheck goes only to services that are due: it must do all that a check of everything in every second does."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.naming.health import beat_check as health
from app.naming.health.beat_check import BeatCheck, HealthCheckGate
from app.naming.health.silence import PAUSES_REMEMBERED
from app.naming.model.events import Event, HealthChanged, HealthChecked, InstancesChanged, Origin, ServiceChanged
from app.naming.model.keys import datum_key
from app.naming.model.model import Change, Instance, Service, StoredInstance, Tombstone
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import NO_VERSION, Datum, Version
from tests.support.registry_parts import check_of, naming_of

ME, OTHER = "10.0.0.1:8848~1", "10.0.0.2:8848~1"
SLACK_MS, GUARD_MS = 5_000, 3_000
SERVICES = ("g@@a", "g@@b", "g@@c")
IPS = tuple(f"10.1.0.{number}" for number in range(4))
TIMES: tuple[dict[str, str], ...] = (
    {},
    {"preserved.heart.beat.timeout": "2000", "preserved.ip.delete.timeout": "5000"},
    {"preserved.heart.beat.timeout": "9000", "preserved.ip.delete.timeout": "4000"},
    {"preserved.heart.beat.timeout": "60000"},
    {"preserved.heart.beat.timeout": "0"},
)


class PlainCheck:
    """Looks at every instance of every service each time."""

    def __init__(self, registry: Registry, publish: Callable[[Event], None], *, expire: bool) -> None:
        self.registry, self.publish, self.expire = registry, publish, expire
        self.expected_ms: int | None = None
        self.pauses: list[tuple[int, int]] = []

    def tick(self, now_ms: int, ask_gate: Callable[[], HealthCheckGate]) -> int:
        if self.expected_ms is not None and now_ms - self.expected_ms > 2_000:
            self.pauses.append((now_ms, now_ms - self.expected_ms))
            del self.pauses[:-PAUSES_REMEMBERED]
        verdict = ask_gate()
        may_check = verdict.may_check and not (self.pauses and verdict.confirmed_ms < self.pauses[-1][0])
        for service in self.registry.table.services():
            self.tidy(service, now_ms, verdict.forget_unneeded)
            ours = service.version.writer == self.registry.lists.writer and verdict.responsible(service.full_name)
            if may_check and service.stored and ours:
                self.check(service, now_ms)
        self.expected_ms = now_ms + 1_000
        return self.expected_ms

    def tidy(self, service: Service, now_ms: int, forget_unneeded: bool) -> None:
        if service.retained and self.registry.upkeep.drop_retained(service, now_ms):
            self.publish(ServiceChanged(service.namespace, service.full_name))
        for key, tombstone in list(service.tombstones.items()):
            if now_ms - tombstone.at_ms > tombstone.keep_ms:
                del service.tombstones[key]
        if forget_unneeded and not service.stored and self.registry.upkeep.is_forgettable(service.key, now_ms):
            self.registry.upkeep.forget(service.key)
            self.publish(InstancesChanged(service.key, Origin.PEER))

    def check(self, service: Service, now_ms: int) -> None:
        changes = 0
        for key, stored in list(service.stored.items()):
            since_ms = max(stored.beat_ms, service.claimed_ms)
            silent_ms = now_ms - since_ms - sum(length for at_ms, length in self.pauses if since_ms < at_ms)
            if stored.instance.marked or not stored.instance.ephemeral:
                continue
            if silent_ms > stored.instance.delete_timeout_ms and self.expire:
                if self.registry.writes.remove(service.namespace, service.full_name, key, now_ms, stored.beat_ms):
                    changes += 1
                    self.publish(HealthChanged(service.key, key, "removed", changes))
            elif silent_ms > stored.instance.beat_timeout_ms and self.registry.writes.set_health(
                service, key, False, now_ms, stored.beat_ms
            ):
                changes += 1
                self.publish(HealthChanged(service.key, key, "unhealthy", changes))
        if changes:
            self.publish(InstancesChanged(service.key, Origin.LOCAL))
            self.publish(HealthChecked(service.key, changes))


@dataclass
class Member:
    """A member's domain, and what its health check may do. Two of them go through the same."""

    expire: bool
    registry: Registry = field(default_factory=lambda: Registry.of(ME, SLACK_MS, GUARD_MS))
    now_ms: int = 0
    events: list[Event] = field(default_factory=list)
    may_check: bool = True
    forget_unneeded: bool = False
    confirmed_ms: int | None = None
    not_ours: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.naming = naming_of(self.registry, lambda: self.now_ms, lambda _event: None)

    def ask_gate(self) -> HealthCheckGate:
        confirmed_ms = self.now_ms if self.confirmed_ms is None else self.confirmed_ms
        return HealthCheckGate(
            self.may_check,
            confirmed_ms,
            lambda name: name not in self.not_ours,
            forget_unneeded=self.forget_unneeded,
        )

    def tick(self, check: BeatCheck | PlainCheck) -> None:
        while check.tick(self.now_ms, self.ask_gate) <= self.now_ms:
            pass

    def look(self) -> Any:
        """What there is, and what was said; that a list changed may be said more than once."""
        changes = [event for event in self.events if isinstance(event, HealthChanged)]
        return (
            changes,
            set(self.events),
            {
                one.key: (
                    one.version,
                    {
                        key: (stored.instance, stored.version, stored.client_version, stored.beat_ms)
                        for key, stored in one.stored.items()
                    },
                    one.tombstones,
                    one.retained,
                    one.hidden,
                )
                for one in self.registry.table.services()
            },
        )


Step = Callable[[Member], object]
NAMES, ADDRESSES = st.sampled_from(SERVICES), st.sampled_from(IPS)


def key_of(ip: str) -> str:
    return Instance(ip, 80).key


@st.composite
def registers(draw: st.DrawFn) -> Step:
    command = RegisterInstance(draw(NAMES), draw(ADDRESSES), 80, metadata=draw(st.sampled_from(TIMES)))
    return lambda member: member.naming.register(command)


@st.composite
def small_changes(draw: st.DrawFn) -> Step:
    name, ip, metadata, flag = draw(NAMES), draw(ADDRESSES), draw(st.sampled_from(TIMES)), draw(st.booleans())
    key = datum_key("public", name)
    steps: list[Step] = [
        lambda member: member.naming.beat(Beat(name, ip, 80)),
        lambda member: member.naming.beat(Beat(name, ip, 80, full=True, metadata=metadata)),
        lambda member: member.naming.deregister(DeregisterInstance(name, ip, 80)),
        lambda member: member.naming.set_health("public", name, key_of(ip), flag),
        lambda member: member.naming.take_health("public", name, {f"{ip}:80": flag}),
        lambda member: member.naming.take_beats(key, {key_of(ip): 1_000}),
        lambda member: (
            key_of(ip) in held_of(member, name) and member.naming.patch(PatchInstance(name, ip, 80, metadata=metadata))
        ),
        lambda member: member.registry.writes.empty("public", name, member.now_ms),
        lambda member: member.registry.replication.claim(key, member.now_ms),
        lambda member: member.registry.upkeep.forget(key, member.now_ms if flag else None),
        lambda member: member.registry.table.set_persistent("public", name, "k", Instance(ip, 80) if flag else None, 0),
    ]
    return draw(st.sampled_from(steps))


def held_of(member: Member, name: str) -> dict[str, StoredInstance]:
    service = member.registry.table.get("public", name)
    return service.stored if service else {}


@st.composite
def datums(draw: st.DrawFn) -> Step:
    """A state that another member sends, or that this one gets back: applied, merged, or one change of it."""
    name, how = draw(NAMES), draw(st.sampled_from(["apply", "merge", "change"]))
    version = Version(draw(st.integers(1, 6)), draw(st.integers(0, 3)), draw(st.sampled_from([ME, OTHER])))
    described = [
        (Instance(ip, 80, service_name=name, healthy=healthy, marked=marked, ephemeral=lives, metadata=metadata), age)
        for ip, healthy, marked, lives, metadata, age in draw(
            st.lists(
                st.tuples(
                    ADDRESSES,
                    st.booleans(),
                    st.sampled_from([False, False, True]),
                    st.sampled_from([True, True, False]),
                    st.sampled_from(TIMES),
                    st.integers(0, 40_000),
                ),
                max_size=3,
                unique_by=lambda one: one[0],
            )
        )
    ]
    gone = draw(st.dictionaries(ADDRESSES, st.tuples(st.integers(0, 9_000), st.integers(0, 20_000)), max_size=2))

    def step(member: Member) -> None:
        now_ms, registry, key = member.now_ms, member.registry, datum_key("public", name)
        stored_instances = {
            one.key: StoredInstance(replace(one), version, now_ms - age_ms) for one, age_ms in described
        }
        tombstones = {key_of(ip): Tombstone(version, now_ms - age_ms, keep) for ip, (age_ms, keep) in gone.items()}
        tombstones = {at: tombstone for at, tombstone in tombstones.items() if at not in stored_instances}
        datum = Datum(key, version, InstanceList(stored_instances, tombstones))
        if how == "apply":
            registry.replication.apply(datum, registry.lists.version(key), now_ms)
        elif how == "merge":
            registry.replication.merge(datum, now_ms)
        elif stored_instances:
            stored = next(iter(stored_instances.values()))
            known = registry.lists.version(key) or NO_VERSION
            following = Version(known.epoch, known.counter + 1, known.writer) if known.epoch else Version(1, 0, OTHER)
            stored.version = stored.client_version = following
            registry.replication.take_change(Change(key, stored.instance.key, following, stored, None), now_ms)

    return step


@st.composite
def verdicts(draw: st.DrawFn) -> Step:
    name, value = (
        draw(st.sampled_from(["may_check", "forget_unneeded", "confirmed_ms", "not_ours"])),
        draw(st.booleans()),
    )
    names = draw(st.frozensets(NAMES))

    def step(member: Member) -> None:
        match name:
            case "confirmed_ms":
                member.confirmed_ms = member.now_ms if value else None
            case "not_ours":
                member.not_ours = names
            case _:
                setattr(member, name, value)

    return step


STEPS = st.one_of(registers(), registers(), small_changes(), small_changes(), datums(), verdicts())
WAITS = st.sampled_from([0, 0, 0, 0, 1, 300, 1_900, 2_000, 2_001, 7_000, 40_000])
"""By how much a tick is late; over two seconds it is a pause."""
SECONDS = st.tuples(st.lists(STEPS, max_size=4), st.integers(0, 999), WAITS, st.integers(1, 12))
"""What happens, at which ms of the second, how late the tick then is, and for how many quiet seconds it goes on."""


@pytest.mark.parametrize("units", [5_000, 3])
@given(history=st.lists(SECONDS, max_size=12), expire=st.booleans())
@settings(deadline=None)
def test_it_does_what_a_look_at_everything_does(
    units: int, history: list[tuple[list[Step], int, int, int]], expire: bool
) -> None:
    lazy, plain = Member(expire), Member(expire)
    checks = (
        (lazy, check_of(lazy.registry, lazy.events.append, expire=expire)),
        (plain, PlainCheck(plain.registry, plain.events.append, expire=expire)),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "UNITS_PER_SLICE", units)
        due_ms = 1_000
        for steps, at_ms, late_ms, quiet_s in history:
            for member, _ in checks:
                member.now_ms = due_ms - 1_000 + at_ms
                for step in steps:
                    step(member)
            for wait_ms in (late_ms, *[0] * quiet_s):
                due_ms += wait_ms
                for member, check in checks:
                    member.now_ms = due_ms
                    member.tick(check)
                due_ms += 1_000
                assert lazy.look() == plain.look()

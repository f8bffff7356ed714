"""The follower of one link, which applies the data of the other cluster. It does no I/O, and takes the time as a value.

The rules L1 to L9 are in docs/replication.md.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.config.link_settings import LinkSettings
from app.links.feed_lines import SETTLED_MS, FollowedPart
from app.links.fetch_again import FetchAgain
from app.naming.model.foreign import Arrival, ArrivalRule, ForeignPart
from app.naming.model.json_fields import FROM_MEMBER, Fields
from app.naming.model.keys import DEFAULT_CLUSTER, WALL_MS_END, check_names, check_service_format
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam
from app.naming.wire.foreign_wire import decode_all, digest_text, parse_digest
from app.replication.foreign_type import INSTANCES_MAX, ORIGIN_CHARS_MAX, ForeignKey, ForeignStore, parse_foreign_key
from distro.model.errors import CodecError

SLICE_SERVICES = 1_500
"""Services that one comparison is about, so that its body fits a client's call."""
SLICES_MAX = 4_096
DOUBTED_MIN = 4
"""From so many services on, the loss of more than half at once is doubted. Source: the guard of decision 0007."""


Held = dict[tuple[str, str], tuple[str, ForeignPart]]
"""The key and the state of services, by the name at the other cluster."""


class Placed(NamedTuple):
    """A place in the log of a member of the other cluster."""

    run: str
    place: int


@dataclass(frozen=True, slots=True)
class LinkRules:
    """The rules of links (docs/replication.md); tests switch one off."""

    refuses_own: bool = True
    keeps_unsettled: bool = True
    doubts_losses: bool = True
    checks_bases: bool = True
    marks_stale: bool = True
    keeps_last: bool = True
    checks_parts: bool = True


@dataclass(slots=True)
class FollowerStats:
    """Counts of one link since its start."""

    changes: int = 0
    """Changes of services that were taken."""
    refused: int = 0
    """Services and lines that were refused: they could not be read, are not of this link, or did not fit."""
    compared: int = 0
    kept: int = 0
    """Services whose loss was not believed at once."""
    retired: int = 0
    """Services whose instances were removed, as the link was silent for too long."""


class LinkFollower:
    """The state of one link at this member. Used by one thread at a time."""

    def __init__(
        self,
        settings: LinkSettings,
        own_cluster: Callable[[], str],
        store: ForeignStore,
        would_be_empty: Callable[[str, str, str], bool],
        now_ms: int,
        rules: LinkRules | None = None,
    ) -> None:
        """``own_cluster``: the id of this cluster. ``would_be_empty``: as ``ForeignTable.would_be_empty``."""
        self.settings = settings
        self.rules = rules or LinkRules()
        self._own_cluster, self._store, self._would_be_empty = own_cluster, store, would_be_empty
        self._rule = ArrivalRule(Arrival(settings.arrival), settings.healthy_min, settings.weight)
        self.again = FetchAgain()
        self.part: FollowedPart | None = None
        self.placed: Placed | None = None
        """Up to where the changes are taken; None before a comparison."""
        self.origin = self.member = ""
        self.up_ms = 0
        self.heard_ms = now_ms
        """When the other side last said anything."""
        self.stale = False
        self._may_hold_stale = True
        """True while services that this member took over, or holds, may be marked as stale."""
        self.recheck_ms: int | None = None
        """When a comparison is due, as something was kept that the other side did not have."""
        self._merges = 0
        """How many states of other members this owner had taken when it compared last."""
        self._doubted_ms: int | None = None
        self._confirmed: dict[str, int] = {}
        """The digest that the followed member last stated of a key, or confirmed, since this member follows it."""
        self._services = 0
        self.error = self.refusal = ""
        """Why the link is silent, and why something was refused last."""
        self.stats = FollowerStats()

    # --- what is asked ----------------------------------------------------------------------------

    def query(self) -> dict[str, object]:
        """Return the parameters of each call: the part, and the patterns of the link."""
        assert self.part is not None
        chosen = self.settings.chosen
        names = {"namespaces": chosen.namespaces, "groups": chosen.groups, "services": chosen.services}
        texts = {name: ",".join(patterns) for name, patterns in names.items()}
        return {"part": self.part.part, "of": self.part.of, **texts}

    def follow(self, part: FollowedPart) -> None:
        """Follow another part: the services that this member owns changed."""
        self.part, self.placed, self._may_hold_stale = part, None, True

    def held(self) -> Held:
        """Return what this link holds of its part: the key and the state, by the name at the other cluster.

        What the link does not choose any more is removed.
        """
        found = {}
        for key, state in self._store.parts(self.settings.name):
            if (parsed := parse_foreign_key(key)) is None or self.part is None:
                continue
            name = self.settings.there(parsed.namespace), parsed.full_name
            if self.part.takes(*name) and self.settings.here(name[0]) == parsed.namespace:
                found[name] = key, state
            elif self.part.has(parsed.full_name):
                self._store.put(key, None)
        return found

    @property
    def instances_max(self) -> int:
        """Return how many instances all links together may bring."""
        return self._store.instances_max

    def digest_of(self, name: tuple[str, str]) -> int:
        """Return the digest of the copy of a service, by its name at the other cluster; 0 for nothing."""
        here = self.settings.here(name[0])
        state = self._store.part(ForeignKey(self.settings.name, here, name[1]).text()) if here is not None else None
        return state.digest if state is not None else 0

    @property
    def is_disturbed(self) -> bool:
        """Return whether this owner took a state of another member since it compared (L8)."""
        return self._store.merges.get(self.settings.name, 0) != self._merges

    def begin_comparison(self) -> None:
        """Note that all states of the part are about to be compared."""
        self._merges = self._store.merges.get(self.settings.name, 0)

    def slices(self) -> int:
        """Return into how many comparisons the part is cut, by the known sizes of both sides."""
        return min(1 + max(self._services, len(self.held())) // SLICE_SERVICES, SLICES_MAX)

    def counted(self, answer: Mapping[str, Any]) -> None:
        """Note how many services the other side may have in the part.

        Raises:
            CodecError: the answer does not say it.
        """
        self._services = Fields(answer, FROM_MEMBER, " of a comparison").whole("services", None, 0, WALL_MS_END)

    # --- what is said -----------------------------------------------------------------------------

    def greeted(self, values: Mapping[str, Any], now_ms: int) -> None:
        """Take the greeting in an answer or line: who answers, and up to where.

        Raises:
            CodecError: a field is wrong, or the other side is this cluster itself (L1).
        """
        fields = Fields(values, FROM_MEMBER, " of a greeting")
        origin, member = fields.required("cluster", ORIGIN_CHARS_MAX), fields.required("member", ORIGIN_CHARS_MAX)
        if self.rules.refuses_own and origin == self._own_cluster():
            raise CodecError(
                f"it is the cluster {origin!r}, like this one: give each cluster a different rollcall.cluster.id"
            )
        if member != self.member:
            self._confirmed.clear()
        self.origin, self.member = origin, member
        self.up_ms = fields.whole("upMs", None, 0, WALL_MS_END)
        self.heard_ms = now_ms

    @property
    def _is_settled(self) -> bool:
        """Return whether the followed member has heard of all that lives, so that a lack means a removal (L4)."""
        return self.up_ms >= SETTLED_MS or not self.rules.keeps_unsettled

    def compared(self, answers: Collection[Mapping[str, Any]], asked: Held, now_ms: int) -> None:
        """Take the answers to all comparisons of the part, the first of which has the place in the log.

        ``asked``: what was held when it was asked. A state that another member sent in the meantime was not compared.

        Raises:
            CodecError: a greeting is wrong. A service that cannot be read is refused alone.
        """
        first = Fields(next(iter(answers)), FROM_MEMBER, " of a comparison")
        placed = Placed(first.required("run", ORIGIN_CHARS_MAX), first.whole("place", None, 0, WALL_MS_END))
        self.stats.compared += 1
        changed, gone = set[tuple[str, str]](), set[tuple[str, str]]()
        held = {name: one for name, one in self.held().items() if asked.get(name) == one}
        self.recheck_ms = None
        for answer in answers:
            self.greeted(answer, now_ms)
            fields = Fields(answer, FROM_MEMBER, " of a comparison")
            for values in fields.array("set"):
                if (name := self._take(values, now_ms)) is not None:
                    changed.add(name)
            listed = [one for one in fields.array("gone") if isinstance(one, list) and len(one) == 2]
            gone.update((str(namespace), str(full_name)) for namespace, full_name in listed)
        gone &= held.keys()
        self._lost(gone, held, now_ms)
        for name in held.keys() - gone - changed:
            key, state = held[name]
            self._confirmed[key] = state.digest
            self._refresh(key, state, now_ms)
        self.placed = placed
        self.heard(now_ms)

    def _lost(self, gone: set[tuple[str, str]], held: Held, now_ms: int) -> None:
        """Take that the other side has nothing of these services, or keep them for a while (L4, L5)."""
        is_doubted = self.rules.doubts_losses and len(gone) >= DOUBTED_MIN and 2 * len(gone) > len(held)
        if not is_doubted:
            self._doubted_ms = None
        elif self._doubted_ms is None:
            self._doubted_ms = now_ms
        is_doubted = is_doubted and self._doubted_ms is not None and now_ms - self._doubted_ms < SETTLED_MS
        for name in gone:
            key, state = held[name]
            kept = {**state.kept, **state.instances} if is_doubted else self._kept(key, state, ())
            if not kept:
                self._put(key, None)
                continue
            self.stats.kept += 1
            self._recheck(now_ms, SETTLED_MS if is_doubted else SETTLED_MS - self.up_ms)
            if state.instances:
                self._put(key, replace(state, digest=0, instances={}, kept=kept))

    def _kept(self, key: str, state: ForeignPart, present: Collection[str]) -> dict[str, Instance]:
        """Return the instances to keep of those that the followed member lacks: it never stated them (L4)."""
        if self._is_settled:
            return {}
        is_stated = state.run == self.member or self._confirmed.get(key) == state.digest
        lost = state.kept if is_stated else {**state.kept, **state.instances}
        return {one: it for one, it in lost.items() if one not in present}

    def _recheck(self, now_ms: int, after_ms: int) -> None:
        due_ms = now_ms + max(after_ms, 0) + 1
        self.recheck_ms = due_ms if self.recheck_ms is None else min(self.recheck_ms, due_ms)

    def line(self, values: Mapping[str, Any], now_ms: int) -> None:
        """Take a line of the stream.

        Raises:
            CodecError: a greeting is wrong. A service that cannot be read is refused alone.
        """
        if "service" in values:
            self._take(values, now_ms)
            return
        self.greeted(values, now_ms)
        if values.get("behind") is True or self.placed is None or values.get("run") != self.placed.run:
            self.placed = None
            return
        place = Fields(values, FROM_MEMBER, " of a greeting").whole("place", None, 0, WALL_MS_END)
        self.placed = Placed(self.placed.run, place)
        self.heard(now_ms)

    def _take(self, values: object, now_ms: int) -> tuple[str, str] | None:
        """Take the state of one service, whole or as a delta. Return its name at the other cluster."""
        try:
            return self._take_service(values, now_ms)
        except CodecError as error:
            self.stats.refused += 1
            self.refusal = str(error)
            return None

    def _take_service(self, values: object, now_ms: int) -> tuple[str, str] | None:
        if not isinstance(values, dict):
            raise CodecError("a change is not an object")
        fields = Fields(values, FROM_MEMBER, " of a change")
        name = fields.required("ns"), fields.required("service")
        digest = parse_digest(values.get("digest"), "digest")
        here = self.settings.here(name[0])
        if here is None:
            return None
        self._check_name(here, name)
        key = ForeignKey(self.settings.name, here, name[1]).text()
        state = self._store.part(key)
        instances = decode_all(values.get("instances"), here, name[1], INSTANCES_MAX)
        if values.get("base") is not None:
            base = parse_digest(values.get("base"), "base")
            held = state.digest if state is not None else 0
            if held == digest:
                return name
            if self.rules.checks_bases and held != base:
                self.placed = None  # a change before this one is missing (L3)
                return name
            gone = set(map(str, fields.array("gone")))
            kept = {one: it for one, it in (state.instances if state else {}).items() if one not in gone}
            instances = kept | instances
        self._store_state(key, state, digest, instances, now_ms)
        return name

    def _check_name(self, namespace: str, name: tuple[str, str]) -> None:
        """Check that a service is of this link and part (L7).

        Raises:
            CodecError: it is not, or its name cannot be stored.
        """
        if self.rules.checks_parts and (self.part is None or not self.part.takes(*name)):
            raise CodecError(f"{name[1][:200]!r} in {name[0][:200]!r} was not requested")
        try:
            check_names(name[1], DEFAULT_CLUSTER, namespace)
            check_service_format(name[1])
        except InvalidParam as error:
            raise CodecError(error.text) from error

    def _store_state(
        self, key: str, state: ForeignPart | None, digest: int, instances: Mapping[str, Instance], now_ms: int
    ) -> None:
        kept = self._kept(key, state, instances) if state is not None else {}
        if kept:
            self._recheck(now_ms, SETTLED_MS - self.up_ms)
        self._confirmed[key] = digest
        if not instances and not kept:
            self._put(key, None)
            return
        part = ForeignPart(
            self.settings.name, self.origin, self.member, digest, instances, kept, self._rule, self._stale_ms(), now_ms
        )
        self._put(key, part)

    def _stale_ms(self) -> int | None:
        return self.heard_ms if self.stale and self.rules.marks_stale else None

    def _put(self, key: str, state: ForeignPart | None) -> None:
        if self._store.put(key, state):
            self.stats.changes += 1
        else:
            self.stats.refused += 1
            self.refusal = f"{key}: all links together bring more than {self._store.instances_max} instances"

    def _refresh(self, key: str, state: ForeignPart, now_ms: int) -> None:
        """Refresh unchanged copies: the origin is heard again, or the link has another rule."""
        kept = {} if self._is_settled else state.kept
        if kept:
            self._recheck(now_ms, SETTLED_MS - self.up_ms)
        stale_ms = self._stale_ms()
        fresh = replace(state, origin=self.origin, kept=kept, rule=self._rule, stale_ms=stale_ms, stated_ms=now_ms)
        if fresh != state or fresh.stale_ms != state.stale_ms:
            self._put(key, fresh)
        else:
            self._store.confirm(key, now_ms)

    # --- silence ----------------------------------------------------------------------------------

    def heard(self, now_ms: int) -> None:
        """Note that the other side follows on: nothing is stale any more (L2)."""
        self.heard_ms, self.error, self.stale = now_ms, "", False
        if not self._may_hold_stale:
            return
        self._may_hold_stale = False
        for key, state in self._store.parts(self.settings.name):
            if state.stale_ms is not None and self._owns(key):
                self._put(key, replace(state, stale_ms=None))

    def _owns(self, key: str) -> bool:
        parsed = parse_foreign_key(key)
        return parsed is not None and self.part is not None and self.part.has(parsed.full_name)

    def silent(self, now_ms: int) -> None:
        """Mark what is held as stale (L2), and remove what was silent for too long (L6)."""
        self.stale = self._may_hold_stale = True
        retain_ms = self.settings.retain_ms
        for key, state in self._store.parts(self.settings.name):
            if not self._owns(key):
                continue
            if state.stale_ms is None:
                if self.rules.marks_stale:
                    self._put(key, replace(state, stale_ms=self.heard_ms))
            elif retain_ms and now_ms - state.stale_ms >= retain_ms and (parsed := parse_foreign_key(key)):
                if self.rules.keeps_last and self._would_be_empty(parsed.namespace, parsed.full_name, parsed.link):
                    continue
                self._put(key, None)
                self.stats.retired += 1

    def body(self, held: Held, slice_number: int, slices: int) -> dict[str, object]:
        """Return the body of a comparison: the digests of the copies, by names at the other cluster."""
        part = self.part
        assert part is not None
        chosen = [(one, it) for one, (_, it) in held.items() if part.slice_of(one[1], slices) == slice_number]
        return {"held": [[*one, digest_text(0 if self.again.has(one) else state.digest)] for one, state in chosen]}

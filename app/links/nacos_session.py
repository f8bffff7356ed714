"""The work of a link over one connection to a Nacos: what is registered there comes here, and local instances go there.

Used by the thread of the link.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from app.links.feed_lines import FollowedPart
from app.links.follower import LinkFollower
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_out import LocalRegistrations
from app.links.nacos_side import NacosSide
from app.links.nacos_values import NacosList, ServiceName, read_list
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER, group_of
from distro.model.errors import CodecError

CHECK_MS = 1_000
LIST_MS = 2_000
"""How often the names of services are asked for."""
LIST_SHARE, LIST_MAX_MS = 4, 8_000
"""Names are not asked for again before so many times the time that the last list of them took, or this time."""
ASK_AGAIN_MS = 300_000
"""Each list is asked for at least so often: what any fault left different is found."""
STEP_SERVICES = 50
"""Services that one step asks for, or registers."""
WAIT_S = 0.2
NAMES_MAX = 200_000
"""Services that one link may watch: as many as all links may bring instances, by default."""


class Watched(NamedTuple):
    """A service that is watched, as it was last."""

    instances: int
    """Instances that were registered at the Nacos itself."""
    stated_ms: int
    """When the server made the list, by its clock."""


class NacosSession:
    """Follows one server until it fails. ``step`` does a bit, and waits a while when there is nothing to do."""

    def __init__(
        self,
        follower: LinkFollower,
        side: NacosSide,
        outgoing: LocalRegistrations | None,
        now_ms: Callable[[], int],
    ) -> None:
        """``outgoing``: what the link registers there; None for a link that sends nothing."""
        self._follower, self._side, self._outgoing, self._now_ms = follower, side, outgoing, now_ms
        self._settings = follower.settings
        self._begun_ms = now_ms()
        self._watched: dict[ServiceName, Watched] = {}
        self._instances = 0
        """Instances of all services that are watched."""
        self._asks: dict[ServiceName, None] = {}
        self._is_listed = self._has_lost = self._has_sent = False
        self._spaces: Collection[str] = ()
        self._spaces_ms = self._begun_ms
        self._list_ms = self._check_ms = self._begun_ms
        self._again_ms = self._begun_ms + ASK_AGAIN_MS
        self._changes = self._bytes = 0
        self._place: tuple[int, int] | None = None

    # --- steps ------------------------------------------------------------------------------------

    def follow(self, place: tuple[int, int] | None) -> None:
        """Follow, and carry, the services that this member owns now; None: continue until it owns some again."""
        if place == self._place:
            return
        if self._place is None:  # another member may have changed what is stored
            self._again_ms = self._now_ms()
        self._place = place
        if place is None:
            return
        others = [one for one in self._watched if not self._follows(one)]
        self._follower.follow(FollowedPart(*place, self._settings.chosen))
        # What this member only registered until now came, but was not stored here.
        self._asks.update(dict.fromkeys(one for one in others if self._follows(one)))
        self._is_listed, self._list_ms = False, self._now_ms()
        if self._outgoing is not None:
            number, count = place
            twice = self._side.carries_twice and count > 1
            numbers = (number, (number - 1) % count) if twice else (number,)
            self._outgoing.carry(tuple(FollowedPart(one, count) for one in numbers), self._now_ms())

    @property
    def is_settled(self) -> bool:
        """Return whether all that this member carries is registered over this connection."""
        return self._has_sent and not (self._outgoing is not None and self._outgoing.is_busy)

    def step(self) -> tuple[int, int]:
        """Do all due work. Return how many changes came, and their bytes.

        Raises:
            NacosMoved: the server asks to connect to another one.
            LinkError: the server does not answer.
            CodecError: the link leads to this cluster itself.
        """
        self._changes = self._bytes = 0
        now_ms = self._now_ms()
        if now_ms >= self._check_ms:
            self._check_ms = now_ms + CHECK_MS
            self._side.check()
            self._heard()
        if self._settings.follows and now_ms >= self._list_ms and not self._asks:
            self._list()
            after_ms = min(LIST_SHARE * (self._now_ms() - now_ms), LIST_MAX_MS)
            self._list_ms = max(self._list_ms, self._now_ms() + after_ms)
        is_disturbed = self._follower.is_disturbed and not self._asks
        if self._settings.follows and (self._follower.again.is_due or is_disturbed):
            self._follower.begin_comparison()
            self._follower.again.begin()
            self._again_ms, self._has_lost = now_ms, True
        if now_ms >= self._again_ms:
            self._again_ms = now_ms + ASK_AGAIN_MS
            self._asks.update(dict.fromkeys(self._watched))
        self._ask_some()
        if self._settings.follows and self._is_listed and not self._asks and self._is_comparison_due():
            self._compare()
        self._send_some()
        self._has_sent = True
        is_busy = self._asks or (self._outgoing is not None and self._outgoing.is_busy)
        for pushed in self._side.take(0.0 if is_busy else WAIT_S):
            self._bytes += pushed.size
            if pushed.info is None:
                self._asks[pushed.name] = None
            else:
                self._take(pushed.name, pushed.info)
        if self._side.names_changed():
            self._list_ms = self._now_ms()
        return self._changes, self._bytes

    def _greeting(self) -> dict[str, Any]:
        """Return what the other side would say of itself if it were a Rollcall cluster.

        A Nacos does not tell how long its server runs. It may have been restarted before this connection, and never
        after: the time of the connection stands for it (L4).
        """
        fields = {"cluster": f"nacos:{self._settings.name}", "member": self._side.id, "run": self._side.id}
        return fields | {"place": 0, "upMs": self._now_ms() - self._begun_ms}

    def _heard(self) -> None:
        now_ms = self._now_ms()
        self._follower.greeted(self._greeting(), now_ms)
        if self._follower.placed is not None or not self._settings.follows:
            self._follower.heard(now_ms)

    # --- what comes -------------------------------------------------------------------------------

    def _list(self) -> None:
        """Ask for the names of services; watch new ones, and leave those that are gone."""
        self._list_ms = self._now_ms() + LIST_MS
        part, chosen, watched = self._follower.part, self._settings.chosen, self._watched
        if part is None:
            return
        known = {*self._follower.held(), *watched}
        spaces = {DEFAULT_NAMESPACE, *chosen.exact_namespaces, *(one[0] for one in known)}
        groups = {DEFAULT_GROUP, *chosen.exact_groups, *(group_of(one[1]) for one in known)}
        if chosen.has_patterns and self._now_ms() >= self._spaces_ms:
            self._spaces, self._spaces_ms = self._side.namespaces(), self._now_ms() + LIST_MS
        spaces.update(self._spaces)
        names = set[ServiceName]()
        for namespace in sorted(spaces):
            if not chosen.takes_namespace(namespace) or self._settings.here(namespace) is None:
                continue
            self._follower.heard_ms = self._now_ms()
            found = self._names(namespace, groups)
            if found is None:  # the server still tells them
                self._list_ms = self._now_ms()
                return
            named = ((namespace, one) for one in found)
            names.update(one for one in named if one in watched or part.takes(*one))
        if len(names) > NAMES_MAX:
            raise LinkError(f"{self._side.server} has {len(names)} services for this link, more than {NAMES_MAX}")
        self._is_listed = True
        self._asks.update(dict.fromkeys(names - watched.keys()))
        for name in watched.keys() - names:
            self._unlisted(name)
        self._leave_unneeded(list(watched))

    def _names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        """Return the names of a namespace's services. If the user of the link may not list them, those that are known.

        Known are those that are watched, and those that the settings name.
        """
        try:
            return self._side.names(namespace, groups)
        except LinkRefused as error:
            self._follower.refusal = str(error)
            known = {full_name for space, full_name in self._watched if space == namespace}
            services = self._settings.chosen.exact_services
            return known | {f"{group}{GROUP_SPLITTER}{one}" for group in groups for one in services}

    def _unlisted(self, name: ServiceName) -> None:
        """Take that the server has no such service any more; watch it no longer, unless local instances go there.

        Its instances go by a comparison, which doubts the loss of most at once (L5).
        """
        if self._follows(name) and self._watched[name].instances:
            self._has_lost = True
        if self._outgoing is not None and self._outgoing.has_local(name):
            self._instances -= self._watched[name].instances
            self._watched[name] = Watched(0, self._watched[name].stated_ms)
            self._outgoing.taken(name, frozenset())
        else:
            self._leave(name)

    def _leave_unneeded(self, names: Iterable[ServiceName]) -> None:
        """Watch no longer what this member neither brings here nor registers there."""
        for name in names:
            if name not in self._watched or self._follows(name):
                continue
            if self._outgoing is None or not self._outgoing.has_local(name):
                self._leave(name)

    def _leave(self, name: ServiceName) -> None:
        if self._outgoing is not None:
            self._outgoing.left(name)
        self._instances -= self._watched.pop(name).instances
        self._side.leave(name)

    def _ask_some(self) -> None:
        names = list(islice(self._asks, STEP_SERVICES))
        for name in names:
            del self._asks[name]
        self._ask(names)

    def _ask(self, names: Sequence[ServiceName]) -> None:
        for name, info in zip(names, self._side.watch(names) if names else (), strict=True):
            if isinstance(info, LinkRefused):
                self._refuse(str(info))
            else:
                self._take(name, info)
            self._watched.setdefault(name, Watched(0, 0))

    def _take(self, name: ServiceName, info: dict[str, Any]) -> None:
        """Take the list of a service, unless a later one came before."""
        stated_ms = info.get("lastRefTime")
        stated_ms = stated_ms if type(stated_ms) is int else 0
        before = self._watched.get(name)
        if before is not None and stated_ms < before.stated_ms:
            return
        try:
            listed = read_list(info.get("hosts"))
        except CodecError as error:
            self._refuse(f"{name[1]} in {name[0]}: {error}")
            return
        count = self._instances + len(listed.rows) - (before.instances if before is not None else 0)
        if count > self._follower.instances_max:
            self._refuse(f"{name[1]} in {name[0]}: the link would watch {count} instances")
            return
        self._instances = count
        self._watched[name] = Watched(len(listed.rows), stated_ms)
        if self._outgoing is not None:
            self._outgoing.taken(name, listed.addresses)
        if self._follows(name):
            self._store(name, listed)

    def _follows(self, name: ServiceName) -> bool:
        """Return whether this member brings the service here."""
        part = self._follower.part
        return self._settings.follows and part is not None and part.takes(*name)

    def _store(self, name: ServiceName, listed: NacosList) -> None:
        if self._follower.digest_of(name) != listed.digest or self._follower.again.has(name):
            self._changes += 1
            self._follower.line(listed.change(name), self._now_ms())

    def _refuse(self, why: str) -> None:
        self._follower.stats.refused += 1
        self._follower.refusal = why

    def _is_comparison_due(self) -> bool:
        follower = self._follower
        return (
            self._has_lost
            or follower.placed is None
            or (follower.recheck_ms is not None and self._now_ms() >= follower.recheck_ms)
        )

    def _compare(self) -> None:
        """Compare the copies with the watched services, once all were asked for."""
        self._has_lost, watched = False, self._watched
        held = self._follower.held()
        gone = [[*name] for name in held if name not in watched or not watched[name].instances]
        self._follower.compared([self._greeting() | {"set": [], "gone": gone}], held, self._now_ms())
        self._follower.again.fetched()

    # --- what goes --------------------------------------------------------------------------------

    def _send_some(self) -> None:
        outgoing = self._outgoing
        if outgoing is None:
            return
        names = outgoing.due(self._now_ms(), STEP_SERVICES)
        self._ask([name for name in names if name not in self._watched and outgoing.has_local(name)])
        changes = [one for name in names if (one := outgoing.change(name)) is not None]
        for change, refusal in zip(changes, self._side.register(changes) if changes else (), strict=True):
            if refusal is not None:
                self._refuse(str(refusal))
                outgoing.refused(change.name, self._now_ms())
                continue
            outgoing.registered(change.name, change.rows)
            self._changes += 1
        self._leave_unneeded(names)

"""The links of a node: one thread for each link. Settings are read again when the file or a call changes."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.config.link_fields import ROLLCALL
from app.config.link_settings import NOT_CALLED, Called, LinkSettings, LinkSource
from app.config.settings_keys import SettingError
from app.links.feed import Feed
from app.links.feed_lines import FeedLines, FollowedPart, Greeting, takes_of
from app.links.follower import LinkFollower, LinkRules
from app.links.link_steps import LinkSteps
from app.links.link_thread import LinkThread
from app.links.nacos_thread import NacosThread
from app.naming.model.foreign import ForeignPart
from app.naming.model.nacos_errors import InvalidParam, NotFound
from app.naming.registry.foreign_table import ForeignTable
from app.replication.foreign_type import ForeignStore, parse_foreign_key
from distro.model.ports import Clock

LOG = logging.getLogger(__name__)
TICK_MS = 1_000
UNKNOWN_KEPT_MS = 60_000
"""How long what a link brought that is not set here stays: other members may already have its settings."""
DROPPED_MAX = 500
"""Services that one tick removes at most."""
END_S = 5.0


class RunningLink(Protocol):
    """A link that takes its steps until it is ended; see ``LinkThread``."""

    @property
    def follower(self) -> LinkFollower: ...

    @property
    def steps(self) -> LinkSteps: ...

    @property
    def server(self) -> str: ...

    def start(self) -> None: ...

    def end(self, *, withdraws: bool = False) -> None: ...

    def join(self, timeout_s: float, /) -> bool: ...

    def check(self) -> None: ...


class CalledLinks(Protocol):
    """The fields of links that calls set."""

    links: Called
    """Another object after each change."""


@dataclass(frozen=True, slots=True)
class LinkKinds:
    """The kinds of the parts of links. The simulation gives others: links in virtual time, or without a rule."""

    thread: Callable[..., RunningLink] = LinkThread
    feed: Callable[..., Feed] = Feed
    rules: LinkRules = field(default_factory=LinkRules)
    store: Callable[..., ForeignStore] = ForeignStore
    nacos: Callable[..., RunningLink] = NacosThread


LINKS = LinkKinds()


class NodeLinks:
    """The followers of other clusters, and the feed for those that follow this one. Thread-safe."""

    def __init__(
        self,
        source: LinkSource,
        feed: Feed,
        store: ForeignStore,
        table: ForeignTable,
        clock: Clock,
        own_cluster: Callable[[], str],
        run: str,
        part: Callable[[], tuple[int, int] | None],
        calls: CalledLinks,
        kinds: LinkKinds = LINKS,
    ) -> None:
        """``run``: this run of this node. ``part``: which of how many parts of all services it owns; None for none.

        ``calls``: has the fields that calls set, without a call: each tick reads them.
        """
        self.feed, self._kinds = feed, kinds
        self._source, self._store, self._table, self._clock = source, store, table, clock
        self._own_cluster, self._run, self._part = own_cluster, run, part
        self._begun_ms = clock.monotonic_ms()
        self._calls, self._read_called = calls, NOT_CALLED
        self._stamp: tuple[int, ...] | None = None
        self._is_read = self._is_stopped = False
        self._threads: dict[str, RunningLink] = {}
        self._ending: list[RunningLink] = []
        self._unknown_ms: dict[str, int] = {}
        self.error = ""
        """Why the settings that are in the file now, or in calls, are not followed."""

    # --- for those that follow this cluster -------------------------------------------------------

    def greeting(self) -> Greeting:
        """Return what this member says of itself."""
        return Greeting(self._own_cluster(), self._run, self._clock.monotonic_ms() - self._begun_ms)

    def lines(self, part: FollowedPart, may_read: Callable[[str, str], bool], run: str, place: int) -> FeedLines:
        """Return the lines for one follower."""
        self.feed.begin()
        return FeedLines(self.feed, takes_of(part, may_read), run, place, self.greeting)

    # --- the links here ---------------------------------------------------------------------------

    def tick(self, now_ms: int) -> int:
        """Follow the settings, and end what is over. For a timer. Return when to be called again."""
        if self._is_stopped:
            return now_ms + TICK_MS
        if not self._is_read or self._calls.links is not self._read_called or self._source.stamp() != self._stamp:
            self._read()
        for one in self._threads.values():
            one.check()
        self._ending = [one for one in self._ending if not one.join(0)]
        if self._store.instances:
            self._drop_unknown(now_ms)
        return now_ms + TICK_MS

    def _read(self) -> None:
        self._stamp, self._read_called, self._is_read = self._source.stamp(), self._calls.links, True
        try:
            found, refused = self._source.read_with(self._read_called)
        except SettingError as error:
            self.error = str(error)
            LOG.error("the links stay as they are: %s", error)
            return
        self.error = "; ".join(refused.values())
        for name, why in refused.items():
            LOG.error("link %s stays as it is: %s", name, why)
        links = {one.name: one for one in found}
        for name, thread in list(self._threads.items()):
            if name not in refused and links.get(name) != thread.follower.settings:
                thread.end(withdraws=True)
                self._ending.append(self._threads.pop(name))
        for name, settings in links.items():
            if (settings.follows or settings.sends) and name not in self._threads:
                self._threads[name] = self._begun(settings)

    def _begun(self, settings: LinkSettings) -> RunningLink:
        now_ms = self._clock.monotonic_ms
        kinds, is_last = self._kinds, self._table.would_be_empty
        follower = LinkFollower(settings, self._own_cluster, self._store, is_last, now_ms(), kinds.rules)
        thread: RunningLink = (
            kinds.thread(follower, self._part, now_ms)
            if settings.kind == ROLLCALL
            else kinds.nacos(follower, self._part, now_ms, self.feed, self._own_cluster)
        )
        thread.start()
        LOG.info("link %s connects to %s", settings.name, ", ".join(settings.servers))
        return thread

    def _drop_unknown(self, now_ms: int) -> None:
        """Remove what links brought that are not set here any more, of the services that this member owns."""
        dropped, bringing = 0, {one for one, thread in self._threads.items() if thread.follower.settings.follows}
        for key, _ in self._store.parts():
            parsed = parse_foreign_key(key)
            if parsed is None or parsed.link in bringing:
                continue
            since_ms = self._unknown_ms.setdefault(parsed.link, now_ms)
            if now_ms - since_ms >= UNKNOWN_KEPT_MS and self._owns(parsed.full_name) and dropped < DROPPED_MAX:
                self._store.put(key, None)
                dropped += 1
        for name in self._unknown_ms.keys() & bringing:
            del self._unknown_ms[name]

    def _owns(self, full_name: str) -> bool:
        place = self._part()
        return place is not None and FollowedPart(*place).has(full_name)

    def stop(self) -> bool:
        """End all threads. Return whether they ended. May be called twice."""
        self._is_stopped = True
        threads = [*self._threads.values(), *self._ending]
        for one in threads:
            one.end()
        return not [one for one in threads if not one.join(END_S)]

    def fetch_again(self, name: str, services: Collection[tuple[str, str]]) -> int:
        """Have a link compare all that this member follows, and fetch these services whole, even if they are held.

        ``services``: namespaces here and full names. Return 0; or how many ms to wait, as it was asked just before.

        Raises:
            NotFound: there is no such link.
            InvalidParam: the link brings no instances.
        """
        if (thread := self._threads.get(name)) is None:
            raise NotFound(f"there is no link {name!r}; the links: {', '.join(sorted(self._threads)) or 'none'}")
        follower = thread.follower
        if not follower.settings.follows:
            raise InvalidParam(f"link {name} brings no instances: its direction is {follower.settings.direction}")
        names = [(follower.settings.there(namespace), full_name) for namespace, full_name in services]
        return follower.again.ask(names, self._clock.monotonic_ms())

    # --- what is known ----------------------------------------------------------------------------

    def called(self) -> Called:
        """Return the fields of links that calls set."""
        return self._calls.links

    def states(self) -> list[dict[str, Any]]:
        """Return each link as this member has it, by name. Shape: docs/links.md."""
        now_ms = self._clock.monotonic_ms()
        return [_state(one, self._store, now_ms) for _, one in sorted(self._threads.items())]

    def carried(self) -> list[dict[str, Any]]:
        """Return what each link is to bring, by name. Shape: docs/audit.md."""
        now_ms = self._clock.monotonic_ms()
        return [
            {
                "name": name,
                "cluster": one.follower.origin,
                "namespaces": list(one.follower.settings.chosen.namespaces),
                "groups": list(one.follower.settings.chosen.groups),
                "services": list(one.follower.settings.chosen.services),
                "namespace_map": dict(one.follower.settings.namespace_map),
                "heard_ago_ms": now_ms - one.follower.heard_ms,
                "servers": list(one.follower.settings.servers),
            }
            for name, one in sorted(self._threads.items())
        ]

    def brought(self) -> tuple[list[tuple[str, str, ForeignPart]], int]:
        """Return what links brought, as namespace, full name and state of each service and link; and the time of now.

        The time is that of the clock that measures the ages of the states, in ms.
        """
        parsed = [(parse_foreign_key(key), part) for key, part in self._store.parts()]
        return [(key.namespace, key.full_name, part) for key, part in parsed if key], self._clock.monotonic_ms()

    def counters(self) -> dict[str, int]:
        """Return the counts of all links, and of the feed."""
        followers = [one.follower for one in self._threads.values()]
        return {
            "links": len(followers),
            "links_silent": sum(one.stale for one in followers),
            "link_changes": sum(one.stats.changes for one in followers),
            "link_refused": sum(one.stats.refused for one in followers) + self._store.refused,
            "link_compared": sum(one.stats.compared for one in followers),
            "link_kept": sum(one.stats.kept for one in followers),
            "link_retired": sum(one.stats.retired for one in followers),
            "link_bytes": sum(one.steps.bytes for one in self._threads.values()),
            "link_connections": sum(one.steps.connections for one in self._threads.values()),
            "foreign_instances": self._store.instances,
            "link_sent_instances": sum(one.steps.sent_instances for one in self._threads.values()),
            "feed_followers": self.feed.followers,
            "feed_changes": self.feed.stats.feed_changes,
            "feed_compared": self.feed.stats.feed_compared,
            "feed_behind": self.feed.stats.feed_behind,
        }


def _state(thread: RunningLink, store: ForeignStore, now_ms: int) -> dict[str, Any]:
    follower = thread.follower
    settings, stats = follower.settings, follower.stats
    parts = [part for _, part in store.parts(settings.name)]
    part = follower.part
    return {
        "name": settings.name,
        "kind": settings.kind,
        "direction": settings.direction,
        "arrival": settings.arrival,
        "servers": list(settings.servers),
        "server": thread.server,
        "cluster": follower.origin,
        "part": f"{part.part + 1}/{part.of}" if part is not None else "",
        "silent": follower.stale,
        "heardAgoMs": now_ms - follower.heard_ms,
        "services": len(parts),
        "instances": sum(len(one.shown) for one in parts),
        "staleInstances": sum(len(one.shown) for one in parts if one.stale_ms is not None),
        "sentServices": thread.steps.sent_services,
        "sentInstances": thread.steps.sent_instances,
        "changes": stats.changes,
        "compared": stats.compared,
        "refused": stats.refused,
        "kept": stats.kept,
        "bytes": thread.steps.bytes,
        "connections": thread.steps.connections,
        "error": follower.error,
        "refusal": follower.refusal,
    }

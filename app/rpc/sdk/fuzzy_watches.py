"""The fuzzy watches of gRPC clients: the existing services, and the messages that each client still has to get.

Pure: names and time come in, messages that are due go out. A message carries names; whether a service is there is read
when the message is made, so late, merged and repeated messages are true.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile

from app.naming.clients.client_model import ServiceKey
from app.naming.limits.admission import PREFIX
from app.naming.model.nacos_errors import NacosError, Unavailable
from app.rpc.sdk.fuzzy_state import (
    BATCH_NAMES,
    FuzzyStats,
    Sent,
    ServiceNames,
    WatchedNamespace,
    WatchedPattern,
    WatchingClient,
)
from app.rpc.server.fuzzy_pattern import FuzzyPattern

ACK_MS = 5_000
RETRY_MS = 1_000
"""The time until the next try after a refusal or a missing acknowledgement. Source of both: Nacos 3.0.3 PushConfig."""
SENDS_MAX = 5
"""The most sends of one message. Clients ask for the difference every three minutes, which repairs what was given up.

Source of the three minutes: Nacos 3.0.3 NamingFuzzyWatchServiceListHolder. Its server repeats for ever.
"""
WINDOW = 32
"""The most changes that one client has not acknowledged: half of the messages that may wait for it."""
CHANGES_MAX = 10_000
"""The most changed services that wait for one client; further ones are dropped, until it asks for the difference."""
QUEUED_MAX = 1_000_000
"""The most names that wait for all clients."""


class PatternsOverLimit(NacosError):
    """There are as many patterns as there may be, at this node or of this client."""


class FuzzyWatches:
    """The watches by client and pattern. Used on the loop's thread; ``namespaces`` may be asked from any thread."""

    def __init__(self, patterns_max: int, patterns_per_client_max: int, matches_max: int) -> None:
        """``matches_max``: the services of one pattern that a client may be shown; 0 means unlimited."""
        self._patterns_max = patterns_max
        self._patterns_per_client_max = patterns_per_client_max
        self._matches_max = matches_max
        self.namespaces: dict[str, WatchedNamespace] = {}
        """The namespaces that are watched, by name."""
        self._watchers: dict[str, WatchingClient] = {}
        self._ready: dict[WatchingClient, None] = {}
        """The clients that may be sent something now, in turn."""
        self._held: dict[WatchingClient, int] = {}
        """The clients that are sent nothing until a time, in its order."""
        self._waiting: dict[Sent, None] = {}
        """The messages without acknowledgement, in the order of ``due_ms``."""
        self.pattern_count = 0
        self.queued = 0
        """The names that wait for all clients."""
        self.stats = FuzzyStats()

    def watch_count(self) -> int:
        """Return the number of watches: one for each pattern of each client. Callable from any thread."""
        return sum([len(one.patterns) for one in list(self._watchers.values())])

    # --- watches ---------------------------------------------------------------------------------

    def watch(self, client_id: str, pattern: FuzzyPattern) -> tuple[WatchedNamespace, WatchedPattern]:
        """Send a client the services of a pattern that come or go from now on.

        Raises:
            PatternsOverLimit: there are too many patterns.
        """
        watcher = self._watchers.get(client_id) or WatchingClient(client_id)
        if (known := watcher.patterns.get(pattern.text)) is not None:
            return known
        if 0 < (allowed := self._patterns_per_client_max) <= len(watcher.patterns):
            raise self._over(f"fuzzyPatternsPerConnection={allowed}: the client has reached it")
        namespace = self.namespaces.get(pattern.namespace) or WatchedNamespace(pattern.namespace)
        watched = namespace.patterns.get(pattern.text)
        if watched is None:
            if 0 < (allowed := self._patterns_max) <= self.pattern_count:
                raise self._over(f"fuzzyPatterns={allowed}: the clients of this server have reached it")
            watched = namespace.patterns[pattern.text] = WatchedPattern(pattern)
            self.pattern_count += 1
        self.namespaces[pattern.namespace] = namespace
        self._watchers[client_id] = watcher
        watched.watchers[client_id] = watcher
        watcher.patterns[pattern.text] = namespace, watched
        return namespace, watched

    def _over(self, text: str) -> PatternsOverLimit:
        self.stats.patterns_over += 1
        return PatternsOverLimit(f"refused by {PREFIX}{text}")

    def cancel(self, client_id: str, text: str) -> None:
        """End a client's watch of a pattern, if there is one."""
        watcher = self._watchers.get(client_id)
        if watcher is not None and text in watcher.patterns:
            self._cancel(watcher, text)
            if not watcher.patterns:
                self.forget(client_id)

    def forget(self, client_id: str) -> None:
        """End all watches of a client that is gone."""
        if (watcher := self._watchers.pop(client_id, None)) is None:
            return
        for text in list(watcher.patterns):
            self._cancel(watcher, text)
        self.queued -= len(watcher.changed)
        for one in watcher.sent.values():
            self._waiting.pop(one, None)
        self._ready.pop(watcher, None)
        self._held.pop(watcher, None)

    def patterns_of(self, client_id: str) -> list[FuzzyPattern]:
        """Return the patterns that a client watches."""
        watcher = self._watchers.get(client_id)
        return [] if watcher is None else [watched.pattern for _, watched in watcher.patterns.values()]

    def texts_of(self, client_id: str) -> list[str]:
        """Return the texts of the patterns that a client watches. Callable from any thread."""
        watcher = self._watchers.get(client_id)
        return [] if watcher is None else list(watcher.patterns)

    def is_over(self, watched: WatchedPattern) -> bool:
        """Return whether more services match a pattern than a client may be shown."""
        return 0 < self._matches_max < watched.count

    def shown_max(self) -> int:
        """Return the services of a pattern that a client may be shown; 0 means unlimited."""
        return self._matches_max

    def _cancel(self, watcher: WatchingClient, text: str) -> None:
        namespace, watched = watcher.patterns.pop(text)
        self._drop_list(watcher, text)
        del watched.watchers[watcher.client_id]
        if not watched.watchers:
            del namespace.patterns[text]
            self.pattern_count -= 1
            if not namespace.patterns:
                del self.namespaces[namespace.name]

    # --- services --------------------------------------------------------------------------------

    def loaded(self, namespace: WatchedNamespace, names: set[str], is_there: Callable[[str], bool]) -> None:
        """Take the names of the services that a namespace had at some time since its first watch.

        ``is_there``: returns whether a service has an instance now, for those that changed in the meantime.
        """
        namespace.present = names
        early, namespace.early = namespace.early, {}
        for name in early:
            self.look((namespace.name, name), is_there(name))

    def look(self, key: ServiceKey, is_there: bool) -> None:
        """Have all watchers of a service told that it came or went, if it did. Takes time with the patterns."""
        namespace_name, name = key
        if (namespace := self.namespaces.get(namespace_name)) is None:
            return
        present = namespace.present
        if present is None:
            namespace.early[name] = None
            return
        if is_there == (name in present):
            return
        if is_there:
            present.add(name)
        else:
            present.discard(name)
        for one in namespace.patterns.values():
            if one.pattern.matches(name):
                one.moves += 1 if is_there else -1
                if is_there and self.is_over(one):
                    self.stats.dropped += len(one.watchers)
                    continue
                for watcher in one.watchers.values():
                    self._add_change(watcher, key)

    def _add_change(self, watcher: WatchingClient, key: ServiceKey) -> None:
        if key not in watcher.changed:
            if len(watcher.changed) >= CHANGES_MAX or self.queued >= QUEUED_MAX:
                self.stats.dropped += 1
                return
            self.queued += 1
            self._wake(watcher)
        watcher.changed[key] = 0

    def send_names(self, client_id: str, names: ServiceNames) -> None:
        """Send a client services of a pattern that it watches, in place of those of its last request.

        Raises:
            Unavailable: too many names wait for all clients.
        """
        watcher, text = self._watchers.get(client_id), names.pattern.text
        if watcher is None or text not in watcher.patterns:
            return  # it is gone, or has ended the watch
        self._drop_list(watcher, text)
        if names.is_over:
            return
        if self.queued + len(names.names) > QUEUED_MAX:
            raise Unavailable("too many services are being sent to watching clients, please try again later")
        watcher.lists[text] = names
        self.queued += len(names.names)
        self._wake(watcher)

    def _drop_list(self, watcher: WatchingClient, text: str) -> None:
        if (names := watcher.lists.pop(text, None)) is not None:
            self.queued -= len(names.names) - names.at

    # --- messages --------------------------------------------------------------------------------

    def ready(self) -> Iterator[WatchingClient]:
        """Take the clients that may be sent something, one by one; the caller sends the results of ``take``."""
        while self._ready:
            watcher = next(iter(self._ready))
            del self._ready[watcher]
            yield watcher

    @property
    def is_ready(self) -> bool:
        """True if ``ready`` has something to give."""
        return bool(self._ready)

    def take(self, watcher: WatchingClient) -> Sent | None:
        """Return the next message of a client, which the caller makes and has ``sent``; None if it has to wait."""
        if not watcher.list_sent and watcher.lists:
            names = next(iter(watcher.lists.values()))
            return Sent(watcher, None, names, names.sends)
        while watcher.changed and len(watcher.sent) - watcher.list_sent < WINDOW:
            key = next(iter(watcher.changed))
            sends = watcher.changed.pop(key)
            self.queued -= 1
            if any(ns.name == key[0] and one.pattern.matches(key[1]) for ns, one in watcher.patterns.values()):
                return Sent(watcher, key, None, sends)
        return None

    def is_there(self, key: ServiceKey) -> bool:
        """Return whether a service of a watched namespace has an instance."""
        namespace = self.namespaces.get(key[0])
        return namespace is not None and namespace.present is not None and key[1] in namespace.present

    def batch(self, names: ServiceNames) -> Sequence[tuple[str, bool]]:
        """Return the services of the next batch, each with whether it exists, without new ones that went again."""
        space, begin = names.pattern.namespace, names.at
        found = [(one, self.is_there((space, one))) for one in names.names[begin : begin + BATCH_NAMES]]
        return [one for index, one in enumerate(found, begin) if one[1] or index >= names.known_from]

    def sent(self, one: Sent, request_id: str, now_ms: int) -> None:
        """Wait for the acknowledgement of a message."""
        self.stats.sent += 1
        watcher = one.watcher
        if (former := watcher.sent.pop(request_id, None)) is not None:
            del self._waiting[former]
        one.request_id = request_id
        watcher.sent[request_id] = one
        watcher.list_sent |= one.batch is not None
        one.sends += 1
        one.due_ms = now_ms + ACK_MS
        self._waiting[one] = None

    def answered(self, client_id: str, request_id: str, went_well: bool, now_ms: int) -> bool:
        """Take a client's answer to a request; return False unless it acknowledges a message of a fuzzy watch."""
        watcher = self._watchers.get(client_id)
        one = None if watcher is None else watcher.sent.pop(request_id, None)
        if watcher is None or one is None:
            return False
        del self._waiting[one]
        if went_well:
            self.stats.acknowledged += 1
            self._settle(one)
            self._wake(watcher)
        else:
            self.stats.refused += 1
            self._try_again(one, now_ms)
        return True

    def hold(self, watcher: WatchingClient, now_ms: int) -> None:
        """Send a client nothing for ``RETRY_MS``."""
        self._ready.pop(watcher, None)
        self._held.pop(watcher, None)
        self._held[watcher] = now_ms + RETRY_MS

    def tick(self, now_ms: int) -> None:
        """Make ready the clients that may be sent something again."""
        for one in list(takewhile(lambda one: one.due_ms <= now_ms, self._waiting)):
            del self._waiting[one]
            del one.watcher.sent[one.request_id]
            self.stats.timed_out += 1
            self._try_again(one, now_ms)
        for watcher, _ in list(takewhile(lambda held: held[1] <= now_ms, self._held.items())):
            del self._held[watcher]
            self._wake(watcher)

    def next_due_ms(self) -> int | None:
        """Return when ``tick`` has something to do next; None for never."""
        times = [one.due_ms for one in islice(self._waiting, 1)]
        return min([*times, *islice(self._held.values(), 1)], default=None)

    # --- inside ----------------------------------------------------------------------------------

    def _wake(self, watcher: WatchingClient) -> None:
        if watcher not in self._held:
            self._ready[watcher] = None

    def _settle(self, one: Sent) -> None:
        """Continue with a list whose batch was acknowledged.

        The services of the batch that are gone are sent once more, as single changes: the Java client (3.0.3 and 3.1.1)
        leaves out removals in a list.
        """
        watcher, names = one.watcher, one.batch
        if names is None:
            return
        watcher.list_sent = False
        space, begin, text = names.pattern.namespace, names.at, names.pattern.text
        if watcher.lists.get(text) is not names:
            return
        if begin >= len(names.names):
            self._drop_list(watcher, text)
            return
        names.at, names.sends = min(begin + BATCH_NAMES, len(names.names)), 0
        self.queued -= names.at - begin
        for name in names.names[max(begin, names.known_from) : names.at]:
            if not self.is_there((space, name)):
                self._add_change(watcher, (space, name))
        if names.is_over:
            self._drop_list(watcher, text)

    def _try_again(self, one: Sent, now_ms: int) -> None:
        """Repeat a message that was not acknowledged after a while, or give it up."""
        watcher, names, is_last = one.watcher, one.batch, one.sends >= SENDS_MAX
        if names is not None:
            watcher.list_sent = False
            names.sends = one.sends
            is_last = is_last and watcher.lists.get(names.pattern.text) is names
            if is_last:
                self._drop_list(watcher, names.pattern.text)
        elif one.key is not None and not is_last and one.key not in watcher.changed:
            watcher.changed[one.key] = one.sends
            self.queued += 1
        self.stats.given_up += is_last
        self.hold(watcher, now_ms)

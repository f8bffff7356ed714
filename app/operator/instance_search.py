"""Finds instances, in all namespaces, by address, by metadata or by state.

A search walks all services. Of 100,000 instances in 10,000 services it takes 4 to 8 ms of a thread, if it finds the
texts of all services, and 50 ms more if it makes them. An index would cost each write, and memory for each instance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, groupby
from threading import BoundedSemaphore
from typing import Protocol

import orjson

from app.naming.model.ip_addresses import is_same_ip, is_usual_ipv4, plain_ip, read_ip
from app.naming.model.keys import PORT_DIGITS_MAX, PORT_MAX, Metadata
from app.naming.model.model import Instance, Service, ServiceView
from app.naming.model.nacos_errors import TooManyRequests
from app.naming.registry.service_counts import unhealthy_of
from app.naming.registry.union import is_unhealthy, view_of
from app.naming.service import NamingService
from app.operator.search_texts import SearchTexts, lower_json, metadata_of, texts_of
from distro.timing.sliced import rest

FOUND_MAX = 10_000
"""A search ends with so many instances: no reader wants more, and a text of one letter finds them all."""
SERVICES_SHOWN = 20
PART_INSTANCES = 500
"""Instances that are looked through in one step, which holds the interpreter for half a millisecond."""
REST_INSTANCES = 10_000
"""Instances between two pauses: some five milliseconds of work."""
SKIPPED = 2
"""As many instances take as long as a service of which only the name, or only the texts, are looked at."""
SEARCHES_MAX = 2
"""Searches under way at a time: each computes on a thread of the HTTP frontend."""
WAIT_S = 1.0


class InstanceState(StrEnum):
    """The states that a search can ask for."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    """Unhealthy, though no operator took it out of service."""
    DISABLED = "disabled"

    def has(self, one: Instance) -> bool:
        """Return whether an instance is in this state."""
        match self:
            case InstanceState.HEALTHY:
                return one.healthy and one.enabled
            case InstanceState.UNHEALTHY:
                return is_unhealthy(one)
            case InstanceState.DISABLED:
                return not one.enabled


class Source(StrEnum):
    """The ways in which an instance came, and lives on."""

    HTTP = "HTTP"
    GRPC = "gRPC"
    PERSISTENT = "persistent"


def source_of(service: Service | None, one: Instance) -> Source:
    """Return how an instance of a service came. An address that came over HTTP, too, counts as such."""
    if not one.ephemeral:
        return Source.PERSISTENT
    published = service.published if service is not None else None
    if service is None or not published or one.key in service.stored:
        return Source.HTTP
    return Source.GRPC if any(one.key in each.instances for each in list(published.values())) else Source.HTTP


class Matcher(Protocol):
    """The condition that a text sets."""

    def matching(self, part: Sequence[Instance]) -> list[Instance]:
        """Return those of ``part`` that fulfil the condition."""
        ...

    def may_be_in(self, texts: SearchTexts) -> bool:
        """Return whether an instance of a service with these texts may fulfil it."""
        ...


@dataclass(frozen=True, slots=True)
class AddressMatch:
    """An IP address in any spelling, with a port or any port."""

    ip: str
    """In its canonical spelling."""
    port: int | None

    def matching(self, part: Sequence[Instance]) -> list[Instance]:
        ip, port, ips = self.ip, self.port, [one.ip for one in part]
        if ip not in ips and ":" not in "".join(ips):
            return []
        found = [one for one in part if one.ip == ip or (":" in one.ip and self._is_spelling(one.ip))]
        return found if port is None else [one for one in found if one.port == port]

    def may_be_in(self, texts: SearchTexts) -> bool:
        return f"\n{self.ip}\n" in texts.addresses or ":" in texts.addresses

    def _is_spelling(self, other: str) -> bool:
        """Return whether an IPv6 address is the wanted one. Parsing takes 3 us: first its last group is compared."""
        mine, theirs = (text.rpartition(":")[2].lstrip("0").lower() for text in (self.ip, other))
        return (mine == theirs or not theirs.isalnum()) and is_same_ip(self.ip, other)


@dataclass(frozen=True, slots=True)
class MetadataMatch:
    """A key of the metadata with a value; with an empty one, or with any."""

    key: str
    value: str
    text_in_json: str = field(init=False)
    """The beginning of the pair in JSON, in lower case."""

    def __post_init__(self) -> None:
        pair = lower_json({self.key: self.value})
        object.__setattr__(self, "text_in_json", pair[1:-1] if self.value else pair[1:-3])

    def matching(self, part: Sequence[Instance]) -> list[Instance]:
        key, value = self.key, self.value
        return [
            one for one in part if one.metadata and key in one.metadata and (not value or one.metadata[key] == value)
        ]

    def may_be_in(self, texts: SearchTexts) -> bool:
        return self.text_in_json in texts.metadata


@dataclass(frozen=True, slots=True)
class ContainedMatch:
    """A text, in lower case, that a key or value of the metadata contains, or with which the address begins."""

    text: str
    text_in_json: str = field(init=False)
    host: str = field(init=False)
    port: int | None = field(init=False)
    """The port in ``host:port``, or the text if it is a port alone."""

    def __post_init__(self) -> None:
        host, _, port = self.text.rpartition(":")
        object.__setattr__(self, "text_in_json", lower_json(self.text)[1:-1])
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "port", port_of(port))

    def matching(self, part: Sequence[Instance]) -> list[Instance]:
        found = [one for one in part if self._is_address(one)] if self._may_be_address(part) else []
        if len(found) == len(part) or not self._may_be_in_metadata(part):
            return found
        by_address = set(map(id, found))
        # Instances of a service often have the same metadata.
        return [
            one
            for metadata, alike in groupby(part, key=metadata_of)
            for one in (alike if self._is_in_metadata(metadata) else [one for one in alike if id(one) in by_address])
        ]

    def may_be_in(self, texts: SearchTexts) -> bool:
        addresses = texts.addresses
        if f"\n{self.text}" in addresses or self.text_in_json in texts.metadata:
            return True
        return self.port is not None and f"\n\t{self.port}\n" in addresses

    def _may_be_in_metadata(self, part: Sequence[Instance]) -> bool:
        """Return whether the JSON of all metadata contains the text: made and searched in a third of the time.

        Instances of a service often have the same metadata, which is written once for those next to each other.
        """
        try:
            together = orjson.dumps([metadata for metadata, _ in groupby(part, key=metadata_of)])
        except TypeError:  # half of a surrogate pair
            return True
        return self.text_in_json in together.decode().lower()

    def _may_be_address(self, part: Sequence[Instance]) -> bool:
        if self.port is not None and self.port in [one.port for one in part]:
            return True
        together = "\n".join([one.ip for one in part])
        return f"\n{self.text}" in f"\n{together}".lower()

    def _is_address(self, one: Instance) -> bool:
        if self.port is not None and one.port == self.port and (not self.host or one.ip.lower() == self.host):
            return True
        return one.ip.lower().startswith(self.text)

    def _is_in_metadata(self, metadata: Metadata | None) -> bool:
        text = self.text
        return any(text in key.lower() or (value and text in value.lower()) for key, value in (metadata or {}).items())


def port_of(text: str) -> int | None:
    """Return the port in a text; None if it is not a port."""
    if not (text.isascii() and text.isdecimal() and len(text) <= PORT_DIGITS_MAX):
        return None
    return int(text) if int(text) <= PORT_MAX else None


def matcher_of(text: str) -> Matcher:
    """Return the condition of a text: ``ip``, ``ip:port``, ``[v6]:port``, ``key=value``, or any other text."""
    if is_ip(text):
        return AddressMatch(plain_ip(text), None)
    host, colon, port = text.rpartition(":")
    if colon and is_ip(host) and (is_usual_ipv4(host) or host.startswith("[")) and port_of(port) is not None:
        return AddressMatch(plain_ip(host), port_of(port))
    key, sign, value = text.partition("=")
    if sign and key.strip():
        return MetadataMatch(key.strip(), value.strip())
    return ContainedMatch(text.lower())


def is_ip(text: str) -> bool:
    """Return whether a text is a whole address. ``10.0.0``, which Java reads as one, is the beginning of one here."""
    return bool(is_usual_ipv4(text)) or (":" in text and read_ip(text) is not None)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The conditions of a search; an empty one matches everything."""

    text: str = ""
    state: InstanceState | None = None
    source: Source | None = None
    namespace: str = ""
    service: str = ""
    """The full name of the only service to look in, within ``namespace``."""
    cluster: str = ""


Part = tuple[ServiceView, Sequence[Instance]]
"""A service and some of its instances."""


@dataclass(slots=True)
class SearchResult:
    """The found instances, and the services whose names contain the text."""

    found: list[Part] = field(default_factory=list)
    """The instances, by namespace and service; those of a large service in several parts."""
    count: int = 0
    """The number of found instances."""
    complete: bool = True
    """False if there are more than ``FOUND_MAX``."""
    services: list[ServiceView] = field(default_factory=list)
    """The first ``SERVICES_SHOWN``."""
    service_count: int = 0


class InstanceSearches:
    """Searches, a few at a time. Thread-safe; not for the event loop."""

    def __init__(self, most: int = SEARCHES_MAX, wait_s: float = WAIT_S) -> None:
        self._free = BoundedSemaphore(most)
        self._wait_s = wait_s

    def run(self, naming: NamingService, asked: SearchRequest, may_read: Callable[[str, str], bool]) -> SearchResult:
        """Return what was found, by namespace and service. ``may_read``: called with namespace and full name.

        Raises:
            TooManyRequests: other searches are under way.
        """
        if not self._free.acquire(timeout=self._wait_s):
            raise TooManyRequests(
                "this node already runs as many searches as it allows; please try again later", self._wait_s
            )
        try:
            return search(naming, asked, may_read)
        finally:
            self._free.release()


def search(naming: NamingService, asked: SearchRequest, may_read: Callable[[str, str], bool]) -> SearchResult:
    """Look through all services, with pauses for other threads."""
    result, matcher = SearchResult(), matcher_of(asked.text) if asked.text else None
    name = asked.text.lower() if isinstance(matcher, ContainedMatch) and not asked.service else ""
    pace = _Pace()
    for parts in _gathered(_views(naming, asked, may_read, matcher, name, result, pace)):
        if result.complete:
            _look_through(naming, asked, matcher, parts, result)
        if not (result.complete or name):
            break
        pace.add(len(parts) + sum(len(instances) for _, instances in parts))
    return result


class _Pace:
    """Makes a pause after each ``REST_INSTANCES``."""

    def __init__(self) -> None:
        self._since_rest = 0

    def add(self, instances: int) -> None:
        self._since_rest += instances
        if self._since_rest >= REST_INSTANCES:
            self._since_rest = 0
            rest()


def _views(
    naming: NamingService,
    asked: SearchRequest,
    may_read: Callable[[str, str], bool],
    matcher: Matcher | None,
    name: str,
    result: SearchResult,
    pace: _Pace,
) -> Iterator[ServiceView]:
    """Yield the services to look through, by namespace and name. Those whose names contain ``name`` are results.

    Services are left out whose texts show that the matcher finds nothing in them. After the last instance that the
    result has room for, the other services only count by their names.
    """
    for namespace in [asked.namespace] if asked.namespace else naming.namespaces():
        services = (naming.named(namespace) or {}).copy()
        for full_name in [asked.service] if asked.service else sorted(services):
            service = services.get(full_name)
            if service is None or (asked.state is InstanceState.UNHEALTHY and not unhealthy_of(service)):
                continue
            if not may_read(namespace, full_name):
                continue
            if name and name in full_name.lower():
                result.service_count += 1
                if len(result.services) < SERVICES_SHOWN:
                    result.services.append(view_of(service))
            if result.complete:
                view = view_of(service)
                if view.searched is None:
                    pace.add(len(view.instances))
                texts = texts_of(view) if matcher is not None else None
                if texts is None or matcher is None or matcher.may_be_in(texts):
                    yield view
                    continue
            pace.add(SKIPPED)


def _gathered(views: Iterable[ServiceView]) -> Iterator[list[Part]]:
    """Yield services together, as many as have ``PART_INSTANCES``, and large ones in parts.

    Most services have few instances, and each step has its cost.
    """
    together: list[Part] = []
    count = 0
    for view in views:
        instances, begin = view.instances, 0
        while len(instances) - begin > PART_INSTANCES:
            together.append((view, instances[begin : begin + PART_INSTANCES]))
            yield together
            together, count, begin = [], 0, begin + PART_INSTANCES
        together.append((view, instances[begin:] if begin else instances))
        count += len(instances) - begin + 1
        if count >= PART_INSTANCES:
            yield together
            together, count = [], 0
    yield together


def _look_through(
    naming: NamingService, asked: SearchRequest, matcher: Matcher | None, parts: list[Part], result: SearchResult
) -> None:
    """Add the instances of some services that fulfil all conditions."""
    if matcher is not None:
        instances = list(chain.from_iterable(instances for _, instances in parts))
        found = matcher.matching(instances)
        if not found:
            return
        if len(found) < len(instances):
            matching = set(map(id, found))
            parts = [(view, [one for one in instances if id(one) in matching]) for view, instances in parts]
    for view, of_view in parts:
        passing = _passing(naming, asked, view, of_view)
        room = FOUND_MAX - result.count
        if len(passing) > room:
            passing, result.complete = passing[:room], False
        if passing:
            result.found.append((view, passing))
            result.count += len(passing)


def _passing(
    naming: NamingService, asked: SearchRequest, view: ServiceView, found: Sequence[Instance]
) -> Sequence[Instance]:
    """Return the instances that fulfil the conditions besides the text."""
    if not found:
        return found
    if asked.cluster:
        found = [one for one in found if one.cluster_name == asked.cluster]
    if asked.state is not None:
        found = [one for one in found if asked.state.has(one)]
    if asked.source is not None:
        service = naming.service_of(view.namespace, view.full_name)
        found = [one for one in found if source_of(service, one) is asked.source]
    return found

"""The IP addresses that the calls of members come from, and their senders; names are resolved in the background."""

import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.config.addresses import split_address
from distro.model.types import CAPABILITY_CLIENTS_ONLY, CAPABILITY_VERSIONS, Member
from distro.protocol.engine_reader import EngineReader
from distro.receive.call_times import CallDeadlines
from distro.timing.clock import monotonic_s

LOG = logging.getLogger(__name__)
RESOLVE_INTERVAL_S = 30.0
"""The time between two look-ups of all names: a pod that is recreated has another address."""
RETRY_S = 1.0
"""The shortest time between two look-ups, after a name had no address or a call came from an unknown one."""
PARTING_S = 10.0
"""For how long calls of a member that left the list are still accepted. It learns of its removal with its next report,
and until a little after that it sends the changes that it has acknowledged."""
MAPPED = "::ffff:"
"""The prefix that a dual-stack socket puts in front of an IPv4 address; the methods take addresses with it, too."""
Resolve = Callable[[str], frozenset[str]]


@dataclass(slots=True)
class NameStats:
    """Counts of the look-ups of members' names, since the start. The first is of the last round alone."""

    names_unresolved: int = 0
    """Names that could not be resolved. Names that were resolved before keep their addresses."""
    name_lookups_failed: int = 0
    name_addresses_changed: int = 0


class MemberIps:
    """The addresses by member. Thread-safe; ``replace`` and reads never wait for a look-up.

    A name that cannot be resolved any more keeps the addresses that it had.
    """

    def __init__(self, resolve: Resolve | None = None, now_s: Callable[[], float] = monotonic_s) -> None:
        """``resolve(host)``: returns the addresses of a name.

        It may block for long, and raises OSError without an answer.
        """
        self._resolve = resolve or look_up
        self._now_s = now_s
        self._by_member: Mapping[str, frozenset[str]] = {}
        """Replaced as a whole by each change, because other threads read it."""
        self._parting: Mapping[str, tuple[frozenset[str], float]] = {}
        """The addresses of members that left the list, and until when (monotonic s) they count. Never mutated."""
        self.stats = NameStats()
        """Written only by this object's thread."""
        self._unresolved: frozenset[str] = frozenset()
        """The hosts whose last look-up failed. Each failure is logged once."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def replace(self, addresses: tuple[str, ...]) -> None:
        """Take a new member list: IP addresses count at once, names as soon as they are resolved."""
        with self._lock:
            known, now_s = self._by_member, self._now_s()
            parting = {one: (ips, now_s + PARTING_S) for one, ips in known.items()} | {
                one: (ips, end_s) for one, (ips, end_s) in self._parting.items() if end_s > now_s
            }
            self._parting = {one: until for one, until in parting.items() if one not in addresses}
            self._by_member = {one: literal(one) or known.get(one, frozenset()) for one in addresses}
            if self._thread is None and not self._end.is_set() and self._names():
                self._thread = threading.Thread(target=self._run, name="member-names", daemon=True)
                self._thread.start()
        self._wake.set()

    def of(self, member: str) -> frozenset[str]:
        """Return the addresses of a listed member; empty for others, and while its name has no address."""
        return self._by_member.get(member, frozenset())

    def is_of(self, member: str, ip: str) -> bool:
        """Return whether ``ip`` is an address of this listed member. If not, names are looked up again soon."""
        return ip.removeprefix(MAPPED) in self._by_member.get(member, ()) or self._unknown()

    def is_of_any(self, ip: str) -> bool:
        """Return whether ``ip`` is an address of any listed member. If not, names are looked up again soon."""
        ip = ip.removeprefix(MAPPED)
        for ips in self._by_member.values():  # called for each call of a member
            if ip in ips:
                return True
        return self._unknown()

    def is_of_parting(self, ip: str, member: str = "") -> bool:
        """Return whether ``ip`` belongs to ``member``, or to any member, that left the list under ``PARTING_S`` ago."""
        ip, now_s, parting = ip.removeprefix(MAPPED), self._now_s(), self._parting
        return any(ip in ips and now_s < end_s for one, (ips, end_s) in parting.items() if member in ("", one))

    def _unknown(self) -> bool:
        self._wake.set()
        return False

    def close(self) -> None:
        """End the thread without waiting for it: a look-up may block for long."""
        self._end.set()
        self._wake.set()

    def _names(self) -> list[str]:
        return [one for one in self._by_member if literal(one) is None]

    def _run(self) -> None:
        while True:
            self._wake.clear()
            names = self._names()
            found = {one: self._addresses(one) for one in names}
            self._unresolved &= {split_address(one)[0] for one in names}
            self.stats.names_unresolved = len(self._unresolved)
            with self._lock:
                self._by_member = {one: found.get(one, ips) for one, ips in self._by_member.items()}
            if self._end.wait(RETRY_S):
                return
            if all(self._by_member.values()) and not self._unresolved:
                self._wake.wait(RESOLVE_INTERVAL_S)

    def _addresses(self, member: str) -> frozenset[str]:
        host, known = split_address(member)[0], self.of(member)
        try:
            found = self._resolve(host)
        except (OSError, UnicodeError) as error:
            self.stats.name_lookups_failed += 1
            if host not in self._unresolved:
                stay = f"; its addresses stay {', '.join(sorted(known))}" if known else ", and is asked for again"
                LOG.warning("the name of member %s is not resolved: %s%s", member, error, stay)
            self._unresolved |= {host}
            return known
        if host in self._unresolved:
            LOG.warning("the name of member %s is resolved again: %s", member, ", ".join(sorted(found)))
        elif known and found and found != known:
            LOG.info("member %s has a new address: %s, not %s", member, *(",".join(sorted(a)) for a in (found, known)))
        self.stats.name_addresses_changed += bool(known and found and found != known)
        self._unresolved -= {host}
        return found or known


class MemberSenders:
    """The members that calls come from. Thread-safe; a look-up never waits for a name."""

    def __init__(self, reader: EngineReader, deadlines: CallDeadlines) -> None:
        """``deadlines``: knows the runs of members that left the list."""
        self._reader = reader
        self._deadlines = deadlines
        ips = self._ips = MemberIps()
        self.name_stats = ips.stats
        self.take_list = ips.replace
        """Takes a new member list, before the membership takes it."""
        self.close = ips.close
        self.is_listed = ips.is_of_any
        """Returns whether an IP address is one of a listed member."""
        self.ips_of = ips.of
        """Returns the IP addresses that a listed member has, or had before its name could not be looked up any more."""

    def is_heard(self, remote_ip: str) -> bool:
        return self.is_listed(remote_ip) or self._ips.is_of_parting(remote_ip)

    def has_any_of(self, remote_ip: str, is_one: Callable[[str], bool]) -> bool:
        """Return whether a member is listed at the address for which ``is_one`` is true."""
        return any(is_one(one.address) for one in self._listed_at(remote_ip))

    def sender_of(self, named: str | None, remote_ip: str) -> str | None:
        """The listed peer that a call or a report names as its sender, if it comes from its address; else None."""
        if named is None or named not in self._reader.view.members.contacts:
            return None
        return named if self._ips.is_of(named, remote_ip) else None

    def parting_sender_of(self, named: str | None, remote_ip: str, clock: str | None) -> str | None:
        """The same for a member that left the list lately, and has not restarted since; ``clock``: of the call."""
        if named is None or not self._ips.is_of_parting(remote_ip, named):
            return None
        return named if self._deadlines.is_known_run(named, clock) else None

    def java_peers_at(self, remote_ip: str) -> list[str]:
        """The listed members at an address that are not known to be Rollcall members."""
        return [one.address for one in self._listed_at(remote_ip) if CAPABILITY_VERSIONS not in one.capabilities]

    def nacos_at(self, remote_ip: str) -> str:
        """A listed member of another kind at an address, empty when there is none."""
        return next(iter(self.java_peers_at(remote_ip)), "")

    def is_nacos_2_at(self, remote_ip: str) -> bool:
        """Return whether a listed member at an address is of another kind and exchanges clients, as Nacos since 2.0."""
        return any(
            CAPABILITY_VERSIONS not in one.capabilities and CAPABILITY_CLIENTS_ONLY in one.capabilities
            for one in self._listed_at(remote_ip)
        )

    def _listed_at(self, remote_ip: str) -> Iterator[Member]:
        ip = remote_ip.removeprefix(MAPPED)
        return (one for one in self._reader.view.members.listed if ip in self._ips.of(one.address))


def literal(member: str) -> frozenset[str] | None:
    """Return the IP address in a member's address; None for a host name."""
    host = split_address(member)[0]
    try:
        return frozenset({str(ipaddress.ip_address(host))})
    except ValueError:
        return None


def look_up(host: str) -> frozenset[str]:
    """Return the addresses of a host name, from the system's resolver.

    Raises:
        OSError: it has no address, or the resolver does not answer.
    """
    return frozenset(str(info[4][0]) for info in socket.getaddrinfo(host, None))

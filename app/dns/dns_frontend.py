"""The DNS frontend: makes its parts, starts and stops them; and the guard against answers that fail."""

import ipaddress
import logging
import time
from collections.abc import Callable
from random import Random

from app.config.addresses import join_address
from app.config.dns_settings import DnsSettings
from app.config.settings import SettingError
from app.dns.dns_stats import DnsStats
from app.dns.name_index import NameIndex
from app.dns.responder import Responder
from app.dns.source_rate import ProvenAddresses, SourceRate
from app.dns.tcp_port import TcpPort
from app.dns.udp_port import UdpPort
from app.dns.zone import Zone
from app.naming.model.model import ServiceView

LOG = logging.getLogger(__name__)
LOGGED_EACH_S = 60.0
"""The time between two log entries, so that a failing query cannot fill the log."""


class DnsFrontend:
    """The DNS server of a node. Made before the loop runs; ``start``, ``leave``, ``stop``: on the loop."""

    def __init__(
        self,
        settings: DnsSettings,
        index: NameIndex,
        view_of: Callable[[str, str], ServiceView | None],
        serves: Callable[[], bool],
        own_host: str,
        wall_ms: int,
    ) -> None:
        """``own_host``: this node's host in the lists of others. ``wall_ms``: now, for the serial number."""
        self._settings = settings
        now_s = time.monotonic
        zone = Zone(settings, index, view_of, now_s, wall_ms // 1_000, own_ip(settings.host, own_host), Random())
        rates = SourceRate(settings.rate, now_s), SourceRate(settings.rate, now_s)
        responder = Responder(zone, serves, *rates, ProvenAddresses(now_s))
        self.stats = responder.stats
        self._udp = UdpPort(FailureGuard(responder.over_udp, self.stats, now_s), self.stats)
        self._tcp = TcpPort(FailureGuard(responder.over_tcp, self.stats, now_s), self.stats)

    async def start(self) -> None:
        """Listen over UDP and TCP.

        Raises:
            SettingError: the port is not free.
        """
        host, port = self._settings.host, self._settings.port
        try:
            await self._udp.start(host, port)
            await self._tcp.start(host, port)
        except OSError as error:
            await self.stop()
            raise SettingError(f"cannot serve DNS on {join_address(host, port)}: {error}") from None
        LOG.info("DNS for %s on %s", self._settings.domain, join_address(host, port))

    def drain(self, enabled: bool) -> None:
        """Do nothing: a drained node does not serve, which each query checks."""

    def leave(self) -> None:
        """Do nothing: a node that leaves does not serve, and resolvers ask another one."""

    async def stop(self) -> None:
        """Close the sockets. May be called twice."""
        self._udp.stop()
        self._tcp.stop()

    def join(self) -> None:
        """Do nothing: DNS has no threads."""


def own_ip(host: str, own_host: str) -> str:
    """Return this name server's address: the one it listens on, or for all addresses the node's own; may be empty."""
    for one in (host, own_host):
        try:
            address = ipaddress.ip_address(one)
        except ValueError:
            continue
        if not address.is_unspecified:
            return str(address)
    return ""


class FailureGuard:
    """Calls ``answer`` with a query and its sender's address, and returns None if that fails."""

    def __init__(
        self, answer: Callable[[bytes, str], bytes | None], stats: DnsStats, now_s: Callable[[], float]
    ) -> None:
        self._answer = answer
        self._stats = stats
        self._now_s = now_s
        self._logged_s = now_s() - LOGGED_EACH_S

    def __call__(self, packet: bytes, remote_ip: str) -> bytes | None:
        """Return the answer, or None for no answer."""
        try:
            return self._answer(packet, remote_ip)
        except Exception:
            self._stats.failed += 1
            if self._now_s() - self._logged_s >= LOGGED_EACH_S:
                self._logged_s = self._now_s()
                LOG.exception("a DNS query of %s failed unexpectedly", remote_ip)
            return None

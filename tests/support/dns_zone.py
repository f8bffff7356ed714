"""A DNS server without sockets over a registry of the test's own; its answers are read by dnspython."""

from collections.abc import Iterator
from random import Random

import dns.edns
import dns.flags
import dns.message
import dns.rdatatype
import dns.rrset

from app.config.dns_settings import DnsSettings
from app.dns.name_index import NameIndex
from app.dns.responder import Responder
from app.dns.source_rate import ProvenAddresses, SourceRate
from app.dns.zone import Zone
from app.naming.model.meta import ServiceMeta
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from tests.support.registry_parts import naming_of

DOMAIN, TTL_S, CLIENT = "rollcall", 7, "192.0.2.1"
GROUP = "DEFAULT_GROUP@@"
SERIAL = 4_711


class DnsBed:
    """The server, its registry, and a clock that the test moves."""

    def __init__(
        self, answers_max: int = 16, rate: int = 0, domain: str = DOMAIN, own_ip: str = "198.51.100.1"
    ) -> None:
        self.now_s = 1_000.0
        self.serves = True
        self.domain = domain
        self.index = NameIndex()
        self.registry = Registry.of("self", alone=True, on_listed=self.index.note)
        self.naming = naming_of(self.registry, lambda: 0, lambda event: None)

        def now_s() -> float:
            return self.now_s

        settings = DnsSettings("127.0.0.1", 53, domain, TTL_S, answers_max, rate)
        zone = Zone(settings, self.index, self.naming.service_view, now_s, SERIAL, own_ip, Random(1))
        rates = SourceRate(rate, now_s), SourceRate(rate, now_s)
        self.proven = ProvenAddresses(now_s)
        self.proven.note(CLIENT)
        self.responder = Responder(zone, lambda: self.serves, *rates, self.proven)
        self.stats = self.responder.stats

    def register(
        self,
        service: str,
        ip: str,
        port: int = 80,
        *,
        group: str = "DEFAULT_GROUP",
        namespace: str = "public",
        weight: float = 1.0,
        healthy: bool = True,
        enabled: bool = True,
    ) -> None:
        full_name = f"{group}@@{service}"
        command = RegisterInstance(full_name, ip, port, namespace, weight=weight, healthy=healthy, enabled=enabled)
        self.naming.register(command)

    def deregister(self, service: str, ip: str, port: int = 80) -> None:
        self.naming.deregister(DeregisterInstance(GROUP + service, ip, port))

    def describe(self, service: str, threshold: float = 0.0, group: str = "DEFAULT_GROUP") -> None:
        meta = ServiceMeta(protect_threshold=threshold)
        self.registry.table.set_meta("public", f"{group}@@{service}", meta, 0)

    def ask(
        self, name: str, qtype: str = "A", *, edns: int | None = 1_232, tcp: bool = False, client: str = CLIENT
    ) -> dns.message.Message:
        """The answer, which must be one to this query. ``name``: without the domain, unless it ends with a dot."""
        whole = name if name.endswith(".") else f"{name}.{self.domain}." if name else f"{self.domain}."
        query = dns.message.make_query(whole, qtype, use_edns=False if edns is None else 0, payload=edns or 0)
        answered = self.responder.over_tcp if tcp else self.responder.over_udp
        packet = answered(query.to_wire(), client)
        assert packet is not None
        assert tcp or len(packet) <= (edns or 512)
        reply = dns.message.from_wire(packet)
        assert query.is_response(reply)
        return reply

    def ips(self, name: str, qtype: str = "A") -> list[str]:
        """The addresses that are answered, in their order."""
        return [one.to_text() for one in records(self.ask(name, qtype).answer)]


def records(section: list[dns.rrset.RRset]) -> Iterator[dns.rdatatype.RdataType]:
    """All data of a section."""
    return (data for rrset in section for data in rrset)


def reasons(reply: dns.message.Message) -> list[str]:
    """The texts of the extended errors."""
    return [one.text for one in reply.options if isinstance(one, dns.edns.EDEOption)]


def is_truncated(reply: dns.message.Message) -> bool:
    return bool(reply.flags & dns.flags.TC)

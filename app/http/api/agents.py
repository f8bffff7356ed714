"""Agent strings: a client's kind and version, and the answers that depend on them."""

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from app.naming.model.switches import SwitchDomain


class ClientType(enum.Enum):
    """Kinds of clients by the prefix of their agent. Source: Nacos 1.4.8 ClientInfo."""

    JAVA = "Nacos-Java-Client"
    DNS = "Nacos-DNS"
    C = "Nacos-C-Client"
    CPP = "vip-client4cpp"
    GO = "Nacos-Go-Client"
    CSHARP = "Nacos-CSharp-Client"
    JAVA_SDK = "Nacos-SDK-Java"
    NACOS_SERVER = "Nacos-Server"
    TENGINE = "unit-nginx"
    UNKNOWN = ""


_NACOS_SERVER = ClientType.NACOS_SERVER.value
"""Python 3.11 needs ten times as long to look a member up in its class."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A client's kind and version."""

    type: ClientType
    version: tuple[int, int, int]

    @property
    def java_since_1_0(self) -> bool:
        """True if service names in answers keep their group, and an update needs an existing instance."""
        return self.type is ClientType.JAVA and self.version >= (1, 0, 0)

    @property
    def reads_gzip(self) -> bool:
        """True if the client can read a UDP push in gzip.

        nginx-nacos-upstream cannot. It calls itself a Java client of 2.10, and the real ones take no pushes over UDP.
        """
        return not (self.type is ClientType.JAVA and self.version >= (2, 0, 0))


UNKNOWN_AGENT = Agent(ClientType.UNKNOWN, (0, 0, 0))
AGENT_CHARS_MAX = 256
"""A longer agent string is cut before it is parsed."""
_SEPARATORS = re.compile(r"[-_./;:]")
_LEADING_DIGITS = re.compile(r"[0-9]{1,9}")


def parse_agent(agent: str) -> Agent:
    """Return the kind and version of an agent string such as ``Nacos-Java-Client:v1.4.8``."""
    return _parse_agent(agent[:AGENT_CHARS_MAX])


@lru_cache(1_024)
def _parse_agent(agent: str) -> Agent:
    for kind in ClientType:
        if kind is not ClientType.UNKNOWN and agent.startswith(kind.value):
            # Without ":v" the whole text is taken for a version, which makes it 0.0.0, as in Nacos.
            before, mark, after = agent.partition(":v")
            return Agent(kind, parse_version(after if mark else before))
    return UNKNOWN_AGENT


def parse_version(text: str) -> tuple[int, int, int]:
    """Return the numbers of a version such as ``1.4.8``; missing parts are 0. Real Nacos fails on ``1`` alone."""
    numbers = [int(found[0]) if (found := _LEADING_DIGITS.match(part)) else 0 for part in _SEPARATORS.split(text)]
    major, minor, patch = (*numbers, 0, 0)[:3]
    return major, minor, patch


def may_be_pushed(agent: Agent, switches: SwitchDomain) -> bool:
    """Return whether clients of this kind and version take UDP pushes.

    Source: Nacos 1.4.1 PushService.canEnablePush.
    """
    if not switches.push_enabled:
        return False
    match agent.type:
        case ClientType.JAVA:
            since = switches.push_java_version
        case ClientType.DNS:
            since = switches.push_python_version
        case ClientType.C | ClientType.CPP:
            since = switches.push_c_version
        case ClientType.GO:
            since = switches.push_go_version
        case ClientType.CSHARP:
            since = switches.push_c_sharp_version
        case _:
            return False
    return agent.version >= parse_version(since)


def is_peer(agent: str) -> bool:
    """Return whether the sender calls itself a member; members' calls pass where clients are refused."""
    return agent.startswith(_NACOS_SERVER)


def is_redirect(agent: str) -> bool:
    """Return whether a member forwarded the call. Contains, not starts with: as in Nacos 1.4.8 DistroFilter."""
    return _NACOS_SERVER in agent

"""Events that the domain publishes to the rest of the node. Values only; handlers must not block."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from app.naming.model.model import Publication
from distro.model.types import value


class Origin(enum.Enum):
    """The place where a change was made. A change from a peer is never sent on."""

    LOCAL = "local"
    PEER = "peer"


@value
class InstancesChanged:
    """The instance list of a datum key has changed."""

    key: str
    origin: Origin
    shown: bool = True
    """True if readers may see another list than before."""


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """This member changed the durable record of ``key``."""

    key: str


@value
class ServiceChanged:
    """Readers see a change of a service, from any source: its subscribers are due a push."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class ForeignChanged:
    """Readers may see another list of a service, as a link to another cluster brought it."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class ForeignWritten:
    """This member changed what a link brought, under the key of that resource type."""

    key: str


REMOVED, UNHEALTHY = "removed", "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthChanged:
    """The health check made an instance unhealthy or removed it; ``what`` is the text for the log."""

    key: str
    instance: str
    what: str
    number: int = 1
    """The number of the instance among those that one round changes in this service, from 1."""


@dataclass(frozen=True, slots=True)
class InstanceHealed:
    """A beat that came to another member made an instance healthy. ``key``: that of its list."""

    key: str
    instance: str


@dataclass(frozen=True, slots=True)
class HealthChecked:
    """One round of the health check has changed ``changes`` instances of a service."""

    key: str
    changes: int


@value
class ClientChanged:
    """A client that is connected here has changed its publications."""

    client_id: str


@value
class ClientDisconnect:
    """A client is gone with all its publications. ``native``: it was connected here, not a copy from a peer."""

    client_id: str
    native: bool


@value
class ServicePushed:
    """The sending of a service's current list to subscribers here began. ``service``: with its group."""

    namespace: str
    service: str


@value
class ClientWithdrawn:
    """A client withdrew publications, or is gone with all of them."""

    client_id: str
    former: Mapping[tuple[str, str], Publication]
    """The publications by namespace and full service name."""
    gone: bool


@value
class ClientReturned:
    """Instances of a client came back elsewhere (R17)."""

    writer: str
    """The run that the client came from, as versions name it."""
    at_ms: int
    """The time of the return (monotonic)."""


@value
class ServiceSubscribed:
    """A client subscribed to a service, and has yet to get its instances. ``key``: namespace and full service name."""

    key: tuple[str, str]
    client_id: str


Event = (
    InstancesChanged
    | RecordChanged
    | ServiceChanged
    | HealthChanged
    | HealthChecked
    | InstanceHealed
    | ClientChanged
    | ClientDisconnect
    | ServicePushed
    | ClientWithdrawn
    | ClientReturned
    | ServiceSubscribed
    | ForeignChanged
    | ForeignWritten
)

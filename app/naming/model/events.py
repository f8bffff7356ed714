"""What the domain tells the rest of the node. Values only; handlers must not block."""

import enum
from dataclasses import dataclass

from distro.value import value


class Origin(enum.Enum):
    """Who made a change. What came from a peer is never sent on."""

    LOCAL = "local"
    PEER = "peer"


@value
class InstancesChanged:
    """The instances of the service behind ``key`` (a datum key) are others now."""

    key: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """The durable record behind ``key`` was changed by this member."""

    key: str


@value
class ServiceChanged:
    """What readers see of a service is another now, whoever changed it: subscribers are to be told."""

    namespace: str
    service: str


@dataclass(frozen=True, slots=True)
class HealthChanged:
    """One instance became healthy or unhealthy, or was dropped; for the log."""

    key: str
    instance: str
    what: str


@value
class ClientChanged:
    """What a client that is connected here publishes is another now."""

    client_id: str


@value
class ClientDisconnect:
    """A client is gone with all that it published. ``native``: it was connected here, and not a copy from a peer."""

    client_id: str
    native: bool


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
    | ClientChanged
    | ClientDisconnect
    | ServiceSubscribed
)

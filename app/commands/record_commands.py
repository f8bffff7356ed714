"""Commands that change records, the health or the metadata of instances: plain values that a frontend parses."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from app.naming.model.keys import Metadata
from app.naming.model.meta import ClusterConfig, Selector, ServiceMeta
from app.naming.model.model import Instance
from app.naming.model.nacos_errors import InvalidParam, NacosError
from app.naming.records.durable_service import Namespace
from app.naming.records.record import Value

T = TypeVar("T")


class CreateService(NamedTuple):
    namespace: str
    service: str
    meta: ServiceMeta | NacosError
    """The description; or why it cannot be read, which is the answer if there is no such service yet."""


class UpdateService(NamedTuple):
    namespace: str
    service: str
    protect_threshold: float
    metadata: Metadata
    selector: Selector | NacosError
    """The selector; or why it cannot be read, which is the answer if there is such a service."""


class RemoveService(NamedTuple):
    namespace: str
    service: str


class UpdateCluster(NamedTuple):
    namespace: str
    service: str
    cluster: str
    config: ClusterConfig | NacosError
    """The settings; or why they cannot be read, which is the answer if there is such a service."""


class UpdateHealth(NamedTuple):
    """Set an instance's health by hand, in a cluster without a checker."""

    namespace: str
    service: str
    cluster: str
    ip: str
    port: int
    healthy: bool


class InstanceName(NamedTuple):
    """The name of an instance in a batch."""

    ip: str
    port: int
    cluster: str
    ephemeral: bool

    def is_name_of(self, one: Instance) -> bool:
        """Return whether it names this instance, which matches any port if it does not have one.

        Source: Nacos 1.4.1 Instance.equals.
        """
        fits = one.ip == self.ip and one.port in (self.port, 0)
        return fits and one.cluster_name == self.cluster and one.ephemeral is self.ephemeral


class ChangeInstance(NamedTuple):
    """Change an instance as operators do over HTTP v2 and v3: in a record apart from its registration.

    The change outlives a new registration, and ends a minute after the instance (decision 0061).
    """

    namespace: str
    service: str
    ip: str
    port: int
    cluster: str
    weight: float | None = None
    enabled: bool | None = None
    metadata: Metadata | None = None
    """Keys to set in place of those that an operator set before."""
    whole: bool = False
    """Replace an earlier change as a whole, also of an instance that is yet to come. Otherwise None changes nothing."""


class ChangeInstances(NamedTuple):
    """Change several instances of a service in one step, in separate records; other metadata keys stay."""

    namespace: str
    service: str
    names: tuple[InstanceName, ...]
    weight: float | None = None
    enabled: bool | None = None
    metadata: Metadata | None = None
    if_enough: bool = False
    """Stop if clients would lose so many instances that too few healthy ones remain."""


class UpdateMetadata(NamedTuple):
    """Set keys of the metadata of several instances of a service, or remove them."""

    namespace: str
    service: str
    kind: str
    """``ephemeral`` or ``persist``: all instances of a kind; empty for the instances in ``names``."""
    names: tuple[InstanceName, ...]
    metadata: Metadata | None
    removes: bool
    beside: bool = False
    """Change the metadata that operators set in separate records, as HTTP v2 and v3 do. ``names`` then come before
    ``kind``, and may be of any kind; without either, all instances of the service are changed."""


class CreateNamespace(NamedTuple):
    namespace: Namespace


class UpdateNamespace(NamedTuple):
    namespace: Namespace


class RemoveNamespace(NamedTuple):
    id: str


class UpdateSwitch(NamedTuple):
    entry: str
    value: str
    here_only: bool
    """Set it at this member alone, until its restart."""


class UpdateSwitches(NamedTuple):
    body: Value
    here_only: bool


class ChangeLink(NamedTuple):
    """Set fields of a link at all members; an empty text takes a field back to the settings of each member."""

    name: str
    fields: Mapping[str, str]


class ResetLink(NamedTuple):
    """Take a link back to the settings of each member, as a whole."""

    name: str


class CreateUser(NamedTuple):
    username: str
    password: str


class CreateFirstAdmin(NamedTuple):
    username: str
    password: str


class SetPassword(NamedTuple):
    """Set the caller's own password, or any for an administrator."""

    username: str
    password: str


class ChangePassword(NamedTuple):
    """Change the caller's own password, given the old one."""

    old: str
    new: str


class EndTokens(NamedTuple):
    """End all tokens of the caller, or of any user for an administrator."""

    username: str


class EndToken(NamedTuple):
    """End one token, which must be of the user that is named."""

    username: str
    token: str


class RemoveUser(NamedTuple):
    username: str


class AddRole(NamedTuple):
    role: str
    username: str


class RemoveRole(NamedTuple):
    role: str
    username: str
    """The user that loses the role; empty for all users, and the role's permissions."""


class AddPermission(NamedTuple):
    role: str
    resource: str
    action: str


class RemovePermission(NamedTuple):
    role: str
    resource: str
    action: str


class ServiceExists(InvalidParam):
    """There is a service of this name already."""


class NotOwnUser(NacosError):
    """The command concerns a user that is not the caller, and the caller is not an administrator."""

    status = 403


class WrongPassword(NacosError):
    """The old password that a change of it brings is not the caller's."""

    status = 401


OfServices = CreateService | UpdateService | RemoveService | UpdateCluster
OfNamespaces = CreateNamespace | UpdateNamespace | RemoveNamespace
OfUsers = CreateUser | CreateFirstAdmin | SetPassword | ChangePassword | EndTokens | EndToken | RemoveUser
OfRights = AddRole | RemoveRole | AddPermission | RemovePermission
OfInstances = ChangeInstance | ChangeInstances
OfLinks = ChangeLink | ResetLink
OfSwitches = UpdateSwitch | UpdateSwitches
RecordCommand = OfServices | OfInstances | OfNamespaces | OfSwitches | OfLinks | OfUsers | OfRights
"""The commands that change durable records and nothing else."""


def read_late(read: Callable[[], T]) -> T | NacosError:
    """Return what is read, or the refusal, which is the answer only where the command finds its service as it should.

    Nacos reads some values after it has looked at the service, so its complaint about the service comes first.
    """
    try:
        return read()
    except NacosError as error:
        return error


def read_or_raise(value: T | NacosError) -> T:
    """Return a value that ``read_late`` could read.

    Raises:
        NacosError: the refusal.
    """
    if isinstance(value, NacosError):
        raise value
    return value

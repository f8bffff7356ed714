"""Names, their composition and their limits; datum keys; instance ids."""

import re
from functools import lru_cache

from app.naming.model.caller_texts import check_text
from app.naming.model.nacos_errors import InvalidParam

DEFAULT_NAMESPACE = "public"
DEFAULT_GROUP = "DEFAULT_GROUP"
DEFAULT_CLUSTER = "DEFAULT"
GROUP_SPLITTER = "@@"
NAMESPACE_SPLITTER = "##"
EPHEMERAL_PREFIX = "com.alibaba.nacos.naming.iplist.ephemeral."
CLIENT_KEY_PREFIX = "Nacos:Naming:v2:ClientData:"
"""The prefix of the id of a client with a connection: the name of its resource type in Nacos 2.2.3."""
SERVICE_META_PREFIX = "com.alibaba.nacos.naming.domains.meta."
NAME_CHARS_MAX = 512
"""Source: Nacos 2.3 parameter check. Nacos 1.4 has no limit, but names are kept for long."""

SERVICE_NAME = re.compile(r"[0-9a-zA-Z@.:_-]+")
CLUSTER_NAME = re.compile(r"[0-9a-zA-Z-]+")
NAMESPACE_ID = re.compile(r"[\w-]+", re.ASCII)
NAMESPACE_ID_CHARS_MAX = 128
"""The longest id of a namespace that is created. Other namespaces may be used without being created."""


def compose_service_name(service: str, group: str) -> str:
    """Return ``group@@service``, or the service itself if it already has its group."""
    return service if GROUP_SPLITTER in service else f"{group}{GROUP_SPLITTER}{service}"


def check_service_format(full_name: str) -> None:
    """Refuse a name without its two parts.

    Raises:
        InvalidParam: Source: Nacos 1.4.1 NamingUtils.checkServiceNameFormat.
    """
    # Java's split drops trailing empty parts, so "G@@" has one part and "@@x" has two.
    _, splitter, service = full_name.partition(GROUP_SPLITTER)
    if not splitter or not service.replace(GROUP_SPLITTER, ""):
        raise InvalidParam("Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'")


def check_service_chars(full_name: str) -> None:
    """Refuse a full service name that cannot be stored.

    Raises:
        InvalidParam: a character outside the set, or a name over ``NAME_CHARS_MAX``.
    """
    if not SERVICE_NAME.fullmatch(full_name):
        raise InvalidParam(
            f"dom name can only have these characters: 0-9a-zA-Z-._:, current: {full_name[:NAME_CHARS_MAX]}"
        )
    if len(full_name) > NAME_CHARS_MAX:
        raise InvalidParam(f"Param 'serviceName' is illegal, the param length should not exceed {NAME_CHARS_MAX}.")


def check_cluster_chars(cluster: str) -> None:
    """Refuse a cluster name outside the set.

    Raises:
        InvalidParam: Source: Nacos 1.4.1 Cluster.validate.
    """
    if not CLUSTER_NAME.fullmatch(cluster):
        raise InvalidParam(
            f"cluster name can only have these characters: 0-9a-zA-Z-, current: {cluster[:NAME_CHARS_MAX]}"
        )
    if len(cluster) > NAME_CHARS_MAX:
        raise InvalidParam(f"Param 'clusterName' is illegal, the param length should not exceed {NAME_CHARS_MAX}.")


def check_namespace(namespace: str) -> None:
    """Refuse a namespace that would make a datum key ambiguous or break a log line.

    Raises:
        InvalidParam: it holds ``##`` or ends in ``#``, is not printable, or is over ``NAME_CHARS_MAX``.
    """
    if NAMESPACE_SPLITTER in namespace or namespace.endswith("#") or len(namespace) > NAME_CHARS_MAX:
        raise InvalidParam("Param 'namespaceId' is illegal, it is too long or holds '#' where names are split")
    check_text("namespaceId", namespace, NAME_CHARS_MAX)


def is_namespace_id(text: str) -> bool:
    """Return whether a namespace of this id may be created. Source: Nacos 1.4.8 NamespaceController."""
    return len(text) <= NAMESPACE_ID_CHARS_MAX and NAMESPACE_ID.fullmatch(text) is not None


@lru_cache(16_384)
def check_names(full_name: str, cluster: str, namespace: str) -> None:
    """Refuse names that cannot be stored. Cached: nearly all calls use names that were allowed before.

    Raises:
        InvalidParam: the service, the cluster or the namespace is not allowed.
    """
    check_service_chars(full_name)
    check_cluster_chars(cluster)
    check_namespace(namespace)


def group_of(full_name: str) -> str:
    """Return the group of a full name, or the whole name if it has none."""
    return full_name.partition(GROUP_SPLITTER)[0]


def short_name_of(full_name: str) -> str:
    """Return the name without its group. A third part is not shown. Source: Nacos 1.4.1 NamingUtils.getServiceName."""
    parts = full_name.split(GROUP_SPLITTER)
    return parts[1] if len(parts) > 1 else full_name


def datum_key(namespace: str, full_name: str) -> str:
    """Return the Distro key of a service's ephemeral instances."""
    return f"{EPHEMERAL_PREFIX}{namespace}{NAMESPACE_SPLITTER}{full_name}"


@lru_cache(16_384)
def parse_datum_key(key: str) -> tuple[str, str] | None:
    """Return ``(namespace, full name)`` of an ephemeral key, or None if the key is not one.

    Cached: several listeners get each change of a service under this key.
    """
    if not key.startswith(EPHEMERAL_PREFIX):
        return None
    namespace, splitter, full_name = key[len(EPHEMERAL_PREFIX) :].partition(NAMESPACE_SPLITTER)
    return (namespace, full_name) if splitter and full_name else None


def instance_key(ip: str, port: int, cluster: str) -> str:
    """Return an instance's identity inside its service. Source: Nacos 1.4.1 Instance.getDatumKey."""
    return f"{ip}:{port}:unknown:{cluster}" if port > 0 else f"{ip}:unknown:{cluster}"


SIMPLE_ID = "\0simple"
"""This very object stands for the id that ``simple_instance_id`` makes from an instance's other fields."""


def simple_instance_id(ip: str, port: int, cluster: str, full_name: str) -> str:
    """Return the instance id of Nacos's default generator: address, cluster and service."""
    return f"{ip}#{port}#{cluster}#{full_name}"

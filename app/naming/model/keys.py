"""Names, addresses and metadata as callers send them: their limits and sizes, and the keys and ids composed of them."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol
from zlib import crc32

import orjson

from app.naming.model.nacos_errors import InvalidParam

PORT_MAX, PORT_DIGITS_MAX = 65_535, 5
IP_CHARS_MAX = 128
"""Source of both: Nacos 2.3 parameter check."""
METADATA_CHARS_MAX = 65_536
"""The bound on all names and values of an instance: every member holds them, and every subscriber gets them."""
JSON_VALUES_MAX = 16_384
"""Commas and opening brackets in the JSON of a client's request: some 2 ms of parsing, for any values."""
INSTANCE_ID_CHARS_MAX = 1_024
CLIENT_TEXTS_CHARS_MAX = 2_048
"""The bound on all texts together with which a client describes itself."""
INT_MAX = (1 << 31) - 1
"""The largest number of Java's ``int``."""
WALL_MS_END = 1 << 53
"""Above all times of a wall clock: from here on a double does not hold every whole number."""
AGE_MARGIN_MS = 500
"""A beat that arrives so shortly after a removal may have been under way before it: it does not prove life."""
WORD_MARGIN_MS = 100
"""How far off a time may be that another member sent: two changes that differ by less have no order.

Times travel as ages. An age counts from the send by the sender's clock (R13). It is off by the time that the fastest
report was under way, by the drift since then, and by the time in which a large list is encoded: a few ms, on slow links
some tens of ms."""

DEFAULT_NAMESPACE = "public"
DEFAULT_GROUP = "DEFAULT_GROUP"
DEFAULT_CLUSTER = "DEFAULT"
GROUP_SPLITTER = "@@"
NAMESPACE_SPLITTER = "##"
EPHEMERAL_PREFIX = "com.alibaba.nacos.naming.iplist.ephemeral."
DUMP_BUCKETS = 1_024
"""Buckets of services in a dump, which is ordered by them, so that a reader of some buckets skips most of its pages."""
CLIENT_KEY_PREFIX = "Nacos:Naming:v2:ClientData:"
"""The prefix of the id of a client with a connection: the name of its resource type in Nacos 2.2.3."""
SERVICE_META_PREFIX = "com.alibaba.nacos.naming.domains.meta."
NAME_CHARS_MAX = 512
"""Source: Nacos 2.3 parameter check. Nacos 1.4 has no limit, but names are kept for long."""
FULL_NAME_CHARS_MAX = 642
"""The longest ``group@@service``: 128 characters of a group and 512 of a service. Source: as ``NAME_CHARS_MAX``."""

USUAL_BYTES = 80
"""Bytes of names and of the JSON of metadata that the estimate of an instance (``INSTANCE_BYTES``) includes."""
Metadata = Mapping[str, str | None]
NO_METADATA: Metadata = {}

STORED_ID_CHARS_MAX = 2_048
"""The longest stored instance id: one made from the longest address and names exceeds the bound for clients."""
INSTANCE_KEY_CHARS_MAX = 1_024
"""The longest instance key: above that of the longest address in the cluster with the longest name."""

CLUSTER_NAME = re.compile(r"[0-9a-zA-Z-]+")
NAMESPACE_ID = re.compile(r"[\w-]+", re.ASCII)
NAMESPACE_ID_CHARS_MAX = 128
"""The longest id of a namespace that is created. Other namespaces may be used without being created."""
APP_CHARS_MAX = 512
TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes: all up to the blank."""
_NUMBER = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_FOUR_NUMBERS = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{3}}")
is_four_numbers = _FOUR_NUMBERS.fullmatch
"""Matches nearly all addresses, one of which comes with every datum of its service: they need no further check."""
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Includes halves of surrogate pairs, which neither JSON nor a file can hold."""


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
    """Refuse a full service name that members cannot store. ``service_names`` has the rules for calls of clients.

    Raises:
        InvalidParam: the name is empty, not printable, or over ``FULL_NAME_CHARS_MAX``.
    """
    if full_name and len(full_name) <= FULL_NAME_CHARS_MAX and not UNPRINTABLE.search(full_name):
        return  # nearly always, and without a further call
    if not full_name:
        raise InvalidParam("Param 'serviceName' is required.")
    check_text("serviceName", full_name, FULL_NAME_CHARS_MAX)


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


def check_ip(ip: str) -> None:
    """Refuse an address that no client could use. Host names and IPv6 are accepted as they are.

    Raises:
        InvalidParam: empty, too long, unprintable, or digits and dots that are not an IPv4 address.
    """
    if is_four_numbers(ip):
        return
    if not ip:
        raise InvalidParam("Param 'ip' is required.")
    check_text("ip", ip, IP_CHARS_MAX)
    if any(char.isspace() for char in ip):
        raise InvalidParam("Param 'ip' is illegal, illegal characters should not appear in the param.")
    if _DIGITS_AND_DOTS.fullmatch(ip) and not _is_java_ipv4(ip):
        raise InvalidParam(f'The IPv4 address("{ip}") is incorrect.')


def _is_java_ipv4(text: str) -> bool:
    """Return whether Java's InetAddress reads it as numbers, as ``1.2.3`` and ``1234``: the last one fills the rest."""
    parts = text.split(".")
    if len(parts) > 4 or len(text) > 15 or not all(parts):
        return False
    *heads, last = (int(part) for part in parts)
    return all(head <= 0xFF for head in heads) and last < 1 << 8 * (5 - len(parts))


def check_port(port: int) -> None:
    """Check the number of a port: real Nacos would store any Java int.

    Raises:
        InvalidParam: the number is not a port.
    """
    if not 0 <= port <= PORT_MAX:
        raise InvalidParam(f"Param 'port' is illegal, it should be a number from 0 to {PORT_MAX}.")


def check_text(name: str, text: str, chars_max: int) -> None:
    """Refuse a text that is too long, or that would break a log line.

    Raises:
        InvalidParam: names the parameter.
    """
    if len(text) > chars_max:
        raise InvalidParam(f"Param '{name}' is illegal, the param length should not exceed {chars_max}.")
    check_printable(name, text)


def check_printable(name: str, text: str) -> None:
    """Refuse control characters and line separators, which would break a log line, and halves of surrogate pairs.

    Raises:
        InvalidParam: names the parameter.
    """
    if UNPRINTABLE.search(text):
        raise InvalidParam(f"Param '{name}' is illegal, illegal characters should not appear in the param.")


def check_address(namespace: str, full_name: str, cluster: str, ip: str, port: int) -> None:
    """Refuse an address at which no instance of that service can be registered, and so none can be removed.

    Raises:
        InvalidParam: names the field.
    """
    check_names(full_name, cluster, namespace)
    check_ip(ip)
    check_port(port)


def group_of(full_name: str) -> str:
    """Return the group of a full name, or the whole name if it does not have a group."""
    return full_name.partition(GROUP_SPLITTER)[0]


def split_name(full_name: str) -> tuple[str, str]:
    """Return the group and all that follows it; the whole name and an empty text if it has no group."""
    group, _, service = full_name.partition(GROUP_SPLITTER)
    return group, service


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


def dump_bucket(namespace: str, full_name: str) -> int:
    """Return the bucket of a service in a dump; services of one short name share it, in all groups."""
    return crc32(f"{namespace}\0{full_name.rpartition(GROUP_SPLITTER)[2]}".encode()) % DUMP_BUCKETS


def dump_order(services: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return services, each as ``(namespace, full name)``, in the order of their buckets."""
    # A sort of a million in one call would keep the event loop waiting.
    buckets: list[list[tuple[str, str]]] = [[] for _ in range(DUMP_BUCKETS)]
    for one in services:
        buckets[dump_bucket(*one)].append(one)
    return [one for bucket in buckets for one in bucket]


def instance_key(ip: str, port: int, cluster: str) -> str:
    """Return an instance's identity inside its service. Source: Nacos 1.4.1 Instance.getDatumKey."""
    return f"{ip}:{port}:unknown:{cluster}" if port > 0 else f"{ip}:unknown:{cluster}"


SIMPLE_ID = "\0simple"
"""This very object stands for the id that ``simple_instance_id`` makes from an instance's other fields."""


def simple_instance_id(ip: str, port: int, cluster: str, full_name: str) -> str:
    """Return the instance id of Nacos's default generator: address, cluster and service."""
    return f"{ip}#{port}#{cluster}#{full_name}"


class CheckedInstance(Protocol):
    """The fields of an instance that are checked, the same for every source: clients, datums and records."""

    @property
    def ip(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def cluster_name(self) -> str: ...
    @property
    def service_name(self) -> str: ...
    @property
    def app(self) -> str | None: ...
    @property
    def metadata(self) -> Metadata | None: ...


def check_instance(one: CheckedInstance, instance_id: str | None, namespace: str, full_name: str) -> None:
    """Refuse an instance of the service ``full_name`` that no client could register, or that would harm readers.

    ``instance_id``: the stored one, as ``kept_id`` returns it.

    Raises:
        InvalidParam: names the field.
    """
    check_names(full_name, one.cluster_name, namespace)
    if one.service_name and one.service_name != full_name:
        raise InvalidParam(f"Param 'serviceName' is illegal, it should be that of the instance's service: {full_name}")
    check_ip(one.ip)
    check_port(one.port)
    if one.app:
        check_text("app", one.app, APP_CHARS_MAX)
    if instance_id and instance_id is not SIMPLE_ID:  # that is made of the parts that were checked
        check_text("instanceId", instance_id, STORED_ID_CHARS_MAX)
    check_metadata_size(one.metadata)


def check_instance_key(key: str) -> None:
    """Refuse a text that is not the key of an instance. The key of every legal address passes.

    Raises:
        InvalidParam: it is too long, or not printable.
    """
    check_text("instance", key, INSTANCE_KEY_CHARS_MAX)


def check_metadata_size(metadata: Metadata | None) -> None:
    """Check the size of metadata.

    Raises:
        InvalidParam: keys and values together are over ``METADATA_CHARS_MAX``.
    """
    if metadata and sum(map(len, metadata)) + sum(map(len, filter(None, metadata.values()))) > METADATA_CHARS_MAX:
        raise InvalidParam(f"Param 'metadata' is illegal, the param length should not exceed {METADATA_CHARS_MAX}.")


def metadata_bytes(metadata: Metadata | None) -> int:
    """Return the bytes of all names and values, as UTF-8."""
    if not metadata:
        return 0
    text = "".join([*metadata, *filter(None, metadata.values())])
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def surplus_bytes(size: int, metadata: Metadata | None, ip: str, cluster: str, app: str | None) -> int:
    """Return by how many bytes an instance on the wire exceeds the estimate from its metadata of ``size`` bytes.

    They come from long names, each of which is in up to three fields, from many short names of metadata, and from
    characters that JSON escapes. Nearly always 0.
    """
    names = 3 * ((len(ip) if ip.isascii() else len(ip.encode())) + len(cluster)) + (len(app) if app else 0)
    surplus = names + (len(orjson.dumps(metadata)) if metadata else 0) - size * 5 // 4 - USUAL_BYTES
    return surplus if surplus > 0 else 0

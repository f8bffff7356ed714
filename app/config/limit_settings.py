"""The limits on the data and the work that clients may cause: their values, and the rows of their settings."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from app.config.settings_keys import Key, whole


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The limits; 0 means unlimited.

    For the limits of connections, memory and answers, 0 means that the node finds the value.
    """

    namespaces: int
    services_per_namespace: int
    instances_per_namespace: int
    instances_per_service: int
    persistent_instances: int
    metadata_bytes: int
    overrides: int
    foreign_instances: int
    clusters_per_service: int
    record_bytes: int
    subscribers: int
    subscriptions_per_connection: int
    fuzzy_patterns: int
    fuzzy_patterns_per_connection: int
    fuzzy_matches: int
    connections_per_address: int
    writes_per_second_per_address: int
    page_size: int
    memory_mb: int
    answers_mb: int


class LimitRow(NamedTuple):
    """The setting of one limit: the lowest and the highest value, the default and the purpose."""

    lowest: int
    highest: int
    default: int
    purpose: str
    nacos_name: str = ""
    """The name of the setting in Nacos, if it has one."""


COUNT_MAX = 1_000_000_000
RECORD_BYTES_MAX = 900_000
"""A body of less than 1 MiB is read by every member, at any compression ratio."""
ROWS: dict[str, LimitRow] = {
    "namespaces": LimitRow(
        0,
        COUNT_MAX,
        10_000,
        "Namespaces that contain a service, and as many created by name; a write that would add another is refused.",
    ),
    "services_per_namespace": LimitRow(
        0, COUNT_MAX, 1_000_000, "Services in one namespace; a write that would add another is refused."
    ),
    "instances_per_namespace": LimitRow(
        0,
        COUNT_MAX,
        2_000_000,
        "Instances in one namespace, over all its services; a write that would add another is refused.",
    ),
    "instances_per_service": LimitRow(
        0, COUNT_MAX, 200_000, "Instances of one service; a write that would add another is refused."
    ),
    "persistent_instances": LimitRow(
        0, COUNT_MAX, 200_000, "Persistent instances in total; each is a record on every member's disk."
    ),
    "metadata_bytes": LimitRow(
        0,
        1 << 50,
        1 << 30,
        "Bytes of metadata in total, of instances and services; a write that would add to them is refused.",
    ),
    "overrides": LimitRow(
        0,
        COUNT_MAX,
        50_000,
        "Instances that operators changed, in total; each change is a record on every member's disk.",
    ),
    "foreign_instances": LimitRow(
        1,
        10_000_000,
        200_000,
        "Instances that links to other clusters bring, in total; a service that would add more is not taken.",
    ),
    "clusters_per_service": LimitRow(
        0, COUNT_MAX, 128, "Clusters of one service with their own settings; a write that would add another is refused."
    ),
    "record_bytes": LimitRow(
        1_024,
        RECORD_BYTES_MAX,
        256 * 1_024,
        "Bytes of one durable record, such as a service's description with all its clusters; a larger record is "
        "refused.",
    ),
    "subscribers": LimitRow(0, COUNT_MAX, 1_000_000, "Subscriptions at this node in total, over UDP and gRPC."),
    "subscriptions_per_connection": LimitRow(1, 10_000, 10_000, "Subscriptions of one gRPC connection."),
    "fuzzy_patterns": LimitRow(
        0,
        COUNT_MAX,
        500,
        "Different patterns that the clients of this node watch; a further one is refused.",
        "nacos.naming.fuzzy.watch.max.pattern.count",
    ),
    "fuzzy_patterns_per_connection": LimitRow(
        0, COUNT_MAX, 50, "Patterns that one gRPC connection watches; a further one is refused."
    ),
    "fuzzy_matches": LimitRow(
        0,
        COUNT_MAX,
        100_000,
        "Services of one watched pattern that a client is shown; it learns that more match.",
        "nacos.naming.fuzzy.watch.max.pattern.match.service.count",
    ),
    "connections_per_address": LimitRow(
        0,
        COUNT_MAX,
        0,
        "Connections from one client address over HTTP, and as many over gRPC (IPv6: from one /64); "
        "0 allows nine tenths of all connections of the node, for each protocol and in total.",
    ),
    "writes_per_second_per_address": LimitRow(
        0,
        COUNT_MAX,
        0,
        "Writes from one client address per second, in bursts of up to five seconds' worth (IPv6: from one /64); "
        "beats do not count. 0 removes the limit.",
    ),
    "page_size": LimitRow(1, 1_000_000, 10_000, "Entries of one page of a list; a larger page is cut to this size."),
    "memory_mb": LimitRow(
        0,
        1 << 30,
        0,
        "The memory limit of this process (MiB); near it, new services are refused, and then new instances. 0 is the "
        "limit of the cgroup, or no limit without one.",
    ),
    "answers_mb": LimitRow(
        0,
        1 << 20,
        0,
        "Answers that are being made, are queued or are not read yet (MiB), over HTTP and gRPC together; another "
        "large one is refused. 0 is an eighth of the memory limit, and at most 48.",
    ),
}
"""The rows by field of ``LimitSettings``. Zero means unlimited, unless the purpose says otherwise."""


def limit_key(field: str) -> str:
    """Return the name of a limit's setting: ``rollcall.limit.pageSize`` for ``page_size``."""
    first, *others = field.split("_")
    return "rollcall.limit." + first + "".join(map(str.capitalize, others))


LIMITS: dict[str, Key[int]] = {
    field: Key(
        (limit_key(field), *filter(None, [row.nacos_name])),
        whole(row.lowest, row.highest),
        str(row.default),
        row.purpose,
    )
    for field, row in ROWS.items()
}
"""The limits, by field of LimitSettings."""
LIMIT_KEYS: tuple[Key[Any], ...] = tuple(LIMITS.values())

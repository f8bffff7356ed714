"""The number of connections that fit under the limit of open files."""

import resource

FILES_SPARE = 256
"""Descriptors reserved for calls to peers, DNS over TCP, logs and the data folder."""
CONNECTIONS_MAX = 20_000
"""The most connections of one frontend. An idle one takes some 5 KB over HTTP, and 10 to 15 KB over gRPC."""
UNREGISTERED_MAX = 4_096
"""The most gRPC connections without a setup, in addition to those."""
MEMBERS_MAX = 4_096
"""The most connections of other members."""
CONNECTIONS_MIN = 64
"""The least number of connections of all kinds together, even with a very low limit."""


def files_wanted(*, has_grpc: bool) -> int:
    """Return the limit of open files at which only these bounds limit the connections."""
    of_grpc = CONNECTIONS_MAX + UNREGISTERED_MAX if has_grpc else 0
    return CONNECTIONS_MAX + of_grpc + MEMBERS_MAX + FILES_SPARE


def raise_limit(wanted: int) -> None:
    """Raise this process's limit of open files to ``wanted``, or as far as the system allows.

    Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def room_for_connections(files: int | None = None) -> int | None:
    """Return the most connections of all kinds together under a limit of open ``files``; None for any number.

    ``files``: the current limit by default. A frontend survives without a free descriptor, and closes connections that
    it cannot accept. But opening files and calling members would fail as well.
    """
    if files is None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if files == resource.RLIM_INFINITY else max(files - FILES_SPARE, CONNECTIONS_MIN)

"""How many connections fit under the limit of open files."""

import resource

from app.config.settings import Settings

FILES_SPARE = 256
"""Descriptors kept for peers, logs and the data folder."""
CONNECTIONS_MAX = 20_000
"""Of one door. An idle one over HTTP takes some 5 KB, over gRPC ten times that."""
CONNECTIONS_MIN = 64


def frontends(settings: Settings) -> int:
    """How many doors a node has whose clients keep connections."""
    return 1 if settings.rpc is None else 2


def raise_limit(frontends: int) -> None:
    """Raise the limit of this process and its children as far as so many doors can use, and as far as is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = frontends * CONNECTIONS_MAX + FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connections_max(frontends: int) -> int:
    """How many connections each of so many doors may hold under today's limit.

    Without a descriptor free a door goes on, and closes what it cannot accept; but files and calls to members would
    fail then, too.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, (soft - FILES_SPARE) // frontends), CONNECTIONS_MIN)

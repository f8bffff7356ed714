"""The number of connections that fit under the limit of open files."""

import resource

from app.config.settings import Settings

FILES_SPARE = 256
"""Descriptors kept for peers, logs and the data folder."""
CONNECTIONS_MAX = 20_000
"""The most connections of one frontend. An idle one takes about 5 KB over HTTP, and ten times that over gRPC."""
CONNECTIONS_MIN = 64


def frontends(settings: Settings) -> int:
    """The number of frontends with connections that clients keep: HTTP, and gRPC if it is enabled."""
    return 1 if settings.rpc is None else 2


def raise_limit(frontends: int) -> None:
    """Raise this process's limit of open files to the need of ``frontends``, or as far as the system allows.

    Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = frontends * CONNECTIONS_MAX + FILES_SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connections_max(frontends: int) -> int:
    """The most connections that each of ``frontends`` may keep under the current limit of open files.

    A frontend survives without a free descriptor, and closes connections that it cannot accept. But opening files and
    calling members would fail as well.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, (soft - FILES_SPARE) // frontends), CONNECTIONS_MIN)

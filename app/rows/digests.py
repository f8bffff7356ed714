"""Digests of a member's state: of instances, of services, and of buckets of services, for the watch.

A digest is a sum, so the order in which a member holds its instances does not matter. It covers the values that clients
see, without versions, owners and the ages of beats, which not every kind of member gives.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

DIGEST_FORMAT = 1
"""The version of the digests: digests of two versions cannot be compared."""
BUCKETS = 256
_DIGESTED = ("namespace", "service", "cluster", "ip", "port", "ephemeral", "healthy", "enabled")
_SUM = (1 << 64) - 1


def bucket_of(namespace: str, service: str) -> int:
    """Return the bucket of a service, by its full name."""
    return blake2b(f"{namespace}\0{service}".encode(), digest_size=1).digest()[0]


def instance_digest(row: Mapping[str, Any]) -> int:
    """Return the digest of one instance with the service that it is in, by the fields of its row (see ``rows``)."""
    values = [row[name] for name in _DIGESTED]
    values += float(row["weight"]), row["metadata"] or {}
    text = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def digest_text(total: int) -> str:
    """Return a sum of digests as 16 hexadecimal digits."""
    return f"{total & _SUM:016x}"

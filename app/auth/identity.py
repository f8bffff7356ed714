"""The identity of a cluster's members: a secret that all of them have, and the keys that are made of it."""

import hmac
from dataclasses import dataclass, field

from app.config.identity_settings import IdentitySettings, NamedNacos

_KEY_LABEL = b"rollcall members' calls, key 1"


@dataclass(frozen=True, slots=True)
class Identity:
    """The header that real Nacos sends the secret by, its values, and the key to sign with of each."""

    header: str
    values: tuple[str, ...] = field(repr=False)
    """The value that this member has, and behind it the previous one, if there is one."""
    keys: tuple[bytes, ...] = field(repr=False)
    nacos: NamedNacos
    """The members that are real Nacos: only they are sent the secret itself, and may send it."""
    grpc_exempt: frozenset[str]
    """Addresses of members whose calls over gRPC name no identity."""

    @property
    def name(self) -> str:
        """The header's name in lower case."""
        return self.header.lower()

    def is_value(self, text: str | None) -> bool:
        """Whether it is a value of the secret. It takes as long for any text of one length."""
        given = (text or "").encode("utf-8", "replace")
        # All are compared, by a sum: how many were would tell which one it is.
        return sum(hmac.compare_digest(given, value.encode()) for value in self.values) > 0


def identity_of(settings: IdentitySettings | None) -> Identity | None:
    """The identity that the settings describe; None without one."""
    if settings is None:
        return None
    values = (settings.value, settings.previous) if settings.previous else (settings.value,)
    keys = tuple(hmac.digest(value.encode(), _KEY_LABEL, "sha256") for value in values)
    return Identity(settings.header, values, keys, settings.nacos, settings.grpc_exempt)

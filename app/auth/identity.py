"""The identity of a cluster's members: a secret that all of them have, and the keys derived from it."""

import hmac
from dataclasses import dataclass, field

from app.config.identity_settings import IdentitySettings, NamedNacos

_KEY_LABEL = b"rollcall members' calls, key 1"


@dataclass(frozen=True, slots=True)
class Identity:
    """The header in which real Nacos sends the secret, its values, and the signing key of each."""

    header: str
    values: tuple[str, ...] = field(repr=False)
    """This member's value, and after it the previous one, if there is one."""
    keys: tuple[bytes, ...] = field(repr=False)
    nacos: NamedNacos
    """The members that are real Nacos: only they are sent the secret itself, and may send it."""
    grpc_exempt: frozenset[str]
    """Addresses of members whose calls over gRPC carry no identity."""

    @property
    def name(self) -> str:
        """The header's name in lower case."""
        return self.header.lower()

    def is_value(self, text: str | None) -> bool:
        """Return whether it is a value of the secret, in equal time for all texts of one length."""
        given = (text or "").encode("utf-8", "replace")
        # All values are compared, and the results summed: the number of comparisons would show which one matched.
        return sum(hmac.compare_digest(given, value.encode()) for value in self.values) > 0


def identity_of(settings: IdentitySettings | None) -> Identity | None:
    """Return the identity of the settings; None without one."""
    if settings is None:
        return None
    values = (settings.value, settings.previous) if settings.previous else (settings.value,)
    keys = tuple(hmac.digest(value.encode(), _KEY_LABEL, "sha256") for value in values)
    return Identity(settings.header, values, keys, settings.nacos, settings.grpc_exempt)

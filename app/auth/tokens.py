"""Tokens of users: JSON web tokens, signed by HMAC-SHA256 with the key that all members share."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import jwt

from app.auth.refusals import TOKEN_EXPIRED, TOKEN_INVALID, AccessDenied
from app.naming.records.user_records import TOKEN_ID_CHARS

ALGORITHM = "HS256"
"""The only accepted algorithm: a token that names another one, or none, is not read any further."""
TOKEN_CHARS_MAX = 2_048
FIRST_ADMIN_S = 10
AHEAD_MAX_S = 60
"""A token of real Nacos made later than this from now is refused. Servers' clocks do not differ so much, and nothing
else bounds how long such a token would outlive its revocation."""
_FIRST_ADMIN = "first-admin"


@dataclass(frozen=True, slots=True)
class TokenContent:
    """The content of a token. ``generation``: None in a token that real Nacos made with the same key."""

    user: str
    generation: str | None
    end_s: int
    begin_s: int
    """When it was made; for a token without that time, its end minus the time to live."""


class Tokens:
    """Makes and reads tokens. Thread-safe. ``read`` takes some 30 us: callers should remember the result."""

    def __init__(self, key: bytes, ttl_s: int, wall_ms: Callable[[], int]) -> None:
        self.ttl_s = ttl_s
        self._key = key
        self._wall_ms = wall_ms

    def make(self, user: str, generation: str) -> str:
        """Return a token of a user, valid from now on."""
        now_s = self._wall_ms() // 1_000
        claims = {"sub": user, "iat": now_s, "exp": now_s + self.ttl_s, "gen": generation, "jti": secrets.token_hex(8)}
        return jwt.encode(claims, self._key, ALGORITHM)

    def read(self, token: str) -> TokenContent:
        """Return the content of a token, if its signature is right and it has not expired.

        Raises:
            AccessDenied: the token is invalid, or expired.
        """
        claims = self._decode(token)
        user, end_s, generation = claims.get("sub"), claims.get("exp"), claims.get("gen")
        if (
            type(user) is not str
            or not user
            or type(end_s) is not int
            or not (generation is None or _is_text(generation))
        ):
            raise AccessDenied(TOKEN_INVALID)
        begin_s = claims.get("iat", end_s - self.ttl_s)
        if type(begin_s) is not int:
            raise AccessDenied(TOKEN_INVALID)
        if generation is None and begin_s > self._wall_ms() // 1_000 + AHEAD_MAX_S:
            raise AccessDenied(TOKEN_INVALID)
        return TokenContent(user, generation, end_s, begin_s)

    def make_first_admin(self) -> str:
        """Return a token of this member, valid for seconds: it lets the users' owner make the first administrator."""
        return jwt.encode({"exp": self._wall_ms() // 1_000 + FIRST_ADMIN_S, "use": _FIRST_ADMIN}, self._key, ALGORITHM)

    def is_first_admin(self, token: str) -> bool:
        """Return whether it is a token of ``make_first_admin``. No user's token is."""
        try:
            claims = self._decode(token)
        except AccessDenied:
            return False
        return claims.get("use") == _FIRST_ADMIN and "sub" not in claims

    def _decode(self, token: str) -> dict[str, Any]:
        if len(token) > TOKEN_CHARS_MAX or not token.isascii():
            raise AccessDenied(TOKEN_INVALID)
        # The time is compared here, by the same clock as everywhere. A token that begins later is not refused for it,
        # because the clocks of members differ.
        options: Any = {"require": ["exp"], "verify_exp": False, "verify_iat": False, "verify_aud": False}
        try:
            claims = jwt.decode(token, self._key, algorithms=[ALGORITHM], options=options)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise AccessDenied(TOKEN_INVALID) from None
        if type(claims["exp"]) is not int:
            raise AccessDenied(TOKEN_INVALID)
        if claims["exp"] * 1_000 <= self._wall_ms():
            raise AccessDenied(TOKEN_EXPIRED)
        return claims


def id_of(token: str) -> str:
    """Return the id of a token for its end. It leaves out the signature, which can be written in several ways."""
    return sha256(token.rpartition(".")[0].encode("utf-8", "replace")).hexdigest()[:TOKEN_ID_CHARS]


def _is_text(value: object) -> bool:
    return type(value) is str

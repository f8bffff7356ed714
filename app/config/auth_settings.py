"""The settings of users and tokens, and the token keys that are refused."""

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path

from app.config.settings_keys import FLAG, TEXT, Key, SettingError, not_allowed, whole
from app.languages.phrases import phrase

FIRST_ADMIN_FILE = "first-admin.secret"
"""The file in the data folder with the secret for making the first administrator, while there is none."""
FIRST_ADMIN_BYTES_MAX = 256
AUTH_ENABLED = Key(
    ("nacos.core.auth.enabled",), FLAG, "false", "Require a user with the permission for each call; see security.md."
)
TOKEN_KEY = Key(
    ("nacos.core.auth.plugin.nacos.token.secret.key", "nacos.core.auth.default.token.secret.key"),
    TEXT,
    "",
    "The key of the tokens of users, the same on all members: base64 of at least 32 random bytes; a secret.",
)
TOKEN_TTL = Key(
    ("nacos.core.auth.plugin.nacos.token.expire.seconds", "nacos.core.auth.default.token.expire.seconds"),
    whole(60, 31_536_000),
    "18000",
    "How long a token is valid (s); client libraries log in again before it ends.",
)
AUTH_KEYS = (AUTH_ENABLED, TOKEN_KEY, TOKEN_TTL)

KEY_BYTES_MIN = 32
"""The least length of the key, for HMAC-SHA256. Source: RFC 7518, 3.2."""
DISTINCT_BYTES_MIN = 12
"""The fewest different bytes in a key. All but one in 10^13 random keys have more; repeated letters have fewer."""
PUBLISHED_KEYS = frozenset(
    {
        "SecretKey012345678901234567890123456789012345678901234567890123456789",
        "SecretKey01234567890123456789012345345678999987654901234567890123456789",
        "VGhpc0lzTXlDdXN0b21TZWNyZXRLZXkwMTIzNDU2Nzg=",
        "VGhpc0lzTXlDdXN0b21TZWNyZXRLZXkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODk=",
    }
)
"""Default keys of Nacos up to 1.4.4 and 2.2.0, and keys in its guides and images: everybody can sign with them."""
_PUBLISHED_BEGIN = "SecretKey0123456789"
_PUBLISHED = phrase("it is a published default, with which anyone can make tokens")
HOW_TO_MAKE = phrase("make one with: %(command)s", command="openssl rand -base64 48")


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """The settings while users are enabled: the key of their tokens, and how long a token is valid."""

    token_key: bytes = field(repr=False)
    token_ttl_s: int


def parse_token_key(text: str, origin: str) -> bytes:
    """Return the bytes of the token key. ``origin``: the name of its source. Errors do not repeat the key.

    Raises:
        SettingError: it is missing, published, no base64, short, or too simple.
    """

    def refused(why: str) -> SettingError:
        return not_allowed(TOKEN_KEY.name, origin, phrase("%(why)s; %(advice)s", why=why, advice=HOW_TO_MAKE))

    if not text:
        raise SettingError(
            phrase(
                "%(setting)s=true needs %(key)s, the same on all members: base64 of at least %(count)s random bytes; "
                "%(advice)s",
                setting=AUTH_ENABLED.name,
                key=TOKEN_KEY.name,
                count=KEY_BYTES_MIN,
                advice=HOW_TO_MAKE,
            )
        )
    if text in PUBLISHED_KEYS or text.startswith(_PUBLISHED_BEGIN):
        raise refused(_PUBLISHED)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise refused(phrase("it should be base64")) from None
    if key.startswith((_PUBLISHED_BEGIN.encode(), b"ThisIsMyCustomSecretKey")):
        raise refused(_PUBLISHED)
    if len(key) < KEY_BYTES_MIN:
        raise refused(
            phrase("it has %(count)s bytes, and should have %(least)s or more", count=len(key), least=KEY_BYTES_MIN)
        )
    if len(set(key)) < DISTINCT_BYTES_MIN:
        raise refused(phrase("it is too simple, and should be random"))
    return key


def read_secret(path: Path) -> str | None:
    """Return the secret in a file; None if no file can be read. Pipes, and links to files of others, hold none.

    Reads no more than a secret's length, and waits for no pipe.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
            return (file.read(FIRST_ADMIN_BYTES_MAX) or b"").decode("utf-8", "replace").strip()
    except OSError:
        return None

"""With which keys of tokens a node starts, and with which it does not."""

import base64

import pytest

from app.config.auth_settings import HOW_TO_MAKE, PUBLISHED_KEYS, AuthSettings
from app.config.settings import SettingError, read_settings

ENABLED = "nacos.core.auth.enabled"
KEY = "nacos.core.auth.plugin.nacos.token.secret.key"
OLD_KEY = "nacos.core.auth.default.token.secret.key"
RANDOM = bytes(range(7, 55))


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


@pytest.mark.parametrize("name", [KEY, OLD_KEY])
@pytest.mark.parametrize("text", [encoded(RANDOM), encoded(RANDOM[:32]).rstrip("=")])
def test_a_random_key_is_taken_under_both_names(name: str, text: str) -> None:
    auth = read_settings({ENABLED: "true", name: text}, {}).auth
    assert auth is not None
    assert auth.token_key == base64.b64decode(text + "=" * (-len(text) % 4))
    assert auth.token_ttl_s == 18_000


@pytest.mark.parametrize("name", ["plugin.nacos.token", "default.token"])
def test_the_time_to_live_has_both_names(name: str) -> None:
    settings = {ENABLED: "true", KEY: encoded(RANDOM), f"nacos.core.auth.{name}.expire.seconds": "60"}
    assert read_settings(settings, {}).auth == AuthSettings(RANDOM, 60)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "needs"),
        *((one, "published default") for one in sorted(PUBLISHED_KEYS)),
        (encoded(b"SecretKey0123456789" * 3), "published default"),
        (encoded(b"ThisIsMyCustomSecretKey999999999999"), "published default"),
        (encoded(RANDOM[:31]), "31 bytes"),
        ("x" * 43 + "!", "base64"),
        ("\u00fc" * 44, "base64"),
        (encoded(b"a" * 64), "too simple"),
        (encoded(b"0123456789" * 5), "too simple"),
    ],
)
def test_any_other_is_refused_without_being_repeated(text: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings({ENABLED: "true", KEY: text}, {})
    message = str(refused.value)
    assert why in message
    assert KEY in message
    assert HOW_TO_MAKE in message
    assert not text or text not in message


def test_without_users_no_key_is_looked_at() -> None:
    assert read_settings({KEY: "short"}, {}).auth is None


def test_the_key_is_in_no_text_of_the_settings() -> None:
    settings = read_settings({ENABLED: "true", KEY: encoded(RANDOM)}, {})
    assert str(RANDOM) not in repr(settings)
    assert encoded(RANDOM) not in repr(settings)

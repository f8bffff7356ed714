"""Tokens that are taken, and those that are not."""

import base64
import json

import jwt
import pytest

from app.auth.refusals import TOKEN_EXPIRED, TOKEN_INVALID, AccessDenied
from app.auth.tokens import TOKEN_CHARS_MAX, TokenContent, Tokens

KEY, OTHER_KEY = bytes(range(48)), bytes(range(1, 49))
NOW_S = 1_700_000_000
RSA_LIKE = "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n"


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> int:
        return self.now_s * 1_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    return Tokens(KEY, 600, clock)


def forged(header: dict[str, object], claims: object, signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_a_token_says_who_and_until_when(tokens: Tokens) -> None:
    assert tokens.read(tokens.make("bob", "g1")) == TokenContent("bob", "g1", NOW_S + 600, NOW_S)


def test_a_token_ends_with_its_time(tokens: Tokens, clock: Clock) -> None:
    token = tokens.make("bob", "g1")
    clock.now_s += 599
    assert tokens.read(token).user == "bob"
    clock.now_s += 1
    with pytest.raises(AccessDenied, match=TOKEN_EXPIRED):
        tokens.read(token)


def test_a_token_of_a_member_whose_clock_is_ahead_is_taken(tokens: Tokens, clock: Clock) -> None:
    ahead = Tokens(KEY, 600, lambda: (NOW_S + 300) * 1_000)
    assert tokens.read(ahead.make("bob", "g1")).user == "bob"


def test_a_token_of_real_nacos_with_the_same_key_is_taken(tokens: Tokens) -> None:
    token = jwt.encode({"sub": "bob", "exp": NOW_S + 100}, KEY, "HS256")
    assert tokens.read(token) == TokenContent("bob", None, NOW_S + 100, NOW_S - 500)


GOOD = {"sub": "bob", "exp": NOW_S + 100, "gen": "g1"}


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "auth-is-off",
        "\u00fc.a.b",
        jwt.encode(GOOD, OTHER_KEY, "HS256"),
        jwt.encode(GOOD, KEY, "HS384"),
        jwt.encode(GOOD, KEY + KEY, "HS512"),
        forged({"alg": "none", "typ": "JWT"}, GOOD),
        forged({"alg": "None"}, GOOD),
        forged({"alg": "RS256", "typ": "JWT"}, GOOD, b"x" * 256),
        forged({"alg": "ES256"}, GOOD, b"x" * 64),
        forged({"alg": "HS256"}, GOOD, b""),
        forged({"alg": "HS256", "kid": "../../dev/null", "jku": "http://127.0.0.1/"}, GOOD, b"x" * 32),
        forged({}, GOOD, b"x" * 32),
        jwt.encode({"sub": "bob"}, KEY, "HS256"),
        jwt.encode({"exp": NOW_S + 100}, KEY, "HS256"),
        jwt.encode({"sub": "", "exp": NOW_S + 100}, KEY, "HS256"),
        jwt.encode({**GOOD, "gen": 7}, KEY, "HS256"),
        jwt.encode({**GOOD, "sub": "b" * TOKEN_CHARS_MAX}, KEY, "HS256"),
        jwt.encode(GOOD, KEY, "HS256") + "x",
        "[" * 1_500 + "." + "[" * 100 + ".x",
    ],
)
def test_anything_else_is_refused(tokens: Tokens, token: str) -> None:
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        tokens.read(token)


@pytest.mark.parametrize("end", ["soon", 1e300, [], None, True])
def test_an_end_that_is_no_number_is_refused(tokens: Tokens, end: object) -> None:
    token = jwt.encode({"sub": "bob", "exp": end}, KEY, "HS256")
    with pytest.raises(AccessDenied):
        tokens.read(token)


def test_the_token_for_the_first_administrator_is_no_users_and_the_other_way_round(tokens: Tokens) -> None:
    first = tokens.make_first_admin()
    assert tokens.is_first_admin(first)
    assert not tokens.is_first_admin(tokens.make("bob", "g1"))
    assert not tokens.is_first_admin(Tokens(OTHER_KEY, 600, lambda: NOW_S * 1_000).make_first_admin())
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        tokens.read(first)

"""No change of a token is taken, and none makes anything but a refusal."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.auth.refusals import AccessDenied
from app.auth.tokens import Tokens

NOW_S = 1_700_000_000
TOKENS = Tokens(bytes(range(48)), 600, lambda: NOW_S * 1_000)
TOKEN = TOKENS.make("bob", "g1")
ALPHABET = st.characters(codec="latin-1")


def same_signature(token: str) -> bool:
    """Whether it differs in bits alone that base64 does not count, at the end of its last part."""
    return token[:-1] == TOKEN[:-1] and len(token) == len(TOKEN)


@given(st.integers(0, len(TOKEN) - 1), ALPHABET)
def test_a_changed_character_is_refused(place: int, character: str) -> None:
    token = TOKEN[:place] + character + TOKEN[place + 1 :]
    assume(token != TOKEN and not same_signature(token))
    with pytest.raises(AccessDenied):
        TOKENS.read(token)


@given(st.integers(0, len(TOKEN) - 1))
def test_a_part_of_a_token_is_refused(length: int) -> None:
    with pytest.raises(AccessDenied):
        TOKENS.read(TOKEN[:length])


@given(st.text(ALPHABET, min_size=1, max_size=20))
def test_a_token_with_more_behind_it_is_refused(more: str) -> None:
    assume(more.strip("="))
    with pytest.raises(AccessDenied):
        TOKENS.read(TOKEN + more)


@given(st.text(max_size=300) | st.lists(st.text("abcXYZ019-_=", max_size=80), max_size=5).map(".".join))
def test_any_text_is_refused(text: str) -> None:
    assume(text != TOKEN)
    with pytest.raises(AccessDenied):
        TOKENS.read(text)

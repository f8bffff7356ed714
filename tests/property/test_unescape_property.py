"""Escapes are undone as the standard library undoes them."""

from urllib.parse import unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from app.http.input.forms import PIECE_BYTES, unescape

PIECES = st.sampled_from(
    [b"%", b"%%", b"%4", b"%41", b"%3d", b"%3D", b"%25", b"=", b"==", b"=\n", b"=41", b"\r\n", b"\n", b" ", b"_"]
)


@given(
    st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=30).map(b"".join),
    st.integers(PIECE_BYTES - 40, PIECE_BYTES),
)
def test_an_escape_between_two_pieces_stays_whole(raw: bytes, before: int) -> None:
    whole = b"%" + bytes(before) + raw + bytes(PIECE_BYTES) + raw
    assert unescape(whole) == unquote_to_bytes(whole)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=30).map(b"".join))
def test_escapes_are_undone(raw: bytes) -> None:
    assert unescape(raw) == unquote_to_bytes(raw)

"""The properties parser against a writer of the same syntax, which escapes and lays out at random."""

from hypothesis import given
from hypothesis import strategies as st

from app.config.properties import parse_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEY = TEXT.filter(bool)
SPACE = st.text(" \t\f", max_size=2)
NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def unicode_escapes(character: str) -> str:
    code = character.encode("utf-16-be")
    return "".join(f"\\u{code[at : at + 2].hex()}" for at in range(0, len(code), 2))


@st.composite
def written(draw: st.DrawFn, text: str, special: str) -> str:
    """Write a key or value, with every character escaped that must be and any other that may be."""
    parts = []
    for at, character in enumerate(text):
        if character in NAMED:
            parts.append(draw(st.sampled_from([NAMED[character], unicode_escapes(character)])))
        elif character in special + "\\" or (at == 0 and character in " #!=:"):
            parts.append(draw(st.sampled_from(["\\" + character, unicode_escapes(character)])))
        else:
            parts.append(draw(st.sampled_from([character, unicode_escapes(character)])))
        # A line goes on only where something follows, and leading blanks of the next line would be lost.
        if text[at + 1 : at + 2] not in ("", " ") and draw(st.integers(0, 9)) == 0:
            parts.append(draw(st.sampled_from(["\\\n", "\\\r\n", "\\\r"])) + draw(SPACE))
    return "".join(parts)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    entries = draw(st.lists(st.tuples(KEY, TEXT), max_size=6))
    lines = []
    for key, value in entries:
        lines += draw(st.lists(st.sampled_from(["", "  ", "# a=b", "! a=b \\", "\t#"]), max_size=2))
        separator = draw(SPACE) + draw(st.sampled_from("=:")) + draw(SPACE)
        lines.append(draw(SPACE) + draw(written(key, " =:")) + separator + draw(written(value, "")))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    return end.join(lines), dict(entries)


@given(files())
def test_what_was_written_is_read(file: tuple[str, dict[str, str]]) -> None:
    text, entries = file
    assert parse_properties(text) == entries


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "\\u" not in text))
def test_any_text_is_read_without_failing(text: str) -> None:
    parse_properties(text)

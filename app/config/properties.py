"""Java's ``.properties`` syntax, so that an ``application.properties`` of Nacos can be read as it is."""

import re
from collections.abc import Iterator

from app.languages.phrases import phrase

_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_SPACE = " \t\f"
_ENTRY = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a properties file; the last entry of a key wins.

    Source: the documentation of Java's ``java.util.Properties.load``.

    Raises:
        ValueError: an escape ``\\u`` without four hexadecimal digits after it.
    """
    entries = {}
    for line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None, "the pattern takes any text without a lone backslash at its end"
        entries[_unescape(entry["key"])] = _unescape(entry["value"])
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines with continuations joined, without blank lines and comments, which are never continued."""
    begun: str | None = None
    for natural in _NATURAL_LINE.split(text):
        part = natural.lstrip(_SPACE)
        if begun is None and (not part or part[0] in "#!"):
            continue
        line = (begun or "") + part
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            begun = line[:-1]
        else:
            begun = None
            yield line
    if begun is not None:
        yield begun


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescaped, text)
    # Java writes a character outside the basic plane as two escapes, the surrogates of one UTF-16 pair.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    if escaped == "u":
        raise ValueError(phrase("an escape %(escape)s needs four hexadecimal digits", escape="\\u"))
    return _NAMED.get(escaped, escaped)

"""Strangers' text on a terminal: names and metadata are as clients registered them."""

import json
import re
import shutil
import sys
from typing import Any


def printable(text: str) -> str:
    """Return the text with an escape for each character that controls a terminal or changes the writing direction."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def write_line(text: str, indent: str = "  ") -> None:
    """Write a line on standard output. A terminal gets it broken between words, further lines with ``indent``."""
    sys.stdout.write(f"{_broken(text, indent) if sys.stdout.isatty() else text}\n")


def write_note(text: str) -> None:
    """Write a line on standard error, after all that is on standard output, as ``write_line`` does."""
    sys.stdout.flush()
    sys.stderr.write(f"{_broken(text) if sys.stderr.isatty() else text}\n")


def _broken(text: str, indent: str = "  ") -> str:
    """Return the text in lines that fit the terminal; a longer word, such as a path, stays whole to be copied."""
    from rich.cells import cell_len

    room, lines = shutil.get_terminal_size().columns, list[str]()
    for word in re.split(r"(?<=\S) (?=\S)", text):  # several spaces align, and stay
        if lines and cell_len(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}{word}" if lines else word)
    return "\n".join(lines)


def json_text(value: Any) -> str:
    """Return the value as indented JSON. Letters of any script stay; characters that control a terminal are escaped."""
    return "\n".join(map(_safe_json, _json(value, indent=2).split("\n")))


def json_line(value: Any) -> str:
    """Return the value as one line of JSON, escaped as in ``json_text``."""
    return _safe_json(_json(value))


def yaml_text(value: Any) -> str:
    """Return the value as YAML. Letters stay, unless a character controls a terminal: then all but ASCII is escaped."""
    import yaml

    def dumped(*, is_unicode: bool) -> str:
        return str(yaml.safe_dump(value, allow_unicode=is_unicode, sort_keys=False, width=float("inf")))

    text = dumped(is_unicode=_takes_unicode())
    return text if text.replace("\n", "").isprintable() else dumped(is_unicode=False)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=not _takes_unicode())


def _takes_unicode() -> bool:
    """Return whether standard output takes every letter; an escape by its encoder would not be JSON."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")


def _safe_json(line: str) -> str:
    """Return a line of JSON with its unprintable characters as JSON's escapes. They only occur within strings."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)

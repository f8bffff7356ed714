"""Strangers' text on a terminal: names and metadata hold whatever somebody registered."""

import json
import sys
from typing import Any


def printable(text: str) -> str:
    """Return the text with an escape for each character that controls a terminal or changes the writing direction."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


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
    """Return whether standard output takes every letter; an escape by its encoder would be no JSON."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")


def _safe_json(line: str) -> str:
    """Return a line of JSON with its unprintable characters as JSON's escapes. They only occur within strings."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)

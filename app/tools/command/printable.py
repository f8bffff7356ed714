"""Strangers' text on a terminal: names and metadata hold whatever somebody registered."""

import json
from typing import Any


def printable(text: str) -> str:
    """Return the text with an escape for each character that controls a terminal or changes the writing direction."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def json_text(value: Any) -> str:
    """Return the value as indented JSON in ASCII: other characters, which could control a terminal, are escaped."""
    return json.dumps(value, indent=2, ensure_ascii=True)

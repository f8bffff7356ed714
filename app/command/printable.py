"""Text of strangers on a terminal: names and metadata hold whatever somebody registered."""

import json
from typing import Any


def printable(text: str) -> str:
    """The text with an escape for each character that a terminal would obey, or that turns its neighbours around."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def json_text(value: Any) -> str:
    """The value as indented JSON of ASCII alone: what is not, and could drive a terminal, is escaped."""
    return json.dumps(value, indent=2, ensure_ascii=True)

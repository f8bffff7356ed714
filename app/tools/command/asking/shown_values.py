"""Values of answers as cells, with a text for every value of a server."""

from collections.abc import Mapping
from typing import Any

from app.naming.model.ip_addresses import host_port
from app.tools.command.asking.terminal_table import Cell, Tone

DEFAULT_GROUP = "DEFAULT_GROUP"
METADATA_CHARS_MAX = 200
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def text_of(row: Mapping[str, Any], name: str, default: str = "-") -> str:
    """Return a field's text; the default if the field is missing, null or empty."""
    value = row.get(name)
    return default if value is None or value == "" else str(value)


def weight_text(row: Mapping[str, Any]) -> str:
    """Return the weight of an instance, without zeros after its point."""
    value = row.get("weight")
    return f"{value:g}" if isinstance(value, int | float) else "-"


def short_service(group: str, name: str) -> str:
    """Return a service's name as commands take it: with its group, unless that is the default one."""
    return name if group in ("", DEFAULT_GROUP) else f"{group}@@{name}"


def address_of(row: Mapping[str, Any]) -> str:
    """Return ``ip:port`` of an instance or client, an IPv6 address in brackets."""
    ip = text_of(row, "ip", "?")
    return host_port(ip, text_of(row, "port", "?"))


def flag_cell(value: object, yes: str, no: str) -> Cell:
    """Return a boolean as a word, in the colour of a fault if it is false."""
    return Cell(yes, Tone.GOOD) if value is True else Cell(no, Tone.BAD) if value is False else Cell("-")


def metadata_text(value: object) -> str:
    """Return metadata as ``a=1 b=2``, sorted, and cut if it is long."""
    if not isinstance(value, Mapping) or not value:
        return "-"
    text = " ".join(f"{name}={value[name]}" for name in sorted(value, key=str))
    return text if len(text) <= METADATA_CHARS_MAX else f"{text[:METADATA_CHARS_MAX]}..."


def age_text(ms: object) -> str:
    """Return a time span in one unit: ``0.4 s``, ``12 min``, ``3 h``, ``5 d``."""
    if not isinstance(ms, int | float):
        return "-"
    if ms < MINUTE_MS * 2:
        return f"{max(ms, 0) / 1_000:.1f} s"
    if ms < HOUR_MS * 2:
        return f"{ms // MINUTE_MS:.0f} min"
    return f"{ms // HOUR_MS:.0f} h" if ms < DAY_MS * 2 else f"{ms // DAY_MS:.0f} d"

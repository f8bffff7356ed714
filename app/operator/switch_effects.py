"""The effects of switches that turn clients away or hide faults, for the people who set them and forget them. Pure."""

from collections.abc import Mapping

from app.naming.model.switches import STATUSES, SwitchDomain, is_served

STATUS, LIMITED, HEALTH = "overriddenServerStatus", "limitedUrlMap", "healthCheckEnabled"
TURNS_AWAY = frozenset((STATUS, LIMITED))
"""The switches with which members refuse calls of clients."""
PATHS_SHOWN = 3
VALUE_CHARS_SHOWN = 100


def effect_of(name: str, value: object) -> str:
    """Return what a switch with this value, as JSON, has members do that harms; empty if it harms nobody."""
    if name == STATUS and value in STATUSES:
        return _effect_of_status(str(value))
    if name == LIMITED and isinstance(value, Mapping) and value:
        paths = ", ".join(sorted(map(str, value))[:PATHS_SHOWN])
        more = f" and {len(value) - PATHS_SHOWN} more" if len(value) > PATHS_SHOWN else ""
        return f"Members answer calls below {paths}{more} with a status alone"
    if name == HEALTH and value in (False, "false"):
        return "Neither beats nor checks change the health of instances: dead ones stay in the lists as healthy"
    return ""


def _effect_of_status(status: str) -> str:
    reads, writes = is_served(status, is_read=True), is_served(status, is_read=False)
    if reads and writes:
        return ""
    if not reads and not writes:
        return "Members refuse all calls of clients"
    return f"Members refuse the {'writes and beats' if reads else 'reads'} of clients"


def warning_of(name: str, effect: str, connections: int, addresses: int) -> str:
    """Return what is said before a harmful switch is set. The numbers: clients over gRPC, and those over HTTP."""
    text = f"{effect}, at every member, within seconds."
    if name in TURNS_AWAY:
        text += (
            f" That turns away all clients: those that this member knows are {connections:,} over gRPC and "
            f"{addresses:,} that registered over HTTP, beside those that only subscribe."
        )
    return f"{text} Every page of the console shows it until the switch is set back."


def effects(switches: SwitchDomain) -> list[tuple[str, str, str]]:
    """Return the harmful switches in force: name, value and effect of each."""
    values = switches.to_json()
    found = ((name, values[name], effect_of(name, values[name])) for name in (STATUS, LIMITED, HEALTH))
    return [(name, str(value)[:VALUE_CHARS_SHOWN], effect) for name, value, effect in found if effect]

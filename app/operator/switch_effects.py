"""The effects of switches that turn clients away or hide faults, for the people who set them and forget them. Pure."""

from collections.abc import Mapping

from app.languages.catalogues import ENGLISH_TEXTS, N_, Texts
from app.naming.model.switches import STATUSES, SwitchDomain, is_served

STATUS, LIMITED, HEALTH = "overriddenServerStatus", "limitedUrlMap", "healthCheckEnabled"
TURNS_AWAY = frozenset((STATUS, LIMITED))
"""The switches with which members refuse calls of clients."""
PATHS_SHOWN = 3
VALUE_CHARS_SHOWN = 100


def effect_of(name: str, value: object, texts: Texts = ENGLISH_TEXTS) -> str:
    """Return what a switch with this value, as JSON, has members do that harms; empty if it is harmless."""
    if name == STATUS and value in STATUSES:
        return texts.gettext(_effect_of_status(str(value)))
    if name == LIMITED and isinstance(value, Mapping) and value:
        paths = ", ".join(sorted(map(str, value))[:PATHS_SHOWN])
        if more := max(len(value) - PATHS_SHOWN, 0):
            text = N_("Members answer calls below %(paths)s and %(count)s more paths with a status only.")
            return texts.gettext(text, paths=paths, count=more)
        return texts.gettext("Members answer calls below %(paths)s with a status only.", paths=paths)
    if name == HEALTH and value in (False, "false"):
        return texts.gettext(
            "Neither beats nor checks change the health of instances: dead instances stay in the lists as healthy."
        )
    return ""


def _effect_of_status(status: str) -> str:
    reads, writes = is_served(status, is_read=True), is_served(status, is_read=False)
    if reads and writes:
        return ""
    if not reads and not writes:
        return N_("Members refuse all calls of clients.")
    return (
        N_("Members refuse the writes and beats of clients.") if reads else N_("Members refuse the reads of clients.")
    )


def warning_of(name: str, effect: str, connections: int, addresses: int, texts: Texts = ENGLISH_TEXTS) -> str:
    """Return the warning before a harmful switch is set. The numbers: clients over gRPC, and those over HTTP."""
    told = [effect, texts.gettext("This applies to every member within seconds.")]
    if name in TURNS_AWAY:
        text = N_(
            "It turns away all clients: this member knows %(connections)s over gRPC and %(addresses)s that registered "
            "over HTTP, beside those that only subscribe."
        )
        over_grpc, over_http = f"{connections:,}", f"{addresses:,}"
        told.append(texts.gettext(text, connections=over_grpc, addresses=over_http))
    return " ".join([*told, texts.gettext("Every page of the console shows it until the switch is set back.")])


def effects(switches: SwitchDomain, texts: Texts = ENGLISH_TEXTS) -> list[tuple[str, str, str]]:
    """Return the harmful switches in force: name, value and effect of each."""
    values = switches.to_json()
    found = ((name, values[name], effect_of(name, values[name], texts)) for name in (STATUS, LIMITED, HEALTH))
    return [(name, str(value)[:VALUE_CHARS_SHOWN], effect) for name, value, effect in found if effect]

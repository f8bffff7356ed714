"""What Rollcall members should show after an operator's change, and why that is not always as at real Nacos 2.3.1."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.peers.kept_changes.rows import ANEW, BOTH, MAJORITY, REGISTERED, ROWS, Attributes

Found = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""What a run found: by stage, ``ROW, KIND`` and moment."""
LIKE = {row.name: row.like or row.name for row in ROWS}
MOMENTS = ("status", "call", "after")
CHANGED: Attributes = {"weight": 5.0, "enabled": False, "metadata": {"zone": "b", "by": "ops"}}
ITSELF = "over v1 the instance itself changes, as in 1.4"
PARTIAL = "2.3.1 also sets weight 1 where a call names no weight"
CUT_OFF = "2.3.1 loses the change of an instance that beats at a member that is cut off, and its members differ"
APART = "the members of 2.3.1 differ from each other"
BOTH_SIDES = "2.3.1 refuses changes where there is no majority"


def faults(real: Found, ours: Found) -> Iterator[str]:
    """Yield each row of ours that is not as it should be, or that differs from the real one without a reason.

    Real members that differ from each other say nothing of what should be: on a busy machine some lose a change at the
    end of a partition.
    """
    for stage, row, kind, peer, found in pairs(real, ours):
        for moment in MOMENTS:
            if moment not in found:
                continue
            wanted = should_be(stage, row, kind, moment)
            if found[moment] != wanted:
                yield f"{stage}, {row}, {kind}, {moment}: ours {found[moment]}, not {wanted}"
            elif found[moment] != peer[moment] and not are_apart(peer[moment]) and not reason_of(stage, row, kind):
                yield f"{stage}, {row}, {kind}, {moment}: real {peer[moment]}, ours {found[moment]}"


def pairs(real: Found, ours: Found) -> Iterator[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield stage, row, kind, and what was found at real members and at ours."""
    for stage, rows in ours.items():
        for name, found in rows.items():
            row, kind = name.rsplit(", ", 1)
            yield stage, row, kind, real[stage][f"{LIKE.get(row, row)}, {kind}"], found


def should_be(stage: str, row: str, kind: str, moment: str) -> Any:
    """Return what Rollcall members should show, or answer."""
    if moment == "status":
        return [200, 200] if row == BOTH or row.endswith("removal") else [200]
    if stage == "changed apart":
        return CHANGED if row == MAJORITY else {**CHANGED, "weight": 6.0}
    base = ANEW if (stage, moment) == ("registered anew", "after") else REGISTERED
    is_replaced = moment == "after" and (stage == "registered anew" or (stage == "moved" and kind == "persistent"))
    if is_itself(row, kind) and is_replaced:
        return base
    _, verb, *named = row.split()
    if row.startswith("v2 PATCH"):  # it names all attributes
        whole: Attributes = {**REGISTERED, named[0]: CHANGED[named[0]]}
        return {**whole, "metadata": {**base["metadata"], **whole["metadata"]}}
    shown: dict[str, Any] = dict(base)
    if verb == "PUT":
        shown |= {"weight": 1.0, "enabled": True}
        if is_itself(row, kind):
            shown["metadata"] = {}
    for name in named if verb in ("PUT", "PATCH", "partial") else ("metadata",):
        shown[name] = {**shown["metadata"], **CHANGED["metadata"]} if name == "metadata" else CHANGED[name]
    if row.endswith("removal"):
        shown["metadata"] = {key: value for key, value in shown["metadata"].items() if key != "by"}
    return shown


def are_apart(shown: Any) -> bool:
    """Return whether members show different attributes: then there is a list for each of them."""
    return isinstance(shown, list) and any(isinstance(one, list) and one != shown[0] for one in shown)


def is_itself(row: str, kind: str) -> bool:
    """Return whether a call changes the instance itself, and not beside it."""
    return row.startswith("v1") and kind != "grpc"


def reason_of(stage: str, row: str, kind: str) -> str:
    """Return why Rollcall differs from Nacos 2.3.1 in a row (docs/differences.md); empty if it should not."""
    if stage == "changed apart":
        return "" if row == MAJORITY else BOTH_SIDES
    if is_itself(row, kind):
        return ITSELF
    if (stage, kind) == ("healed, in the minority", "http"):
        return CUT_OFF
    verb, *named = row.split()[1:]
    is_partial = "batch" in verb or (verb in ("PATCH", "partial") and named != ["weight"] and not row.startswith("v2"))
    return PARTIAL if is_partial else ""


def table(real: Found, ours: Found) -> str:
    """Return a line for each row, kind and stage: the attributes after the call and at the end, real beside ours."""
    lines = []
    for stage, row, kind, peer, found in pairs(real, ours):
        shown = [" -> ".join(short(one.get(moment)) for moment in ("call", "after")) for one in (peer, found)]
        reason = reason_of(stage, row, kind) if shown[0] != shown[1] else ""
        if shown[0] != shown[1] and are_apart(peer.get("after")):
            reason = reason or APART
        lines.append(f"{stage:24} {row:23} {kind:10} real {shown[0]:44} ours {shown[1]:44} {reason}")
    return "\n".join(lines)


def short(shown: Any) -> str:
    """Return attributes in a few characters: ``5 off by=ops,zone=b``. Members that differ are separated by bars."""
    if isinstance(shown, list):
        return " | ".join(map(short, shown))
    if not isinstance(shown, dict):
        return "-" if shown is None else str(shown)
    labels = ",".join(f"{key}={value}" for key, value in sorted(shown["metadata"].items()))
    return f"{shown['weight']:g} {'on' if shown['enabled'] else 'off'} {labels}"

"""Findings of the nightly check: their classes, and the columns of findings and of the per-service summary."""

from enum import StrEnum
from typing import Any


class FindingClass(StrEnum):
    MISSING = "MISSING"
    """The owner has the instance, or without an owner at least half of the members do; this member lacks it.

    The owner itself, when most members have the instance, two of them at least: ``detail`` says "the owner lacks it".
    """
    EXTRA = "EXTRA"
    """Left over: this member has an instance that the owner, or without one most of the members, lacks."""
    HEALTH = "HEALTH"
    WEIGHT = "WEIGHT"
    METADATA = "METADATA"
    ENABLED = "ENABLED"
    SILENT_CORRUPTION = "SILENT_CORRUPTION"
    """One version of an instance has two values: no verify round between members can notice it."""
    BEHIND = "BEHIND"
    """The values are the same and the version is a lower one in both rounds: nothing brings the member up to date.

    Versions have the order of epoch, counter and writer (R1).
    """
    SERVICE = "SERVICE"
    """A service without instances that only some members have."""
    SETTINGS = "SETTINGS"
    """Members differ on a service's own values: metadata, protect threshold, selector, checks of its clusters."""
    RECORD = "RECORD"
    """Members differ on a record of the whole cluster, its switches or a namespace; ``name`` tells which."""
    CLIENT = "CLIENT"
    """Members differ on a client over gRPC: some lack it, or have it at another revision or another member."""
    OWNER = "OWNER"
    """Two members claim to be responsible for a service, no member does, or a member names a wrong one."""
    MEMBERSHIP = "MEMBERSHIP"
    """Two members list different members, or the same in different states."""
    DRIFT = "DRIFT"
    """Inside one member, the datum that is replicated and the view that clients see are not the same."""
    STALE = "STALE"
    """The owner still has the instance, although its health check counts more silence than the delete time-out."""
    DUPLICATE = "DUPLICATE"
    """One ip, port and cluster twice in a service, or in services of one name in several groups."""
    CORRUPT = "CORRUPT"
    """Rows that cannot be read or do not fit each other, or a file that is not what the manifest says."""
    LINK = "LINK"
    """An instance of a link is not as its cluster has it: missing, extra, stale or differs, as ``detail`` says."""
    ABSENT_MEMBER = "ABSENT_MEMBER"
    """The member did not answer in a round or in both, or all list it and it was not asked: it is not compared."""


FINDING_FIELDS: dict[str, str] = {
    "finding_class": "string",
    "lasting": "boolean",
    "namespace": "string",
    "service": "string",
    "cluster": "string",
    "ip": "string",
    "port": "int",
    "ephemeral": "boolean",
    "name": "string",
    "member": "string",
    "reference": "string",
    "found": "string",
    "expected": "string",
    "found_version": "string",
    "expected_version": "string",
    "since": "string",
    "first_seen": "string",
    "last_seen": "string",
    "nights_open": "int",
    "detail": "string",
}
"""Columns of the findings, with Spark's types. One finding for each member that departs.

``name``: the record or client that it is about, else empty.

``lasting``: the finding is the same in both rounds; any other finding is late, and counted apart. ``member`` departs
from ``reference`` (the instance's owner, or else the first member of the majority): ``found`` is the value at
``member``, ``expected`` the value at ``reference``. For OWNER, ``member`` is the first of the members concerned and
``detail`` names all; for MEMBERSHIP the two members are a pair. ``since`` is the moment at which the first round of the
night ``first_seen`` was taken.
"""

SERVICE_FIELDS: dict[str, str] = {
    "namespace": "string",
    "service": "string",
    "instances": "bigint",
    "findings": "bigint",
    "late": "bigint",
}
"""Columns of the per-service summary: services with a finding, with the instances that any member holds."""


def finding(finding_class: FindingClass, lasting: bool, member: str, **values: Any) -> dict[str, Any]:
    """Return a finding with the given columns; the other texts of its key are empty, and the rest is null."""
    return dict.fromkeys(FINDING_FIELDS) | {
        "finding_class": finding_class.value,
        "lasting": lasting,
        "namespace": "",
        "service": "",
        "cluster": "",
        "ip": "",
        "name": "",
        "member": member,
        **values,
    }

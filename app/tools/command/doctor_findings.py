"""The doctor's findings: each says what was checked, its state, and what to do."""

import enum
from dataclasses import dataclass


class Severity(enum.IntEnum):
    """The severity of a finding; also the exit code that it leads to."""

    OK = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding. ``advice``: what to do; empty if all is well."""

    what: str
    severity: Severity
    text: str
    advice: str = ""


def ok(what: str, text: str) -> CheckFinding:
    """Return a finding that all is well."""
    return CheckFinding(what, Severity.OK, text)


def warning(what: str, text: str, advice: str) -> CheckFinding:
    """Return a finding that a node works, but not as well or as safely as it could."""
    return CheckFinding(what, Severity.WARNING, text, advice)


def failure(what: str, text: str, advice: str) -> CheckFinding:
    """Return a finding that something does not work, or will fail later."""
    return CheckFinding(what, Severity.FAILURE, text, advice)

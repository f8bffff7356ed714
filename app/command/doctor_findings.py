"""What the doctor found: each finding says what it looked at, how that is, and what to do."""

import enum
from dataclasses import dataclass


class Severity(enum.IntEnum):
    """How bad a finding is; also the exit code that it leads to."""

    OK = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding. ``advice``: what to do; empty where all is well."""

    what: str
    severity: Severity
    text: str
    advice: str = ""


def ok(what: str, text: str) -> CheckFinding:
    """All is well."""
    return CheckFinding(what, Severity.OK, text)


def warning(what: str, text: str, advice: str) -> CheckFinding:
    """A node works, but not as well or as safely as it could."""
    return CheckFinding(what, Severity.WARNING, text, advice)


def failure(what: str, text: str, advice: str) -> CheckFinding:
    """Something does not work, or will not."""
    return CheckFinding(what, Severity.FAILURE, text, advice)

"""The doctor's findings: each has its subject, its state, and the advice."""

import enum
from dataclasses import dataclass

from app.languages.catalogues import N_

SUBJECTS = (
    N_("user"),
    N_("settings"),
    N_("data folder"),
    N_("records"),
    N_("disk"),
    N_("port"),
    N_("descriptors"),
    N_("time-outs"),
    N_("members"),
    N_("member lists"),
    N_("states"),
    N_("planned absences"),
    N_("releases"),
    N_("DNS"),
    N_("UDP"),
)
"""The subjects of findings that hold no name of a member or port."""


class Severity(enum.IntEnum):
    """The severity of a finding; also the exit code that it leads to."""

    OK = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding, in English; texts made by ``phrase`` are shown in the language of the user.

    ``what`` is one of SUBJECTS or a phrase; ``advice`` is a step to take, and empty if all is well.
    """

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

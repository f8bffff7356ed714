"""The options of a check, and the notes that they add to the summary of a night."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from app.rows.summary import Summary
from app.tools.audit.check.results import Results
from app.tools.audit.check.suppressions import Suppression, notes_on
from app.tools.audit.format.findings import FindingClass


@dataclass(frozen=True, slots=True)
class NightCheck:
    """The options of a check: where the dumps lie, the night (None: the latest), and classes to ignore.

    Findings of ``ignored`` classes are neither counted nor kept. ``suppressions``: the file of known findings.
    """

    dumps: str
    night: str | None = None
    ignored: Collection[FindingClass] = ()
    suppressions: str | None = None
    run: str | None = None
    """The run of the dump to judge; None for the latest that is complete."""
    linked: Collection[str] = ()
    """The dumps of linked clusters, of the same night."""
    full: bool = False
    """True to compare all rows, although the dump has digests."""
    notes: tuple[str, ...] = ()
    """Further notes on how the night is read."""


def with_notes(
    summary: Summary,
    check: NightCheck,
    entries: Sequence[Suppression],
    results: Results,
    suppressed: DataFrame | None = None,
) -> Summary:
    """Return the summary with notes on later nights, on suppressions and on classes that were not checked.

    ``suppressed``: the findings, if some are suppressed.
    """
    if later := results.judged_after(summary.night):
        results.notes.append(f"the history of later nights is older than this verdict; check again: {', '.join(later)}")
    notes = [*summary.notes, *notes_on(suppressed, entries, summary.night), *results.notes]
    if check.ignored:
        notes.append(f"classes not checked: {', '.join(sorted(one.value for one in check.ignored))}")
    return replace(summary, notes=notes)

"""A small night in which all digests agree: it has a verdict without Spark, whose start takes most of such a night.

Files are held against their hashes here, and the digests of one member in one round, chosen at random, are made again
from its rows. The check with Spark judges every other night.
"""

import secrets
import time
from dataclasses import replace

from app.rows.summary import Summary
from app.tools.audit.check.agreement import UNPROVEN, Agreement, agreement, is_full_night
from app.tools.audit.check.evidence import Evidence, File, files_of, weigh
from app.tools.audit.check.files import hash_faults
from app.tools.audit.check.headline import begun, without_findings
from app.tools.audit.check.night_check import NightCheck, with_notes
from app.tools.audit.check.results import Results
from app.tools.audit.check.session import FEW_ROWS
from app.tools.audit.check.suppressions import BadSuppressions, read_suppressions
from app.tools.audit.format.digests import DigestWriter
from app.tools.audit.format.file_systems import open_root
from app.tools.audit.format.layout import Night, NoDump, read_night
from app.tools.audit.format.part_format import has_parquet


def judge_agreed(check: NightCheck, results: Results) -> tuple[Summary | None, NightCheck]:
    """Return the summary of a small night that agrees by its digests, else None; and the check to continue with.

    It is written into ``results``, as ``check.judge`` does.
    """
    started = time.monotonic()
    if check.full or check.linked or not has_parquet():
        return None, check
    try:
        night = read_night(check.dumps, check.night, check.run)
        entries = read_suppressions(check.suppressions, night.date)
        evidence = weigh(night, {})
    except (NoDump, BadSuppressions, OSError, ValueError):
        return None, check
    agreed = _agreement(night, evidence)
    if agreed is None or results.has_faults(night.date):
        return None, check
    if hash_faults(check.dumps, evidence.files):
        return None, check
    if not _is_sound(check.dumps, night, evidence):
        return None, replace(check, full=True, notes=(UNPROVEN,))
    results.begin(night.date)
    results.write("findings", None)
    counts = {"rows": agreed.agreed.rows, "services": agreed.agreed.services, "instances": agreed.agreed.instances}
    evidence = replace(evidence, notes=[*evidence.notes, agreed.small_note])
    summary = without_findings(results, begun(check.dumps, results, night, evidence, counts))
    return replace(with_notes(summary, check, entries, results), took_s=round(time.monotonic() - started, 1)), check


def _agreement(night: Night, evidence: Evidence) -> Agreement | None:
    """Return the agreement of a small night without any finding or differing bucket; else None."""
    if is_full_night(night.date) or evidence.rows > FEW_ROWS or evidence.findings:
        return None
    if len(evidence.files) < len(files_of(night)):
        return None
    agreed = agreement(night, evidence)
    return None if agreed is None or agreed.differing else agreed


def _is_sound(root_uri: str, night: Night, evidence: Evidence) -> bool:
    """Return whether the digests of a member in a round, chosen at random, are those of its rows."""
    chosen = secrets.choice([(address, one) for address in evidence.members for one in night.rounds])
    address, one = chosen
    dump = one.manifest.member(address)
    files = [file for file in evidence.files if (file.member, file.round) == (address, one.manifest.round)]
    writer = DigestWriter()
    try:
        for file in files:
            _add_rows(root_uri, file, writer)
    except (OSError, ValueError):
        return False
    return dump is not None and writer.result() == dump.digests


def _add_rows(root_uri: str, file: File, writer: DigestWriter) -> None:
    from app.tools.audit.format.columns import rows_of_parquet

    filesystem, _ = open_root(root_uri)
    with filesystem.open(file.path, "rb") as raw:
        for row in rows_of_parquet(raw):
            writer.add(row or {})

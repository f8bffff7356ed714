"""A committed night with findings, as a check leaves it, without Spark."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.rows.summary import Summary, Verdict, encode_summary
from app.tools.audit.format.commits import FINDINGS_JSON, NightTable, TableFile, with_tables
from app.tools.audit.format.findings import FINDING_FIELDS

NIGHT = "2026-11-20"


def finding(finding_class: str = "MISSING", **values: Any) -> dict[str, Any]:
    """Return a finding of the second member in the public namespace."""
    texts = dict.fromkeys(("service", "cluster", "ip", "name"), "")
    usual = {"finding_class": finding_class, "lasting": True, "namespace": "public", "member": "10.0.0.2:8848"}
    return dict.fromkeys(FINDING_FIELDS) | texts | usual | values


def commit_findings(
    results: Path, found: Sequence[dict[str, Any]], cut_off: Sequence[dict[str, Any]] = (), night: str = NIGHT
) -> None:
    """Write the findings of a night with their commit; ``cut_off``: those of a check that was killed."""
    folder = results / FINDINGS_JSON / f"night={night}"
    folder.mkdir(parents=True, exist_ok=True)
    body = "".join(json.dumps(one) + "\n" for one in found).encode()
    path = folder / "run=20261120T031500Z-01234567-part-00000.json"
    path.write_bytes(body)
    (folder / "run=20261120T021500Z-89abcdef-part-00000.json").write_text(
        "".join(json.dumps(one) + "\n" for one in cut_off)
    )
    file = TableFile(str(path.relative_to(results)), len(found), len(body), hashlib.sha256(body).hexdigest())
    summary = Summary(night, Verdict.DIVERGENT, f"divergent: {len(found)}", checked_at="2026-11-20T03:20:00Z")
    reports = results / "reports" / f"night={night}"
    reports.mkdir(parents=True, exist_ok=True)
    tables = {FINDINGS_JSON: NightTable(len(found), (file,))}
    (reports / "summary.json").write_bytes(with_tables(encode_summary(summary), tables))

"""Command lines for an operator to copy: their arguments come from strangers, so each is quoted as a mere text."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from app.languages.phrases import phrase
from app.rows.summary import NAME_CHARS_MAX, Summary
from app.tools.audit.format.findings import FindingClass

PUBLIC = "public"
_JUDGED_WITH = ("linked", "suppressions", "ignore")
"""The options of a check on which its verdict depends."""
MEMBERS_MAX = 100
"""The most members that a command line names; with more it names none."""
HEALABLE = (
    FindingClass.MISSING,
    FindingClass.EXTRA,
    FindingClass.HEALTH,
    FindingClass.ENABLED,
    FindingClass.SILENT_CORRUPTION,
    FindingClass.WEIGHT,
    FindingClass.METADATA,
    FindingClass.SERVICE,
    FindingClass.SETTINGS,
    FindingClass.BEHIND,
)
"""Classes that end when the members of a service hold the same again."""


def command(*words: str, **options: object) -> str | None:
    """Return the command line of these words and ``--options``; None if a text in it must not go to a shell.

    An option of ``True`` has no value; options of None and "" are left out; one of a list is given for each value.
    Unprintable characters could control the terminal in which the line is pasted, quoted or not; a text that was cut
    names something else.
    """
    said = list(words)
    for name, value in options.items():
        if value is True:
            said.append(f"--{name.replace('_', '-')}")
        elif value:
            for text in value if isinstance(value, list) else [str(value)]:
                # A name that begins with a dash would be read as an option.
                said += [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    if any(not word.isprintable() or len(word) >= NAME_CHARS_MAX for word in said):
        return None
    if any(word.startswith("-") for word in words):
        return None
    return shlex.join(said)


def heal(summary: Summary, of: Mapping[str, Any], *, dry_run: bool = True) -> str | None:
    """Return the command that heals the service of a finding at all members; None if no member could take it."""
    if not of.get("service") or not can_heal(summary):
        return None
    members = members_of(summary, dumped_only=True)
    return command("rollcall", "heal", **_service(of), members=members, dry_run=dry_run) if members else None


def can_heal(summary: Summary) -> bool:
    """Return whether all members that were dumped are Rollcall members."""
    kinds = {one.get("kind") for one in summary.members if one.get("state") == "dumped"}
    return kinds == {"rollcall"}


def compare(summary: Summary, group: Mapping[str, Any]) -> str | None:
    """Return the command that shows a finding as the dump has it; None without two members and a service.

    A finding of a link has the linked cluster in place of a second member.
    """
    samples: Sequence[Mapping[str, Any]] = group.get("samples") or ()
    member, reference = group.get("member"), samples[0].get("reference") if samples else None
    if not (member and reference and summary.dumps and group.get("service")) or member == reference:
        return None
    if not {member, reference} <= {one.get("address") for one in summary.members}:
        return None
    where = {"dumps": summary.dumps, "date": summary.night}
    return command("rollcall", "compare", str(reference), str(member), **where, **_service(group))


def dump(summary: Summary, night: str) -> str | None:
    """Return the command that takes the dump of a night again, with the members and the folder of ``summary``."""
    members = members_of(summary)
    if not members or not summary.dumps:
        return None
    return command("rollcall", "dump", members=members, out=summary.dumps, date=night)


def check(summary: Summary, night: str) -> str | None:
    """Return the command that checks a night again, with the folders of ``summary``."""
    if not summary.dumps or not summary.results:
        return None
    given = {name: values for name, values in summary.judged_with.items() if name in _JUDGED_WITH}
    return command("rollcall", "check", dumps=summary.dumps, out=summary.results, night=night, **given)


def members_of(summary: Summary, *, dumped_only: bool = False) -> str:
    """Return the addresses of all members, with commas; empty if they are too many, or one is not an address."""
    chosen = [one for one in summary.members if one.get("state") == "dumped" or not dumped_only]
    addresses = [str(one.get("address") or "") for one in chosen]
    if len(addresses) > MEMBERS_MAX or any(not one or "," in one for one in addresses):
        return ""
    return ",".join(addresses)


def _service(of: Mapping[str, Any]) -> dict[str, object]:
    namespace = of.get("namespace")
    return {"service": of.get("service"), "namespace": None if namespace == PUBLIC else namespace}


# --- all findings, of which the page has some --------------------------------------------------------------------


def findings(summary: Summary, finding_class: str | None = None, *, json: bool = False) -> str | None:
    """Return the command that prints the findings of the night, or those of a class: of its committed files alone."""
    if not summary.results:
        return None
    where: dict[str, object] = {"results": summary.results, "night": summary.night, "class": finding_class}
    return command("rollcall", "findings", **where, json=json)


def all_findings(summary: Summary) -> list[tuple[str, str]]:
    """Return ways to see all findings of the night. Shape: tool, command line; empty if their folder is unknown.

    Each reads what the night's commit names, and no file of a check that was cut off.
    """
    lines = findings(summary, json=True)
    if lines is None:
        return []
    counted = "SELECT finding_class, service, member, count(*) AS findings, max(nights_open) AS nights"
    read = "read_json('/dev/stdin', format='newline_delimited')"
    sql = f"{counted} FROM {read} WHERE lasting GROUP BY ALL ORDER BY findings DESC"
    chosen = shlex.join(["jq", "-c", "select(.lasting)"])
    table = "from app.tools.audit.check.tables import read_table"
    return [
        (phrase("A table"), str(findings(summary))),
        ("jq", f"{lines} | {chosen}"),
        ("DuckDB", f"{lines} | {shlex.join(['duckdb', '-c', sql])}"),
        ("PySpark", f"{table}; read_table(spark, {summary.results!r}, 'findings', [{summary.night!r}]).show()"),
    ]


def heal_all(summary: Summary, finding_class: str | None = None) -> str | None:
    """Return the command that heals each service with a finding that a heal can mend; None if no member can take it.

    ``finding_class``: only those with a finding of this class.
    """
    members = members_of(summary, dumped_only=True)
    if not members or not summary.results or not can_heal(summary):
        return None
    where: dict[str, object] = {"results": summary.results, "night": summary.night, "class": finding_class}
    return command("rollcall", "heal", **where, members=members)


def heal_link(summary: Summary) -> str | None:
    """Return the command that heals the link of the dumped members with most findings; None if none of theirs has any.

    A link of another cluster, whose dump was only given beside, is healed at the members of that cluster.
    """
    members = members_of(summary, dumped_only=True)
    dumped = {one.get("address") for one in summary.members}
    bad = [one for one in summary.links if one.get("findings") and one.get("member") in dumped]
    worst = max(bad, key=lambda one: int(one["findings"]), default=None)
    return command("rollcall", "heal", link=worst.get("link"), members=members) if members and worst else None

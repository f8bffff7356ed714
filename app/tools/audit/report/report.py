"""The report of one night: an HTML page that needs no network, no script and no other file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.config.version import __version__
from app.languages.catalogues import ENGLISH, ENGLISH_TEXTS, N_, Texts
from app.languages.phrases import phrase, shown
from app.languages.stored_texts import recognized
from app.languages.template_texts import with_texts
from app.rows.summary import GROUPS_LATE_MAX, GROUPS_MAX, Summary, Verdict
from app.tools.audit.format.manifest import DumpState
from app.tools.audit.report import shell
from app.tools.audit.report.advice import steps_for
from app.tools.audit.report.nights import agreed_run, last_judged, points
from app.tools.audit.report.plots import NARROW, WIDE, Bar, draw_bars, draw_trend
from app.tools.audit.report.shown import Shown, command_line, with_code
from app.tools.audit.report.wording import (
    OF_INSTANCES,
    corrupted_members,
    done_by,
    links_in_words,
    meaning_of,
    sick_members,
)

NARROW_NIGHTS_MAX = 30
BARS_MAX = 12
NOTES_MAX = 100
MEMBERS_MAX = 100
OPEN_GROUPS_MAX = 15
"""The number of groups up to which all classes are unfolded."""
PAGE_BYTES_MAX = 1_000_000

_VERDICTS = {
    Verdict.AGREED: ("✓", N_("Agreed")),
    Verdict.DIVERGENT: ("✗", N_("Divergent")),
    Verdict.UNJUDGED: ("?", N_("Not judged")),
}
_DEFAULT_GROUP = "DEFAULT_GROUP@@"
_END = re.compile(r"(?<=.)(:\d+|\.[^.:]*[A-Za-z][^.:]*)$")
"""A port, or a part of a name but not of an address in numbers."""

_STATES = {DumpState.DUMPED.value: N_("dumped"), DumpState.ABSENT.value: N_("absent from the dump")}
"""The text of each state of a member in a dump, for pages in other languages."""


@dataclass(frozen=True, slots=True)
class _Extent:
    """How much a page shows: characters of a hint, groups of a class, and groups of a class with command lines."""

    hint_chars: int
    groups: int
    commands: int


_EXTENTS = (
    _Extent(300, GROUPS_MAX, 10),
    _Extent(60, GROUPS_MAX, 5),
    _Extent(0, GROUPS_MAX, 1),
    _Extent(0, 10, 0),
    _Extent(0, 3, 0),
    _Extent(0, 1, 0),
)
"""The extents, of which the first is taken that keeps the page within ``PAGE_BYTES_MAX``."""


def render(summary: Summary, earlier: Sequence[Summary], texts: Texts = ENGLISH_TEXTS) -> str:
    """Return the page of a night in the language of ``texts``; ``earlier`` are the nights before it, in any order.

    The page has at most ``PAGE_BYTES_MAX`` bytes of UTF-8: with many findings and long texts, hints are cut, then left
    out, and then fewer groups are shown.
    """
    values = _values(summary, earlier, texts)
    page = ""
    for extent in _EXTENTS:
        template = _environment(Shown(extent.hint_chars, texts)).get_template("report.html")
        page = template.render(values, sections=_sections(summary, extent), late=_late(summary, extent))
        if len(page.encode()) <= PAGE_BYTES_MAX:
            break
    return page


def _values(summary: Summary, earlier: Sequence[Summary], texts: Texts) -> dict[str, Any]:
    """Return the variables of the template without the groups of findings."""
    sign, word = _VERDICTS[summary.verdict]
    sick = sick_members(summary)
    return {
        "night": summary,
        "sign": sign,
        "word": texts.gettext(word),
        "language": texts.language,
        "version": __version__,
        "reason": _in_language(texts, summary.line.removeprefix("could not judge: ")),
        "run": agreed_run(summary, earlier) if summary.verdict is Verdict.AGREED else None,
        "last": last_judged(summary, earlier),
        "corrupted": corrupted_members(summary),
        "links": links_in_words(summary),
        "sick": sick[:MEMBERS_MAX],
        "sick_more": max(0, len(sick) - MEMBERS_MAX),
        "some_unknown": any(one.is_unknown for one in sick),
        "steps": steps_for(summary, earlier),
        "totals": (sum(summary.findings.values()), sum(summary.late.values())),
        "checked_at": _moment(summary.checked_at),
        "rounds": [_moment(text) for text in summary.taken_at],
        "rate": round(summary.rows / summary.took_s) if summary.took_s else 0,
        "members": summary.members[:MEMBERS_MAX],
        "members_more": max(0, len(summary.members) - MEMBERS_MAX),
        "notes": summary.notes[:NOTES_MAX],
        "notes_more": max(0, len(summary.notes) - NOTES_MAX),
        "plots": _plots(summary, texts),
        "trends": _trends(summary, earlier, texts),
        "all_findings": shell.all_findings(summary),
        "command_line": command_line,
    }


def _environment(values: Shown) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "short": values.short,
        "count": _count,
        "address": values.address,
        "values": values.values,
        "with_code": with_code,
        "shown": partial(_in_language, values.texts),
    }
    return with_texts(environment, values.texts)


def _in_language(texts: Texts, value: object) -> str:
    """Return a text of the summary or a phrase in the language of the page; empty for None."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if texts.language == ENGLISH:
        return text
    return texts.gettext(_STATES[text]) if text in _STATES else shown(recognized(text), texts)


def _count(value: object) -> str:
    """Return the number with commas; empty for a value that is not a number."""
    return f"{value:,}" if isinstance(value, int | float) else ""


def _moment(text: str) -> str:
    """Return a moment for people, ``2026-11-21 03:15:00 UTC``, from ISO 8601 or the name of a dump's folder."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- groups of findings --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """A row of the page: findings of one class, service and member, and a few of them one by one."""

    service: str
    namespace: str
    """The namespace; empty for the public one."""
    member: object
    words: str
    percent: int | None
    """The share of the service's instances that have a finding."""
    new: int
    first_seen: str
    nights: int
    samples: list[tuple[str, Mapping[str, Any]]]
    """Shape: (the instance's address or "", the finding)."""
    more: int
    commands: list[str]


@dataclass(frozen=True, slots=True)
class _Section:
    """The findings of one class; ``more``: groups that are not shown."""

    name: str
    meaning: str
    row: Mapping[str, Any]
    groups: list[_Group]
    more: int
    is_open: bool


def _sections(summary: Summary, extent: _Extent) -> list[_Section]:
    """Return the lasting findings by class, the worst first; of many, the worst and the largest are unfolded."""
    rows = [row for row in summary.by_class if row.get("lasting")]
    total = sum(row.get("groups") or 0 for row in rows)
    most = max((row.get("findings") or 0 for row in rows), default=0)
    return [
        _section(summary, row, extent, total <= OPEN_GROUPS_MAX or not place or row.get("findings") == most)
        for place, row in enumerate(rows)
    ]


def _late(summary: Summary, extent: _Extent) -> list[_Section]:
    """Return the late findings by class."""
    few = replace(extent, groups=min(extent.groups, GROUPS_LATE_MAX), commands=0)
    return [_section(summary, row, few, False) for row in summary.by_class if not row.get("lasting")]


def _section(summary: Summary, row: Mapping[str, Any], extent: _Extent, is_open: bool) -> _Section:
    name, lasting = str(row.get("finding_class")), row.get("lasting")
    of_class = [one for one in summary.groups if (one.get("finding_class"), one.get("lasting")) == (name, lasting)]
    groups = [
        _group(summary, one, with_commands=place < extent.commands)
        for place, one in enumerate(of_class[: extent.groups])
    ]
    return _Section(name, meaning_of(name), row, groups, max(0, (row.get("groups") or 0) - len(groups)), is_open)


def _group(summary: Summary, group: Mapping[str, Any], *, with_commands: bool) -> _Group:
    count, of = group.get("findings") or 0, group.get("instances")
    finding_class = str(group.get("finding_class"))
    percent, at_least = None, bool(group.get("at_least"))
    if isinstance(of, int) and of > 0 and finding_class in OF_INSTANCES and not at_least:
        percent = min(100, max(1, round(100 * count / of)))
    samples = group.get("samples") or []
    commands: list[str | None] = []
    if with_commands:
        healed = shell.heal(summary, group) if finding_class in shell.HEALABLE else None
        commands = [shell.compare(summary, group), healed]
    namespace = str(group.get("namespace") or "")
    return _Group(
        str(group.get("service") or ""),
        "" if namespace == shell.PUBLIC else namespace,
        group.get("member"),
        done_by(finding_class, count, of, at_least=at_least),
        percent,
        group.get("new") or 0,
        str(group.get("first_seen") or ""),
        group.get("nights_open") or 0,
        [(_instance(one), one) for one in samples],
        count - len(samples),
        [one for one in commands if one],
    )


def _service(finding: Mapping[str, Any]) -> str:
    """Return the finding's service, with its namespace unless that is the public one."""
    namespace, service = finding.get("namespace") or "public", finding.get("service") or ""
    return service if namespace == "public" or not service else f"{namespace}: {service}"


def _instance(finding: Mapping[str, Any]) -> str:
    """Return address and cluster of the finding's instance, without the default cluster; empty without an instance."""
    ip, port, cluster = finding.get("ip"), finding.get("port"), finding.get("cluster")
    if not ip:
        return ""
    host = f"[{ip}]" if ":" in str(ip) else ip
    address = host if port is None else f"{host}:{port}"
    if not cluster or cluster == "DEFAULT":
        return str(address)
    return phrase("%(address)s in %(cluster)s", address=address, cluster=cluster)


# --- plots ---------------------------------------------------------------------------------------------------------


def _plots(summary: Summary, texts: Texts) -> list[tuple[str, Markup]]:
    """Return the plots of tonight, with their titles, without plots that show no difference."""
    names = _short_addresses(summary)
    two = [one for one in summary.by_pair if one.get("reference") not in (None, one.get("member"))]
    by_pair = [Bar(_pair(one, names, texts), one.get("findings") or 0, whole=_pair(one, {}, texts)) for one in two]
    by_service = [
        Bar(_service(one).replace(_DEFAULT_GROUP, ""), one.get("findings") or 0, one.get("late") or 0, _service(one))
        for one in summary.by_service
    ]
    of_pairs, of_services = N_("Lasting findings by pair of members"), N_("Services with most findings")
    drawn = [
        (texts.gettext("Pairs of members"), _bars("by-pair", texts.gettext(of_pairs), by_pair, texts)),
        (texts.gettext(of_services), _bars("by-service", texts.gettext(of_services), by_service, texts)),
    ]
    return [(title, plot) for title, plot in drawn if plot]


def _bars(name: str, title: str, rows: Iterable[Bar], texts: Texts) -> Markup | None:
    """Return the plot of the ``BARS_MAX`` highest bars; None unless two have different lengths."""
    ranked = sorted((row for row in rows if row.count or row.late), key=lambda row: (-row.count, -row.late))[:BARS_MAX]
    if len({(row.count, row.late) for row in ranked}) < 2:
        return None
    return Markup(draw_bars(name, title, ranked, texts))


def _trends(summary: Summary, earlier: Sequence[Summary], texts: Texts) -> list[tuple[str, Markup]]:
    """Return the trend by the class of its figure, for wide and for narrow screens; empty if it would show nothing."""
    nights = points(summary, earlier)
    if len(nights) < 2 or not any(sum(night.findings.values()) or night.late for night in nights):
        return []
    title, few = texts.gettext("Findings over the nights"), nights[-NARROW_NIGHTS_MAX:]
    return [
        ("wide-screen", Markup(draw_trend("over-nights", title, nights, WIDE, texts))),
        ("narrow-screen", Markup(draw_trend("over-few-nights", title, few, NARROW, texts))),
    ]


def _short_addresses(summary: Summary) -> dict[str, str]:
    """Return the members' addresses without the ending that all have in common, by full address."""
    found = {one.get(part) for one in summary.by_pair for part in ("member", "reference")}
    found |= {one.get("address") for one in summary.members}
    short = {str(address): str(address) for address in found if address}
    while len(short) > 1:
        ends = {match.group() if (match := _END.search(rest)) else "" for rest in short.values()}
        if len(ends) > 1 or "" in ends:
            break
        end = ends.pop()
        short = {address: rest.removesuffix(end) for address, rest in short.items()}
    return short


def _pair(pair: Mapping[str, Any], names: Mapping[str, str], texts: Texts) -> str:
    """Return the pair in words, by the names given for its addresses."""
    member, reference = (names.get(str(one), one) for one in (pair.get("member"), pair.get("reference")))
    return texts.gettext("%(member)s against %(reference)s", member=member, reference=reference)

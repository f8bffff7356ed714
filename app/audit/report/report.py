"""The report of one night: an HTML page that needs no network, no script and no other file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.audit.format.findings import FindingClass
from app.audit.report.plots import Bar, NightPoint, draw_bars, draw_trend
from app.audit.report.shown import Shown
from app.audit.report.summary import Summary, Verdict
from app.config.version import __version__

TREND_NIGHTS_MAX = 90
BARS_MAX = 15
NOTES_MAX = 100
MEMBERS_MAX = 100
PAGE_BYTES_MAX = 1_000_000
HINT_CHARS_MAX = (300, 60, 0)
"""Characters of a shortened value's hint: the first of these with which the page is within ``PAGE_BYTES_MAX``."""

MEANINGS = {
    FindingClass.MISSING: "The owner, or most members, have the instance; the member lacks it.",
    FindingClass.EXTRA: "The member has an instance that the owner, or most of the members, lacks.",
    FindingClass.HEALTH: "Members differ on whether the instance is healthy.",
    FindingClass.WEIGHT: "Members differ on the weight of the instance.",
    FindingClass.METADATA: "Members differ on the metadata of the instance.",
    FindingClass.ENABLED: "Members differ on whether the instance takes traffic.",
    FindingClass.SILENT_CORRUPTION: "Members have different values under one version: they can never notice it.",
    FindingClass.BEHIND: "The member has the same values under an earlier version, and is not brought up to date.",
    FindingClass.SERVICE: "Only some members have the service, which has no instances.",
    FindingClass.SETTINGS: "Members differ on metadata, protect threshold, selector or checks of the service itself.",
    FindingClass.RECORD: "Members differ on switches, a namespace or a user, which are the whole cluster's.",
    FindingClass.CLIENT: "Members differ on a client over gRPC: some lack it, or have another revision of it.",
    FindingClass.OWNER: "Two members take themselves for responsible for a service, none does, or one names another.",
    FindingClass.MEMBERSHIP: "Two members list different members, or the same in different states.",
    FindingClass.DRIFT: "Inside one member, what is replicated and what clients see differ.",
    FindingClass.STALE: "The owner still has an instance that it has not heard of for too long.",
    FindingClass.DUPLICATE: "One address twice in a service, or in services of one name in several groups.",
    FindingClass.CORRUPT: "Rows that cannot be read, or a file that is not what the manifest says.",
    FindingClass.ABSENT_MEMBER: "The member did not answer in a round, or in both.",
}
_VERDICTS = {
    Verdict.AGREED: ("✓", "Agreed"),
    Verdict.DIVERGENT: ("✗", "Divergent"),
    Verdict.UNJUDGED: ("?", "Not judged"),
}
_DEFAULT_GROUP = "DEFAULT_GROUP@@"
_END = re.compile(r"(?<=.)(:\d+|\.[^.:]*[A-Za-z][^.:]*)$")
"""A port, or a part of a name but not of an address in numbers."""

_UNIT = ("finding", "findings")


def render(summary: Summary, earlier: Sequence[Summary]) -> str:
    """Return the page of a night; ``earlier`` are the nights before it, in any order, for the trend.

    The page is held to ``PAGE_BYTES_MAX`` bytes of UTF-8: where values are many and long, hints are cut, then left out.
    """
    values = _values(summary, earlier)
    page = ""
    for hint_chars_max in HINT_CHARS_MAX:
        shown = Shown(hint_chars_max)
        template = _environment(shown).get_template("report.html")
        page = template.render(values, address_of=partial(shown.address, values["names"]), values_of=shown.values)
        if len(page.encode()) <= PAGE_BYTES_MAX:
            break
    return page


def _values(summary: Summary, earlier: Sequence[Summary]) -> dict[str, Any]:
    """The variables of the template, but for the functions that shorten values."""
    sign, word = _VERDICTS[summary.verdict]
    trend, trend_nothing = _trend(summary, earlier)
    names = _short_addresses(summary)
    return {
        "night": summary,
        "sign": sign,
        "word": word,
        "version": __version__,
        "checked_at": _moment(summary.checked_at),
        "rounds": [_moment(text) for text in summary.taken_at],
        "rate": round(summary.rows / summary.took_s) if summary.took_s else 0,
        "members": summary.members[:MEMBERS_MAX],
        "members_more": max(0, len(summary.members) - MEMBERS_MAX),
        "classes": _classes(summary),
        "totals": (sum(summary.findings.values()), sum(summary.late.values())),
        "notes": summary.notes[:NOTES_MAX],
        "notes_more": max(0, len(summary.notes) - NOTES_MAX),
        "plots": _plots(summary, names),
        "trend": trend,
        "trend_nothing": trend_nothing,
        "names": names,
        "instance_of": _instance,
        "service_of": _service,
    }


def _environment(shown: Shown) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": shown.short, "count": _count}
    return environment


def _count(value: object) -> str:
    """The number with commas; empty for a value that is no number."""
    return f"{value:,}" if isinstance(value, int | float) else ""


def _moment(text: str) -> str:
    """A moment, ISO 8601 or as in the names of a dump's folders, for people: ``2026-11-21 03:15:00 UTC``."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _classes(summary: Summary) -> list[tuple[str, int, int, str]]:
    """A row for each class found: name, lasting findings, late findings, meaning; most lasting findings first."""
    names = {name for counts in (summary.findings, summary.late) for name, count in counts.items() if count}
    known: Mapping[str, str] = {one.value: meaning for one, meaning in MEANINGS.items()}
    rows = [
        (name, summary.findings.get(name, 0), summary.late.get(name, 0), known.get(name, "")) for name in sorted(names)
    ]
    return sorted(rows, key=lambda row: (-row[1], -row[2]))


def _service(finding: Mapping[str, Any]) -> str:
    """The finding's service, with its namespace unless that is the public one."""
    namespace, service = finding.get("namespace") or "public", finding.get("service") or ""
    return service if namespace == "public" or not service else f"{namespace}: {service}"


def _instance(finding: Mapping[str, Any]) -> str:
    """Address and cluster of the finding's instance, without the default cluster; empty if it is about no instance."""
    ip, port, cluster = finding.get("ip"), finding.get("port"), finding.get("cluster")
    if not ip:
        return ""
    host = f"[{ip}]" if ":" in str(ip) else ip
    address = host if port is None else f"{host}:{port}"
    return f"{address} in {cluster}" if cluster and cluster != "DEFAULT" else str(address)


def _plots(summary: Summary, names: Mapping[str, str]) -> dict[str, Markup | None]:
    """The plots by name; None for a plot that would have no bars."""
    by_class = [Bar(name, count, late) for name, count, late, _ in _classes(summary)]
    by_pair = [Bar(_pair(one, names), one.get("findings") or 0, whole=_pair(one, {})) for one in summary.by_pair]
    by_service = [
        Bar(_service(one).replace(_DEFAULT_GROUP, ""), one.get("findings") or 0, one.get("late") or 0, _service(one))
        for one in summary.by_service
    ]
    lasting = (one for one in summary.examples if one.get("lasting"))
    oldest = [Bar(_named(one), one.get("nights_open") or 0, whole=_told(one)) for one in lasting]
    return {
        "classes": _bars("by-class", "Findings by class", by_class, _UNIT),
        "pairs": _bars("by-pair", "Lasting findings by pair of members", by_pair, _UNIT),
        "services": _bars("by-service", "Services with most findings", by_service, _UNIT),
        "oldest": _bars("oldest", "Findings that are open for longest", oldest, ("night", "nights")),
    }


def _bars(name: str, title: str, rows: Iterable[Bar], unit: tuple[str, str]) -> Markup | None:
    """The plot of the ``BARS_MAX`` highest bars; None when all counts are 0."""
    ranked = sorted((row for row in rows if row.count or row.late), key=lambda row: (-row.count, -row.late))
    return Markup(draw_bars(name, title, ranked[:BARS_MAX], unit)) if ranked else None


def _short_addresses(summary: Summary) -> dict[str, str]:
    """The members' addresses without the ending that all have in common, by full address."""
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


def _pair(pair: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The pair in words, by the names given for its addresses."""
    member, reference = (names.get(str(one), one) for one in (pair.get("member"), pair.get("reference")))
    return f"{member} against {reference}" if reference else str(member or "no member")


def _named(finding: Mapping[str, Any]) -> str:
    """The finding in a few words."""
    service = str(finding.get("service") or "").rpartition("@@")[2]
    where = _instance(finding) or ("" if service else finding.get("member"))
    return " ".join(str(part) for part in (finding.get("finding_class"), service, where) if part)


def _told(finding: Mapping[str, Any]) -> str:
    """The finding in one text: class, service, instance and member."""
    parts = (finding.get("finding_class"), _service(finding), _instance(finding), finding.get("member"))
    return ", ".join(str(part) for part in parts if part)


def _trend(summary: Summary, earlier: Sequence[Summary]) -> tuple[Markup | None, str]:
    """The plot of the last nights, and an empty text; or None, and the reason why there is no plot."""
    last = _date(summary.night)
    if last is None:
        return None, "It is not known which night this is."
    known = {night: one for one in (*earlier, summary) if (night := _date(one.night)) and night <= last}
    first = max(min(known), last - timedelta(days=TREND_NIGHTS_MAX - 1))
    every_night = (first + timedelta(days=number) for number in range((last - first).days + 1))
    nights = [_point(night, known.get(night)) for night in every_night]
    if len(nights) == 1:
        return None, "This is the first night. A trend takes two."
    if not any(sum(night.findings.values()) or night.late for night in nights):
        unjudged = sum(not night.is_judged for night in nights)
        without = f"; {unjudged} of them not judged" if unjudged else ""
        return None, f"No finding in the {len(nights)} nights from {first} to {last}{without}."
    return Markup(draw_trend("over-nights", "Findings over the nights", nights)), ""


def _point(night: date, summary: Summary | None) -> NightPoint:
    """A night of the trend; a night without a summary was not judged, like one whose verdict says so."""
    if summary is None or summary.verdict is Verdict.UNJUDGED:
        return NightPoint(night, False)
    return NightPoint(night, True, summary.findings, sum(summary.late.values()))


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None

"""The bodies of an alert: our own JSON, Slack's blocks, Alertmanager's alerts, or plain text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson

from app.languages.catalogues import N_
from app.languages.phrases import phrase, shown
from app.languages.stored_texts import recognized
from app.rows.summary import Summary, Verdict

EXAMPLES_MAX = 20
"""The most findings in an alert; the report has more."""
NOTES_MAX = 10
LINE_CHARS_MAX = 300
"""The most characters of a line in a message for people: values may be of any length."""
SLACK_HEADER_MAX = 150
SLACK_SECTION_MAX = 3_000
"""Source: Slack, Block Kit reference, header and section block."""
NIGHT_LASTS_S = 26 * 3_600.0
"""The time that an alert of a nightly check stays open: until the next night's check, and for its duration."""
UNJUDGED = "UNJUDGED"
"""The name under which a round without a verdict is open, next to the classes of findings."""
_FENCE = "```"


class AlertFormat(StrEnum):
    JSON = "json"
    SLACK = "slack"
    ALERTMANAGER = "alertmanager"
    TEXT = "text"


class AlertSource(StrEnum):
    CHECK = "check"
    WATCH = "watch"


_SOURCES = {AlertSource.CHECK: N_("check"), AlertSource.WATCH: N_("watch")}


@dataclass(frozen=True, slots=True)
class Alert:
    """The content of an alert: a summary, and the classes that were open at the last alert and no longer are."""

    summary: Summary
    source: AlertSource = AlertSource.CHECK
    cluster: str = "rollcall"
    """The operator's name for the cluster, for recipients with several clusters."""
    ended: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """The classes that were open and about which a summary without a verdict says nothing: they stay open."""
    since: str = ""
    """The time since which the earlier classes were open, ISO 8601; empty if unknown."""
    lasts_s: float = NIGHT_LASTS_S
    """The time for which Alertmanager takes the alert as open if no other follows."""

    @property
    def is_resolved(self) -> bool:
        return self.summary.verdict is Verdict.AGREED

    @property
    def headline(self) -> str:
        """The verdict in a few words, for people."""
        verdict = recognized("resolved" if self.is_resolved else self.summary.verdict.value)
        values = {"cluster": self.cluster, "verdict": verdict, "source": phrase(_SOURCES[self.source])}
        return shown(phrase("%(cluster)s: %(verdict)s (%(source)s)", **values))


@dataclass(frozen=True, slots=True)
class Body:
    content: bytes
    content_type: str


def open_classes(summary: Summary) -> tuple[str, ...]:
    """Return the classes of the lasting findings, sorted; ``UNJUDGED`` without a verdict; none if members agree."""
    match summary.verdict:
        case Verdict.AGREED:
            return ()
        case Verdict.UNJUDGED:
            return (UNJUDGED,)
        case Verdict.DIVERGENT:
            return tuple(sorted(name for name, count in summary.findings.items() if count))


def body_of(alert: Alert, form: AlertFormat) -> Body:
    """Return the alert as the body of a POST."""
    match form:
        case AlertFormat.JSON:
            return Body(orjson.dumps(_summary(alert)), "application/json")
        case AlertFormat.SLACK:
            return Body(orjson.dumps(_slack(alert)), "application/json")
        case AlertFormat.ALERTMANAGER:
            return Body(orjson.dumps(_alertmanager(alert)), "application/json")
        case AlertFormat.TEXT:
            lines = [alert.headline, *_lines(alert)]
            return Body(("\n".join(lines) + "\n").encode("utf-8", "replace"), "text/plain; charset=utf-8")


def _summary(alert: Alert) -> dict[str, Any]:
    """Return the shape of ``summary.json`` with at most ``EXAMPLES_MAX`` examples and groups.

    A summary of the watch also has ``source``, and an agreed one ``resolved``, the classes that are no longer open."""
    summary = alert.summary
    value = asdict(summary) | {"examples": summary.examples[:EXAMPLES_MAX], "groups": summary.groups[:EXAMPLES_MAX]}
    if alert.source is not AlertSource.CHECK:
        value["source"] = alert.source.value
    return value | {"resolved": list(alert.ended)} if alert.is_resolved else value


# --- for people ------------------------------------------------------------------------------------


def _lines(alert: Alert) -> list[str]:
    """Return the verdict, the examples and the notes, a line each, in the language of the command."""
    summary = alert.summary
    lines = [recognized(summary.line)]
    if alert.is_resolved and alert.ended:
        lines.append(phrase("no longer open: %(classes)s", classes=", ".join(alert.ended)))
    lasting = [one for one in summary.examples if one.get("lasting")]
    lines += [told(one) for one in lasting[:EXAMPLES_MAX]]
    if (more := sum(summary.findings.values()) - min(len(lasting), EXAMPLES_MAX)) > 0 and lasting:
        lines.append(phrase("and %(count)s more", count=f"{more:,}"))
    lines += [phrase("note: %(text)s", text=recognized(note)) for note in summary.notes[:NOTES_MAX]]
    return [one_line(shown(line)) for line in lines]


def told(finding: Mapping[str, Any]) -> str:
    """Return the finding in one line: class, service, instance, the member that departs, and both values."""
    ip, port = finding.get("ip"), finding.get("port")
    host = f"[{ip}]" if ip and ":" in str(ip) else ip
    where = " ".join(
        str(part)
        for part in (
            finding.get("finding_class"),
            finding.get("namespace") if finding.get("service") else None,
            finding.get("service"),
            f"{host}:{port}" if ip else None,
        )
        if part
    )
    text = where
    if member := finding.get("member"):
        text = phrase("%(finding)s at %(member)s", finding=where, member=member)
    found, expected = (
        None if finding.get(name) is None else one_line(str(finding[name]), LINE_CHARS_MAX // 4)
        for name in ("found", "expected")
    )
    if found is not None and expected is not None:
        values = {"finding": text, "found": found, "expected": expected}
        text = phrase("%(finding)s: found %(found)s, expected %(expected)s", **values)
    elif found is not None:
        text = phrase("%(finding)s: found %(found)s", finding=text, found=found)
    elif expected is not None:
        text = phrase("%(finding)s: expected %(expected)s", finding=text, expected=expected)
    if detail := finding.get("detail"):
        text = phrase("%(finding)s (%(detail)s)", finding=text, detail=recognized(str(detail)))
    return text


def one_line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """Return the text in one line of at most so many characters; those that might control a terminal are escaped."""
    cut = text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
    plain = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in cut)
    return plain if len(plain) <= chars_max else f"{plain[: chars_max - 1]}…"


def _slack(alert: Alert) -> dict[str, Any]:
    """Return the body for an incoming web hook. Shape: ``text``, shown in notifications, and ``blocks``."""
    first, *rest = _lines(alert)
    header = one_line(alert.headline, SLACK_HEADER_MAX)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": header, "emoji": False}},
        _section(_escaped(first)),
    ]
    if rest:
        room = SLACK_SECTION_MAX - 2 * (len(_FENCE) + 1)
        shown: list[str] = []
        for line in rest:
            escaped = _escaped(line).replace("`", "'")
            room -= len(escaped) + 1
            if room < 0:
                break
            shown.append(escaped)
        blocks.append(_section("\n".join([_FENCE, *shown, _FENCE])))
    return {"text": _escaped(f"{header}: {first}"), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    """Escape the three characters of a mention or link, as values may have them. Source: Slack, formatting text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- Alertmanager ----------------------------------------------------------------------------------


def _alertmanager(alert: Alert) -> list[dict[str, Any]]:
    """Return the body for POST /api/v2/alerts, one alert for each class; ended ones have an ``endsAt`` in the past.

    Labels hold nothing that changes while a class is open: Alertmanager identifies an alert by them.
    """
    now = _moment(alert.summary.checked_at) or datetime.now(UTC)
    alerts = []
    for name in (*open_classes(alert.summary), *alert.unknown):
        examples = [one for one in alert.summary.examples if one.get("lasting") and one.get("finding_class") == name]
        annotations = {"summary": one_line(alert.summary.line)}
        if examples:
            annotations["description"] = "\n".join(one_line(told(one)) for one in examples[:EXAMPLES_MAX])
        before = _moment(alert.since) if name in alert.unknown else None
        began = min((at for one in examples if (at := _moment(str(one.get("since") or "")))), default=before or now)
        times = {"startsAt": _text(min(began, now)), "endsAt": _text(now + timedelta(seconds=alert.lasts_s))}
        alerts.append({"labels": _labels(alert, name), "annotations": annotations, **times})
    for name in alert.ended:
        began = _moment(alert.since) or now
        annotations = {"summary": one_line(f"no longer open: {alert.summary.line}")}
        times = {"startsAt": _text(min(began, now)), "endsAt": _text(now)}
        alerts.append({"labels": _labels(alert, name), "annotations": annotations, **times})
    return alerts


def _labels(alert: Alert, name: str) -> dict[str, str]:
    alertname = "RollcallUnjudged" if name == UNJUDGED else "RollcallMembersDiffer"
    return {"alertname": alertname, "class": name, "cluster": alert.cluster, "source": alert.source.value}


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else None


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"

"""The bodies of alerts: what Slack and Alertmanager take, within their limits, whatever stands in the values."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest

from app.rows.summary import Summary, Verdict, unjudged
from app.tools.audit.report.alert_bodies import (
    EXAMPLES_MAX,
    LINE_CHARS_MAX,
    NIGHT_LASTS_S,
    SLACK_HEADER_MAX,
    SLACK_SECTION_MAX,
    Alert,
    AlertFormat,
    AlertSource,
    body_of,
    open_classes,
)


def finding(**values: Any) -> dict[str, Any]:
    return {
        "finding_class": "MISSING",
        "lasting": True,
        "namespace": "public",
        "service": "DEFAULT_GROUP@@orders",
        "ip": "10.1.0.1",
        "port": 8080,
        "member": "10.0.0.2:8848",
        "found": "absent",
        "expected": "healthy=true",
        "since": "2026-11-20T03:15:00.000Z",
        "detail": None,
    } | values


DIVERGENT = Summary(
    "2026-11-21",
    Verdict.DIVERGENT,
    "divergent: 1 MISSING, 2 HEALTH; night 2026-11-21",
    checked_at="2026-11-21T03:20:00Z",
    findings={"MISSING": 1, "HEALTH": 2},
    examples=[finding(), finding(finding_class="HEALTH", ip="::1", found="true", since="2026-11-21T03:15:00.000Z")],
    notes=["a note"],
)
AGREED = Summary("2026-11-22", Verdict.AGREED, "agreed: 3 members", checked_at="2026-11-22T03:20:00Z")
RESOLVED = Alert(AGREED, ended=("HEALTH", "MISSING"), since="2026-11-21T03:20:00Z")
NASTY = "</script><!channel> <http://evil|x> & `rm` \x1b[31m\u202e\nnew line" + "&" * 100_000


def json_of(alert: Alert, form: AlertFormat) -> Any:
    body = body_of(alert, form)
    assert body.content_type == "application/json"
    return orjson.loads(body.content)


def text_of(alert: Alert) -> str:
    body = body_of(alert, AlertFormat.TEXT)
    assert body.content_type == "text/plain; charset=utf-8"
    return body.content.decode()


def test_plain_text() -> None:
    assert text_of(Alert(DIVERGENT)).splitlines() == [
        "rollcall: divergent (check)",
        "divergent: 1 MISSING, 2 HEALTH; night 2026-11-21",
        "MISSING public DEFAULT_GROUP@@orders 10.1.0.1:8080 at 10.0.0.2:8848: found absent, expected healthy=true",
        "HEALTH public DEFAULT_GROUP@@orders [::1]:8080 at 10.0.0.2:8848: found true, expected healthy=true",
        "and 1 more",
        "note: a note",
    ]
    assert text_of(RESOLVED) == "rollcall: resolved (check)\nagreed: 3 members\nno longer open: HEALTH, MISSING\n"
    assert "rollcall: unjudged (check)\ncould not judge: no dump" in text_of(Alert(unjudged("", "no dump")))


def test_json_is_the_summary_and_says_what_is_resolved() -> None:
    assert "resolved" not in json_of(Alert(DIVERGENT), AlertFormat.JSON)
    assert json_of(Alert(DIVERGENT), AlertFormat.JSON)["verdict"] == "divergent"
    resolved = json_of(RESOLVED, AlertFormat.JSON)
    assert (resolved["verdict"], resolved["resolved"]) == ("agreed", ["HEALTH", "MISSING"])
    assert json_of(Alert(DIVERGENT, AlertSource.WATCH), AlertFormat.JSON)["source"] == "watch"


def test_slack_gets_a_header_and_sections() -> None:
    message = json_of(Alert(DIVERGENT, cluster="prod"), AlertFormat.SLACK)
    assert message["text"] == "prod: divergent (check): divergent: 1 MISSING, 2 HEALTH; night 2026-11-21"
    header, line, rest = message["blocks"]
    assert header["text"] == {"type": "plain_text", "text": "prod: divergent (check)", "emoji": False}
    assert line["text"] == {"type": "mrkdwn", "text": "divergent: 1 MISSING, 2 HEALTH; night 2026-11-21"}
    assert rest["text"]["text"].startswith("```\nMISSING public DEFAULT_GROUP@@orders 10.1.0.1:8080 at ")
    assert rest["text"]["text"].endswith("\nnote: a note\n```")
    resolved = json_of(RESOLVED, AlertFormat.SLACK)
    assert resolved["text"] == "rollcall: resolved (check): agreed: 3 members"


@pytest.mark.parametrize("field", ["service", "found", "detail", "member", "ip"])
def test_no_value_breaks_a_message_for_people(field: str) -> None:
    examples = [finding(**{field: NASTY}) for _ in range(200)]
    nasty = Alert(replace(DIVERGENT, line=NASTY, examples=examples, notes=[NASTY] * 100), cluster="c" * 500)
    message = json_of(nasty, AlertFormat.SLACK)
    texts = [block["text"]["text"] for block in message["blocks"]]
    assert len(texts[0]) <= SLACK_HEADER_MAX
    assert all(len(text) <= SLACK_SECTION_MAX for text in texts)
    assert len(message["text"]) < 4_000
    for text in (message["text"], *texts[1:]):
        assert "<" not in text
        assert ">" not in text
        assert "\x1b" not in text
    assert texts[2].count("`") == 6, "the fence is ours alone"
    lines = text_of(nasty).splitlines()
    assert len(lines) <= 4 + EXAMPLES_MAX + 10
    assert all(len(line) <= max(LINE_CHARS_MAX, 550) and line.isprintable() for line in lines)
    assert len(orjson.dumps(json_of(nasty, AlertFormat.ALERTMANAGER))) < 100_000


def test_alertmanager_knows_an_alert_again_by_its_labels() -> None:
    missing, health = sorted(
        json_of(Alert(DIVERGENT), AlertFormat.ALERTMANAGER), key=lambda one: one["labels"]["class"], reverse=True
    )
    assert missing["labels"] == {
        "alertname": "RollcallMembersDiffer",
        "class": "MISSING",
        "cluster": "rollcall",
        "source": "check",
    }
    assert (missing["startsAt"], health["startsAt"]) == ("2026-11-20T03:15:00.000Z", "2026-11-21T03:15:00.000Z")
    assert missing["endsAt"] == "2026-11-22T05:20:00.000Z", "until the next night's check must have been"
    assert missing["annotations"]["summary"] == DIVERGENT.line
    assert "10.1.0.1:8080" in missing["annotations"]["description"]

    over = json_of(RESOLVED, AlertFormat.ALERTMANAGER)
    assert sorted(one["labels"]["class"] for one in over) == ["HEALTH", "MISSING"]
    assert [one["labels"] for one in over if one["labels"]["class"] == "MISSING"] == [missing["labels"]]
    for one in over:
        assert (one["startsAt"], one["endsAt"]) == ("2026-11-21T03:20:00.000Z", "2026-11-22T03:20:00.000Z")


def test_a_class_that_is_over_ends_while_another_is_open() -> None:
    alerts = json_of(Alert(replace(DIVERGENT, findings={"HEALTH": 2}), ended=("MISSING",)), AlertFormat.ALERTMANAGER)
    ends = {one["labels"]["class"]: one["endsAt"] for one in alerts}
    assert ends == {"HEALTH": "2026-11-22T05:20:00.000Z", "MISSING": "2026-11-21T03:20:00.000Z"}


def test_a_night_without_a_verdict_is_an_alert_of_its_own() -> None:
    [alert] = json_of(Alert(unjudged("", "no dump")), AlertFormat.ALERTMANAGER)
    assert (alert["labels"]["alertname"], alert["labels"]["class"]) == ("RollcallUnjudged", "UNJUDGED")
    began, ends = (datetime.fromisoformat(alert[name]) for name in ("startsAt", "endsAt"))
    assert ends - began == timedelta(seconds=NIGHT_LASTS_S)


@pytest.mark.parametrize("moment", ["", "soon", "2026-11-21T03:20:00"])
def test_moments_that_are_none_do_no_harm(moment: str) -> None:
    summary = replace(DIVERGENT, checked_at=moment, examples=[finding(since=moment)])
    for alert in json_of(Alert(summary, ended=("EXTRA",), since=moment), AlertFormat.ALERTMANAGER):
        assert datetime.fromisoformat(alert["startsAt"]) <= datetime.fromisoformat(alert["endsAt"])


def test_the_open_classes() -> None:
    assert open_classes(DIVERGENT) == ("HEALTH", "MISSING")
    assert open_classes(unjudged("", "no dump")) == ("UNJUDGED",)
    assert open_classes(replace(AGREED, late={"HEALTH": 1}, suppressed={"MISSING": 1})) == ()


def test_messages_for_people_are_in_the_language_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    english = [body_of(Alert(DIVERGENT), form) for form in (AlertFormat.JSON, AlertFormat.ALERTMANAGER)]
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    assert [body_of(Alert(DIVERGENT), form) for form in (AlertFormat.JSON, AlertFormat.ALERTMANAGER)] == english
    text = body_of(Alert(DIVERGENT), AlertFormat.TEXT).content.decode()
    assert text.startswith("rollcall：不一致（巡检）\n不一致：1 MISSING, 2 HEALTH；日期 2026-11-21\n")
    assert "10.1.0.1:8080，节点 10.0.0.2:8848：实际为 absent，应为 healthy=true\n" in text
    assert text.endswith("另有 1 个\n注意：a note\n")
    assert json_of(Alert(DIVERGENT), AlertFormat.SLACK)["blocks"][0]["text"]["text"] == "rollcall：不一致（巡检）"
    resolved = body_of(RESOLVED, AlertFormat.TEXT).content.decode()
    assert resolved.startswith("rollcall：已恢复（巡检）\n")
    assert "已不再存在：HEALTH, MISSING" in resolved

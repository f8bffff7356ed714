"""English texts of the audit's files: each is found among the messages, and shown in the language of the reader."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.languages.catalogues import CHINESE, COMMANDS, CONSOLE, LANGUAGES, texts_of
from app.languages.phrases import Phrase, shown
from app.languages.stored_texts import recognized
from app.rows.summary import Summary, Verdict
from app.tools.audit.report.alert_bodies import told
from app.tools.audit.report.wording import links_in_words

AUDIT = Path(__file__).parents[3] / "app" / "tools" / "audit"
REASONS = {"NoDump", "BadSuppressions", "BadLinked", "NoSpark", "NoJava", "_NoVerdict", "NoFindings", "CannotJudge"}
"""The errors whose texts are reasons for the lack of a verdict."""


def reasons(module: ast.Module) -> Iterator[str]:
    """Yield the texts that a module gives to REASONS, with 7 for each value that it does not hold as a constant."""
    constants = {
        target.id: ast.literal_eval(one.value)
        for one in module.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)
        for target in one.targets
        if isinstance(target, ast.Name)
    }

    def value_of(part: ast.expr) -> str:
        if isinstance(part, ast.Constant):
            return str(part.value)
        name = part.value if isinstance(part, ast.FormattedValue) else part
        return str(constants.get(name.id, 7)) if isinstance(name, ast.Name) else "7"

    for call in (one for one in ast.walk(module) if isinstance(one, ast.Call) and one.args):
        if getattr(call.func, "id", "") in REASONS:
            text = call.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            if any(isinstance(one, ast.Constant) for one in parts):
                yield "".join(map(value_of, parts))


def test_each_reason_of_the_audit_is_a_message() -> None:
    files = [path for folder in ("check", "format") for path in sorted((AUDIT / folder).glob("*.py"))]
    found = [text for path in files for text in reasons(ast.parse(path.read_text()))]
    assert len(found) > 35
    assert [text for text in found if not isinstance(recognized(text), Phrase)] == []


def test_each_reason_of_the_nightly_script_is_a_message() -> None:
    script = (AUDIT.parents[2] / "deploy" / "nightly.sh").read_text()
    found = re.findall(r'(?:finish "\$UNJUDGED"|dump_failed=|log_failed=) ?"([^"]+)"', script)
    texts = [re.sub(r"\$\{last_line.*\}\}", ": /x", one) for one in found if not one.startswith(("$dump_f", "$log_f"))]
    assert len(texts) > 10
    filled = [re.sub(r"\$\{[^}]*}|\$\w*limit|\$\w+", _value_of, one) for one in texts]
    assert [text for text in filled if not isinstance(recognized(text), Phrase)] == []


def test_the_nightly_script_sees_in_each_language_that_the_check_has_no_verdict() -> None:
    script = (AUDIT.parents[2] / "deploy" / "nightly.sh").read_text()
    for texts in (texts_of(COMMANDS, language) for language in LANGUAGES):
        begin, _, _ = texts.gettext("could not judge: %(reason)s").partition("%")
        assert f'"{begin}"*' in script


def _value_of(found: re.Match[str]) -> str:
    return {"$phase": "during the check"}.get(found[0], "7")


def test_a_reason_without_a_message_is_found() -> None:
    module = ast.parse('WHY = "a new reason"\nraise NoDump(f"{WHY}: {path}")')
    assert list(reasons(module)) == ["a new reason: 7"]
    assert recognized("a new reason: 7") == "a new reason: 7"


LINKED = {"cluster": "dc-a", "origin": "dc-b", "instances": 1_204, "findings": 6, "stale": 1, "heard_ago_ms": 5_000}


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        (
            "agreed: 3 members, 1,000 instances of 50 services; night 2026-11-28",
            "一致：3 个节点，50 个服务的 1,000 个实例；日期 2026-11-28",
        ),
        (
            "divergent: at least 3 MISSING, 2 EXTRA; 3 of 4 listed members, 9 instances of 5 services; 2 late; 1 "
            "suppressed; open since 2026-11-20; night 2026-11-28",
            "不一致：至少 3 MISSING, 2 EXTRA；列表中 4 个节点里的 3 个，5 个服务的 9 个实例；迟到 2 项；已抑制 1 项；"
            "自 2026-11-20 起未解决；日期 2026-11-28",
        ),
        (
            "could not judge: only 1 of 3 members can be compared; 10.0.0.1:8848: in one round only: /nacos/v1: no "
            "answer within 5 s; 10.0.0.2:8848: no manifest of that round names it",
            "无法判断：3 个节点中只有 1 个可以比对；10.0.0.1:8848：仅在一轮中：/nacos/v1：5 秒内没有响应；"
            "10.0.0.2:8848：该轮的清单中没有此节点",
        ),
        (
            "could not judge: no complete dump of the night 2026-11-28 under /dumps; run 3 is incomplete: only round 1 "
            "of 2",
            "无法判断：/dumps 中没有 2026-11-28 的完整转储；任务 3 不完整：共 2 轮，只有第 1 轮",
        ),
        (
            "suppressed until 2026-12-01 by entry 2: a move; the owner lacks it",
            "由条目 2 抑制至 2026-12-01：a move；负责节点缺少该实例",
        ),
        (
            "10.0.0.1:1 lists a:1 UP; 10.0.0.2:1 lists no others",
            "10.0.0.1:1 的列表：a:1 UP；10.0.0.2:1 的列表：没有其他节点",
        ),
        ("not heard of for 95 s", "已有 95 秒没有心跳"),
        ("some text of a person: as it is", "some text of a person: as it is"),
        ("x" * 5_000, "x" * 5_000),
    ],
)
def test_a_stored_text_in_chinese(text: str, chinese: str) -> None:
    assert str(recognized(text)) == text
    assert shown(recognized(text), texts_of(CONSOLE, CHINESE)) == chinese


@pytest.mark.parametrize("lacking", [0, 3])
@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("differs", [0, 1])
def test_each_text_on_a_link_is_recognized(lacking: int, extra: int, differs: int) -> None:
    one = LINKED | {"lacking": lacking, "extra": extra, "differs": differs}
    [text] = links_in_words(replace(Summary("2026-11-28", Verdict.DIVERGENT, ""), links=[one]))
    chinese = shown(recognized(text), texts_of(CONSOLE, CHINESE))
    assert "dc-b" in chinese
    assert not {"lacks", "has", "stale", "many", "values", "heard"} & set(chinese.replace("，", " ").split())


def test_a_finding_in_a_line_is_english_until_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {
        "finding_class": "MISSING",
        "namespace": "public",
        "service": "orders",
        "ip": "fd00::1",
        "port": 80,
        "member": "a:1",
        "found": "absent",
        "expected": "healthy",
        "detail": "the owner lacks it",
    }
    english = "MISSING public orders [fd00::1]:80 at a:1: found absent, expected healthy (the owner lacks it)"
    assert told(finding) == english
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    assert told(finding) == english
    assert (
        shown(told(finding))
        == "MISSING public orders [fd00::1]:80，节点 a:1：实际为 absent，应为 healthy（负责节点缺少该实例）"
    )

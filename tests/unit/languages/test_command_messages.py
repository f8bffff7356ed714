"""The messages of commands: each goes through a catalogue, and is English wherever no person reads it."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.languages.phrases import phrase, reason_of, shown
from app.tools.audit.client.access import AccessError, parse_members
from app.tools.command.doctor_command import doctor_lines
from app.tools.command.doctor_findings import failure

ROOT = Path(__file__).parents[3]
NOT_TRANSLATED = (
    "simulation",
    "embedded",
    "audit/report",
    "audit/check",
    "audit/format",
    "audit/dump/nacos",
    "audit/dump/sources",
    "audit/watch/readers",
)
"""Tools for developers; verdicts with their reasons, which stand in reports, alerts and tables; and the faults of a
member's answer, which stand in manifests.
"""
PRINTS = frozenset({"print", "write", "write_note", "write_line", "say", "_say", "_note", "_could_not", "tell"})
SENTENCE = re.compile(r"[a-z]{2,} [a-z]{2,}")
PREFIX = re.compile(r"^rollcall [a-z-]+: ")


REFUSALS_OF_SETTINGS = frozenset({"SettingError", "DataLockError", "DataFolderInUse", "not_allowed", "Kind"})
"""The errors about settings, and the functions that make them."""


def untranslated(module: ast.Module, names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the English texts that a module prints, or gives to an error of a command; or to one of ``names``."""
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call) and node.args):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        of_command = name in PRINTS or name.endswith(("Error", "Refused")) or name.startswith("Cannot")
        if name in names if names else of_command:
            text = call.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            for part in parts:
                if isinstance(part, ast.Constant) and SENTENCE.search(PREFIX.sub("", str(part.value))):
                    yield f"line {part.lineno}: {part.value}"


def test_an_untranslated_message_is_found() -> None:
    module = ast.parse(
        'print(f"rollcall heal: {text}")\nprint(f"{one} is not here")\nraise AccessError("no such file")'
    )
    assert [text.partition(":")[0] for text in untranslated(module)] == ["line 2", "line 3"]


def test_every_message_of_a_command_is_translated() -> None:
    tools = ROOT / "app" / "tools"
    paths = {path.relative_to(tools).as_posix(): path for path in tools.rglob("*.py")}
    files = [path for name, path in paths.items() if not name.startswith(NOT_TRANSLATED)]
    assert len(files) > 50
    found = {str(path): list(untranslated(ast.parse(path.read_text()))) for path in files}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_every_refusal_of_a_setting_is_translated() -> None:
    folders = [ROOT / "app" / "config", ROOT / "app" / "machine" / "process", ROOT / "app" / "machine" / "storage"]
    files = [path for folder in folders for path in folder.glob("*.py")]
    modules = {str(path): ast.parse(path.read_text()) for path in files}
    found = {path: list(untranslated(module, REFUSALS_OF_SETTINGS)) for path, module in modules.items()}
    assert {path: texts for path, texts in found.items() if texts} == {}
    module = ast.parse('raise SettingError(f"{key} is not allowed")\nKind("any text", str)')
    assert len(list(untranslated(module, REFUSALS_OF_SETTINGS))) == 2


def test_a_phrase_is_english_until_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = phrase("not healed: %(reason)s", reason=phrase("the members agree"))
    assert text == "not healed: the members agree"
    assert json.dumps([text]) == '["not healed: the members agree"]'
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    assert text == "not healed: the members agree"
    assert shown(text) == "未修复：各节点一致"
    assert shown("a plain text") == "a plain text"


def test_the_reason_of_an_error_is_shown_in_the_language_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    with pytest.raises(AccessError) as caught:
        parse_members(" , ")
    assert reason_of(caught.value) == "没有给出节点"
    assert str(caught.value) == "no member is given"
    outer = phrase("no member list of %(server)s: %(error)s", server="a:1", error=caught.value)
    assert shown(outer) == "无法取得 a:1 的节点列表：没有给出节点"
    assert reason_of(OSError(2, "No such file or directory")) == "[Errno 2] No such file or directory"


def test_a_finding_of_the_doctor_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = failure("disk", phrase("%(count)s MiB free at %(there)s", count=7, there="/data"), phrase("remove it"))
    assert list(doctor_lines(finding)) == ["FAIL disk: 7 MiB free at /data", "     -> remove it"]
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    assert list(doctor_lines(finding)) == ["失败 磁盘: /data 剩余 7 MiB", "     -> 请删除"]

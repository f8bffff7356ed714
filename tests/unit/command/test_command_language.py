"""Commands in Chinese: help, tables and refusals; data and names stay as they are."""

import json
import re

import pytest
from rich.cells import cell_len

from app.languages.catalogues import CHINESE, COMMANDS, texts_of
from app.tools.cli import main
from app.tools.command.asking.terminal_table import print_fields
from app.tools.command.explain_command import WIDTH
from app.tools.command.help_texts import REFUSALS, lines_of, refusal_text
from tests.support.command_node import Commands

CJK = re.compile(r"[一-鿿]")


@pytest.fixture(autouse=True)
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_LANGUAGE", CHINESE)


@pytest.mark.parametrize("columns", [80, 132])
@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["drain", "--help"], ["events", "--help"]])
def test_help_is_chinese_and_fits_the_terminal(
    arguments: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main(arguments)
    text = capsys.readouterr().out
    assert text.startswith("用法：")
    assert CJK.search(text)
    assert not re.search(r"show this help|positional arguments|^options", text, re.MULTILINE)
    assert max(map(cell_len, text.splitlines())) <= columns


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["instances"], "rollcall instances：缺少以下参数：SERVICE"),
        (["instances", "orders", "--clutser", "a"], "未知选项 --clutser；是否想输入 --cluster"),
        (["servces"], "rollcall：未知命令 servces；是否想输入 services"),
        (["services", "-o"], "参数 -o/--output：需要一个值"),
        (["services", "-o", "xml"], "参数 -o/--output：无效的取值 'xml'（可选："),
    ],
)
def test_refusals_of_arguments_are_chinese(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    refusal = capsys.readouterr().err
    assert text in refusal
    assert refusal.count("\n") == 1


def test_a_refusal_that_is_not_known_stays() -> None:
    assert refusal_text("something else: 100 %") == "something else: 100 %"
    assert len({texts_of(COMMANDS, CHINESE).gettext(one) for one in REFUSALS}) == len(REFUSALS)


def test_tables_are_chinese_and_data_is_not(command: Commands) -> None:
    command("register", "orders", "10.0.0.1:8080", "--persistent")
    assert re.match(r"服务 +集群数 +实例数? +", command("services").out)
    assert re.search(r"实例 +集群 +健康状态 +", command("instances", "orders").out)
    assert "健康" in command("instances", "orders").out
    [row] = json.loads(command("instances", "orders", "--json").out)
    assert (row["ip"], row["healthy"]) == ("10.0.0.1", True)
    taken_out = json.loads(command("disable", "--service", "orders", "10.0.0.1:8080", "--force", "-o", "json").out)
    assert taken_out["done"] == "disabled"
    assert "已上线 10.0.0.1:8080" in command("enable", "--service", "orders", "10.0.0.1:8080").out
    assert "没有服务 nowhere" in command("instances", "nowhere").err


def test_an_instance_is_explained_in_chinese(command: Commands) -> None:
    command("register", "orders", "10.0.0.1:8080")
    ran = command("explain", "10.0.0.1:8080", "--service", "orders")
    assert "服务由 " in ran.out
    assert "靠心跳维持的临时实例" in ran.out
    assert "已响应的节点一致。" in ran.out
    assert not re.search("[A-Za-z]+ (?:is|the|of|are) ", ran.out)
    assert max(map(cell_len, ran.out.splitlines())) <= WIDTH
    data = json.loads(command("explain", "10.0.0.1:8080", "--service", "orders", "--json").out)
    assert not CJK.search(json.dumps(data, ensure_ascii=False))


def test_fields_are_aligned_by_the_width_of_their_letters(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("state", "drained"), ("connected clients", "3")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["状态:           drained", "已连接的客户端: 3"]
    assert len({cell_len(line.rpartition(" ")[0]) for line in lines}) == 1


def test_lines_break_beside_chinese_letters_but_never_before_a_comma() -> None:
    lines = lines_of("按 ip、ip:port、端口或元数据查找实例，名称包含该文本的服务也会列出。", 20)
    assert all(cell_len(line) <= 20 for line in lines)
    assert not any(line[0] in "，。、" for line in lines)
    assert "".join(lines).replace(" ", "") == "按ip、ip:port、端口或元数据查找实例，名称包含该文本的服务也会列出。"
    assert lines_of("", 20) == []


def test_the_variable_of_the_language_is_no_unknown_setting(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "--changed"])
    assert "ROLLCALL_LANGUAGE" not in capsys.readouterr().err

"""The line that says that a node serves: for people, or among logs of JSON."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.node.background import READY_CHECK_MS, ready_line
from tests.support.fake_node import make_settings


def reader(*, loading: bool) -> Any:
    return cast("Any", SimpleNamespace(view=SimpleNamespace(loading=loading)))


def test_a_node_that_loads_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ready_line(make_settings(), reader(loading=True))(5) == 5 + READY_CHECK_MS
    assert capsys.readouterr().out == ""


def test_the_console_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    ready_line(make_settings(rollcall_announce="true"), reader(loading=False))(5)
    assert capsys.readouterr().out.startswith("console http://127.0.0.1:8848/nacos/ ready: ")


def test_beside_logs_of_json_there_is_no_plain_line(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ready_line(make_settings(rollcall_log_format="json"), reader(loading=False))(5)
    assert capsys.readouterr().out == ""
    [line] = caplog.messages
    assert line.startswith("console http://127.0.0.1:8848/nacos/ ready: ")

"""``rollcall config``: values with their sources, and no secret."""

import json
import os
from pathlib import Path

import pytest

from app.config.settings import ALL_KEYS
from app.tools.cli import main
from app.tools.command.config_command import MASKED, is_secret


@pytest.fixture(autouse=True)
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("NACOS_", "ROLLCALL_", "SERVER_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf"


def test_each_setting_has_its_source(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (conf / "application.properties").write_text("rollcall.http.threads=8\n")
    monkeypatch.setenv("ROLLCALL_LOG_LEVEL", "DEBUG")
    assert main(["config", "--port", "18848", "--json"]) == 0
    told = {one["key"]: (one["value"], one["source"]) for one in json.loads(capsys.readouterr().out)["settings"]}
    assert told["server.port"] == ("18848", "command line")
    assert told["rollcall.log.level"] == ("DEBUG", "environment variable ROLLCALL_LOG_LEVEL")
    assert told["rollcall.http.threads"] == ("8", str(conf / "application.properties"))
    assert told["server.address"] == ("127.0.0.1", "default")
    assert told.keys() == {key.name for key in ALL_KEYS}


def test_no_secret_is_shown(conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NACOS_CORE_AUTH_SERVER_IDENTITY_VALUE", "s3cret-value-of-members")
    main(["config", "--changed"])
    said = capsys.readouterr()
    assert "s3cret" not in said.out + said.err
    assert f"nacos.core.auth.server.identity.value={MASKED}" in said.out


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("nacos.core.auth.plugin.nacos.token.secret.key", True),
        ("rollcall.identity.previousValue", True),
        ("nacos.core.auth.server.identity.value", True),
        ("nacos.core.auth.server.identity.key", False),
        ("nacos.core.auth.plugin.nacos.token.expire.seconds", False),
        ("server.port", False),
    ],
)
def test_which_are_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_settings_of_nacos_that_are_not_followed_are_listed(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (conf / "application.properties").write_text("nacos.core.auth.caching.enabled=true\nserver.port=8849\n")
    assert main(["config", "--changed"]) == 0
    said = capsys.readouterr().err
    assert "nacos.core.auth.caching.enabled" in said
    assert "is a setting of Nacos that Rollcall does not have" in said
    assert main(["config", "--json"]) == 0
    assert [one["key"] for one in json.loads(capsys.readouterr().out)["ignored"]] == ["nacos.core.auth.caching.enabled"]
    (conf / "application.properties").write_text("nacos.core.auth.enable=true\n")
    assert main(["config", "--changed"]) == 1
    assert "did you mean nacos.core.auth.enabled?" in capsys.readouterr().err


def test_a_misspelt_key_is_a_warning_and_a_wrong_value_an_error(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (conf / "application.properties").write_text("rollcall.http.threds=8\n")
    assert main(["config", "--changed"]) == 1
    assert "did you mean rollcall.http.threads?" in capsys.readouterr().err
    (conf / "application.properties").write_text("rollcall.http.threads=many\n")
    assert main(["config", "--changed"]) == 2
    assert "rollcall.http.threads=many" in capsys.readouterr().err


def test_refusals_and_warnings_are_shown_in_chinese_and_stay_english_in_data(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    (conf / "application.properties").write_text("rollcall.http.threds=8\nrollcall.http.threads=many\n")
    assert main(["config", "--changed"]) == 2
    said = capsys.readouterr().err
    assert f"rollcall.http.threads=many（{conf / 'application.properties'}）不合法：应为 4 到 512 之间的整数" in said
    assert "rollcall.http.threds 不是本版本的配置项，已忽略；是否想写 rollcall.http.threads？" in said
    assert main(["config", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"].endswith("is not allowed: a whole number from 4 to 512")
    assert told["warnings"] == [
        "rollcall.http.threds is not a setting of this version and is ignored; did you mean rollcall.http.threads?"
    ]


def test_a_secret_is_masked_in_a_chinese_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
    monkeypatch.setenv("NACOS_CORE_AUTH_ENABLED", "true")
    monkeypatch.setenv("NACOS_CORE_AUTH_PLUGIN_NACOS_TOKEN_SECRET_KEY", "c2hvcnQ=")
    assert main(["config", "--changed"]) == 2
    said = capsys.readouterr().err
    assert "只有 5 字节，至少需要 32 字节" in said
    assert "c2hvcnQ=" not in said

"""Commands of the audit read server, credentials and certificates from environment and file, as all commands do."""

import argparse
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from app.config.client_config import CLIENT_VARIABLES
from app.tools.audit.client.access import (
    AccessError,
    access_of,
    add_access_options,
    add_member_options,
    add_server_options,
    members_of,
    namespace_of,
    parse_url,
    server_of,
)
from app.tools.cli import main
from tests.support.certificates import Authority
from tests.support.command_node import without_configuration
from tests.support.tiny_server import Given, Received, tiny_server


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    without_configuration(monkeypatch, tmp_path, sorted(CLIENT_VARIABLES))
    return tmp_path


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_member_options(parser)
    add_access_options(parser)
    return parser.parse_args(arguments)


def parse_server(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_server_options(parser)
    add_access_options(parser)
    return parser.parse_args(arguments)


def configure(home: Path, text: str) -> None:
    file = home / ".config" / "rollcall" / "cli.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    file.chmod(0o600)


def test_without_members_the_configured_server_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_SERVER", "http://10.0.0.7:8848/nacos")
    monkeypatch.setenv("ROLLCALL_TOKEN", "t0k")
    access, members, asked = members_of(parse())
    assert (access.token, members, asked) == ("t0k", (), "10.0.0.7:8848")
    assert members_of(parse("--members", "10.0.0.8"))[1:] == (("10.0.0.8:8848",), "")


def test_without_any_the_parser_says_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        members_of(parse())
    assert "--members and --from-cluster is needed, or a server in ROLLCALL_SERVER" in capsys.readouterr().err


def test_server_and_namespace(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert (server_of(parse_server()), namespace_of(parse_server())) == ("http://127.0.0.1:8848", "public")
    configure(home, 'server = "a:1"\nnamespace = "dev"\n')
    assert (server_of(parse_server()), namespace_of(parse_server())) == ("a:1", "dev")
    monkeypatch.setenv("ROLLCALL_SERVER", "b:1")
    assert server_of(parse_server()) == "b:1"
    options = parse_server("--server", "c:1", "--namespace", "test")
    assert (server_of(options), namespace_of(options)) == ("c:1", "test")


class TestCredentials:
    def test_a_token_goes_before_a_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROLLCALL_USER", "ann")
        monkeypatch.setenv("ROLLCALL_PASSWORD", "p")
        access = access_of(parse())
        assert (access.user, access.password, access.token) == ("ann", "p", "")
        monkeypatch.setenv("ROLLCALL_TOKEN", "t0k")
        access = access_of(parse())
        assert (access.user, access.password, access.token) == ("", "", "t0k")
        assert "t0k" not in repr(access)

    def test_a_user_of_the_options_goes_before_both(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        configure(home, 'user = "ann"\npassword = "of ann"\n')
        assert access_of(parse("--user", "ann")).password == "of ann"
        with pytest.raises(AccessError, match="--user needs --password-file"):
            access_of(parse("--user", "bob"))
        monkeypatch.setenv("ROLLCALL_PASSWORD", "of bob")
        assert access_of(parse("--user", "bob")).password == "of bob"

    def test_files(self, home: Path) -> None:
        (home / "token").write_text("t0k\n")
        (home / "password").write_text("of ann\n")
        assert access_of(parse("--token-file", str(home / "token"))).token == "t0k"
        configure(home, 'user = "ann"\npassword-file = "~/password"\n')
        assert access_of(parse()).password == "of ann"
        with pytest.raises(AccessError, match="not both"):
            access_of(parse("--token-file", str(home / "token"), "--user", "ann"))

    @pytest.mark.parametrize("text", ["", "two words", "caf\u00e9", "a\x1bb"])
    def test_a_token_that_is_none_is_not_repeated(self, home: Path, text: str) -> None:
        (home / "token").write_text(text)
        with pytest.raises(AccessError, match="is not valid: it should be one word") as raised:
            access_of(parse("--token-file", str(home / "token")))
        assert not text or text not in str(raised.value)

    def test_a_configured_authority_is_for_https_alone(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        file = str(Authority(tmp_path).file)
        monkeypatch.setenv("ROLLCALL_CA", file)
        assert (access_of(parse(), "https").ca, access_of(parse(), "http").ca) == (file, "")


def test_a_file_that_cannot_be_used_is_named(home: Path) -> None:
    configure(home, "sever = 'x'")
    with pytest.raises(AccessError, match="did you mean server"):
        access_of(parse())


@pytest.mark.parametrize("text", ["http://[::1", "ftp://a", "http://a?b"])
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(AccessError, match="is not the URL of a member"):
        parse_url(text)


def test_a_token_goes_with_the_calls_of_the_audit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_TOKEN", "t0k")

    def answer(received: Received) -> Given:
        return Given(403, b"no") if "/explain" in received.target else Given(404)

    with tiny_server(answer) as server:
        monkeypatch.setenv("ROLLCALL_SERVER", server.address)
        assert main(["explain", "10.0.0.1:80", "--service", "orders"]) == 2
        [asked] = server.received
    assert parse_qs(urlsplit(asked.target).query)["accessToken"] == ["t0k"]
    assert "t0k" not in capsys.readouterr().err


class TestCompare:
    """``rollcall compare`` without members."""

    @staticmethod
    def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
        code = main(["compare", "--retries", "0", "--gap", "0", *arguments])
        return code, capsys.readouterr().err

    def test_needs_a_server_or_two_members(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, said = self.run(capsys)
        assert (code, said.count("\n")) == (2, 1)
        assert "name two members, or a server of a cluster in ROLLCALL_SERVER or in cli.toml" in said
        assert "only one member is given; two are needed" in self.run(capsys, "a:1")[1]
        assert "two members are needed, as the dump names them" in self.run(capsys, "--dumps", "x")[1]

    def test_a_member_alone(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        body = json.dumps({"code": 200, "data": [{"address": "10.0.0.0:8848", "state": "UP"}]}).encode()
        with tiny_server(lambda _: Given(200, body)) as server:
            monkeypatch.setenv("ROLLCALL_SERVER", server.address)
            code, said = self.run(capsys)
        assert (code, "has no other members to compare with" in said) == (2, True)

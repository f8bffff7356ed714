"""How commands tell what goes wrong: one line, an exit code, and never a trace."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.auth import ADMIN, ADMIN_PASSWORD, add_user, node_with_users
from tests.support.command_node import Commands, Ran, served_node
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

Serve = Callable[[Callable[[Received], Given]], TinyServer]
ASKING = (
    ("services",),
    ("instances", "orders"),
    ("members",),
    ("clients",),
    ("watch",),
    ("watch", "orders"),
    ("register", "orders", "10.0.0.1:80"),
    ("deregister", "orders", "10.0.0.1:80"),
    ("drain", "orders", "10.0.0.1:80"),
    ("drain", "--node"),
    ("user", "list"),
    ("user", "remove", "ann"),
)


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    """Commands without a server of their own."""
    return Commands(capsys)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(tiny_server(answer))


def assert_one_line(ran: Ran, code: int, *texts: str) -> None:
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    for text in texts:
        assert text in ran.err


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_server_that_does_not_answer(run: Commands, arguments: tuple[str, ...]) -> None:
    address = refusing_address()
    ran = run(*arguments, "--server", address)
    assert_one_line(ran, 3, f"{address} does not answer: connection refused", "--server URL, ROLLCALL_SERVER")


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>",
        b"[]",
        b"{}",
        b"null",
        b'{"count":1,"serviceList":[5],"instances":[null],"servers":7}',
        b"\xff",
    ],
)
def test_a_server_of_another_kind(run: Commands, serve: Serve, arguments: tuple[str, ...], body: bytes) -> None:
    if arguments[0] == "register" or (arguments[0], body) == ("clients", b"[]"):
        return  # of the one's answer nothing is read; the other one's is a list without clients
    ran = run(*arguments, "--server", serve(lambda _: Given(200, body)).address, "--timeout", "5s")
    assert ran.err.count("\n") == 1, ran
    assert ran.code in (5, 6), ran


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_server_without_such_a_call(run: Commands, serve: Serve, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments, "--server", serve(lambda _: Given(404, b"<h1>Not found</h1>")).address)
    assert_one_line(ran, 6, "has no such call: is it a Rollcall member, and --context-path right?")


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_a_server_that_starts(run: Commands, serve: Serve, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments, "--server", serve(lambda _: Given(503, b"server is STARTING now, please try again!")).address)
    assert_one_line(
        ran, 3, "does not serve now: server is STARTING now, please try again. Try another server, or again later"
    )


def test_hostile_words_of_a_server_are_inert(run: Commands, serve: Serve) -> None:
    said = b"\x1b]0;owned\x07 \xe2\x80\xae [red]no\x1b[0m"
    ran = run("services", "--server", serve(lambda _: Given(400, said)).address)
    assert_one_line(ran, 6, r"\x1b]0;owned\x07 \u202e [red]no\x1b[0m")
    assert "\x1b" not in ran.err


@pytest.mark.parametrize("url", ["ftp://a", "http://u:p@a:1", "a:99999", "http://a/?x=1", "http://[::1"])
def test_a_server_that_is_no_address(run: Commands, url: str) -> None:
    assert run("services", "--server", url).code == 2


class TestUsers:
    """A node that asks for users."""

    @pytest.fixture
    def guarded(self, run: Commands) -> Iterator[Commands]:
        node = node_with_users()
        add_user(node, "ann", ("public:*:*", "r"), (":*:*", "r"))
        with served_node(node) as address:
            run.server = address
            yield run

    def test_nobody(self, guarded: Commands) -> None:
        ran = guarded("services")
        assert_one_line(ran, 4, "requires a login: unknown user. Give --user NAME, ROLLCALL_USER or ROLLCALL_TOKEN")

    def test_a_refused_token(self, guarded: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROLLCALL_TOKEN", "nonsense")
        ran = guarded("services")
        assert_one_line(ran, 4, "refuses the token: token invalid. Get a new one: rollcall user login --user NAME")
        assert "nonsense" not in ran.err

    def test_a_wrong_password(self, guarded: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROLLCALL_PASSWORD", "wrong")
        assert_one_line(guarded("services", "--user", "ann"), 4, "does not accept user ann with this password")

    def test_a_right_that_is_missing(self, guarded: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROLLCALL_PASSWORD", "correct horse")
        assert guarded("services", "--user", "ann", "--json").code == 0
        ran = guarded("user", "list", "--user", "ann")
        assert_one_line(ran, 4, "permission denied for user ann", "rollcall user permit")

    def test_a_token_of_a_login_serves_the_next_command(
        self, guarded: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("ROLLCALL_USER", ADMIN)
        monkeypatch.setenv("ROLLCALL_PASSWORD", ADMIN_PASSWORD)
        logged_in = guarded("user", "login")
        assert (logged_in.code, logged_in.out.count("\n")) == (0, 1)
        file = tmp_path / "token"
        file.write_text(logged_in.out)
        monkeypatch.delenv("ROLLCALL_USER")
        monkeypatch.delenv("ROLLCALL_PASSWORD")
        ran = guarded("user", "list", "--token-file", str(file), "--json")
        assert [one["user"] for one in json.loads(ran.out)] == ["ann", ADMIN]

    def test_a_password_is_needed(self, guarded: Commands) -> None:
        assert_one_line(guarded("services", "--user", "ann"), 2, "--user needs --password-file, or the variable")


def test_credentials_of_the_file_are_not_sent_elsewhere(run: Commands, serve: Serve, home: Path) -> None:
    file = home / ".config" / "rollcall" / "cli.toml"
    file.parent.mkdir(parents=True)
    file.write_text('server = "10.9.9.9:8848"\ntoken = "mine"\n')
    file.chmod(0o600)
    server = serve(lambda _: Given(200, b'{"serviceList":[],"count":0}'))
    ran = run("services", "--server", server.address, "--json")
    assert (ran.code, json.loads(ran.out)) == (0, [])
    assert "are not sent to another server" in ran.err
    assert all("authorization" not in one.headers for one in server.received)


def test_a_server_that_gives_shorter_pages_is_read_to_the_end(run: Commands, serve: Serve) -> None:
    rows = [{"name": f"s{number}", "groupName": "DEFAULT_GROUP", "ipCount": 0} for number in range(5)]

    def answer(received: Received) -> Given:
        values = dict(item.split("=") for item in received.target.partition("?")[2].split("&"))
        page, size = int(values["pageNo"]), min(int(values["pageSize"]), 2)
        return Given(200, json.dumps({"count": 5, "serviceList": rows[(page - 1) * size : page * size]}).encode())

    ran = run("services", "--json", "--server", serve(answer).address)
    assert json.loads(ran.out) == rows

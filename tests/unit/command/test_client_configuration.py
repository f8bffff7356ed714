"""``rollcall config --client``, ``rollcall completion``, and what the shell gets when it asks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.tools.cli import COMPLETION_VARIABLE, INTERRUPTED, READER_GONE, main
from tests.support.command_node import Commands
from tests.support.processes import COMMAND


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def test_nothing_is_configured(run: Commands, home: Path) -> None:
    ran = run("config", "--client", "--changed")
    assert (ran.code, ran.out) == (0, "")
    assert f"the file would be {home / '.config/rollcall/cli.toml'}" in ran.err


def test_values_with_their_sources_and_no_secret(run: Commands, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / ".config" / "rollcall" / "cli.toml"
    file.parent.mkdir(parents=True)
    file.write_text('server = "a:1"\nuser = "ann"\npassword = "s3cret"\n[profiles.prod]\nserver = "b:1"\n')
    file.chmod(0o600)
    monkeypatch.setenv("ROLLCALL_NAMESPACE", "dev\x1b")
    ran = run("config", "--client", "--changed")
    assert ran.out.splitlines() == [
        f"server=a:1  ({file})",
        r"namespace=dev\x1b  (environment variable ROLLCALL_NAMESPACE)",
        f"user=ann  ({file})",
        f"password=******  ({file})",
    ]
    told = json.loads(run("config", "--client", "--json", "--profile", "prod").out)
    values = {one["key"]: one["value"] for one in told["values"]}
    assert (values["server"], values["user"], values["password"]) == ("b:1", "", "")
    assert run("config", "--client", "--profile", "nosuch").code == 2
    file.chmod(0o644)
    ran = run("config", "--client")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "s3cret" not in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_of_a_shell(run: Commands, shell: str) -> None:
    ran = run("completion", shell)
    assert ran.code == 0
    assert "rollcall" in ran.out
    assert COMPLETION_VARIABLE in ran.out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rollcall ins", {"instances"}),
        ("rollcall user lo", {"login", "logout"}),
        ("rollcall instances --unh", {"--unhealthy"}),
    ],
)
def test_a_shell_that_asks(line: str, expected: set[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    environ = {
        **os.environ,
        COMPLETION_VARIABLE: "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }
    subprocess.run([COMMAND], env=environ, check=True, timeout=60)
    assert {one.strip() for one in answer.read_text().split("\x0b")} == expected


def test_a_reader_that_has_gone_is_no_error() -> None:
    code = "import sys; from app.tools.cli import main; sys.exit(main(['completion', 'bash']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        errors = process.stderr.read()
    assert (process.wait(60), errors) == (READER_GONE, b"")


def test_the_keyboard_ends_a_command_without_a_trace(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.tools.command.asking.run_command.client_of", interrupt)
    assert main(["services"]) == INTERRUPTED

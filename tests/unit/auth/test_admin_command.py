"""``rollcall admin``, with a node that does not run."""

import io
import os
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from app.auth.user_table import UserTable
from app.config.auth_settings import FIRST_ADMIN_FILE
from app.config.settings import read_settings
from app.machine.process.data_lock import DataLock
from app.machine.process.running_nodes import RunningNode
from app.machine.storage.record_file import RecordFile
from app.naming.records.records import Records
from app.naming.records.user_records import ADMIN_ROLE
from app.tools.cli import main
from app.tools.command import admin_command
from tests.support.auth import PASSWORD
from tests.support.processes import free_ports
from tests.support.tiny_server import Given, TinyServer, tiny_server


def table_of(folder: Path) -> UserTable:
    """The users in a data folder."""
    table, file = UserTable(), RecordFile(folder)
    file.open()
    Records("x~1", file, lambda: 10**12, lambda: 10**6, table.on_record).read_disk()
    file.close()
    return table


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROLLCALL_PASSWORD", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVER_PORT", str(free_ports(1)[0]))
    monkeypatch.setattr(admin_command, "running_nodes", list)


def test_an_administrator_is_written_and_gets_another_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    data = str(tmp_path / "data")
    assert main(["admin", "--user", "root", "--password-file", str(file), "--data", data]) == 0
    table = table_of(tmp_path / "data")
    assert (table.users(), table.roles()) == (["root"], [(ADMIN_ROLE, "root")])
    first = table.user("root")
    monkeypatch.setenv("ROLLCALL_PASSWORD", "quite another")
    assert main(["admin", "--user", "root", "--data", data]) == 0
    second = table_of(tmp_path / "data").user("root")
    assert first is not None
    assert second is not None
    assert first.password_hash != second.password_hash
    assert first.generation != second.generation
    output = capsys.readouterr()
    assert PASSWORD not in output.out + output.err
    assert "nacos.core.auth.enabled is false" in output.err


@pytest.mark.parametrize(
    ("arguments", "password", "text"),
    [
        ([], "short", "8 characters"),
        (["--user", "a/b"], PASSWORD, "username"),
        (["--password-file", "missing"], None, "cannot be read"),
        ([], None, "no password: give"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str],
    password: str | None,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if password is not None:
        monkeypatch.setenv("ROLLCALL_PASSWORD", password)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["admin", "--data", str(tmp_path / "data"), *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_member_that_runs_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    with DataLock(tmp_path):
        assert main(["admin", "--data", str(tmp_path), "--port", "1"]) == 1
    assert "does not answer at http://127.0.0.1:1/nacos/v1/auth/users/admin" in capsys.readouterr().err


def test_a_member_that_runs_is_given_the_secret_of_its_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    (tmp_path / FIRST_ADMIN_FILE).write_text("the secret\n")
    with tiny_server(lambda _: Given(200, b"{}")) as server, DataLock(tmp_path):
        port = server.address.rpartition(":")[2]
        assert main(["admin", "--data", str(tmp_path), "--port", port]) == 0
    (asked,) = server.received
    assert parse_qs(asked.body.decode()) == {"username": ["admin"], "password": [PASSWORD], "secret": ["the secret"]}
    output = capsys.readouterr()
    assert "the secret" not in output.out + output.err


@pytest.mark.parametrize("what", ["a pipe", "no text", "large"])
def test_a_file_that_holds_no_secret_is_not_waited_for_and_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    file = tmp_path / FIRST_ADMIN_FILE
    if what == "a pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff\n" if what == "no text" else b"x" * 10_000_000)
    with DataLock(tmp_path):
        assert main(["admin", "--data", str(tmp_path), "--port", "1"]) == 1
    assert "does not answer at" in capsys.readouterr().err


def test_a_secret_that_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    (tmp_path / FIRST_ADMIN_FILE).mkdir()
    with DataLock(tmp_path):
        assert main(["admin", "--data", str(tmp_path), "--port", "1"]) == 1
    assert f"cannot be read: {tmp_path / FIRST_ADMIN_FILE}" in capsys.readouterr().err


# --- which member is meant -------------------------------------------------------------------------


def runs(monkeypatch: pytest.MonkeyPatch, *nodes: RunningNode) -> None:
    monkeypatch.setattr(admin_command, "running_nodes", lambda: list(nodes))


def node_at(server: TinyServer, folder: Path) -> RunningNode:
    """A node that runs, with its secret in the folder."""
    folder.mkdir()
    (folder / FIRST_ADMIN_FILE).write_text("s3cret")
    (folder / FIRST_ADMIN_FILE).chmod(0o600)
    port = server.address.rpartition(":")[2]
    return RunningNode(4711, read_settings({"server.port": port, "rollcall.data.dir": str(folder)}, {}))


def test_the_member_that_runs_here_is_used_whatever_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    with tiny_server(lambda _: Given(200, b"{}")) as server:
        one = node_at(server, tmp_path / "elsewhere")
        runs(monkeypatch, one)
        with DataLock(tmp_path / "elsewhere"):
            assert main(["admin"]) == 0
            assert main(["admin", "--port", str(one.settings.port)]) == 0
    assert len(server.received) == 2
    assert b"secret=s3cret" in server.received[0].body
    said = capsys.readouterr()
    assert f"using the member that runs here: port {one.settings.port}, data in {tmp_path}/elsewhere" in said.err
    assert not (tmp_path / "data").exists(), "no folder was made"


def test_of_several_members_one_is_to_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    with tiny_server(lambda _: Given(200, b"{}")) as first, tiny_server(lambda _: Given(200, b"{}")) as second:
        nodes = [node_at(first, tmp_path / "a"), node_at(second, tmp_path / "b")]
        runs(monkeypatch, *nodes)
        assert main(["admin"]) == 1
        said = capsys.readouterr().err
        assert "several members run here; choose one with --port: port" in said
        assert all(f"data in {tmp_path / name}" in said for name in "ab")
        with DataLock(tmp_path / "b"):
            assert main(["admin", "--port", str(nodes[1].settings.port)]) == 0
        assert (len(first.received), len(second.received)) == (0, 1)


@pytest.mark.parametrize("is_seen", [True, False])
def test_another_folder_beside_a_member_that_runs_is_refused(
    is_seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLCALL_PASSWORD", PASSWORD)
    with tiny_server(lambda _: Given(200, b"{}")) as server:
        one = node_at(server, tmp_path / "elsewhere")
        runs(monkeypatch, *([one] if is_seen else []))
        port = str(one.settings.port)
        assert main(["admin", "--port", port, "--data", str(tmp_path / "other")]) == 1
        said = capsys.readouterr().err
        assert f"a server answers at port {port}, and does not use the data folder {tmp_path}/other" in said
        assert (f"data in {tmp_path}/elsewhere" in said) is is_seen
        assert not (tmp_path / "other").exists()
        # The folder of a member that does not run, beside one that does.
        assert main(["admin", "--data", str(tmp_path / "other")]) == 0
        assert "which is new: no member ran with it yet" in capsys.readouterr().out
    assert server.received == []

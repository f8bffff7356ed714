"""The command: what it refuses before anything starts, what it says, and how several nodes end together."""

import base64
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.config.auth_settings import FIRST_ADMIN_FILE
from app.config.settings import read_settings
from app.machine.process.announce import announce, base_url
from app.machine.process.data_lock import DataLock
from app.tools.cli import main
from tests.support.processes import HANG_S, free_ports, heeding_hangup

ROOT = Path(__file__).resolve().parents[2]
STUB = """
import http.server, signal, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/nacos/ready" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
port, way = int(sys.argv[1]), sys.argv[2]
if way == "dies":
    sys.exit(7)
signal.signal(signal.SIGTERM, signal.SIG_IGN if way == "stubborn" else lambda *_: sys.exit(0))
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
DRIVER = """
import json, os, sys
from app.tools.command.local_cluster import LocalCluster, LocalNode
nodes = [LocalNode(f"http://127.0.0.1:{port}/nacos", f"http://127.0.0.1:{port}/nacos/ready",
                   [sys.executable, "-c", sys.argv[2], str(port), way], dict(os.environ), ".",
                   f"console of {port}", f"rollcall {port}")
         for port, way in json.loads(sys.argv[1])]
json_port = int(sys.argv[3]) if len(sys.argv) > 3 else None
sys.exit(LocalCluster(nodes, stop_timeout_s=1, to_try=lambda: "try it", json_port=json_port).run())
"""


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("ROLLCALL", "NACOS", "SERVER")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str], str]]:
    """What would have become of this process: command, environment and folder."""
    calls: list[tuple[list[str], dict[str, str], str]] = []
    monkeypatch.setattr(os, "execve", lambda _, command, environ: calls.append((command, environ, os.getcwd())))
    return calls


class TestServe:
    def test_one_node_becomes_gunicorn_with_whole_paths(self, tmp_path: Path, executed: list[Any]) -> None:
        [port] = free_ports(1)
        assert main(["serve", "--port", str(port), "--data", "kept"]) == 0
        [(command, environ, folder)] = executed
        assert command == [sys.executable, "-P", "-m", "gunicorn", "-c", "python:app.gunicorn_conf", "app.wsgi:app"]
        assert folder == str(ROOT)
        assert environ["server.port"] == str(port)
        settings = read_settings({}, environ)
        assert settings.port == port
        assert settings.data_dir == tmp_path / "kept"
        assert settings.conf_dir == tmp_path / "conf"
        assert settings.standalone
        assert settings.warnings == ()

    def test_the_conf_folder_is_handed_on(self, tmp_path: Path, executed: list[Any]) -> None:
        [port] = free_ports(1)
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc" / "application.properties").write_text(f"server.port={port}")
        assert main(["serve", "--conf", "etc"]) == 0
        assert read_settings({}, executed[0][1]).port == port

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (
                ["--port", "http"],
                "rollcall: server.port=http (command line) is not allowed: a whole number from 1 to 65535",
            ),
            (
                ["--host", "a b"],
                "rollcall: server.address=a b (command line) is not allowed: an IP address or host name",
            ),
            (["--conf", "none"], "is not allowed: a folder that exists"),
            (
                ["--port", "64534", "--members", "3"],
                "is not allowed with gRPC, which needs port 65545 too: at most 64534",
            ),
            (["--host", "198.51.100.77", "--port", "1"], "rollcall: cannot listen on http://198.51.100.77:1/nacos: "),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(
        self, arguments: list[str], text: str, executed: list[Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["serve", *arguments]) == 2
        written = capsys.readouterr()
        assert text in written.err
        assert written.err.count("\n") == 1
        assert written.out == ""
        assert not executed

    @pytest.mark.parametrize("is_terminal", [True, False])
    def test_a_refusal_is_chinese_at_a_terminal_and_english_in_a_log(
        self, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("ROLLCALL_LANGUAGE", "zh-CN")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
        assert main(["serve", "--port", "0"]) == 2
        text = (
            "（命令行）不合法：应为 1 到 65535 之间的整数" if is_terminal else "is not allowed: a whole number from 1"
        )
        assert text in capsys.readouterr().err

    @pytest.mark.parametrize("members", [1, 2])
    def test_a_port_in_use_is_named(
        self, members: int, executed: list[Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert main(["serve", "--port", str(port), "--members", str(members)]) == 2
        assert f"cannot listen on http://127.0.0.1:{port}/nacos: Address already in use" in capsys.readouterr().err

    def test_a_data_folder_in_use_is_named(
        self, tmp_path: Path, executed: list[Any], capsys: pytest.CaptureFixture[str]
    ) -> None:
        [port] = free_ports(1)
        with DataLock(tmp_path / "data"):
            assert main(["serve", "--port", str(port)]) == 2
        assert f"{tmp_path / 'data'} is in use by another node, process {os.getpid()}" in capsys.readouterr().err

    def test_members_beside_a_cluster_conf_are_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "cluster.conf").write_text("10.0.0.1\n")
        assert main(["serve", "--members", "3"]) == 2
        assert "conf/cluster.conf has a different one" in capsys.readouterr().err

    @pytest.mark.parametrize("count", ["0", "10", "some"])
    def test_members_are_one_to_nine(self, count: str, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            main(["serve", "--members", count])
        assert caught.value.code == 2
        assert "--members" in capsys.readouterr().err


def test_each_member_knows_all_and_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []
    tried: list[str] = []

    class Recorded:
        def __init__(self, nodes: list[Any], stop_timeout_s: float, to_try: Callable[[], str], _json: None) -> None:
            made.extend(nodes)
            tried.append(to_try())

        def run(self) -> int:
            return 0

    monkeypatch.setattr("app.tools.cli.LocalCluster", Recorded)
    monkeypatch.setenv("NACOS_MEMBER_LIST", "10.0.0.1,10.0.0.2")
    [port] = free_ports(1)
    # Below the ports that systems hand out, so that the two above are free as well.
    port = 20_000 + port % 10_000
    assert main(["serve", "--members", "3", "--port", str(port), "--data", "d"]) == 0
    ports = [port, port + 10, port + 20]
    members = tuple(f"127.0.0.1:{each}" for each in ports)
    for each, node in zip(ports, made, strict=True):
        settings = read_settings({}, node.environ)
        assert (settings.port, settings.members, settings.standalone) == (each, members, False)
        assert settings.self_address == f"127.0.0.1:{each}"
        assert settings.data_dir == tmp_path / "d" / str(each)
        assert not settings.announce
        assert settings.warnings == ()
        assert node.url == f"http://127.0.0.1:{each}/nacos"
        assert node.ready_url == f"http://127.0.0.1:{each}/nacos/v1/console/health/readiness"
        assert node.restart == f"rollcall serve --port {port} --data d --members 3 --member {each}"
        assert node.ready.startswith(f"console http://127.0.0.1:{each}/nacos/ ready: member 127.0.0.1:{each} of 3")
    assert f"127.0.0.1:{ports[0]}/nacos/v1/ns/instance?" in tried[0]
    assert f"127.0.0.1:{ports[2]}/nacos/v1/ns/instance/list?" in tried[0]
    assert capsys.readouterr().err == ""


def test_one_of_several_members_is_started_again(
    tmp_path: Path, executed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    [port] = free_ports(1)
    port = 20_000 + port % 10_000
    with socket.create_server(("127.0.0.1", port)):  # the others run
        line = ["serve", "--members", "3", "--port", str(port), "--data", "d"]
        assert main([*line, "--member", str(port + 10)]) == 0
        [(_, environ, _)] = executed
        settings = read_settings({}, environ)
        assert settings.members == tuple(f"127.0.0.1:{port + step}" for step in (0, 10, 20))
        assert (settings.port, settings.data_dir) == (port + 10, tmp_path / "d" / str(port + 10))
        assert settings.announce
        assert main([*line, "--member", str(port + 30)]) == 2
        assert f"allowed: {port}, {port + 10}, {port + 20}" in capsys.readouterr().err
    assert main(["serve", "--member", str(port)]) == 2
    assert "give --members" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("rollcall 1.")


class TestAnnounce:
    def test_standalone(self) -> None:
        lines = announce(read_settings({}, {})).splitlines()
        assert lines[0].startswith("console http://127.0.0.1:8848/nacos/ ready: standalone, data in ")
        assert [line for line in lines if "curl" in line] == [
            "  curl -X POST 'http://127.0.0.1:8848/nacos/v1/ns/instance?serviceName=orders&ip=10.0.0.7&port=8080'",
            "  curl 'http://127.0.0.1:8848/nacos/v1/ns/instance/list?serviceName=orders'",
        ]

    def test_member(self) -> None:
        settings = read_settings({}, {"nacos.member.list": "127.0.0.1:8848,127.0.0.1:8858"})
        line = announce(settings).splitlines()[0]
        assert line.startswith("console http://127.0.0.1:8848/nacos/ ready: member 127.0.0.1:8848 of 2, data in ")

    def test_with_users_the_commands_log_in_and_the_first_administrator_is_created(self, tmp_path: Path) -> None:
        key = base64.b64encode(secrets.token_bytes(48)).decode()
        values = {
            "nacos.core.auth.enabled": "true",
            "nacos.core.auth.plugin.nacos.token.secret.key": key,
            "nacos.core.auth.server.identity.key": "who",
            "nacos.core.auth.server.identity.value": "3f9c1d7e5b20a846c1e8d42f",
        }
        (tmp_path / "some data").mkdir()
        settings = read_settings({"server.port": "8858", "rollcall.data.dir": "some data", **values}, {})
        _, *lines = announce(settings).splitlines()
        assert lines == [
            "try it (an instance without beats is gone after 30 seconds):",
            "  rollcall register orders 10.0.0.7:8080 --user admin --server http://127.0.0.1:8858/nacos",
            "  rollcall instances orders --user admin --server http://127.0.0.1:8858/nacos",
        ]
        (tmp_path / "some data" / FIRST_ADMIN_FILE).write_text("secret")
        _, said, command, *rest = announce(settings).splitlines()
        assert "there is no administrator yet" in said
        assert command == f"  rollcall admin --port 8858 --data '{tmp_path}/some data'"
        assert rest == lines

    def test_a_wildcard_is_no_url(self) -> None:
        assert base_url(read_settings({}, {"SERVER_ADDRESS": "0.0.0.0", "nacos.server.ip": "10.1.1.1"})) == (
            "http://10.1.1.1:8848/nacos"
        )
        assert base_url(read_settings({"server.address": "::1", "server.servlet.contextPath": "/"}, {})) == (
            "http://[::1]:8848"
        )


@contextmanager
def cluster(*ways: str, more: tuple[str, ...] = ()) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    ports = free_ports(len(ways))
    plan = json.dumps(list(zip(ports, ways, strict=True)))
    with heeding_hangup():
        started = subprocess.Popen(
            [sys.executable, "-c", DRIVER, plan, STUB, *more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with started as driver:
        try:
            yield driver, ports
        finally:
            # Its members are in groups of their own, and end with it only when it is asked.
            driver.terminate()
            driver.wait(HANG_S)


def read_until(driver: "subprocess.Popen[str]", found: Callable[[str], bool]) -> list[str]:
    assert driver.stdout is not None
    lines: list[str] = []
    for line in driver.stdout:
        lines.append(line.rstrip("\n"))
        if found(line):
            return lines
    raise AssertionError(f"ended with {lines}")


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except OSError:
        return False
    return True


class TestLocalCluster:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_says_ready_once_all_are_and_ends_with_all(self, number: signal.Signals) -> None:
        with cluster("serves", "serves", "serves") as (driver, ports):
            lines = read_until(driver, lambda line: "try it" in line)
            assert sorted(lines[:3]) == sorted(f"console of {port}" for port in ports)
            assert lines[3].startswith("all 3 members serve, after ")
            assert lines[4:] == ["try it"]
            assert all(map(answers, ports))
            driver.send_signal(number)
            assert driver.wait(HANG_S) == 0
            assert not any(map(answers, ports))

    def test_a_member_that_ends_is_named_and_the_others_go_on(self) -> None:
        with cluster("serves", "dies", "serves") as (driver, ports):
            assert driver.stderr is not None
            assert driver.stderr.readline() == (
                f"rollcall: member http://127.0.0.1:{ports[1]}/nacos ended, exit code 7; 2 of 3 members continue; "
                f"start it again with: rollcall {ports[1]}\n"
            )
            assert driver.poll() is None
            driver.terminate()
            out, _ = driver.communicate(timeout=HANG_S)
            assert driver.returncode == 0
            assert "members serve" not in out

    def test_beside_logs_of_json_each_line_is_json(self) -> None:
        with cluster("serves", "dies", more=("8848",)) as (driver, _):
            assert driver.stderr is not None
            told = json.loads(driver.stderr.readline())
            assert (told["level"], told["port"]) == ("WARNING", 8848)
            assert "ended, exit code 7; 1 of 2 members continue" in told["message"]
            driver.terminate()
            out, _ = driver.communicate(timeout=HANG_S)
            assert out == ""

    def test_it_ends_with_its_last_member(self) -> None:
        with cluster("dies") as (driver, _):
            _, err = driver.communicate(timeout=HANG_S)
            assert driver.returncode == 1
            assert err.endswith("ended, exit code 7; it was the last\n")

    def test_a_member_that_does_not_stop_is_killed(self) -> None:
        with cluster("serves", "stubborn") as (driver, ports):
            read_until(driver, lambda line: line.startswith("all 2"))
            begun_s = time.monotonic()
            driver.terminate()
            _, err = driver.communicate(timeout=HANG_S)
            assert time.monotonic() - begun_s >= 1
            assert driver.returncode == 1
            assert err == f"rollcall: member http://127.0.0.1:{ports[1]}/nacos did not stop and is killed\n"
            assert not any(map(answers, ports))


def gunicorn(environ: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", *arguments, "no.such:app"],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestGunicornConfiguration:
    def test_more_than_one_worker_is_refused_with_the_reason(self) -> None:
        ended = gunicorn({}, "--workers", "2")
        assert ended.returncode == 2
        assert ended.stderr.startswith("rollcall: 2 workers are not allowed: the registry is the memory of one process")
        assert ended.stderr.count("\n") == 1

    def test_a_wrong_setting_ends_it_with_one_line(self) -> None:
        ended = gunicorn({"SERVER_PORT": "many"})
        assert ended.returncode == 2
        assert ended.stderr.startswith("rollcall: server.port=many (environment variable SERVER_PORT) is not allowed")
        assert ended.stderr.count("\n") == 1

    def test_what_gunicorn_is_told(self) -> None:
        names = ["bind", "workers", "worker_class", "timeout", "graceful_timeout", "control_socket_disable"]
        code = f"import app.gunicorn_conf as c, json; print(json.dumps([getattr(c, name) for name in {names}]))"
        settings = {"WEB_CONCURRENCY": "4", "server.address": "::1"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **settings}, capture_output=True, check=True
        )
        assert json.loads(done.stdout) == ["[::1]:8848", 1, "app.http.server.worker.LoopWorker", 0, 12, True]

    def test_garbage_is_looked_for_once_all_is_loaded(self) -> None:
        code = (
            "import app.gunicorn_conf as c, gc; states = [gc.isenabled()];"
            "c.when_ready(None); print(*states, gc.isenabled())"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == "False True\n"

    @pytest.mark.parametrize(
        ("soft", "hard", "rpc", "over_http", "over_grpc", "files"),
        [
            (100, 100, "false", 64, 0, 100),
            (300, 4_000, "false", 3_744, 0, 4_000),
            (900, 900, "false", 644, 0, 900),
            (300, 4_000, "true", 3_276, 3_276, 4_000),
            (300, 20_000, "true", 17_276, 17_276, 20_000),
            (300, 50_000, "false", 20_000, 0, 24_352),
            (300, 50_000, "true", 20_000, 24_096, 48_448),
        ],
    )
    def test_connections_leave_descriptors_for_the_rest(
        self, soft: int, hard: int, rpc: str, over_http: int, over_grpc: int, files: int
    ) -> None:
        """The limit is raised as far as it may be, and each frontend may have what the others do not keep."""
        if hard > resource.getrlimit(resource.RLIMIT_NOFILE)[1] != resource.RLIM_INFINITY:
            pytest.skip("this process may not have so many files")
        code = (
            f"from resource import RLIMIT_NOFILE as N, getrlimit, setrlimit; setrlimit(N, ({soft}, {hard}));"
            "import app.gunicorn_conf as c; from app.machine.limits.connection_room import build_room;"
            "room = build_room(c._SETTINGS); print(room.http.possible, room.grpc.possible, getrlimit(N)[0])"
        )
        environ = {**os.environ, "rollcall.rpc.enabled": rpc, "nacos.standalone": "true"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [str(over_http), str(over_grpc), str(files)]


def test_a_node_has_its_memory_given_back_unless_the_environment_says_otherwise(
    executed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    assert main(["serve", "--port", str(free_ports(1)[0])]) == 0
    environ = executed[0][1]
    assert (environ["MALLOC_ARENA_MAX"], environ["MALLOC_TRIM_THRESHOLD_"]) == ("7", "16777216")

"""A node without a cluster that answers commands over a socket, in this process, and the commands' own run."""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from app.tools.cli import main
from tests.support.fake_node import FakeNode
from tests.support.shared_apps import app_for


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _whole_bodies(app: Any) -> Callable[[dict[str, Any], Any], Any]:
    """The application with bodies that are there as a whole, as our own server hands them over."""

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        return app(environ, start_response)

    return call


@contextmanager
def served_node(node: FakeNode) -> Iterator[str]:
    """Serve a node on a free loopback port until the block ends; give its address."""
    with app_for(node) as app:
        server = make_server("127.0.0.1", 0, _whole_bodies(app), threaded=True, request_handler=_Quiet)
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            node.drains.stop()


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


class Commands:
    """Runs commands in this process, with nothing of the caller's environment."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.server = ""

    def __call__(self, *arguments: str) -> Ran:
        """Run one command with the server of this test, if it has one."""
        self._capsys.readouterr()
        named = ["--server", self.server] if self.server and "--server" not in arguments else []
        try:
            code = main([*arguments, *named])
        except SystemExit as error:  # argparse's way to refuse
            code = int(str(error.code))
        written = self._capsys.readouterr()
        return Ran(code, written.out, written.err)

    def rows(self, *arguments: str) -> list[list[str]]:
        """The cells of a table that a command prints, without its head; it must end well."""
        ran = self(*arguments)
        assert ran.code == 0, ran
        return [line.split() for line in ran.out.splitlines()[1:]]


def without_configuration(monkeypatch: pytest.MonkeyPatch, folder: Path, variables: Sequence[str]) -> None:
    """Take the caller's configuration of commands away: its variables, and its home."""
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder))

"""Records docs/cli-session.txt: commands typed in a terminal, against running members.

python -m scripts.docs.cli_session
"""

import base64
import contextlib
import os
import pty
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "docs" / "cli-session.txt"
COMMAND = Path(sys.executable).with_name("rollcall")
FIRST_PORT, PORT_STEP = 18_848, 100
"""The first port tried in the search for free ports: for three members, and then a node with users."""
PORTS_OF_NODES = tuple(offset + above for offset in (0, 10, 20, 50) for above in (0, 1_000, 1_001))
USERS_OFFSET = 50
COLUMNS = 110
READY_S = 60.0
POLL_S = 0.2
LOOK_S = 1.5
"""Pause between two changes, so that a watch sees each."""
HEAD = """\
A session with the command line, recorded by `python -m scripts.docs.cli_session` from three members, and from a node
that asks for users. Every line is as the command printed it.

"""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Session:
    """A transcript of commands and their output."""

    columns = COLUMNS

    def __init__(self, port: int, head: str = HEAD) -> None:
        self._written = [head]
        self.variables: dict[str, str] = {}
        self.port, self.users_port = port, port + USERS_OFFSET

    def text(self) -> str:
        """The whole transcript."""
        return "".join(self._written)

    def title(self, text: str) -> None:
        """Begin a part."""
        self._written.append(f"# {text}\n\n")

    def type(self, line: str) -> None:
        """Type a command, and record its output and its exit code."""
        self.shown(line, *self.run(line.split()))

    def set(self, name: str, value: str, shown: str | None = None) -> None:
        """Set a variable of the shell."""
        self.variables[name] = value
        self._written.append(f"$ export {name}={shown or value}\n\n")

    def shown(self, line: str, output: str, code: int) -> None:
        """Record a finished command."""
        self._written.append(f"$ rollcall {line}\n{output}{f'[exit code {code}]' + chr(10) if code else ''}\n")

    def run(self, arguments: list[str]) -> tuple[str, int]:
        """Run a command in a terminal; return what it printed, without colours, and its exit code."""
        main, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (50, self.columns))
        with subprocess.Popen(
            [COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=self._environ()
        ) as process:
            os.close(terminal)
            printed = b"".join(_pieces(main))
            os.close(main)
        text = _ESCAPES.sub("", printed.decode("utf-8", "replace")).replace("\r\n", "\n")
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines()), process.returncode

    def _environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        shell = {"HOME": "/home/ann", "TERM": "xterm", "COLUMNS": str(self.columns)}
        return {**kept, **shell, **self.variables}


def _pieces(descriptor: int) -> Iterator[bytes]:
    # Linux reports an error when the other side of a terminal is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(descriptor, 65_536):
            yield piece


@contextlib.contextmanager
def nodes(folder: Path, port: int, members: int, **variables: str) -> Iterator[None]:
    """Run nodes until the block ends."""
    environ = {"PATH": os.environ["PATH"], "rollcall.announce": "false", **variables}
    command = [str(COMMAND), "serve", "--port", str(port), "--members", str(members), "--data", str(folder)]
    with (
        (folder.parent / f"{port}.log").open("wb") as log,
        subprocess.Popen(command, env=environ, cwd=folder.parent, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def wait_for(session: Session, line: str, expected: str) -> None:
    """Return when a command prints the expected text.

    Raises:
        TimeoutError: it did not in time.
    """
    deadline_s = time.monotonic() + READY_S
    while expected not in (seen := session.run(line.split())[0]):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"rollcall {line}: {seen}")
        time.sleep(POLL_S)


def record(session: Session) -> None:
    """The session without users: help, five common tasks, and errors."""
    session.title("Help")
    session.type("--help")
    session.type("instances --help")
    session.set("ROLLCALL_SERVER", f"127.0.0.1:{session.port}")
    session.title("1. Is the cluster well, and what is registered?")
    session.type("members --each")
    session.type("services")
    session.type("instances orders")
    session.title("2. Put an instance in, and take it out when its clients know")
    session.type("register cart 10.0.0.7:8080 --weight 2 --metadata version=2.1")
    session.type("drain cart 10.0.0.7:8080 --within 5s")
    session.title("3. Watch a service while a member far away changes it")
    watch(session)
    session.title("4. Why is this instance as it is?")
    session.type("explain 10.0.0.1:8080 --service orders")
    session.title("5. Who uses a service, and as JSON for a script")
    session.type("clients --service orders")
    session.type("services orders --json")
    session.title("What goes wrong: an unknown server, a name that nothing has")
    session.type(f"services --server 127.0.0.1:{session.port - 1}")
    session.type("services --server no-such-host.invalid")
    session.type("instances order")
    session.type("services --namespace prod")
    session.type("deregister orders 10.0.0.9:8080")
    session.type("register orders 10.0.0.9")


def watch(session: Session) -> None:
    """Record a watch beside which a service changes."""
    line, found = "watch orders --for 8s", []
    watching = threading.Timer(0.0, lambda: found.append(session.run(line.split())))
    watching.start()
    other = f"--server 127.0.0.1:{session.port + 10}"
    for change in (
        f"register orders 10.0.0.3:8080 --persistent {other}",
        f"register orders 10.0.0.3:8080 --persistent --weight 3 --metadata version=2.1 {other}",
        f"deregister orders 10.0.0.2:8080 {other}",
    ):
        time.sleep(LOOK_S)
        session.run(change.split())
    watching.join()
    session.shown(line, *found[0])


def record_users(session: Session, folder: Path) -> None:
    """The session with users: a login, a user with a right, and refusals."""
    session.title("Users: who may do what")
    session.set("ROLLCALL_SERVER", f"127.0.0.1:{session.users_port}")
    session.type("services")
    session.set("ROLLCALL_TOKEN", "eyJhbGciOiJIUzI1NiJ9.nonsense")
    session.type("services")
    token, _ = session.run(["user", "login", "--user", "admin", "--password-file", str(folder / "password")])
    session.set("ROLLCALL_TOKEN", token.splitlines()[0], "$(rollcall user login --user admin)")
    session.set("ROLLCALL_NEW_PASSWORD", "correct horse", "...")
    session.type("user add ann --role dev")
    session.type("user permit dev dev:*:* rw")
    session.type("user list")
    session.type("user permissions")
    del session.variables["ROLLCALL_TOKEN"]
    session.variables |= {"ROLLCALL_USER": "ann", "ROLLCALL_PASSWORD": "correct horse"}
    session.set("ROLLCALL_USER", "ann")
    session.type("register orders 10.0.0.1:8080 --namespace dev")
    session.type("services --namespace prod")


def free_port() -> int:
    """Return the first port of a range in which all ports of the nodes are free."""
    for port in range(FIRST_PORT, FIRST_PORT + 50 * PORT_STEP, PORT_STEP):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for offset in PORTS_OF_NODES:
                stack.enter_context(socket.create_server(("127.0.0.1", port + offset)))
            return port
    raise TimeoutError("there are no free ports for the nodes")


def main() -> None:
    """Record both parts, and write the file."""
    session = Session(free_port())
    with tempfile.TemporaryDirectory(prefix="rollcall-") as name:
        folder = Path(name)
        with nodes(folder / "data", session.port, 3):
            at = f"--server 127.0.0.1:{session.port}"
            wait_for(session, f"members --json {at}", "UP")
            for number in (1, 2):
                wait_for(session, f"register orders 10.0.0.{number}:8080 --persistent {at}", "registered 10")
            wait_for(session, f"register shop@@billing 10.0.1.1:80 --persistent {at}", "registered 10")
            wait_for(session, f"instances orders --server 127.0.0.1:{session.port + 20}", "10.0.0.2:8080")
            record(session)
        (folder / "password").write_text("the admin's own\n")
        key = base64.b64encode(secrets.token_bytes(48)).decode()
        users = {"nacos.core.auth.enabled": "true", "nacos.core.auth.plugin.nacos.token.secret.key": key}
        with nodes(folder / "users", session.users_port, 1, **users):
            at = f"--server 127.0.0.1:{session.users_port}"
            wait_for(session, f"services {at}", "requires a login")
            session.variables = dict(users)
            made = ["--port", str(session.users_port), "--data", str(folder / "users")]
            session.run(["admin", *made, "--password-file", str(folder / "password")])
            session.variables = {}
            record_users(session, folder)
    TARGET.write_text(session.text(), encoding="utf-8")


if __name__ == "__main__":
    main()

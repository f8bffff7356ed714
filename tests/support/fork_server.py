"""A program that has loaded what a node loads, and forks one node after the other: each saves a second of CPU time.

A forked node goes through `rollcall serve` and gunicorn's start as any other: its settings are read, its ports and its
data folder are checked, and its worker is forked, after the fork. Only the modules are there already, and what exec
would replace: the hashes of texts are the same in all nodes of a server, and the name of the process is the server's.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gunicorn.app.wsgiapp

from app.tools import cli

LOADED = ("app.http.server.worker", "app.http.factory", "app.node.node")
"""What gunicorn's master and the worker load. None of it reads a setting while it is loaded."""
MESSAGE_BYTES_MAX = 1 << 17


class Became(BaseException):
    """The command asked to be replaced by another program, whose modules are loaded here."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        super().__init__()
        self.command, self.environ = command, environ


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a child for each request, and tell of its start and end; return a child's own request in the child.

    None when nobody is left who asks.
    """
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            tell_ends(control)
        if control not in ready:
            continue
        request = control.recv(MESSAGE_BYTES_MAX)
        if not request:
            return None
        if pid := os.fork():
            control.send(json.dumps({"started": pid}).encode())
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (woken, wake):
            os.close(end)
        control.close()
        told: dict[str, Any] = json.loads(request)
        return told


def tell_ends(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        control.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def become(request: Mapping[str, Any]) -> None:
    """Run `rollcall` in this process as a new one would run it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if request["hangup_ignored"] else signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    os.chdir(request["folder"])
    enter(request["command"], request["environ"])

    def replaced(_path: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        raise Became(command, environ)

    os.execve = replaced  # type: ignore[assignment]  # in this process alone, which is the node's
    try:
        sys.exit(cli.main())
    except Became as became:
        if became.command[1:4] != ["-P", "-m", "gunicorn"]:
            raise RuntimeError(
                f"a node is started by another command than this server can be: {became.command}"
            ) from None
        enter(became.command[3:], became.environ)
    gunicorn.app.wsgiapp.run(prog="gunicorn")


def enter(command: Sequence[str], environ: Mapping[str, str]) -> None:
    sys.argv = [*command]
    os.environ.clear()
    os.environ.update(environ)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    if (mine := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        become(mine)

"""The commands of README.md and docs/, as a reader types them, at three members; each page in a folder of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, UserClient, make_first_admin
from tests.support.processes import FAST, HANG_S, ClusterProcesses, Member, clean_environ, eventually
from tests.support.snippets import ROOT, USERS, Snippet, snippets

COMMANDS = [one for one in snippets() if one.language == "sh" and not (one.why_not_run or one.run_by)]
AS_TYPED = re.compile(r"127\.0\.0\.1:88(\d)8\b|10\.0\.0\.(\d):8848\b|\bMEMBER:8848\b")
"""How the pages name members: those of one machine by port, those of three by address, and any one."""
WRITTEN_BELOW = ("/var/lib", "/backup", "/tmp")
FOLDERS = re.compile(rf"(?<![\w.])(?=(?:{'|'.join(WRITTEN_BELOW)})/)")
"""Folders of the reader's machine, each of which is one in the test's folder."""
INSTANCE = "10.0.0.7:8080"
LINKED = ("app", "deploy", "distro", "scripts", "tests", ".venv")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members, with the instance that the pages write about."""
    yield from _running(tmp_path_factory.mktemp("members"), 3, {})


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    yield from _running(tmp_path_factory.mktemp("users"), 1, AUTH_ON)


def _running(folder: Path, count: int, settings: Mapping[str, str]) -> Iterator[ClusterProcesses]:
    cluster = ClusterProcesses(folder, count, FAST | settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder in which the commands of a page run, one after the other."""
    folders: dict[str, Path] = {}

    def folder(page: str) -> Path:
        if page not in folders:
            folders[page] = tmp_path_factory.mktemp("page")
            for name in LINKED:
                (folders[page] / name).symlink_to(ROOT / name)
            for name in WRITTEN_BELOW:
                (folders[page] / name[1:]).mkdir(parents=True)
        return folders[page]

    return folder


@pytest.mark.parametrize("one", [one for one in COMMANDS if one.mark != USERS], ids=str)
def test_it_does_what_the_page_says(one: Snippet, members: ClusterProcesses, folder_of: Callable[[str], Path]) -> None:
    folder = folder_of(one.page)
    first = members.members[0]
    # What pages look at is there, at all members, whatever a page before took away.
    for namespace in ("public", "prod"):
        eventually(lambda: register(first, namespace))  # noqa: B023
        eventually(lambda: all(INSTANCE in one.client.hosts("orders", namespaceId=namespace) for one in members))  # noqa: B023
    data = folder / "var/lib/rollcall"
    if not data.exists():
        data.symlink_to(first.data)
    said = run(at(one.text, members, folder), folder, {})
    assert "Traceback" not in said


@pytest.mark.parametrize("one", [one for one in COMMANDS if one.mark == USERS], ids=str)
def test_it_does_so_with_users(one: Snippet, with_users: ClusterProcesses, folder_of: Callable[[str], Path]) -> None:
    member = with_users.members[0]
    boss = UserClient(member.address)
    if boss.try_login(ADMIN, ADMIN_PASSWORD).status != 200:
        make_first_admin(member)
    boss.log_in(ADMIN, ADMIN_PASSWORD)
    names = {"NODE": f"http://{member.address}", "TOKEN": boss.token}
    assert '"code":403' not in run(one.text, folder_of(one.page), names).replace(" ", "")


def register(member: Member, namespace: str) -> bool:
    return member.client.register("orders", "10.0.0.7", 8080, namespaceId=namespace).status == 200


def at(text: str, members: ClusterProcesses, folder: Path) -> str:
    """The commands with the addresses of these members, and with folders below the test's."""

    def address(found: re.Match[str]) -> str:
        number = int(found[1]) - 4 if found[1] else int(found[2] or 1) - 1
        return members.members[number].address

    return FOLDERS.sub(str(folder), AS_TYPED.sub(address, text))


def run(text: str, folder: Path, environ: Mapping[str, str]) -> str:
    """What the commands print; each of them must end with success, and each call be answered."""
    # A call that is refused ends curl with success, unless it is told otherwise.
    curl = 'curl() { command curl -fsS "$@"; }\n'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", curl + text],
        check=False,
        cwd=folder,
        env={**clean_environ(), "PATH": path, "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}"
    return done.stdout + done.stderr

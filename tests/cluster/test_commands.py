"""The commands as an operator types them, against members that run: without users, and with them."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from app.config.client_config import CLIENT_VARIABLES
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, make_first_admin
from tests.support.processes import COMMAND, FAST, HANG_S, ClusterProcesses, eventually
from tests.support.ran_here import run_here
from tests.support.tiny_server import refusing_address


class Shell:
    """Runs commands with a home of their own, one as the installed program and all others in this process."""

    is_new_program = False

    def __init__(self, home: Path, server: str) -> None:
        self.variables: dict[str, str] = {"ROLLCALL_SERVER": server, "HOME": str(home)}

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run one command, whatever its exit code."""
        clean = {name: value for name, value in os.environ.items() if name not in CLIENT_VARIABLES}
        environ: Mapping[str, str] = {**clean, **self.variables, **variables}
        if self.is_new_program:
            return subprocess.run(
                [COMMAND, *arguments], capture_output=True, text=True, env=environ, timeout=HANG_S, check=False
            )
        return run_here(*arguments, environ=environ)

    def out(self, *arguments: str, **variables: str) -> str:
        """What a command prints that must end well."""
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, (arguments, done)
        return done.stdout

    def refused(self, code: int, text: str, *arguments: str, **variables: str) -> None:
        """A command must end with this exit code and one line that has the text."""
        done = self.run(*arguments, **variables)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), (arguments, done)
        assert text in done.stderr


@pytest.fixture
def shell(three: ClusterProcesses, tmp_path: Path) -> Shell:
    return Shell(tmp_path, three.members[0].address)


def test_an_instance_from_its_registration_to_its_end(three: ClusterProcesses, shell: Shell, tmp_path: Path) -> None:
    first, second, _ = three.members
    assert "registered 10.0.0.1:80" in shell.out("register", "cli-life", "10.0.0.1:80", "--persistent")
    shell.out("register", "cli-life", "10.0.0.2:80", "--persistent", "--weight", "2", "--metadata", "v=1")
    eventually(lambda: "10.0.0.2:80" in shell.out("instances", "cli-life", ROLLCALL_SERVER=second.address))
    assert "cli-life" in shell.out("services", "cli-life")
    assert shell.out("members").count(" UP ") == 3
    told = json.loads(shell.out("members", "--each", "--json"))
    assert {one["status"] for one in told} == {"UP"}
    assert "10.0.0.1:80#false" in shell.out("clients", "--service", "cli-life")
    explained = json.loads(shell.out("explain", "10.0.0.1:80", "--service", "cli-life", "--json"))
    assert set(explained["members"]) == {one.address for one in three}
    assert shell.run("heal", "--service", "cli-life", "--gap", "0", "--dry-run").returncode in (0, 1)
    assert shell.out("compare", "--gap", "0").endswith("no difference\n"), "each other member beside the first"
    same = shell.run("compare", first.address, second.address, "--service", "cli-life", "--json")
    assert (same.returncode, same.stdout) == (0, ""), same
    dumped = json.loads(shell.out("dump", "--out", str(tmp_path / "dumps"), "--gap", "0", "--json"))
    assert [len(one["members"]) for one in dumped["rounds"]] == [3, 3]
    assert "deregistered" in shell.out("deregister", "cli-life", "10.0.0.1:80")
    shell.refused(5, "is not registered; there are: 10.0.0.2:80", "deregister", "cli-life", "10.0.0.1:80")
    shell.out("deregister", "cli-life", "10.0.0.2:80")


def test_an_instance_is_drained_at_all_members(three: ClusterProcesses, shell: Shell) -> None:
    shell.out("register", "cli-drain", "10.0.0.1:80")
    told = json.loads(shell.out("drain", "cli-drain", "10.0.0.1:80", "--json"))
    assert (told["isOver"], told["behind"]) == (True, 0)
    eventually(lambda: three.all_list("cli-drain", set()))


def test_an_instance_is_changed_at_each_member_whoever_owns_it(three: ClusterProcesses, shell: Shell) -> None:
    shell.out("register", "cli-operate", "10.0.0.1:80", "--persistent")
    shell.out("register", "cli-operate", "10.0.0.2:80", "--persistent", "--namespace", "cli-other")
    shell.out("register", "cli-operate", "10.0.0.3:80", "--persistent")
    where = ("--service", "cli-operate")
    for number, member in enumerate(three, 1):
        at = {"ROLLCALL_SERVER": member.address}
        eventually(lambda at=at: shell.out("instances", "cli-operate", "-o", "name", **at).count("\n") == 2)
        # A check may find the instances unhealthy meanwhile, as nothing listens there.
        shell.out("disable", "10.0.0.1:80", *where, "--force", **at)
        assert " no " in shell.out("instances", "cli-operate", **at)
        shell.out("enable", "10.0.0.1:80", *where, **at)
        shell.out("weight", "10.0.0.1:80", str(number), *where, **at)
        shell.out("metadata", "10.0.0.1:80", f"by=member-{number}", *where, **at)
        [found] = [
            one for one in json.loads(shell.out("instances", "cli-operate", "--json", **at)) if one["ip"][-1] == "1"
        ]
        assert (found["enabled"], found["weight"], found["metadata"]) == (True, number, {"by": f"member-{number}"})
        eventually(lambda at=at: "cli-other/cli-operate" in shell.out("services", "-A", "-o", "name", **at).split())
        eventually(lambda at=at: "cli-other" in shell.out("namespaces", "-o", "name", **at).split())
        assert "distroEnabled" in shell.out("switches", **at)
    for address, more in (("10.0.0.1:80", ()), ("10.0.0.3:80", ()), ("10.0.0.2:80", ("--namespace", "cli-other"))):
        shell.out("deregister", "cli-operate", address, *more)


def test_a_watch_tells_what_another_member_was_told(three: ClusterProcesses, shell: Shell) -> None:
    shell.out("register", "cli-watch", "10.0.0.1:80", "--persistent")
    watching = subprocess.Popen(
        [COMMAND, "watch", "cli-watch", "--every", "100ms", "--changes", "2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **shell.variables},
    )
    try:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert "which reports changes" in watching.stderr.readline()
        assert json.loads(watching.stdout.readline())["what"] == "there"
        other = three.members[1].address
        shell.out("register", "cli-watch", "10.0.0.2:80", "--persistent", ROLLCALL_SERVER=other)
        assert json.loads(watching.stdout.readline())["what"] == "appeared"
        shell.out("deregister", "cli-watch", "10.0.0.1:80", ROLLCALL_SERVER=other)
        assert json.loads(watching.stdout.readline())["what"] == "went"
        assert watching.wait(HANG_S) == 0
    finally:
        watching.kill()
        watching.communicate()


def test_what_goes_wrong_is_one_line(shell: Shell) -> None:
    shell.is_new_program = True
    nobody = refusing_address()
    shell.refused(3, f"{nobody} does not answer: connection refused", "services", "--server", nobody)
    shell.refused(5, "there is no service cli-nosuch in namespace public", "instances", "cli-nosuch")
    shell.refused(5, "there is no namespace cli-nowhere", "services", "--namespace", "cli-nowhere")
    shell.refused(2, "is not the URL of a member", "services", "--server", "ftp://nowhere")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that ask for users, and have an administrator."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("commands"), 3, {**FAST, **AUTH_ON})
    try:
        cluster.start()
        make_first_admin(cluster.members[0])
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def test_users_from_a_login_to_a_right_that_is_missing(guarded: ClusterProcesses, tmp_path: Path) -> None:
    shell = Shell(tmp_path, guarded.members[0].address)
    shell.refused(4, "requires a login: unknown user", "services")
    shell.refused(4, "refuses the token: token invalid", "services", ROLLCALL_TOKEN="nonsense")
    boss = {"ROLLCALL_USER": ADMIN, "ROLLCALL_PASSWORD": ADMIN_PASSWORD}
    eventually(lambda: shell.run("services", **boss).returncode == 0)
    shell.out("user", "add", "ann", "--role", "dev", ROLLCALL_NEW_PASSWORD="correct horse", **boss)
    shell.out("user", "permit", "dev", ":*:*", "rw", **boss)
    assert ["ann", "dev"] in [line.split() for line in shell.out("user", "list", **boss).splitlines()]
    ann = {"ROLLCALL_USER": "ann", "ROLLCALL_PASSWORD": "correct horse"}
    eventually(lambda: shell.run("register", "guarded", "10.0.0.1:80", "--persistent", **ann).returncode == 0)
    shell.refused(4, "permission denied for user ann", "user", "list", **ann)
    token = shell.out("user", "login", **ann).strip()
    for member in guarded:
        by_token = {"ROLLCALL_TOKEN": token, "ROLLCALL_SERVER": member.address}
        eventually(lambda by_token=by_token: "10.0.0.1:80" in shell.out("instances", "guarded", **by_token))
    file = tmp_path / ".config" / "rollcall" / "cli.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'server = "{guarded.members[0].address}"\nuser = "{ADMIN}"\npassword = "{ADMIN_PASSWORD}"\n')
    file.chmod(0o644)
    del shell.variables["ROLLCALL_SERVER"]
    shell.refused(2, "others can read it: chmod 600", "services")
    file.chmod(0o600)
    assert "guarded" in shell.out("services")
    everywhere = json.loads(shell.out("dump", "--out", str(tmp_path / "dumps"), "--gap", "0", "--json"))
    assert {one["state"] for each in everywhere["rounds"] for one in each["members"]} == {"dumped"}
    assert shell.run("explain", "10.0.0.1:80", "--service", "guarded").returncode in (0, 1)
    assert shell.run("heal", "--service", "guarded", "--gap", "0").returncode == 0
    shell.out("user", "logout", "ann")
    eventually(
        lambda: shell.run("services", ROLLCALL_TOKEN=token, ROLLCALL_SERVER=guarded.members[1].address).returncode == 4
    )

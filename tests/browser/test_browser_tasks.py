"""The ten commonest tasks, each in at most three steps in the console, and with one command.

A step is a click on a link, a button or a box; or a field that is filled in, with the Enter that sends it. Each task
begins at the overview of a member that owns nothing of it, and ends where its answer is read, or its effect is true at
the owner. A log-in is no step.
"""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.config.client_config import CLIENT_VARIABLES
from tests.browser.conftest import Visit, Visits
from tests.browser.test_browser_users import log_in
from tests.support.auth import ADMIN, ADMIN_PASSWORD, PASSWORD, UserClient
from tests.support.damage import LONG, MARKER, plant, plant_publication
from tests.support.processes import COMMAND, HANG_S, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient

STEPS_MAX = 3
SICK = json.dumps({"preserved.heart.beat.timeout": "1000", "preserved.ip.delete.timeout": "3600000"})
COUNT = 4
GHOST = "10.9.9.9"


class Steps:
    """A window whose steps are counted, from the overview on."""

    def __init__(self, window: Visit) -> None:
        self.window, self.page, self.count = window, window.open("/"), 0

    def click(self, locator: Any) -> None:
        locator.first.click()
        self.count += 1

    def link(self, name: str, *, exact: bool = True) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=exact))

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True))

    def fill(self, label: str, text: str, *, sends: bool = False) -> None:
        """Fill a field in; with Enter if that sends its form."""
        field = self.page.get_by_label(label, exact=True).first
        field.fill(text)
        if sends:
            field.press("Enter")
        self.count += 1

    def find(self, text: str) -> None:
        """Use the search field that is on every page."""
        self.fill("Search all namespaces", text, sends=True)
        self.page.wait_for_url("**/console/find?**")

    def end(self, expected: int) -> None:
        """The task is done in so many steps."""
        assert self.count == expected <= STEPS_MAX


@dataclass(frozen=True)
class Kind:
    """The instances of one kind, a service of which nothing is at the member that is asked."""

    name: str
    service: str
    ip: str
    """The first three parts of the hosts; the last instance is unhealthy."""
    owner: Member
    asked: Member

    @property
    def sick(self) -> str:
        return f"{self.ip}.{COUNT}:8080"

    def instance(self, ip: str, member: Member | None = None) -> dict[str, Any]:
        """An instance as a member holds it, by default the owner."""
        path = "/v3/admin/ns/instance/list"
        listed = (member or self.owner).client.call("GET", path, serviceName=self.service).json()["data"]
        return next(one for one in listed if one["ip"] == ip)

    def run(self, *arguments: str, code: int = 0, variables: Mapping[str, str] | None = None) -> str:
        """Return the output of one command at the member that is asked."""
        clean = {name: value for name, value in os.environ.items() if name not in CLIENT_VARIABLES}
        environ = clean | {"ROLLCALL_SERVER": self.asked.address, "COLUMNS": "200"} | dict(variables or {})
        done = subprocess.run(
            [COMMAND, *arguments], capture_output=True, text=True, env=environ, timeout=HANG_S, check=False
        )
        assert done.returncode == code, (arguments, done)
        return done.stdout


class Connected:
    """A gRPC client at a member, on a loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, member: Member) -> None:
        self._loop = loop
        self.sdk = SdkClient(int(member.address.rpartition(":")[2]) + 1_000)
        self.do(self.sdk.__aenter__())
        self.id: str = self.do(self.sdk.set_up())

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG_S)


@dataclass
class Tasks:
    """The services of both kinds, and the client that publishes and subscribes."""

    kinds: dict[str, Kind]
    client: Connected


@contextmanager
def _running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    # The thread of these tests runs the loop of the browser's driver, beside which no other one can be ended.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tasks-loop")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def tasks(cluster: ClusterProcesses) -> Iterator[Tasks]:
    """Four instances over HTTP, four over gRPC, one of each unhealthy; and a subscriber of both services."""
    owner, connected, asked = cluster.members
    http = Kind("HTTP", cluster.service_of(owner, "tasks-http"), "10.1.0", owner, asked)
    grpc = Kind("gRPC", cluster.service_of(owner, "tasks-grpc"), "10.2.0", owner, asked)
    with _running_loop() as loop:
        client = Connected(loop, connected)
        for number in range(1, COUNT + 1):
            metadata = SICK if number == COUNT else LONG
            assert owner.client.register(http.service, f"10.1.0.{number}", metadata=metadata).status == 200
        published = [
            {"ip": f"10.2.0.{number}", "port": 8080, "weight": 1.0, "healthy": number < COUNT, "enabled": True}
            for number in range(1, COUNT + 1)
        ]
        batch = {"type": "batchRegisterInstance", "serviceName": grpc.service, "instances": published}
        assert client.do(client.sdk.call("BatchInstanceRequest", **batch))["resultCode"] == 200
        for kind in (http, grpc):
            client.do(client.sdk.subscribe(kind.service))
            for member in cluster:
                eventually(lambda kind=kind, member=member: not kind.instance(f"{kind.ip}.4", member)["healthy"])  # type: ignore[misc]
        yield Tasks({"HTTP": http, "gRPC": grpc}, client)
        client.do(client.sdk.close())


@pytest.fixture(params=["HTTP", "gRPC"])
def kind(tasks: Tasks, request: pytest.FixtureRequest) -> Kind:
    return tasks.kinds[request.param]


@pytest.fixture
def steps(kind: Kind, visit: Visits) -> Steps:
    return Steps(visit(kind.asked))


def test_find_an_instance_by_its_ip(kind: Kind, steps: Steps) -> None:
    steps.find(f"{kind.ip}.2")
    assert steps.page.locator("table.instances tbody tr").count() == 1
    assert kind.service in steps.page.locator("table.instances tbody").inner_text()
    steps.end(1)
    assert kind.service in kind.run("find", f"{kind.ip}.2")


def test_why_an_instance_is_unhealthy(kind: Kind, steps: Steps) -> None:
    steps.click(steps.page.locator(".tile.alarm a"))
    steps.link(kind.sick)
    verdict = "no beat" if kind.name == "HTTP" else "its client published it as unhealthy"
    assert verdict in steps.page.get_by_role("region", name="Verdict").inner_text()
    steps.end(2)
    assert verdict in " ".join(kind.run("explain", kind.sick, "--service", kind.service).split())


def test_take_an_instance_out_of_service_and_put_it_back(kind: Kind, steps: Steps, visit: Visits) -> None:
    ip = f"{kind.ip}.1"
    for button, confirm, command in (
        ("Take out", "Take out of service", "disable"),
        ("Put back", "Put back", "enable"),
    ):
        begun = Steps(visit(kind.asked))
        begun.find(ip)
        begun.link(f"{button} {ip}:8080", exact=False)
        begun.button(confirm)
        begun.page.get_by_text("The selected instances were changed.").wait_for()
        begun.end(3)
        assert kind.instance(ip)["enabled"] is (command == "enable")
    for command in ("disable", "enable"):
        kind.run(command, f"{ip}:8080", "--service", kind.service)
        assert kind.instance(ip)["enabled"] is (command == "enable")


def test_who_subscribes_to_a_service(kind: Kind, steps: Steps, tasks: Tasks) -> None:
    steps.find(kind.service)
    steps.link(f"DEFAULT_GROUP@@{kind.service}")
    row = steps.page.get_by_role("region", name="Subscribers").last.locator("tr", has_text=tasks.client.id)
    assert "gRPC" in row.inner_text()
    steps.end(2)
    assert tasks.client.id in kind.run("clients", "--service", kind.service)


def test_the_history_of_an_instance(kind: Kind, steps: Steps) -> None:
    steps.find(f"{kind.ip}.3")
    steps.link(f"{kind.ip}.3:8080")
    steps.link("Events of this instance")
    assert "registered" in steps.page.locator("table.events").inner_text()
    steps.end(3)
    assert "registered" in kind.run("events", "--instance", f"{kind.ip}.3:8080", "--service", kind.service)


def test_change_the_weight_of_an_instance(kind: Kind, steps: Steps) -> None:
    ip = f"{kind.ip}.2"
    steps.find(ip)
    steps.link(f"Edit {ip}:8080", exact=False)
    steps.fill("Weight 0 to 10,000; clients choose in proportion", "3", sends=True)
    steps.page.get_by_role("status").filter(has_text="instance").first.wait_for()
    steps.end(3)
    assert kind.instance(ip)["weight"] == 3
    kind.run("weight", f"{ip}:8080", "4", "--service", kind.service)
    assert kind.instance(ip)["weight"] == 4


def test_create_a_namespace(kind: Kind, steps: Steps) -> None:
    steps.link("Namespaces")
    steps.fill("Id letters, digits, - and _; a random one if it is empty", f"by-{kind.name}")
    steps.fill("Name", f"By {kind.name}", sends=True)
    steps.page.get_by_role("link", name=f"By {kind.name}", exact=True).wait_for()
    steps.end(3)
    kind.run("namespaces", "--create", f"command-{kind.name}")
    listed = kind.owner.client.call("GET", "/v1/console/namespaces").json()["data"]
    assert {f"by-{kind.name}", f"command-{kind.name}"} <= {one["namespace"] for one in listed}


def test_do_the_members_agree(kind: Kind, steps: Steps) -> None:
    steps.link("Members")
    steps.link("Compare now")
    steps.page.get_by_text("All services of 3 members are equal").wait_for()
    steps.end(2)
    assert kind.run("compare", "--gap", "0") == "no difference\n"


def test_find_instances_that_only_one_member_holds(
    tasks: Tasks, kind: Kind, visit: Visits, cluster: ClusterProcesses
) -> None:
    connected, holder = cluster.members[1], cluster.members[2]
    service = f"ghosts-of-{kind.name.lower()}"
    if kind.name == "HTTP":
        assert kind.owner.client.register(service, "10.3.0.1", metadata=LONG).status == 200
        eventually(lambda: cluster.all_list(service, {"10.3.0.1:8080"}))
        holder = cluster.others(cluster.owner(service))[0]
        plant(cluster.members, service, [holder], lambda listed: listed.append({**listed[0], "ip": GHOST}))
    else:
        other = Connected(tasks.client._loop, connected)
        other.do(other.sdk.register(service, "10.3.0.1", weight=1.0))
        eventually(lambda: cluster.all_list(service, {"10.3.0.1:80"}))
        plant_publication(connected, holder, other.id, lambda published: published.update(ip=GHOST))
        other.do(other.sdk.register(service, "10.3.0.1", weight=2.0))
    asked = next(one for one in cluster.others(holder) if one is not cluster.owner(service))
    steps = Steps(visit(asked))
    steps.link("Members")
    steps.link("Compare now")
    steps.link(f"DEFAULT_GROUP@@{service}")
    row = steps.page.locator("tr", has_text=GHOST)
    assert "missing" in row.inner_text()
    steps.end(3)
    told = kind.run("compare", "--gap", "0", code=1)
    assert GHOST in told
    assert MARKER not in told
    assert kind.run("heal", "--service", service, "--gap", "0")
    if kind.name == "gRPC":
        other.do(other.sdk.close())


def test_add_a_user(with_users: ClusterProcesses, visit: Visits, tmp_path: Path) -> None:
    owner = next(one for one in with_users.members if one is not with_users.members[1])
    window = visit(with_users.members[1])
    log_in(window, ADMIN, ADMIN_PASSWORD)
    steps = Steps(window)
    steps.link("Users")
    steps.page.locator("#create-name").fill("by-console")
    steps.page.locator("#create-password").fill(PASSWORD)
    steps.page.locator("#create-password").press("Enter")
    steps.count += 2
    steps.page.get_by_text("The user was saved.").wait_for()
    steps.end(3)
    boss = {"ROLLCALL_USER": ADMIN, "ROLLCALL_PASSWORD": ADMIN_PASSWORD, "HOME": str(tmp_path)}
    boss["ROLLCALL_NEW_PASSWORD"] = PASSWORD
    Kind("", "", "", owner, with_users.members[1]).run("user", "add", "by-command", variables=boss)
    for name in ("by-console", "by-command"):
        eventually(lambda name=name: UserClient(owner.address).try_login(name, PASSWORD).status == 200)  # type: ignore[misc]

"""Takes pictures of every page of the console in the states that an operator meets, to be looked at by people.

    python -m scripts.docs.screens FOLDER
    python -m scripts.docs.screens FOLDER --states divergent,killed --pages overview,members

Starts three members once, and brings them into each state in turn: empty; full (300 services, 3,000 instances, some
unhealthy or disabled, with clients over gRPC); divergent (a planted difference); down (by a switch); killed and drained
(one member). Each page is taken at 1440x900, light and dark, and at a width of 390, with its text beside it. At the end
it prints the pages that are wider than their window, and what the browser complained of.
"""

import argparse
import asyncio
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.languages.catalogues import ENGLISH, LANGUAGES
from scripts.support.arguments import names_of
from tests.support.damage import LONG, plant
from tests.support.processes import FAST, VERIFY_WITHOUT_SAMPLES, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
KINDS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}
SERVICES, HOSTS = 300, 10
TEAMS = ("orders", "billing", "stock", "search", "mail", "users", "reports", "routes", "prices", "images")
PORT, GRPC_OFFSET = 8_080, 1_000
SETTLE_S = 120.0
TIMEOUT_MS = 60_000
STATES = ("empty", "full", "divergent", "down", "killed", "drained")


def name_of(number: int) -> str:
    return f"{TEAMS[number % len(TEAMS)]}-{number // len(TEAMS)}"


def address_of(number: int, host: int) -> str:
    return f"10.{number // 250}.{number % 250}.{host + 1}"


def pages(service: str, ip: str) -> dict[str, str]:
    """Return the path of each page by name; those about a service are about this one, and this instance of it."""
    place = f"serviceName={service}&ip={ip}&port=8080"
    pick = quote(json.dumps([ip, 8080, "DEFAULT"]))
    return {
        "overview": "/",
        "services": "/console/services",
        "services-unhealthy": "/console/services?sort=unhealthy&down=1",
        "service-create": "/console/service/create",
        "service": f"/console/service?serviceName={service}",
        "service-grpc": f"/console/service?serviceName={name_of(1)}",
        "service-edit": f"/console/service/edit?serviceName={service}",
        "service-checks": f"/console/service/cluster?serviceName={service}&clusterName=DEFAULT",
        "service-remove": f"/console/service/remove?serviceName={service}",
        "service-differences": f"/console/service/differences?serviceName={service}",
        "edit": f"/console/instance/edit?{place}",
        "remove": f"/console/instance/remove?{place}",
        "explain": f"/console/explain?{place}",
        "change": f"/console/instances/change?serviceName={service}&do=disable&pick={pick}",
        "find-ip": f"/console/find?text={ip}",
        "find-metadata": "/console/find?text=zone%3Dberlin",
        "find-unhealthy": "/console/find?state=unhealthy",
        "find-nothing": "/console/find?text=nowhere",
        "members": "/console/members",
        "members-compared": "/console/members?compare=1",
        "charts": "/console/charts",
        "metric": "/console/metric?name=rollcall_member_state",
        "events": "/console/history",
        "links": "/console/links",
        "clients": "/console/clients",
        "client": f"/console/client?id={ip}:8080%23true",
        "subscribers": "/console/subscribers",
        "namespaces": "/console/namespaces",
        "switches": "/console/switches",
        "reports": "/console/reports",
        "api": "/api-docs",
        "refused": "/console/service?serviceName=nobody-knows-it",
    }


OF_A_SERVICE = (
    *("service", "service-grpc", "service-edit", "service-checks", "service-remove", "service-differences"),
    *("edit", "remove", "explain", "change", "client"),
)
"""The pages about a service or an instance: an empty cluster has none."""


# --- the states ------------------------------------------------------------------------------------


def fill(members: ClusterProcesses) -> None:
    """Register services and instances in two namespaces, a few of them unhealthy, disabled or without instances."""
    first = members.members[0].client
    metadata = json.loads(LONG)
    for number in range(SERVICES):
        namespace: dict[str, str | int] = {"namespaceId": "dev"} if number % 10 == 9 else {}
        for host in range(HOSTS):
            zone = ("berlin", "paris", "rome")[host % 3]
            more = {"zone": zone, "version": f"1.{number % 7}.{host % 2}", "pod": f"{name_of(number)}-{host:x}7f9c-x2k"}
            values: dict[str, str | int] = {
                "clusterName": "gray" if number % 5 == 0 and host > 7 else "DEFAULT",
                **namespace,
            }
            if number % 40 == 3 and host < 2:
                more["preserved.heart.beat.timeout"] = "3000"  # without beats it is unhealthy soon
            if number % 50 == 4 and host == 0:
                values |= {"enabled": "false"}
            answer = first.register(
                name_of(number), address_of(number, host), PORT, metadata=json.dumps(metadata | more), **values
            )
            assert answer.status == 200, answer.body
    for name in ("retired-1", "retired-2", "a-service-with-a-rather-long-name-as-generated-by-some-deployment-tools"):
        assert first.call("POST", "/v1/ns/service", serviceName=name).status == 200
    assert first.call("PUT", "/v1/ns/service", serviceName=name_of(0), protectThreshold="0.5").status == 200
    created = first.call(
        "POST", "/v1/console/namespaces", customNamespaceId="dev", namespaceName="Development", namespaceDesc=""
    )
    assert created.status == 200
    for member in members:
        eventually(partial(_has_all_of, member, name_of(SERVICES - 2)), SETTLE_S)


def _has_all_of(member: Member, service: str) -> bool:
    return len(member.client.hosts(service)) == HOSTS


@contextmanager
def grpc_clients(members: ClusterProcesses) -> Iterator[None]:
    """Keep one client over gRPC at each of the first two members: each publishes an instance and subscribes."""
    loop, over, ready = asyncio.new_event_loop(), asyncio.Event(), Future[None]()

    async def live() -> None:
        async with AsyncExitStack() as clients:
            for number, member in enumerate(members.members[:2]):
                port = int(member.address.rpartition(":")[2]) + GRPC_OFFSET
                client = await clients.enter_async_context(SdkClient(port))
                await client.set_up()
                await client.register(name_of(1), f"10.200.0.{number + 1}", 9090, metadata={"zone": "berlin"})
                await client.subscribe(name_of(number))
            ready.set_result(None)
            await over.wait()

    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(loop.run_until_complete, live())
        try:
            wait((living, ready), SETTLE_S, FIRST_COMPLETED)
            if living.done():
                living.result()
            yield
        finally:
            loop.call_soon_threadsafe(over.set)
            living.result(SETTLE_S)
            loop.close()


def switch(members: ClusterProcesses, value: str) -> None:
    """Set the status that all members say, and wait until each has it."""
    call = members.members[0].client.call
    assert call("PUT", "/v1/ns/operator/switches", entry="overriddenServerStatus", value=value).status == 200

    def has_it(member: Member) -> bool:
        told = member.client.call("GET", "/v1/ns/operator/switches").json()["overriddenServerStatus"]
        return bool((told or "null") == value)

    for member in members:
        eventually(partial(has_it, member))


def damage(listed: list[dict[str, Any]]) -> None:
    """Change one instance and drop another, in the datum of a service."""
    listed[0].update(weight=99.0, healthy=False)
    del listed[-1]


class States:
    """Brings the members into each state, in the order in which they follow each other."""

    def __init__(self, members: ClusterProcesses) -> None:
        self.members = members
        self.last = members.members[2]
        candidates = (name_of(number) for number in itertools.count(20) if number % 10 != 9)
        self.damaged = next(name for name in candidates if members.owner(name) is not self.last)
        """The service that is made to differ."""
        self.ip = address_of(next(number for number in itertools.count() if name_of(number) == self.damaged), 0)

    def enter(self, state: str) -> None:
        """Change from the state before to this one, and wait until the first member shows it."""
        match state:
            case "full":
                fill(self.members)
            case "divergent":
                plant(self.members.members, self.damaged, [self.last], damage)
                self.members.members[0].client.call("GET", "/console/members", compare="1")
            case "down":
                self.members.members[0].client.call("POST", "/v1/ns/operator/heal", serviceName=self.damaged)
                eventually(self._agree, SETTLE_S)
                switch(self.members, "DOWN")
                eventually(self._refuses_clients, SETTLE_S)
            case "killed":
                switch(self.members, "null")
                eventually(self._serves, SETTLE_S)
                self.last.kill_all()
                self._await("DOWN")
            case "drained":
                self.last.start()
                self.last.wait_ready()
                eventually(lambda: self.members.all_up(self.members.members[0]), SETTLE_S)
                assert self.last.client.call("PUT", "/v1/ns/operator/drain").json()["draining"]
                self._await("drained")

    def _agree(self) -> bool:
        page = self.members.members[0].client.call("GET", "/console/members", compare="1")
        return b"members are equal" in page.body

    def _refuses_clients(self) -> bool:
        return all(
            one.client.call("GET", "/v1/ns/instance/list", serviceName="a").status == 503 for one in self.members
        )

    def _serves(self) -> bool:
        first = self.members.members[0]
        answers = [one.client.call("GET", "/v1/ns/instance/list", serviceName="a") for one in self.members]
        return all(one.status == 200 for one in answers) and self.members.all_up(first)

    def _await(self, word: str) -> None:
        for member in self.members.members[:2]:
            eventually(partial(_says, member, word), SETTLE_S)


def _says(member: Member, word: str) -> bool:
    """Return whether a member's page about the members has a word."""
    return word.encode() in member.client.call("GET", "/console/members").body


# --- the pictures ----------------------------------------------------------------------------------


class Camera:
    """Takes the pictures, and notes what is wrong by itself."""

    def __init__(self, browser: Any, folder: Path, language: str) -> None:
        self._browser = browser
        self._language = language
        self._folder = folder
        self.faults: list[str] = []

    def take(self, state: str, member: Member, paths: Mapping[str, str]) -> None:
        """Take each page at one member, in each kind of window."""
        for kind, options in KINDS.items():
            context = self._browser.new_context(**options, locale=self._language)
            page = context.new_page()
            page.set_default_timeout(TIMEOUT_MS)
            where = [""]
            page.on("pageerror", lambda error, where=where: self.faults.append(f"{where[0]}: {error}"))
            page.on("console", lambda said, where=where: self._on_said(where[0], said))
            for name, path in paths.items():
                where[0] = f"{state}/{name}-{kind}"
                page.goto(f"http://{member.address}/nacos{path}", wait_until="load")
                target = self._folder / f"{where[0]}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(page.screenshot(full_page=True))
                if kind == "light":
                    target.with_suffix(".txt").write_text(page.inner_text("body"), encoding="utf-8")
                if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                    self.faults.append(f"{where[0]}: wider than its window")
            context.close()

    def _on_said(self, where: str, said: Any) -> None:
        if said.type in ("error", "warning") and "Failed to load resource" not in said.text:
            self.faults.append(f"{where}: {said.text}")


def take_all(folder: Path, states: Collection[str], wanted: Callable[[str], bool], language: str) -> list[str]:
    """Take the pictures of all ``wanted`` pages in these states, in a language; return the faults."""
    from playwright.sync_api import sync_playwright  # only the tests install it

    browser_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with tempfile.TemporaryDirectory(prefix="rollcall-screens-") as data, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=options)
        camera = Camera(browser, folder, language)
        members = ClusterProcesses(Path(data), 3, FAST | VERIFY_WITHOUT_SAMPLES)
        try:
            members.start()
            of_states = States(members)
            with ExitStack() as clients:
                for state in STATES[: max(map(STATES.index, states)) + 1]:
                    of_states.enter(state)
                    if state == "full":
                        clients.enter_context(grpc_clients(members))
                    if state in states:
                        shown = pages(of_states.damaged, of_states.ip)
                        left_out = OF_A_SERVICE if state == "empty" else ()
                        shown = {name: path for name, path in shown.items() if wanted(name) and name not in left_out}
                        camera.take(state, members.members[0], shown)
                        print(f"{state}: {len(shown)} pages", flush=True)
        finally:
            members.end()
            browser.close()
    return camera.faults


def main() -> int:
    """Take the pictures; the exit code is 1 if a page is wider than its window, or a script failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--states", type=names_of(STATES), default=list(STATES), help=f"of {','.join(STATES)} (all)")
    parser.add_argument("--pages", type=names_of(pages("", "")), default=None, help="names of pages (all)")
    parser.add_argument("--language", default=ENGLISH, choices=LANGUAGES, help=f"of the browser ({ENGLISH})")
    options = parser.parse_args()
    faults = take_all(
        options.folder,
        options.states,
        lambda name: not options.pages or name in options.pages,
        options.language,
    )
    print("\n".join(faults) or "no page is wider than its window, and no script failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

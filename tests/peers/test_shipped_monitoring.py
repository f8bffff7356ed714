"""The monitoring as it is shipped, in a real Prometheus: its right to scrape, its rules, its panels, and a drill.

Members have the settings and secrets of the composition. ``-s`` prints what fired in the drill, and when.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from app.naming.model.keys import instance_key
from app.rows.summary import Summary, Verdict
from app.tools.audit.compare.link_look import KINDS
from app.tools.audit.report import textfile
from app.tools.audit.watch.rounds import RoundOutcome
from app.tools.audit.watch.watch_metrics import metrics_of
from tests.peers.conftest import SEEN_TIMEOUT_S
from tests.support.alert_drill import Drill
from tests.support.auth import ADMIN, ADMIN_PASSWORD, UserClient, make_first_admin
from tests.support.damage import LONG
from tests.support.mounts import unable_to_mount, with_mounts
from tests.support.processes import COMMAND, ClusterProcesses, Member, clean_environ, eventually
from tests.support.prometheus import DASHBOARDS, RULES, Process, Prometheus, ShippedFiles, panel_queries
from tests.support.sdk_client import SdkClient
from tests.support.shipped import DEPLOY, composition, mounted, secrets_in, variables

TAMPER = Path(__file__).resolve().parents[1] / "support" / "tamper"
ADDRESSES = {"NACOS_MEMBER_LIST", "NACOS_SERVER_IP"}
SWITCHES = "/v1/ns/operator/switches"
DISK_BYTES = 2 << 30
"""The most that a file system in memory may take, of which a member uses little: no rule finds that small."""


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return secrets_in(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="module")
def token(secrets: Path) -> str:
    return (secrets / "metrics-token").read_text(encoding="ascii")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, secrets: Path) -> Iterator[ClusterProcesses]:
    """Members as in the composition, at other addresses. What the drill plants, no sample of contents finds."""
    shipped = composition()["services"]["member1"]["environment"]
    settings = variables((secrets / "rollcall.env").read_text(encoding="ascii"))
    settings |= {name: value for name, value in shipped.items() if name not in ADDRESSES}
    settings |= {"rollcall.distro.sampleMs": "86400000", "PYTHONPATH": str(TAMPER)}
    members = ClusterProcesses(tmp_path_factory.mktemp("members"), 3, settings)
    for member in members:
        member.settings["ROLLCALL_TAMPER"] = str(member.folder / "tamper.json")
    if not unable_to_mount():
        full = members.members[2]
        full.data.mkdir()
        full.prefix = with_mounts(f"-t tmpfs -o size={DISK_BYTES},mode=700 none {full.data}")
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait_ready(SEEN_TIMEOUT_S)
        make_first_admin(members.members[0])
        yield members
    finally:
        members.end()
    members.assert_no_traceback()


@pytest.fixture(scope="module")
def clients(cluster: ClusterProcesses) -> list[UserClient]:
    """The administrator at each member."""
    found = [UserClient(member.address) for member in cluster]
    for client in found:
        eventually(lambda client=client: client.try_login(ADMIN, ADMIN_PASSWORD).status == 200)  # type: ignore[misc]
        client.log_in(ADMIN, ADMIN_PASSWORD)
        eventually(lambda client=client: all_up(client))  # type: ignore[misc]
    return found


def all_up(client: UserClient) -> bool:
    states = [one["state"] for one in client.ask("GET", "/v1/core/cluster/nodes").json()["data"]]
    return states == ["UP"] * 3


def link_metrics(summary: Summary) -> bytes:
    """The lines of a watch's file about links: the rest is in the file of the watch that goes on."""
    linked = replace(summary, links=[{"link": "dc-b"} | dict.fromkeys(KINDS, 0)])
    lines = generate_latest(metrics_of(RoundOutcome(linked))).splitlines(keepends=True)
    return b"".join(line for line in lines if b"rollcall_watch_link_findings" in line)


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory, cluster: ClusterProcesses, clients: object) -> Iterator[Process]:
    """A node exporter with the metrics of a night, of a watch that goes on, and of a link that another one watched."""
    folder = tmp_path_factory.mktemp("exporter")
    now = datetime.now(UTC)
    night = Summary(now.date().isoformat(), Verdict.AGREED, "agreed", checked_at=now.isoformat())
    textfile.write(str(folder / "night.prom"), night)
    (folder / "link.prom").write_bytes(link_metrics(night))
    arguments = ("--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}")
    exporter = Process("prometheus-node-exporter", folder, *arguments)
    members = ",".join(member.address for member in cluster)
    options = ["--every", "1s", "--gap", "200ms", "--timeout", "1s", "--retries", "0"]
    environ = clean_environ() | {"ROLLCALL_USER": ADMIN, "ROLLCALL_PASSWORD": ADMIN_PASSWORD}
    with (folder / "watch.log").open("wb") as log:
        watch = subprocess.Popen(
            [COMMAND, "watch-agreement", "--members", members, *options, "--textfile", str(folder / "watch.prom")],
            env=environ,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: 'verdict="agreed"} 1.0' in (folder / "watch.prom").read_text())
        yield exporter
    finally:
        watch.terminate()
        watch.wait(60)
        exporter.stop()


@pytest.fixture(scope="module")
def compose(
    tmp_path_factory: pytest.TempPathFactory, cluster: ClusterProcesses, secrets: Path, exporter: Process
) -> Iterator[Prometheus]:
    """The Prometheus of the composition, with what is mounted into its container."""
    composed = composition()
    service = composed["services"]["prometheus"]
    files = mounted(service)
    config = files.pop("/etc/prometheus/prometheus.yml")
    addresses = {f"member{number}:8848": member.address for number, member in enumerate(cluster, 1)}
    shipped = ShippedFiles(tmp_path_factory.mktemp("compose") / "root", config, addresses)
    for inside, file in files.items():
        shipped.put_rules(inside, file)
    for name in service["secrets"]:
        made = secrets / Path(composed["secrets"][name]["file"]).name
        shipped.put(f"/run/secrets/{name}", made.read_text(encoding="ascii"))
    [audit] = [job for job in shipped.config["scrape_configs"] if "dns_sd_configs" in job]
    del audit["dns_sd_configs"]  # no name service of Docker is here
    audit["static_configs"] = [{"targets": [exporter.address]}]
    prometheus = shipped.start()
    try:
        eventually(lambda: prometheus.query("up"))
        yield prometheus
    finally:
        prometheus.stop()


def assert_scrapes(prometheus: Prometheus, expected: dict[str, set[str]]) -> None:
    """Return when all expected targets are up, and no others are there; all rules must be loaded and work."""

    def all_up() -> bool:
        found: dict[str, set[str]] = {}
        for target in prometheus.targets():
            assert target["health"] == "up", target
            found.setdefault(target["labels"]["job"], set()).add(target["labels"]["instance"])
        assert found == expected, found
        return True

    eventually(all_up)
    shipped = [
        rule for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]
    ]
    eventually(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()))
    assert {rule["name"] for rule in prometheus.rules()} == {rule["alert"] for rule in shipped}


def test_the_composition_scrapes_its_members(compose: Prometheus, cluster: ClusterProcesses) -> None:
    assert_scrapes(compose, {"rollcall": {member.address for member in cluster}, "rollcall-audit": {"exporter:9100"}})


def test_members_refuse_scrapes_without_the_token(cluster: ClusterProcesses) -> None:
    assert {member.client.call("GET", "/metrics").status for member in cluster} == {403}


def test_prometheus_beside_systemd_scrapes_the_members(
    tmp_path: Path, cluster: ClusterProcesses, exporter: Process, token: str
) -> None:
    addresses = {f"10.0.0.{number}:8848": member.address for number, member in enumerate(cluster, 1)}
    shipped = ShippedFiles(
        tmp_path / "root", DEPLOY / "prometheus.yml", addresses | {"10.0.0.9:9100": exporter.address}
    )
    shipped.put("/etc/prometheus/rollcall-token", token)
    for file in RULES:
        shipped.put_rules(f"/etc/prometheus/rules/{file.name}", file)
    prometheus = shipped.start()
    try:
        assert_scrapes(
            prometheus, {"rollcall": {member.address for member in cluster}, "rollcall-audit": {exporter.address}}
        )
    finally:
        prometheus.stop()


def pod_targets(number: int, member: Member) -> list[dict[str, Any]]:
    """The static configuration of what Prometheus finds of a pod of the StatefulSet: one target for each port.

    Debian's Prometheus is built without the discovery in Kubernetes, so its labels are given here.
    """
    pod = yaml.safe_load((DEPLOY / "k8s" / "statefulset.yaml").read_text(encoding="utf-8"))["spec"]["template"]
    ports = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    of_pod = {"pod_name": f"rollcall-{number}", "namespace": "registry", "pod_phase": "Running"}
    host, _, first = member.address.rpartition(":")
    return [
        {
            "targets": [f"{host}:{int(first) + at}"],
            "labels": {
                f"__meta_kubernetes_{name}": value
                for name, value in (of_pod | {"pod_container_port_name": port}).items()
            },
        }
        for at, port in enumerate(ports)
    ]


def test_prometheus_in_kubernetes_scrapes_the_pods(tmp_path: Path, cluster: ClusterProcesses, token: str) -> None:
    shipped = ShippedFiles(tmp_path / "root", DEPLOY / "k8s" / "prometheus.yml", {})
    shipped.put("/etc/prometheus/secrets/rollcall-metrics/token", token)
    for file in RULES:
        shipped.put_rules(f"/etc/prometheus/rules/{file.name}", file)
    [job] = shipped.config["scrape_configs"]
    del job["kubernetes_sd_configs"]
    job["static_configs"] = [one for number, member in enumerate(cluster) for one in pod_targets(number, member)]
    members = yaml.safe_load((DEPLOY / "k8s" / "members.yaml").read_text(encoding="utf-8"))["data"]["cluster.conf"]
    prometheus = shipped.start()
    try:
        assert_scrapes(prometheus, {"rollcall": set(members.split())})
    finally:
        prometheus.stop()


def test_every_query_of_the_dashboards_has_data(
    compose: Prometheus, cluster: ClusterProcesses, clients: list[UserClient]
) -> None:
    """While clients of HTTP and gRPC register, subscribe and make mistakes.

    The owner has no subscriber, so that a push at another member ends the way of each change.
    """
    service = cluster.service_of(cluster.members[0], "orders")
    left = {query for file in DASHBOARDS for query in panel_queries(file)}
    assert len(left) > 50
    port = int(cluster.members[1].address.rpartition(":")[2]) + 1_000
    subscription = json.dumps({"serviceName": service, "subscribe": True, "clusters": ""}).encode()
    numbers, end_s = itertools.count(), time.monotonic() + SEEN_TIMEOUT_S

    async def subscribe_and_look() -> None:
        """Look until all have data, or this client was late and the member ended its connection."""
        async with SdkClient(port) as sdk:
            await sdk.set_up()
            answer = await sdk.send("SubscribeServiceRequest", subscription, {"accessToken": clients[1].token})
            assert answer.json()["success"], answer.json()
            while left and not sdk.ended:
                assert time.monotonic() < end_s, left
                await asyncio.to_thread(look, next(numbers))

    def look(number: int) -> None:
        # Each is a change, and the list stays short.
        changed = {"ip": f"10.7.0.{number % 100 + 1}", "port": 80, "weight": number // 100 % 100 + 1}
        registered = clients[0].ask("POST", "/v1/ns/instance", serviceName=service, metadata=LONG, **changed)
        mistaken = clients[0].ask("GET", "/v1/ns/instance")
        if 503 not in (registered.status, mistaken.status):  # the member had no time
            assert (registered.status, mistaken.status) == (200, 400), (registered, mistaken)
        left.difference_update([one for one in left if has_data(compose, one[1])])

    while left:
        asyncio.run(subscribe_and_look())


def has_data(prometheus: Prometheus, query: str) -> bool:
    """Whether a query finds a number; not yet, if Prometheus has no time for an answer."""
    with contextlib.suppress(OSError):
        return any(one["value"][1] != "NaN" for one in prometheus.query(query))
    return False


def tamper(member: Member, *commands: dict[str, object]) -> None:
    path = Path(member.settings["ROLLCALL_TAMPER"])
    path.write_text(json.dumps(commands))
    os.kill(member.worker.pid, signal.SIGRTMIN)
    eventually(lambda: not path.exists())


def ask(client: UserClient, method: str, path: str, **parameters: str | int) -> None:
    answer = client.ask(method, path, **parameters)
    assert answer.status == 200, answer


def test_alerts_fire_for_faults_and_not_for_planned_work(
    compose: Prometheus, cluster: ClusterProcesses, clients: list[UserClient]
) -> None:
    """Rules as shipped, which wait for seconds instead of minutes, and have short ranges."""
    eventually(lambda: not compose.alerts())
    drill = Drill(compose)
    try:
        planned_work(drill, cluster, clients[1])
        faults(drill, cluster, clients)
    finally:
        print(f"\n{drill.report()}")
    drill.assert_as_expected()


def planned_work(drill: Drill, cluster: ClusterProcesses, client: UserClient) -> None:
    member, drain = cluster.members[1], "/v1/ns/operator/drain"

    def drain_it() -> None:
        ask(client, "PUT", drain)
        eventually(lambda: client.ask("GET", drain).json()["handedOver"])

    drill.stays_quiet("a member is drained, restarted", drain_it, member.stop, member.restart)
    drill.stays_quiet("a member is stopped, restarted", member.stop, member.restart)


def faults(drill: Drill, cluster: ClusterProcesses, clients: list[UserClient]) -> None:
    one, two, three = cluster.members
    entry = {"entry": "overriddenServerStatus"}
    drill.fires(
        "a member is killed",
        two.kill_all,
        two.restart,
        {"RollcallScrapeFails", "RollcallMemberDown", "RollcallWatchMemberAbsent"},
        {"RollcallSendsFail"},
    )
    drill.fires(
        "overriddenServerStatus=DOWN",
        lambda: ask(clients[0], "PUT", SWITCHES, **entry, value="DOWN"),
        lambda: ask(clients[0], "PUT", SWITCHES, **entry, value="null"),
        {"RollcallNotReady", "RollcallRefusedBySwitch"},
        set(),
    )
    service = cluster.service_of(one, "planted")
    instance = {"serviceName": service, "ip": "10.8.0.1", "port": "80", "metadata": LONG}
    ask(clients[0], "POST", "/v1/ns/instance", **instance)
    eventually(lambda: "10.8.0.1:80" in listed(clients[2], service))
    key = instance_key("10.8.0.1", 80, "DEFAULT")

    def plant() -> None:
        # An owner that takes its services back, after a member returned, sends their lists once more.
        if "10.8.0.1:80" in listed(clients[2], service):
            tamper(three, {"do": "remove", "service": f"DEFAULT_GROUP@@{service}", "key": key})

    drill.fires(
        "a divergence is planted",
        plant,
        lambda: ask(clients[0], "DELETE", "/v1/ns/instance", **instance),
        {"RollcallWatchMembersDiffer"},
        set(),
        is_kept_up=True,
    )
    if unable_to_mount():
        return
    drill.fires(
        "the disk is full",
        lambda: fill_disk(three, clients[2], cluster.service_of(three, "durable")),
        lambda: resize(three, DISK_BYTES),
        {"RollcallDiskFull", "RollcallDiskFails"},
        {"RollcallAuditLost", "RollcallInstancesUnhealthy"},
    )


def listed(client: UserClient, service: str) -> set[str]:
    hosts = client.ask("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
    return {f"{host['ip']}:{host['port']}" for host in hosts}


def fill_disk(member: Member, client: UserClient, service: str) -> None:
    """Leave no room in a member's data folder, and change durable data there until it refuses."""
    inside = Path(f"/proc/{member.worker.pid}/root{member.data}")

    def is_full() -> bool:
        found = os.statvfs(inside)
        return resize(member, (found.f_blocks - found.f_bfree) * found.f_frsize)

    eventually(is_full)  # it may write in between
    numbers = iter(range(10_000))

    def is_refused() -> bool:
        asked = {"serviceName": service, "ip": "10.8.1.1", "ephemeral": "false"}
        return client.ask("POST", "/v1/ns/instance", port=next(numbers) + 1, **asked).status == 507

    eventually(is_refused)


def resize(member: Member, size: int) -> bool:
    """Give the file system of a member's data folder another size; return whether all that it holds has room there."""
    command = ("nsenter", "-t", str(member.worker.pid), "-m", "mount", "-o", f"remount,size={size}", member.data)
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0

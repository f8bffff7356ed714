"""nginx and HAProxy of deploy/proxy before a node: SDKs' calls go through, members' and operators' do not."""

import contextlib
import getpass
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.http import blueprints
from app.http.api.call import ROUTES
from tests.support.client import CODE_OK, OK, Client
from tests.support.processes import Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, run_client

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "proxy"
PROXIES = ("nginx", "haproxy")
NGINX_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
FOR_SDKS = (
    "/v1/ns/instance",
    "/v1/ns/instance/list",
    "/v1/ns/instance/beat",
    "/v1/ns/instance/metadata/batch",
    "/v1/ns/service",
    "/v1/ns/service/list",
    "/v1/ns/health",
    "/v1/ns/health/instance",
    "/v1/ns/operator/metrics",
    "/v1/auth/login",
    "/v1/auth/users/login",
    "/v1/console/health/liveness",
    "/v1/console/health/readiness",
)
OTHER_SPELLINGS = (
    "/nacos/v1/ns/instance/../distro/datums",
    "/nacos/v1/ns/instance/%2e%2e/distro/datums",
    "/nacos/v1/ns/instance/..%2fdistro%2fdatums",
    "/nacos/v1/ns/%64istro/datums",
    "/nacos/v1/ns//distro/datums",
    "//nacos/v1/ns/distro/datums",
    "/nacos/v1/ns/distro/datums;/nacos/v1/ns/instance",
    "/nacos/v1/ns/distro/datums?x=/nacos/v1/ns/instance",
    "/nacos/v1/ns/instance/%00/../../distro/datums",
    "/NACOS/v1/ns/distro/datums",
    "/nacos/v1/ns/distro/datums/",
    "http://127.0.0.1/nacos/v1/ns/distro/datums",
)


def unable(name: str) -> str:
    """Why a proxy cannot be run here; empty when it can."""
    command = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if command is None:
        return f"{name} is not installed"
    return f"{NGINX_MODULE} is not installed" if name == "nginx" and not NGINX_MODULE.exists() else ""


def configured(name: str, text: str, work: Path, member: int, port: int) -> str:
    """The configuration with one member of this machine, and ports and files of the test."""
    text = re.sub(r"^.*10\.0\.0\.[23]:[89]848.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("10.0.0.1:8848", f"127.0.0.1:{member}").replace("10.0.0.1:9848", f"127.0.0.1:{member + 1_000}")
    if name == "haproxy":
        text = text.replace("maxconn 20000", "maxconn 500")
        text = text.replace("bind :8848", f"bind 127.0.0.1:{port}").replace(
            "bind :9848", f"bind 127.0.0.1:{port + 1_000}"
        )
        return text.replace("check port 8848", f"check port {member}")
    text = text.replace("listen 8848", f"listen 127.0.0.1:{port}").replace(
        "listen 9848", f"listen 127.0.0.1:{port + 1_000}"
    )
    text = text.replace("modules/ngx_stream_module.so", str(NGINX_MODULE)).replace("/run/nginx.pid", str(work / "pid"))
    folders = "".join(
        f"    {kind}_temp_path {work / kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = text.replace("http {\n", "http {\n" + folders, 1).replace(
        "/var/log/nginx/error.log", str(work / "error.log")
    )
    return f"daemon off;\nuser {getpass.getuser()};\n{text}"


@pytest.fixture(scope="module", params=PROXIES)
def through(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a proxy before a node; its gRPC is 1,000 above."""
    name = request.param
    if why := unable(name):
        pytest.skip(why)
    command = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    assert command is not None
    work = tmp_path_factory.mktemp(name)
    own, port = free_ports(2)
    member = Member(own, work / "member", {"rollcall.announce": "false"})
    source = DEPLOY / ("nginx.conf" if name == "nginx" else "haproxy.cfg")
    file = work / source.name
    file.write_text(configured(name, source.read_text(), work, own, port))
    checked = [command, "-t", "-c", file] if name == "nginx" else [command, "-c", "-f", file]
    done = subprocess.run(checked, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    running = [command, "-c", file] if name == "nginx" else [command, "-db", "-f", file]
    proxy = None
    try:
        member.restart()
        with (work / "proxy.log").open("wb") as log:
            proxy = subprocess.Popen(running, stdout=log, stderr=log)
        eventually(lambda: Client(f"127.0.0.1:{port}").call("GET", "/v1/console/health/readiness").status == 200)
        yield port
    finally:
        if proxy is not None:
            proxy.terminate()
            proxy.wait(30)
        member.end()


def status_of(port: int, target: str, *headers: str) -> int:
    """The status that a request with exactly this target gets."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), 20)) as opened:
        lines = (f"GET {target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers)
        opened.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(opened.makefile("rb").readline().split()[1])


def test_an_instance_lives_through_it(through: int) -> None:
    client = Client(f"127.0.0.1:{through}")
    assert client.register("proxied", "10.0.0.1").body == OK
    assert client.beat("proxied", "10.0.0.1").json()["code"] == CODE_OK
    assert set(client.hosts("proxied")) == {"10.0.0.1:8080"}
    assert client.deregister("proxied", "10.0.0.1").body == OK


def test_a_client_of_grpc_gets_pushes_through_it(through: int) -> None:
    async def main() -> None:
        async with SdkClient(through + 1_000) as client:
            await client.set_up()
            await client.subscribe("pushed")
            assert Client(f"127.0.0.1:{through}").register("pushed", "10.0.0.2").body == OK
            await client.wait(lambda: any(b"10.0.0.2" in message.body for message in client.messages))

    run_client(main)


def test_what_is_not_for_sdks_is_refused(through: int) -> None:
    assert blueprints
    others = sorted({row.path for row in ROUTES if row.path.startswith(("/v1", "/v2"))} - set(FOR_SDKS))
    others = [
        path
        for path in others
        if not re.match(r"/v2/ns/(instance|service|health|operator/metrics)|/v2/console/health", path)
    ]
    assert {"/v1/ns/distro/datum", "/v1/core/cluster/report", "/v1/ns/operator/switches"} <= set(others)
    assert {path: status_of(through, f"/nacos{path}") for path in others} == dict.fromkeys(others, 403)


@pytest.mark.parametrize("target", OTHER_SPELLINGS)
def test_no_spelling_leads_past_it(through: int, target: str) -> None:
    assert status_of(through, target) in (400, 403)


@pytest.mark.parametrize("header", ["User-Agent: Nacos-Server:v1.4.1", "Client-Version: Nacos-Server:v1.4.1"])
def test_nobody_speaks_as_a_member_through_it(through: int, header: str) -> None:
    target = "/nacos/v1/ns/instance/list?serviceName=a"
    assert status_of(through, target) == 200
    assert status_of(through, target, header) == 403

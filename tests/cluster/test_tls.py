"""TLS with real processes: clients by HTTPS, members among themselves, certificates that are replaced, attackers."""

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from app.http.server.http_messages import CLIENT_BODY_BYTES_MAX
from app.tools.audit.format.layout import read_night
from app.tools.cli import main as rollcall
from tests.cluster.conftest import StartCluster
from tests.support.certificates import Authority, https_settings, tls_settings
from tests.support.client import CODE_OK, Client
from tests.support.https_node import HttpsNode, running_https_node
from tests.support.processes import FAST, HANG_S, ClusterProcesses, Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, run_client

BEATS = 300
SLOW = 2_000
"""Sockets that send half a greeting."""
AVAILABLE_S = 1.0
"""For one beat beside them: far over what it takes, and far below what it would take behind them."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsNode]:
    yield from running_https_node(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def with_tls(cluster: ClusterProcesses, authority: Authority) -> dict[str, tuple[Path, Path]]:
    """Give each member a certificate of its own; return the files by address."""
    files = {}
    for member in cluster:
        files[member.address] = chain, private_key = member.conf / "chain.pem", member.conf / "key.pem"
        authority.issue(chain, private_key)
        member.change(https_settings(chain, private_key, authority.file))
    return files


def opened_to(node: HttpsNode) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(node.authority.file))
    plain = socket.create_connection(("127.0.0.1", node.port), HANG_S)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def serial(node: HttpsNode) -> int:
    """The number of the certificate that a new connection to a node is shown."""
    return serial_of(node.port)


def serial_of(port: int) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])  # gRPC speaks nothing else, and HTTP does without
    with (
        socket.create_connection(("127.0.0.1", port), HANG_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as opened,
    ):
        return x509.load_der_x509_certificate(opened.getpeercert(True) or b"").serial_number


def test_a_client_that_trusts_the_authority_is_served(node: HttpsNode) -> None:
    client = node.member.client
    assert client.register("web", "1.1.1.1").body == b"ok"
    assert set(client.hosts("web")) == {"1.1.1.1:8080"}


def test_a_client_that_trusts_another_authority_refuses_the_node(node: HttpsNode, tmp_path: Path) -> None:
    other = ssl.create_default_context(cafile=str(Authority(tmp_path, "other").file))
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(node.member.address, tls=other).register("web", "1.1.1.2")


def test_nothing_before_tls_1_2_is_spoken(node: HttpsNode) -> None:
    context = ssl.create_default_context(cafile=str(node.authority.file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Client(node.member.address, tls=context).metrics()


def test_plain_http_is_told_what_the_port_speaks(node: HttpsNode) -> None:
    before = node.member.client.metrics()["tlsPlainRefused"]
    answer = Client(node.member.address).register("web", "1.1.1.3")
    assert (answer.status, answer.body) == (400, b"this port speaks TLS: use https")
    assert node.member.client.metrics()["tlsPlainRefused"] == before + 1
    assert "1.1.1.3:8080" not in node.member.client.hosts("web")


# --- one node -------------------------------------------------------------------------------------


def test_a_kept_connection_takes_pipelined_requests_and_large_bodies(node: HttpsNode) -> None:
    head = b"GET /nacos/v1/console/health/readiness HTTP/1.1\r\nHost: x\r\n\r\n"
    body = b"x" * CLIENT_BODY_BYTES_MAX
    large = b"POST /nacos/v1/ns/instance?serviceName=large&ip=1.1.1.1&port=1 HTTP/1.1\r\nHost: x\r\n"
    large += b"Content-Length: %d\r\n\r\n" % len(body)
    with opened_to(node) as opened, opened.makefile("rb") as answers:
        opened.sendall(head * 50 + large + body + head)
        for _ in range(52):
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            answers.read(length)


def test_a_refusal_reaches_a_client_that_goes_on_sending(node: HttpsNode) -> None:
    """It cannot be told by half a close, as without TLS."""
    received = b""
    with opened_to(node) as opened:
        opened.sendall(b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 100_000)
        while part := opened.recv(65_536):
            received += part
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"the request is not understood" in received


def test_a_renewed_certificate_is_shown_to_new_connections_and_no_request_fails(node: HttpsNode) -> None:
    client = node.member.client
    client.register("renewed", "1.1.1.1")
    reloads = client.metrics()["tlsReloads"]
    context = ssl.create_default_context(cafile=str(node.authority.file))
    done, failures = threading.Event(), list[str]()

    def beat() -> None:
        """One kept connection, and a new one for each beat beside it."""
        kept = http.client.HTTPSConnection("127.0.0.1", node.port, timeout=HANG_S, context=context)
        while not done.is_set():
            try:
                kept.request("PUT", "/nacos/v1/ns/instance/beat?serviceName=renewed&ip=1.1.1.1&port=8080")
                answers = [kept.getresponse().read(), client.beat("renewed", "1.1.1.1").body]
                failures.extend(str(one) for one in answers if b'"code":10200' not in one)
            except (OSError, http.client.HTTPException) as error:
                failures.append(repr(error))
        kept.close()

    beating = [threading.Thread(target=beat) for _ in range(4)]
    for one in beating:
        one.start()
    try:
        renewed = node.authority.issue(node.chain, node.private_key)
        eventually(lambda: serial(node) == renewed)
        again = node.authority.issue(node.chain, node.private_key)
        eventually(lambda: serial(node) == again)
    finally:
        done.set()
        for one in beating:
            one.join()
    assert failures == []
    metrics = client.metrics()
    assert metrics["tlsReloads"] == reloads + 2
    assert metrics["tlsCertificateEndsS"] == pytest.approx(time.time() + 2 * 86_400, abs=600)


def test_a_broken_file_changes_nothing_and_is_logged_once_and_a_good_one_is_taken_again(node: HttpsNode) -> None:
    client, before = node.member.client, serial(node)
    failed, whole = client.metrics()["tlsReloadsFailed"], node.chain.read_bytes()
    node.chain.write_bytes(whole[:200])
    eventually(lambda: client.metrics()["tlsReloadsFailed"] == failed + 1)
    assert serial(node) == before
    other = node.authority.issue(node.chain.with_name("other.pem"), node.chain.with_name("other-key.pem"))
    node.chain.write_bytes(node.chain.with_name("other.pem").read_bytes())  # and its key is not there yet
    eventually(lambda: client.metrics()["tlsReloadsFailed"] == failed + 2)
    assert serial(node) == before
    node.private_key.write_bytes(node.chain.with_name("other-key.pem").read_bytes())
    eventually(lambda: serial(node) == other)
    said = [line for line in node.member.log_text().splitlines() if "changed certificate files cannot be used" in line]
    assert len(said) == 2
    assert "chain.pem has no complete chain of certificates" in said[0]
    assert "key.pem is not the key of the certificate" in said[1]


def test_thousands_of_half_greetings_do_not_hurt_beats(node: HttpsNode) -> None:
    client = node.member.client
    client.register("calm", "1.1.1.1")
    cut = client.metrics()["tlsHandshakesCut"]
    context = ssl.create_default_context(cafile=str(node.authority.file))
    kept = http.client.HTTPSConnection("127.0.0.1", node.port, timeout=HANG_S, context=context)
    greeting = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200  # of 517 bytes
    with contextlib.ExitStack() as stack:
        stack.callback(kept.close)
        for _ in range(SLOW):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", node.port), HANG_S))
            one.sendall(greeting)
        took_s = []
        for _ in range(BEATS):
            begun_s = time.monotonic()
            kept.request("PUT", "/nacos/v1/ns/instance/beat?serviceName=calm&ip=1.1.1.1&port=8080")
            assert b'"code":10200' in kept.getresponse().read()
            took_s.append(time.monotonic() - begun_s)
        begun_s = time.monotonic()
        assert client.beat("calm", "1.1.1.1").json()["code"] == CODE_OK
        assert time.monotonic() - begun_s < AVAILABLE_S, "a new client waits for no slow one"
        assert sorted(took_s)[BEATS * 99 // 100] < AVAILABLE_S
        eventually(lambda: client.metrics()["tlsHandshakesCut"] >= cut + SLOW)


def test_a_certificate_that_cannot_be_used_ends_the_start_with_its_name(tmp_path: Path, authority: Authority) -> None:
    chain, private_key = tmp_path / "chain.pem", tmp_path / "key.pem"
    authority.issue(chain, private_key)
    authority.issue(chain.with_name("other.pem"), private_key)
    [port] = free_ports(1)
    member = Member(port, tmp_path / "node", https_settings(chain, private_key, authority.file))
    try:
        member.start()
        assert member.wait_exit() == 2
    finally:
        member.end()
    assert member.log_text().splitlines()[-1] == (
        f"rollcall: TLS: {private_key} is not the key of the certificate in {chain}"
    )


def test_grpc_shows_new_connections_a_renewed_certificate_and_keeps_the_old_ones(
    tmp_path: Path, authority: Authority
) -> None:
    chain, private_key = tmp_path / "chain.pem", tmp_path / "key.pem"
    before = authority.issue(chain, private_key)
    [port] = free_ports(1)
    settings = tls_settings("server", chain, private_key) | tls_settings("peer", chain, private_key)
    member = Member(port, tmp_path / "node", {"rollcall.announce": "false", **settings})
    trusted = authority.file.read_bytes()

    def shown() -> set[int]:
        """The certificates of both ports."""
        return {serial_of(port + offset) for offset in (1_000, 1_001)}

    async def main() -> None:
        async with SdkClient(port + 1_000, certificate=trusted) as early:
            await early.set_up()
            assert await asyncio.to_thread(shown) == {before}
            renewed = authority.issue(chain, private_key)
            await asyncio.to_thread(eventually, lambda: shown() == {renewed})
            async with SdkClient(port + 1_000, certificate=trusted) as late:
                await late.set_up()
                for number, client in enumerate((early, late)):
                    assert (await client.register("grpc", f"1.1.1.{number}"))["success"] is True
            assert not early.ended

    try:
        member.start()
        member.wait_ready()
        run_client(main)
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


# --- members --------------------------------------------------------------------------------------


def test_members_replicate_forward_and_are_dumped_over_tls(
    make_cluster: StartCluster, authority: Authority, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    with_tls(cluster, authority)
    cluster.start()
    owner, *others = cluster.members
    service = cluster.service_of(owner, "tls")
    for number, member in enumerate(cluster.members):
        assert member.client.register(service, f"1.1.1.{number}").body == b"ok"
        assert member.client.register(service, f"2.2.2.{number}", ephemeral="false").body == b"ok"
    expected = {f"{ip}.{number}:8080" for ip in ("1.1.1", "2.2.2") for number in range(3)}
    eventually(lambda: cluster.all_list(service, expected))
    assert others[0].client.metrics()["forwardAnswered"] >= 2
    members = ",".join(member.address for member in cluster)
    common = ["--gap", "0", "--timeout", "10s", "--ca", str(authority.file)]
    assert (
        rollcall(["dump", "--members", members, "--out", str(tmp_path / "dump"), "--date", "2026-11-24", *common]) == 0
    )
    dumped = read_night(str(tmp_path / "dump")).rounds[0].manifest.members
    assert [(one.address, one.instances) for one in dumped] == [(member.address, 6) for member in cluster]
    urls = [f"https://{member.address}/nacos" for member in (owner, others[0])]
    assert rollcall(["compare", *urls, "--ca", str(authority.file)]) == 0
    other = str(Authority(tmp_path, "other").file)
    refused = [
        "dump",
        "--members",
        members,
        "--out",
        str(tmp_path / "no"),
        "--gap",
        "0",
        "--retries",
        "0",
        "--ca",
        other,
    ]
    assert rollcall(refused) == 2
    for member in cluster:
        assert member.client.metrics()["tlsMembersRefused"] == 0
        assert member.client.metrics()["tlsPlainCalls"] == 0


def test_a_member_whose_certificate_has_expired_is_named_and_comes_back_with_a_new_one(
    make_cluster: StartCluster, authority: Authority
) -> None:
    cluster = make_cluster(3, FAST)
    files = with_tls(cluster, authority)
    expired, *others = cluster.members
    cluster.start()
    service = cluster.service_of(expired, "expired")
    expired.stop()
    authority.issue(*files[expired.address], from_days=-9, to_days=-1)
    expired.start()
    eventually(lambda: "HAS EXPIRED on" in expired.log_text())
    for member in others:
        eventually(lambda member=member: member.client.metrics()["tlsMembersRefused"] > 0)
        refusal = f"the certificate of member {expired.address} is refused: certificate has expired"
        assert member.log_text().count(refusal) == 1
        # It is asked for nothing while nobody can call it, as it would not be heard by any.
        eventually(lambda member=member: member.client.register(service, "1.1.1.1").body == b"ok")
    authority.issue(*files[expired.address])
    for member in cluster:
        eventually(lambda member=member: cluster.all_up(member))
    assert others[0].client.register(service, "1.1.1.2").body == b"ok"
    eventually(lambda: cluster.all_list(service, {"1.1.1.1:8080", "1.1.1.2:8080"}))


def test_with_mutual_tls_a_members_call_needs_a_certificate_and_a_clients_does_not(
    make_cluster: StartCluster, authority: Authority
) -> None:
    cluster = make_cluster(3)
    files = with_tls(cluster, authority)
    for member in cluster:
        member.change({"rollcall.http.tls.mutualAuth": "true"})
    cluster.start()
    owner, other, _ = cluster.members
    service = cluster.service_of(owner, "mutual")
    assert other.client.register(service, "1.1.1.1").body == b"ok"
    eventually(lambda: cluster.all_list(service, {"1.1.1.1:8080"}))
    for path in ("/v1/ns/distro/datums", "/v1/ns/distro/checksum"):
        method = "GET" if path.endswith("datums") else "PUT"
        answer = owner.client.call(method, path, b"{}" if method == "PUT" else None)
        assert (answer.status, b"client certificate" in answer.body) == (403, True), path
    context = ssl.create_default_context(cafile=str(authority.file))
    context.load_cert_chain(*files[other.address])
    assert Client(owner.address, tls=context).call("GET", "/v1/ns/distro/datums").status == 200
    stranger = Authority(other.folder, "stranger")
    stranger.issue(other.folder / "stranger-chain.pem", other.folder / "stranger-key.pem")
    untrusted = ssl.create_default_context(cafile=str(authority.file))
    untrusted.load_cert_chain(other.folder / "stranger-chain.pem", other.folder / "stranger-key.pem")
    with pytest.raises((ssl.SSLError, OSError)):
        Client(owner.address, tls=untrusted).call("GET", "/v1/ns/distro/datums")


def test_with_mutual_tls_the_members_port_of_grpc_is_for_members_alone(
    make_cluster: StartCluster, authority: Authority
) -> None:
    cluster = make_cluster(2)
    for member in cluster:
        chain, private_key = member.conf / "chain.pem", member.conf / "key.pem"
        authority.issue(chain, private_key)
        prefix = "nacos.remote.peer.rpc.tls"
        trust = {f"{prefix}.trustCollectionChainPath": str(authority.file), f"{prefix}.mutualAuth": "true"}
        member.change(tls_settings("peer", chain, private_key) | trust)
    cluster.start()
    first, second = (int(member.address.rpartition(":")[2]) for member in cluster)

    async def main() -> None:
        async with SdkClient(first + 1_000) as publisher:
            await publisher.set_up()
            assert (await publisher.register("mutual-grpc", "1.1.1.1"))["success"] is True
            await asyncio.to_thread(eventually, lambda: cluster.all_list("mutual-grpc", {"1.1.1.1:80"}))
        async with SdkClient(second + 1_001, certificate=authority.file.read_bytes()) as stranger:
            with pytest.raises(grpc.RpcError):
                await stranger.call("ServerCheckRequest")

    run_client(main)
    for member in cluster:
        eventually(lambda member=member: "for members' calls" in member.log_text())


def test_a_cluster_moves_from_plain_to_tls_member_by_member_without_a_lost_write(
    make_cluster: StartCluster, authority: Authority
) -> None:
    cluster = make_cluster(3, FAST)
    cluster.start()
    written = set[str]()

    def write(through: Member) -> None:
        """Register at a member that runs; one refusal may be tried again, as a client does."""
        ip = f"10.0.{len(written) // 200}.{len(written) % 200}"
        service = f"moved-{len(written) % 3}"
        eventually(lambda: through.client.register(service, ip, ephemeral="false").body == b"ok")
        written.add(f"{service}/{ip}:8080")

    def all_agree() -> bool:
        for member in cluster:
            seen = {f"moved-{number}/{one}" for number in range(3) for one in member.client.hosts(f"moved-{number}")}
            assert seen == written, f"{member} has {len(seen)} of {len(written)}"
        return True

    tls = {}
    for member in cluster:
        chain, private_key = member.conf / "chain.pem", member.conf / "key.pem"
        authority.issue(chain, private_key)
        tls[member.address] = https_settings(chain, private_key, authority.file)
    for compatible in ("true", "false"):
        for member in cluster:
            for one in cluster:
                write(one)
            member.stop()
            for one in cluster.others(member):
                write(one)
            member.change(tls[member.address] | {"rollcall.http.tls.compatibility": compatible})
            member.restart()
            for one in cluster:
                eventually(lambda one=one: cluster.all_up(one))
                write(one)
            eventually(all_agree)
    assert Client(cluster.members[0].address).register("plain", "1.1.1.1").status == 400
    for member in cluster:
        assert member.client.metrics()["tlsPlainCalls"] == member.client.metrics()["tlsPlainTaken"] == 0

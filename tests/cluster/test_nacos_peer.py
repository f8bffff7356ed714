"""A node of ours and a member that is real Nacos 2.x, played by the test: what each tells the other of clients."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.nacos_peer import CLUSTER_LABELS, NacosPeer, distro, publish_info, sync_data
from tests.support.processes import FAST, Member, eventually, free_ports
from tests.support.sdk_client import SdkClient, run_client

SETTINGS = FAST | {"rollcall.announce": "false", "nacos.naming.client.expired.time": "10000"}
ID = "1700000000000_10.1.2.3_51234"


class Pair:
    """One node of ours, and the ports of the member that the test plays."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.port, self.peer_port = free_ports(2)
        listed = f"127.0.0.1:{self.port},127.0.0.1:{self.peer_port}"
        self.ours = Member(self.port, folder / "ours", {"nacos.member.list": listed, **SETTINGS, **settings})

    def peer(self) -> NacosPeer:
        return NacosPeer(self.peer_port, self.port)

    def sdk(self) -> SdkClient:
        return SdkClient(self.port + 1_000)

    def shows(self, service: str, *addresses: str) -> bool:
        return self.ours.client.hosts(service).keys() == set(addresses)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    try:
        pair.ours.start()
        pair.ours.wait_ready()
        yield pair
    finally:
        pair.ours.end()
    assert "Traceback" not in pair.ours.log_text()


def run_peer(pair: Pair, main: Callable[[NacosPeer, SdkClient], Awaitable[None]]) -> None:
    """Run a test with the member there, and a connection of its to ours."""

    async def whole() -> None:
        async with pair.peer() as peer, peer.client() as link:
            await peer.introduce(link)
            await peer.wait(lambda: peer.reports)
            await asyncio.to_thread(eventually, lambda: is_up(pair, peer))
            await main(peer, link)

    run_client(whole)


def is_up(pair: Pair, peer: NacosPeer) -> bool:
    nodes = pair.ours.client.call("GET", "/v1/core/cluster/nodes").json()["data"]
    return {one["address"]: one["state"] for one in nodes}[peer.address] == "UP"


async def soon(check: Callable[[], Any]) -> None:
    await asyncio.to_thread(eventually, check)


def test_it_is_told_what_is_connected_here_and_that_it_is_gone(pair: Pair) -> None:
    async def main(peer: NacosPeer, _link: SdkClient) -> None:
        async with pair.sdk() as sdk:
            client_id = await sdk.set_up()
            await sdk.register("told", "10.0.0.1", weight=2, metadata={"zone": "a"}, enabled=False)
            [content] = await peer.wait(lambda: peer.of("CHANGE", client_id))
            assert content["serviceNames"] == ["told"]
            [info] = content["instancePublishInfos"]
            wanted = {"zone": "a", "publishInstanceWeight": 2.0, "publishInstanceEnable": False}
            assert wanted.items() <= info["extendDatum"].items()
            assert isinstance(info["extendDatum"]["publishInstanceWeight"], float)
            revision = content["attributes"]["clientAttributes"]["revision"]
            await peer.wait(lambda: {"clientId": client_id, "revision": revision} in peer.of("VERIFY", client_id))
        await peer.wait(lambda: peer.of("DELETE", client_id))
        # What is gone is told once, and never verified again.
        count = len(peer.of("VERIFY", client_id))
        await peer.wait(lambda: len(peer.reports) > 3)
        assert len(peer.of("VERIFY", client_id)) == count

    run_peer(pair, main)


def test_what_fails_a_verify_is_sent_at_once(pair: Pair) -> None:
    """Unknown there, or stored there as it was before: both are one answer on the wire."""

    async def main(peer: NacosPeer, _link: SdkClient) -> None:
        async with pair.sdk() as sdk:
            client_id = await sdk.set_up()
            await sdk.register("again", "10.0.0.2")
            await peer.wait(lambda: peer.of("CHANGE", client_id))
            peer.refuses = lambda operation, key: "failed" if (operation, key) == ("VERIFY", client_id) else ""
            await peer.wait(lambda: len(peer.of("CHANGE", client_id)) >= 2)
            operations = [operation for operation, key, _ in peer.told if key == client_id]
            assert operations[:3] == ["CHANGE", "VERIFY", "CHANGE"]

    run_peer(pair, main)


def test_a_verify_that_ends_in_an_error_sends_nothing(pair: Pair) -> None:
    async def main(peer: NacosPeer, _link: SdkClient) -> None:
        async with pair.sdk() as sdk:
            client_id = await sdk.set_up()
            await sdk.register("error", "10.0.0.3")
            await peer.wait(lambda: peer.of("CHANGE", client_id))
            peer.refuses = lambda operation, _key: "error" if operation == "VERIFY" else ""
            await peer.wait(lambda: len(peer.of("VERIFY", client_id)) >= 3)
            assert len(peer.of("CHANGE", client_id)) == 1

    run_peer(pair, main)


def test_a_change_that_it_does_not_take_is_sent_again(pair: Pair) -> None:
    async def main(peer: NacosPeer, _link: SdkClient) -> None:
        async with pair.sdk() as sdk:
            client_id = await sdk.set_up()
            peer.refuses = lambda operation, _key: (
                "failed" if operation == "CHANGE" and len(peer.of("CHANGE", client_id)) == 1 else ""
            )
            await sdk.register("repeated", "10.0.0.4")
            await peer.wait(lambda: len(peer.of("CHANGE", client_id)) >= 2)

    run_peer(pair, main)


def test_what_it_tells_is_shown_and_goes_no_further(pair: Pair) -> None:
    async def main(peer: NacosPeer, link: SdkClient) -> None:
        async with pair.sdk() as sdk:
            await sdk.set_up()
            await sdk.subscribe("theirs")
            info = publish_info("10.9.0.1", zone="a", publishInstanceWeight=2.0, customInstanceId="mine")
            services = {"theirs": info, "theirs-too": publish_info("10.9.0.1", publishInstanceEnable=False)}
            answer = await distro(link, "CHANGE", ID, sync_data(ID, 3, services))
            assert (answer["@type"], answer["resultCode"]) == ("DistroDataResponse", 200)
            [host] = pair.ours.client.hosts("theirs").values()
            shown = (host["weight"], host["enabled"], host["instanceId"], host["metadata"])
            assert shown == (2.0, True, "mine", {"zone": "a"})
            assert pair.ours.client.hosts("theirs-too") == {}, "it is disabled"
            await sdk.wait(lambda: any(one["hosts"] for one in sdk.pushes("theirs")))
            # One of the two services is named no more.
            await distro(link, "CHANGE", ID, sync_data(ID, 4, {"theirs-too": publish_info("10.9.0.1")}))
            await sdk.wait(lambda: sdk.pushes("theirs")[-1]["hosts"] == [])
            assert pair.shows("theirs-too", "10.9.0.1:80")
            shown = pair.ours.client.call("GET", "/v2/ns/client", clientId=ID).json()
            assert shown["code"] == 0
            await distro(link, "DELETE", ID)
            assert pair.shows("theirs-too")
            assert (await distro(link, "DELETE", "1_1.1.1.1_1"))["resultCode"] == 200, "what is unknown is gone"
            assert ID not in {key for _, key, _ in peer.told}, "no copy is sent on"

    run_peer(pair, main)


def test_batches_and_clients_of_http_instances(pair: Pair) -> None:
    async def main(_peer: NacosPeer, link: SdkClient) -> None:
        infos = [publish_info("10.9.1.1", port) for port in (1, 2)]
        batch = {
            "namespaces": ["public"],
            "groupNames": ["DEFAULT_GROUP"],
            "serviceNames": ["batched"],
            "batchInstancePublishInfos": [
                {"port": 0, "healthy": False, "extendDatum": {}, "instancePublishInfos": infos}
            ],
        }
        await distro(link, "ADD", ID, sync_data(ID, 1, batches=batch))
        assert pair.shows("batched", "10.9.1.1:1", "10.9.1.1:2")
        of_http = "10.9.1.2:80#true"
        await distro(link, "CHANGE", of_http, sync_data(of_http, -77, {"of-http": publish_info("10.9.1.2")}))
        assert pair.shows("of-http", "10.9.1.2:80")
        await distro(link, "DELETE", of_http)
        await distro(link, "CHANGE", of_http, sync_data(of_http, 78, {"of-http": publish_info("10.9.1.2")}))
        assert pair.shows("of-http", "10.9.1.2:80"), "such an id comes back"
        for client_id in (ID, of_http):
            await distro(link, "DELETE", client_id)
        assert pair.shows("of-http")

    run_peer(pair, main)


@pytest.mark.parametrize(
    ("key", "content", "text"),
    [
        ("10.9.2.1:80#false", sync_data("10.9.2.1:80#false"), "persistent client"),
        (ID, sync_data("1_1.1.1.1_1"), "another client"),
        (ID, {"clientId": ID}, "field 'serviceNames'"),
        (ID, [1], "not a JSON object"),
    ],
)
def test_what_is_no_client_is_refused_and_changes_nothing(pair: Pair, key: str, content: Any, text: str) -> None:
    async def main(_peer: NacosPeer, link: SdkClient) -> None:
        answer = await distro(link, "CHANGE", key, content)
        assert (answer["@type"], answer["resultCode"], answer["success"]) == ("DistroDataResponse", 500, False)
        assert text in answer["message"]
        clients = pair.ours.client.call("GET", "/v2/ns/client/list").json()["data"]
        assert key not in clients

    run_peer(pair, main)


def test_verify_query_and_snapshot(pair: Pair) -> None:
    async def main(_peer: NacosPeer, link: SdkClient) -> None:
        first = await distro(link, "SNAPSHOT")
        assert first["content"] == {"clientSyncDataList": []}
        assert first["distroData"]["distroKey"]["resourceKey"] == "SNAPSHOT"
        data = sync_data(ID, 5, {"asked": publish_info("10.9.3.1", zone="b")})
        await distro(link, "CHANGE", ID, data)
        verdicts = [
            (await distro(link, "VERIFY", ID, {"clientId": client_id, "revision": revision}))["resultCode"]
            for client_id, revision in ((ID, 5), (ID, 0), (ID, 6), ("1_1.1.1.1_1", 5))
        ]
        assert verdicts == [200, 200, 500, 500]
        [info] = (await distro(link, "QUERY", ID))["content"]["instancePublishInfos"]
        assert (info["ip"], info["extendDatum"]["zone"], info["metadataId"]) == ("10.9.3.1", "b", "10.9.3.1:80:DEFAULT")
        unknown = await distro(link, "QUERY", "1_1.1.1.1_1")
        assert (unknown["resultCode"], "distroData" in unknown) == (200, False)
        [shown] = (await distro(link, "SNAPSHOT"))["content"]["clientSyncDataList"]
        assert (shown["clientId"], shown["serviceNames"]) == (ID, ["asked"])
        assert (await distro(link, "CHANGE", ID, data, resource_type="other"))["resultCode"] == 500
        await distro(link, "DELETE", ID)

    run_peer(pair, main)


def test_a_copy_that_nobody_verifies_goes(pair: Pair) -> None:
    """The member has died: its copies live for the expiry, which is ten seconds here."""

    async def main(_peer: NacosPeer, link: SdkClient) -> None:
        other = "1700000000001_10.1.2.3_51235"
        for client_id, service in ((ID, "confirmed"), (other, "silent")):
            await distro(link, "CHANGE", client_id, sync_data(client_id, 1, {service: publish_info("10.9.4.1")}))
        while not pair.shows("silent"):
            await distro(link, "VERIFY", ID, {"clientId": ID, "revision": 1})
            await asyncio.sleep(0.1)
        assert pair.shows("confirmed", "10.9.4.1:80")
        await distro(link, "DELETE", ID)

    run_peer(pair, main)


def test_it_reports_and_is_told_who_we_are(pair: Pair) -> None:
    async def main(peer: NacosPeer, link: SdkClient) -> None:
        node = peer.reports[0]
        assert (node["address"], node["state"]) == (pair.ours.address, "UP")
        assert node["extendInfo"]["readyToUpgrade"] is True
        illegal = await link.call("MemberReportRequest", node={"ip": " ", "port": 1}, module="cluster")
        assert (illegal["@type"], illegal["errorCode"]) == ("ErrorResponse", 400)
        stranger = {"ip": "127.0.0.1", "port": 9, "address": "127.0.0.1:9"}
        answer = await link.call("MemberReportRequest", node=stranger, module="cluster")
        assert answer["node"]["address"] == pair.ours.address
        nodes = pair.ours.client.call("GET", "/v1/core/cluster/nodes").json()["data"]
        assert {one["address"] for one in nodes} == {pair.ours.address, peer.address}

    run_peer(pair, main)


def test_lists_are_ours_alone(pair: Pair) -> None:
    """It gets no datums over HTTP, and owns no service: nobody listens at its HTTP port."""

    async def main(peer: NacosPeer, _link: SdkClient) -> None:
        for number in range(10):
            assert pair.ours.client.register(f"list-{number}", "10.0.0.9", 80).status == 200
        await peer.wait(lambda: len(peer.reports) > 2)

    run_peer(pair, main)


def test_a_snapshot_is_asked_for_at_the_start(tmp_path: Path) -> None:
    """What another member tells of a third's clients stays only if that one confirms it."""
    # It must not serve without having asked, however long that takes.
    pair = Pair(tmp_path, **{"rollcall.distro.load.waitMs": "600000", "rollcall.distro.load.refusedMs": "60000"})
    other = "1700000000001_10.1.2.3_51235"

    async def main() -> None:
        async with pair.peer() as peer:
            peer.snapshot = [
                sync_data(client_id, 1, {service: publish_info("10.9.5.1")})
                for client_id, service in ((ID, "lives"), (other, "unconfirmed"))
            ]
            await asyncio.to_thread(pair.ours.start)
            await asyncio.to_thread(pair.ours.wait_ready)
            assert [operation for operation, _, _ in peer.told].count("SNAPSHOT") == 1
            assert pair.shows("lives", "10.9.5.1:80")
            async with peer.client() as link:
                await peer.introduce(link)
                while not pair.shows("unconfirmed"):
                    await distro(link, "VERIFY", ID, {"clientId": ID, "revision": 1})
                    await asyncio.sleep(0.1)
            assert pair.shows("lives", "10.9.5.1:80")
            assert not peer.of("VERIFY", ID), "a copy is not ours to verify"

    try:
        run_client(main)
    finally:
        pair.ours.end()
    assert "Traceback" not in pair.ours.log_text()


def test_the_port_of_sdks_takes_no_calls_of_members(tmp_path: Path) -> None:
    [port, other_port] = free_ports(2)
    member = Member(
        port, tmp_path / "one", {"nacos.member.list": f"127.0.0.1:{port},127.0.0.2:{other_port}", **SETTINGS}
    )

    async def main() -> None:
        async with SdkClient(port + 1_000) as sdk:
            await sdk.set_up(labels=CLUSTER_LABELS)
            answer = await distro(sdk, "SNAPSHOT")
            assert (answer["@type"], answer["errorCode"]) == ("ErrorResponse", 502)

    try:
        member.start()
        member.wait_ready()
        run_client(main)
    finally:
        member.end()

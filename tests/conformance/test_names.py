"""Names of services as running Nacos servers took them, registered at a node of ours over each API."""

import json
from collections.abc import Iterator, Mapping

import pytest

from tests.conformance.names import DIFFERENT, PAGE, WAYS, Recorded, is_taken, recorded, table
from tests.support.client import Client
from tests.support.processes import Member, free_ports
from tests.support.sdk_client import SdkClient, run_client

NAMES = recorded()
PATHS = {"v1": "/v1/ns/instance", "v2": "/v2/ns/instance", "v3": "/v3/client/ns/instance"}
OTHER_TEXTS = {*((name, "grpc") for name in ("", "@@", "a\tb", "a\nb")), ("@@", "v1 as 2.x"), ("@@", "v2")}
"""Where a server shows its own inside, or our text says more."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Mapping[str, str | None]]]:
    """Our answers, by way and name: the text of the refusal, or None for a name that was taken."""
    nodes = [
        Member(port, tmp_path_factory.mktemp("names") / str(port), {"nacos.standalone": "true", **more})
        for port, more in zip(free_ports(2), ({}, {"rollcall.names.v1": "2.x"}), strict=True)
    ]
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        node, lenient = nodes
        found = {way: {name: over_http(node.client, path, name) for name in NAMES} for way, path in PATHS.items()}
        found["v1 as 2.x"] = {name: over_http(lenient.client, PATHS["v1"], name) for name in NAMES}
        found["grpc"] = over_grpc(int(node.address.rpartition(":")[2]) + 1_000)
        yield found
    finally:
        for node in nodes:
            node.end()


def over_http(client: Client, path: str, name: str) -> str | None:
    answer = client.call("POST", path, serviceName=name, ip="10.0.0.1", port=80)
    text = answer.body.decode()
    if answer.status != 200:
        assert answer.status == 400
        return str(json.loads(text)["data"]) if text.startswith("{") else text.strip()
    return None


def over_grpc(port: int) -> Mapping[str, str | None]:
    found: dict[str, str | None] = {}

    async def main() -> None:
        async with SdkClient(port) as sdk:
            await sdk.set_up()
            names = {"namespace": "public", "groupName": "DEFAULT_GROUP"}
            instance = {"ip": "10.0.0.2", "port": 80}
            for name in NAMES:
                answer = await sdk.call(
                    "InstanceRequest", type="registerInstance", serviceName=name, instance=instance, **names
                )
                found[name] = None if answer["resultCode"] == 200 else answer["message"]

    run_client(main)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_the_same_names_are_taken_and_refused(answers: Recorded, way: str) -> None:
    for name, row in NAMES.items():
        taken = answers[way][name] is None
        assert taken == (is_taken(row, way) != ((name, way) in DIFFERENT)), f"{name!r}: {answers[way][name]}"


@pytest.mark.parametrize("way", WAYS)
def test_refusals_have_the_texts_of_nacos(answers: Recorded, way: str) -> None:
    for name, row in NAMES.items():
        if (ours := answers[way][name]) is not None and (name, way) not in (*OTHER_TEXTS, *DIFFERENT):
            assert {row[server] for server in WAYS[way].servers} == {ours}, repr(name)


def test_the_page_has_the_table() -> None:
    """If not: ``python -m tests.conformance.names``."""
    assert table() in PAGE.read_text(encoding="utf-8")

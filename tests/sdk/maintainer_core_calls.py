"""Calls of nacos-maintainer-client of Java about clients, members, connections and namespaces; and what is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from tests.sdk.maintainer_calls import GROUP, Operator, named, places, row
from tests.support.processes import eventually
from tests.support.sdk_client import SdkClient

GRPC_APART = 1000
"""The distance from a member's HTTP port to its port for gRPC."""
PART_METHODS: Mapping[str, tuple[str, int]] = {
    "config": ("ConfigMaintainerService", 40),
    "mcp": ("McpMaintainerService", 30),
    "a2a": ("A2aMaintainerService", 23),
    "skill": ("SkillMaintainerService", 24),
    "agentSpec": ("AgentSpecMaintainerService", 22),
    "prompt": ("PromptMaintainerService", 17),
    "pipeline": ("PipelineMaintainerService", 2),
}
"""The interfaces of the library whose calls are refused, with their numbers of methods beside those of the core."""
REFUSED: Mapping[str, tuple[int, str]] = {
    "getPluginAvailability": (1, "plug-ins"),
    "getPluginDetail": (1, "plug-ins"),
    "listPlugins": (1, "plug-ins"),
    "raftOps": (1, "there is no Raft here"),
    "updatePluginConfig": (2, "plug-ins"),
    "updatePluginStatus": (2, "plug-ins"),
}
"""The methods whose calls are refused: how many overloads each has, and words of the refusal."""
UNREADABLE: Mapping[str, int] = {"getClientList": 1, "getHealthCheckers": 1, "listSelectorTypes": 1}
"""The methods that fail in the library: they read the answer without its envelope, which every Nacos 3 sends."""

NACOS_3: Mapping[str, str] = {
    "createNamespace": "without an id: 400",
    "getPluginAvailability": "404",
    "getPluginDetail": "404",
    "listPlugins": "404",
    "raftOps": "400: reads JSON, and not a form",
    "readiness": "404",
    "updateInstanceHealthStatus": "400: takes the instance for an ephemeral one",
    "updateLogLevel": "400: reads JSON, and not a form",
    "updatePluginConfig": "404",
    "updatePluginStatus": "404",
}
"""The methods that a single Nacos 3.0.3 refuses, as seen with the same calls; it answers all others here as well."""


@asynccontextmanager
async def connected(operator: Operator, service: str) -> AsyncIterator[tuple[str, SdkClient]]:
    """A client over gRPC at the first member that publishes an instance and is subscribed; yields its id."""
    reader = operator.readers[0]
    host, _, port = reader.address.rpartition(":")
    token = {"accessToken": reader.token}
    async with SdkClient(int(port) + GRPC_APART, host=host) as client:
        client_id = await client.set_up("10.9.9.9", {"source": "sdk", "module": "naming", "AppName": "shop"})
        whole = {"ip": "10.9.9.9", "port": 80}
        names = {"namespace": "public", "serviceName": service, "groupName": GROUP}
        publish = {"type": "registerInstance", **names, "instance": whole}
        for kind, body in (
            ("InstanceRequest", publish),
            ("SubscribeServiceRequest", {**names, "subscribe": True}),
        ):
            answer = await client.send(kind, orjson.dumps(body), token)
            assert answer.json()["resultCode"] == 200, answer.json()
        yield client_id, client


def beside_client(
    run: Callable[[Operator, str, SdkClient], Coroutine[Any, Any, None]], service: str
) -> Callable[[Operator], None]:
    """Return a function that makes calls while a client over gRPC is connected."""

    def whole(operator: Operator) -> None:
        async def inside() -> None:
            async with connected(operator, service) as (client_id, client):
                await run(operator, client_id, client)

        asyncio.run(inside())

    return whole


async def asked(operator: Operator, signature: str, *arguments: Any) -> Any:
    """Call a method while the client over gRPC goes on."""
    return await asyncio.to_thread(operator.call, signature, *arguments)


# --- clients ---------------------------------------------------------------------------------------


async def _subscribers(operator: Operator, _: str, client: SdkClient) -> None:
    for types, space, names in places("heard"):
        for more, values in (("", ()), (",int,int", (1, 10)), (",int,int,boolean", (1, 10, True))):
            if more and types != "String,String,String":
                continue
            found = await asked(operator, f"getSubscribers({types}{more})", *names, *values)
            assert [one["ip"] for one in found["pageItems"]] == ([] if space != "public" else ["10.9.9.9"])
    found = await asked(operator, "getSubscribers(Service,int,int,boolean)", named("heard"), 1, 10, False)
    [one] = found["pageItems"]
    assert (one["appName"], one["serviceName"], one["groupName"]) == ("shop", "heard", GROUP)


async def _client_detail(operator: Operator, client_id: str, _: SdkClient) -> None:
    found = await asked(operator, "getClientDetail(String)", client_id)
    assert (found["clientId"], found["clientType"], found["appName"]) == (client_id, "connection", "shop")
    assert found["ephemeral"] is True


async def _published_services(operator: Operator, client_id: str, _: SdkClient) -> None:
    [found] = await asked(operator, "getPublishedServiceList(String)", client_id)
    assert (found["serviceName"], found["publisherInfo"]["ip"]) == ("publishes", "10.9.9.9")


async def _subscribed_services(operator: Operator, client_id: str, _: SdkClient) -> None:
    [found] = await asked(operator, "getSubscribeServiceList(String)", client_id)
    assert (found["serviceName"], found["subscriberInfo"]["address"]) == ("subscribes", "10.9.9.9")


async def _publishers(operator: Operator, client_id: str, _: SdkClient) -> None:
    signature = "getPublishedClientList(String,String,String,String,Integer)"
    [found] = await asked(operator, signature, "public", GROUP, "publishers", "10.9.9.9", 80)
    assert (found["clientId"], found["ip"], found["port"]) == (client_id, "10.9.9.9", 80)
    assert await asked(operator, signature, "public", GROUP, "publishers", "10.9.9.8", 80) == []


async def _subscribers_of(operator: Operator, client_id: str, _: SdkClient) -> None:
    signature = "getSubscribeClientList(String,String,String,String,Integer)"
    [found] = await asked(operator, signature, "public", GROUP, "hearers", "10.9.9.9", 0)
    assert (found["clientId"], found["address"], found["appName"]) == (client_id, "10.9.9.9", "shop")


async def _current_clients(operator: Operator, client_id: str, _: SdkClient) -> None:
    found = await asked(operator, "getCurrentClients()")
    assert found[client_id]["metaInfo"]["clientIp"] == "10.9.9.9"
    assert found[client_id]["metaInfo"]["appName"] == "shop"


async def _reload_single(operator: Operator, client_id: str, client: SdkClient) -> None:
    host, _, port = operator.readers[1].address.rpartition(":")
    assert await asked(operator, "reloadSingleClient(String,String)", client_id, f"{host}:{port}") is None
    [message] = await client.wait(lambda: client.of_type("ConnectResetRequest"))
    assert (message.json()["serverIp"], message.json()["serverPort"]) == (host, port)


async def _reload_count(operator: Operator, _: str, client: SdkClient) -> None:
    assert await asked(operator, "reloadConnectionCount(Integer,String)", 0, "") is None
    assert await client.wait(lambda: client.of_type("ConnectResetRequest"))


async def _smart_reload(operator: Operator, _: str, client: SdkClient) -> None:
    assert await asked(operator, "smartReloadCluster(String)", "0.1") is None


async def _load(operator: Operator, _: str, client: SdkClient) -> None:
    found = await asked(operator, "getClusterLoaderMetrics()")
    members = len(operator.readers)
    assert (found["memberCount"], found["metricsCount"], found["completed"]) == (members, members, True)
    assert sum(one["sdkConCount"] for one in found["detail"]) >= 1
    assert found["total"] >= 1


for _name, _overloads, _run in (
    ("getSubscribers", 6, beside_client(_subscribers, "heard")),
    ("getClientDetail", 1, beside_client(_client_detail, "detailed")),
    ("getPublishedServiceList", 1, beside_client(_published_services, "publishes")),
    ("getSubscribeServiceList", 1, beside_client(_subscribed_services, "subscribes")),
    ("getPublishedClientList", 1, beside_client(_publishers, "publishers")),
    ("getSubscribeClientList", 1, beside_client(_subscribers_of, "hearers")),
    ("getCurrentClients", 1, beside_client(_current_clients, "connected")),
    ("reloadSingleClient", 1, beside_client(_reload_single, "reset")),
    ("reloadConnectionCount", 1, beside_client(_reload_count, "reset-all")),
    ("smartReloadCluster", 1, beside_client(_smart_reload, "balanced")),
    ("getClusterLoaderMetrics", 1, beside_client(_load, "loaded")),
):
    row(_name, _overloads)(_run)


# --- members ---------------------------------------------------------------------------------------


@row("getServerState")
def get_server_state(operator: Operator) -> None:
    found = operator.call("getServerState()")
    assert (found["startup_mode"], found["function_mode"], found["auth_enabled"]) == ("cluster", "naming", "true")


@row("liveness")
def liveness(operator: Operator) -> None:
    assert operator.call("liveness()") is True


@row("readiness")
def readiness(operator: Operator) -> None:
    assert operator.call("readiness()") is True


@row("getIdGenerators")
def get_id_generators(operator: Operator) -> None:
    assert operator.call("getIdGenerators()") == []


@row("updateLogLevel")
def update_log_level(operator: Operator) -> None:
    assert operator.call("updateLogLevel(String,String)", "naming-push", "INFO") is None


@row("setLogLevel")
def set_log_level(operator: Operator) -> None:
    assert operator.call("setLogLevel(String,String)", "naming-push", "INFO") == "ok"


@row("getMetrics")
def get_metrics(operator: Operator) -> None:
    operator.register("counted", "10.9.0.1")
    found = operator.call("getMetrics(boolean)", False)
    assert found["status"] == "UP"
    assert found["serviceCount"] > 0
    assert found["instanceCount"] > 0
    assert operator.call("getMetrics(boolean)", True)["status"] == "UP"


@row("listClusterNodes")
def list_cluster_nodes(operator: Operator) -> None:
    addresses = sorted(reader.address for reader in operator.readers)
    assert sorted(one["address"] for one in operator.call("listClusterNodes(String,String)", "", "")) == addresses
    [one] = operator.call("listClusterNodes(String,String)", addresses[0], "UP")
    assert (one["address"], one["state"]) == (addresses[0], "UP")
    assert operator.call("listClusterNodes(String,String)", "", "DOWN") == []


@row("updateLookupMode")
def update_lookup_mode(operator: Operator) -> None:
    assert operator.call("updateLookupMode(String)", "file") is True
    assert ": 400 " in operator.refusal("updateLookupMode(String)", "sample")


# --- namespaces ------------------------------------------------------------------------------------


def spaces(operator: Operator) -> dict[str, Any]:
    return {one["namespace"]: one for one in operator.call("getNamespaceList()")}


@row("getNamespaceList")
def get_namespace_list(operator: Operator) -> None:
    assert spaces(operator)["public"]["namespaceShowName"] == "public"


@row("createNamespace", 2)
def create_namespace(operator: Operator) -> None:
    assert operator.call("createNamespace(String,String,String)", "made", "Made", "of a test") is True
    eventually(lambda: spaces(operator).get("made", {}).get("namespaceDesc") == "of a test")
    assert operator.call("createNamespace(String,String)", "Made at random", "of a test") is True
    eventually(lambda: "Made at random" in {one["namespaceShowName"] for one in spaces(operator).values()})
    again = operator.refusal("createNamespace(String,String,String)", "made", "Made", "of a test")
    assert "already exist" in again


@row("getNamespace")
def get_namespace(operator: Operator) -> None:
    assert operator.call("createNamespace(String,String,String)", "asked", "Asked", "") is True
    eventually(lambda: "asked" in spaces(operator))
    assert operator.call("getNamespace(String)", "asked")["namespaceShowName"] == "Asked"
    assert "404" in operator.refusal("getNamespace(String)", "asked-not")


@row("updateNamespace")
def update_namespace(operator: Operator) -> None:
    assert operator.call("createNamespace(String,String,String)", "renamed", "Before", "") is True
    eventually(lambda: "renamed" in spaces(operator))
    assert operator.call("updateNamespace(String,String,String)", "renamed", "After", "more") is True
    eventually(lambda: spaces(operator)["renamed"]["namespaceShowName"] == "After")


@row("deleteNamespace")
def delete_namespace(operator: Operator) -> None:
    assert operator.call("createNamespace(String,String,String)", "deleted", "Deleted", "") is True
    eventually(lambda: "deleted" in spaces(operator))
    assert operator.call("deleteNamespace(String)", "deleted") is True
    eventually(lambda: "deleted" not in spaces(operator))


@row("checkNamespaceIdExist")
def check_namespace_id_exist(operator: Operator) -> None:
    assert operator.call("createNamespace(String,String,String)", "exists", "Exists", "") is True
    eventually(lambda: operator.call("checkNamespaceIdExist(String)", "exists") is True)
    assert operator.call("checkNamespaceIdExist(String)", "exists-not") is False

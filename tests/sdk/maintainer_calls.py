"""Calls of nacos-maintainer-client of Java: each overload of each method that operators have, and its effect.

A function here calls one method in all its overloads, and checks the answer and the effect at each member.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sdk.program import Program, SdkError
from tests.support.auth import UserClient
from tests.support.processes import eventually

GROUP, SPACE, PORT, CLUSTER = "DEFAULT_GROUP", "shop", 8080, "DEFAULT"
Fields = dict[str, Any]
Place = tuple[str, str, tuple[str, ...]]
"""The types of an overload's first arguments, the namespace that they name, and the arguments themselves."""


@dataclass(slots=True)
class Operator:
    """A client of an operator, and clients of all members that show the effect of its calls."""

    program: Program
    readers: Sequence[UserClient]
    made: set[str] = field(default_factory=set)
    """The signatures of the methods that were called."""

    def call(self, signature: str, *arguments: Any) -> Any:
        """Call a method; an argument is JSON.

        Raises:
            SdkError: the library reported a failure.
        """
        self.made.add(signature)
        return self.program.call(signature, "operator", arguments=list(arguments))

    def refusal(self, signature: str, *arguments: Any) -> str:
        """Return the text of the failure that a call ends with."""
        try:
            answer = self.call(signature, *arguments)
        except SdkError as error:
            return str(error)
        raise AssertionError(f"{signature} was not refused but answered {answer}")

    def ask(self, method: str, path: str, **parameters: str | int) -> Any:
        """Return the data of an answer of HTTP v3, which has to be a success."""
        answer = self.readers[0].ask(method, path, **parameters)
        assert answer.status == 200, answer
        return answer.json()["data"]

    def hosts(self, service: str, space: str = "public") -> list[dict[str, Fields]]:
        """Return the instances of a service at each member, by address and port."""
        found = []
        for reader in self.readers:
            asked = {"serviceName": service, "namespaceId": space}
            answer = reader.ask("GET", "/v3/client/ns/instance/list", **asked)
            assert answer.status == 200, answer
            found.append({f"{one['ip']}:{one['port']}": one for one in answer.json()["data"]})
        return found

    def until_listed(self, service: str, space: str, *ips: str) -> None:
        """Return when each member lists these instances, and no others."""
        wanted = {f"{ip}:{PORT}" for ip in ips}
        eventually(lambda: all(one.keys() == wanted for one in self.hosts(service, space)))

    def until_shown(self, service: str, space: str, ip: str, **values: Any) -> None:
        """Return when each member lists an instance with these values."""

        def is_shown() -> bool:
            found = [one.get(f"{ip}:{PORT}", {}) for one in self.hosts(service, space)]
            return all(one.get(name) == value for one in found for name, value in values.items())

        eventually(is_shown)

    def register(self, service: str, *ips: str, space: str = "public", ephemeral: bool = False) -> None:
        """Register instances by one of the overloads, and return when all members list them."""
        for ip in ips:
            whole = instance(ip, ephemeral=ephemeral)
            assert self.call("registerInstance(String,String,String,Instance)", space, GROUP, service, whole) == "ok"
        self.until_listed(service, space, *ips)

    def create(self, *services: str, space: str = "public") -> None:
        """Create services, and return when all members know them."""
        for service in services:
            assert self.call("createService(String,String,String)", space, GROUP, service) == "ok"
            eventually(lambda service=service: self.statuses(service, space) == {200})

    def statuses(self, service: str, space: str = "public") -> set[int]:
        """Return the statuses of the members' answers about a service: 200 of one that knows it."""
        asked = {"serviceName": service, "namespaceId": space}
        return {one.ask("GET", "/v3/admin/ns/service", **asked).status for one in self.readers}


@dataclass(frozen=True, slots=True)
class Row:
    """One method: how many overloads it has, and the function that calls them all."""

    overloads: int
    run: Callable[[Operator], None]


ROWS: dict[str, Row] = {}
"""The methods that a member answers, by name."""


def row(name: str, overloads: int = 1) -> Callable[[Callable[[Operator], None]], Callable[[Operator], None]]:
    """Name the method that a function calls, and how many overloads of it there are."""

    def add(run: Callable[[Operator], None]) -> Callable[[Operator], None]:
        ROWS[name] = Row(overloads, run)
        return run

    return add


def places(service: str) -> Iterator[Place]:
    """Yield the ways in which overloads name a service: alone, with its group, and with its namespace too."""
    yield "String", "public", (service,)
    yield "String,String", "public", (GROUP, service)
    yield "String,String,String", SPACE, (SPACE, GROUP, service)


def instance(ip: str, *, ephemeral: bool = False, **more: Any) -> Fields:
    return {"ip": ip, "port": PORT, "ephemeral": ephemeral, **more}


def named(service: str, space: str = "public", **more: Any) -> Fields:
    """Return a Service of the library."""
    return {"namespaceId": space, "groupName": GROUP, "name": service, "ephemeral": False, **more}


# --- instances -------------------------------------------------------------------------------------


@row("registerInstance", 10)
def register_instance(operator: Operator) -> None:
    listed: dict[str, list[str]] = {"public": [], SPACE: []}
    for types, space, names in places("register"):
        for number, (more, values) in enumerate(
            (
                ("String,int", lambda ip: (ip, PORT)),
                ("String,int,String", lambda ip: (ip, PORT, CLUSTER)),
                ("Instance", lambda ip: (instance(ip, weight=2.5, metadata={"zone": "ü"}),)),
            )
        ):
            ip = f"10.9.{len(names)}.{number + 1}"
            assert operator.call(f"registerInstance({types},{more})", *names, *values(ip)) == "ok"
            listed[space].append(ip)
            operator.until_listed("register", space, *listed[space])
        operator.until_shown("register", space, ip, weight=2.5, metadata={"zone": "ü"}, ephemeral=False)
    whole = instance("10.9.4.1", ephemeral=True)
    assert operator.call("registerInstance(Service,Instance)", named("register-beats", ephemeral=True), whole) == "ok"
    operator.until_shown("register-beats", "public", "10.9.4.1", ephemeral=True, healthy=True)


@row("deregisterInstance", 10)
def deregister_instance(operator: Operator) -> None:
    for types, space, names in places("deregister"):
        for more, values in (
            ("String,int", ("10.9.0.1", PORT)),
            ("String,int,String", ("10.9.0.1", PORT, CLUSTER)),
            ("Instance", (instance("10.9.0.1"),)),
        ):
            operator.register("deregister", "10.9.0.1", space=space)
            assert operator.call(f"deregisterInstance({types},{more})", *names, *values) == "ok"
            operator.until_listed("deregister", space)
    operator.register("deregister-beats", "10.9.0.2", ephemeral=True)
    leaving = instance("10.9.0.2", ephemeral=True)
    service = named("deregister-beats", ephemeral=True)
    assert operator.call("deregisterInstance(Service,Instance)", service, leaving) == "ok"
    operator.until_listed("deregister-beats", "public")


@row("updateInstance", 4)
def update_instance(operator: Operator) -> None:
    operator.register("update", "10.9.0.1")
    operator.register("update", "10.9.0.1", space=SPACE)
    for types, space, names in places("update"):
        weight = 2.0 + len(names)
        changed = instance("10.9.0.1", weight=weight, metadata={"weight": str(weight)})
        assert operator.call(f"updateInstance({types},Instance)", *names, changed) == "ok"
        operator.until_shown("update", space, "10.9.0.1", weight=weight, metadata={"weight": str(weight)})
    changed = instance("10.9.0.1", enabled=False)
    assert operator.call("updateInstance(Service,Instance)", named("update"), changed) == "ok"
    operator.until_listed("update", "public")  # disabled: hidden from clients


@row("partialUpdateInstance")
def partial_update_instance(operator: Operator) -> None:
    operator.register("partial", "10.9.0.1")
    changed = instance("10.9.0.1", weight=7.0, metadata={"by": "operator"})
    assert operator.call("partialUpdateInstance(Service,Instance)", named("partial"), changed) == "ok"
    operator.until_shown("partial", "public", "10.9.0.1", weight=7.0, metadata={"by": "operator"}, enabled=True)


def batch(operator: Operator, method: str, ips: Sequence[str], metadata: Fields) -> list[str]:
    answer = operator.call(f"{method}(Service,List,Map)", named("batch"), [instance(ip) for ip in ips], metadata)
    return sorted(one.split("#")[0].split(":")[0] for one in answer["updated"])


@row("batchUpdateInstanceMetadata")
def batch_update_instance_metadata(operator: Operator) -> None:
    operator.register("batch", "10.9.0.1", "10.9.0.2", "10.9.0.3")
    two = ["10.9.0.1", "10.9.0.2"]
    assert batch(operator, "batchUpdateInstanceMetadata", two, {"zone": "a", "by": "batch"}) == two
    for ip in two:
        operator.until_shown("batch", "public", ip, metadata={"zone": "a", "by": "batch"})
    operator.until_shown("batch", "public", "10.9.0.3", metadata={})


@row("batchDeleteInstanceMetadata")
def batch_delete_instance_metadata(operator: Operator) -> None:
    batch_update_instance_metadata(operator)
    assert batch(operator, "batchDeleteInstanceMetadata", ["10.9.0.1"], {"by": "batch"}) == ["10.9.0.1"]
    operator.until_shown("batch", "public", "10.9.0.1", metadata={"zone": "a"})
    operator.until_shown("batch", "public", "10.9.0.2", metadata={"zone": "a", "by": "batch"})


@row("listInstances", 4)
def list_instances(operator: Operator) -> None:
    operator.register("list", "10.9.0.1")
    operator.register("list", "10.9.0.2", space=SPACE)
    for types, space, names in places("list"):
        found = operator.call(f"listInstances({types},String,boolean)", *names, CLUSTER, False)
        assert [one["ip"] for one in found] == ["10.9.0.2" if space == SPACE else "10.9.0.1"]
    [found] = operator.call("listInstances(Service,String,boolean)", named("list"), "", True)
    assert (found["clusterName"], found["port"], found["enabled"], found["ephemeral"]) == (CLUSTER, PORT, True, False)


@row("getInstanceDetail", 7)
def get_instance_detail(operator: Operator) -> None:
    operator.register("detail", "10.9.0.1")
    operator.register("detail", "10.9.0.1", space=SPACE)
    for types, _, names in places("detail"):
        for more, values in (("String,int", ()), ("String,int,String", (CLUSTER,))):
            found = operator.call(f"getInstanceDetail({types},{more})", *names, "10.9.0.1", PORT, *values)
            assert (found["ip"], found["port"], found["healthy"]) == ("10.9.0.1", PORT, True)
    asked = instance("10.9.0.1", clusterName=CLUSTER)
    assert operator.call("getInstanceDetail(Service,Instance)", named("detail"), asked)["ip"] == "10.9.0.1"
    missing = instance("10.9.0.9", clusterName=CLUSTER)
    assert "404" in operator.refusal("getInstanceDetail(Service,Instance)", named("detail"), missing)


# --- services --------------------------------------------------------------------------------------


@row("createService", 6)
def create_service(operator: Operator) -> None:
    for types, space, names in places("create"):
        name = f"create-{len(names)}"
        assert operator.call(f"createService({types})", *names[:-1], name) == "ok"
        eventually(lambda name=name, space=space: operator.statuses(name, space) == {200})
    assert operator.call("createService(String,String,String,boolean)", SPACE, GROUP, "create-4", True) == "ok"
    more = "createService(String,String,String,boolean,float)"
    assert operator.call(more, SPACE, GROUP, "create-5", False, 0.5) == "ok"
    whole = named("create-6", metadata={"team": "a"}, protectThreshold=0.25, selector={"type": "none"})
    assert operator.call("createService(Service)", whole) == "ok"
    assert operator.ask("GET", "/v3/admin/ns/service", serviceName="create-6")["metadata"] == {"team": "a"}
    assert "already exist" in operator.refusal("createService(Service)", whole)


@row("updateService", 5)
def update_service(operator: Operator) -> None:
    operator.create("change")
    operator.create("change", space=SPACE)
    selector = {"type": "none"}
    for types, space, names in places("change"):
        metadata = {"by": types}
        assert operator.call(f"updateService({types},Map,float,Selector)", *names, metadata, 0.5, selector) == "ok"
        found = operator.ask("GET", "/v3/admin/ns/service", serviceName="change", namespaceId=space)
        assert (found["metadata"], found["protectThreshold"]) == (metadata, 0.5)
    longest = "updateService(String,String,String,boolean,Map,float,Selector)"
    assert operator.call(longest, SPACE, GROUP, "change", False, {}, 0.75, selector) == "ok"
    found = operator.ask("GET", "/v3/admin/ns/service", serviceName="change", namespaceId=SPACE)
    assert (found["metadata"], found["protectThreshold"]) == ({}, 0.75)
    label = {"type": "label", "expression": "CONSUMER.label.zone = PROVIDER.label.zone"}
    assert operator.call("updateService(Service)", named("change", selector=label)) == "ok"
    assert operator.ask("GET", "/v3/admin/ns/service", serviceName="change")["selector"]["type"] == "label"


@row("removeService", 4)
def remove_service(operator: Operator) -> None:
    for types, space, names in places("remove"):
        operator.create("remove", space=space)
        assert operator.call(f"removeService({types})", *names) == "ok"
        eventually(lambda space=space: operator.statuses("remove", space) == {400})
    operator.create("remove")
    assert operator.call("removeService(Service)", named("remove")) == "ok"
    operator.register("remove-not", "10.9.0.1")
    assert "is not empty" in operator.refusal("removeService(String)", "remove-not")


@row("getServiceDetail", 4)
def get_service_detail(operator: Operator) -> None:
    operator.create("describe")
    operator.create("describe", space=SPACE)
    for types, space, names in places("describe"):
        found = operator.call(f"getServiceDetail({types})", *names)
        assert (found["namespaceId"], found["groupName"], found["serviceName"]) == (space, GROUP, "describe")
    found = operator.call("getServiceDetail(Service)", named("describe"))
    assert (found["ephemeral"], found["selector"]["type"], found["clusterMap"]) == (False, "none", {})
    refusal = operator.refusal("getServiceDetail(String)", "describe-not")
    assert "describe-not" in refusal.partition("last errMsg")[2]
    assert "not found" in refusal


@row("listServices", 3)
def list_services(operator: Operator) -> None:
    operator.create("list-empty", space=SPACE)
    operator.register("list-full", "10.9.0.1", space=SPACE)
    assert "list-full" in [one["name"] for one in operator.call("listServices(String)", SPACE)["pageItems"]]
    found = operator.call("listServices(String,String,String)", SPACE, "", "list-")
    assert [(one["name"], one["ipCount"], one["healthyInstanceCount"]) for one in found["pageItems"]] == [
        ("list-full", 1, 1)
    ]
    whole = "listServices(String,String,String,boolean,int,int)"
    page = operator.call(whole, SPACE, GROUP, "list-", False, 2, 1)
    assert (page["totalCount"], page["pageNumber"], page["pagesAvailable"]) == (2, 2, 2)
    assert [one["name"] for one in page["pageItems"]] == ["list-full"]


@row("listServicesWithDetail", 3)
def list_services_with_detail(operator: Operator) -> None:
    operator.register("whole", "10.9.0.1", space=SPACE)
    names = [one["serviceName"] for one in operator.call("listServicesWithDetail(String)", SPACE)["pageItems"]]
    assert "whole" in names
    for types, values in (("", ()), (",int,int", (1, 10))):
        signature = f"listServicesWithDetail(String,String,String{types})"
        [found] = operator.call(signature, SPACE, GROUP, "whole", *values)["pageItems"]
        [host] = found["clusterMap"][CLUSTER]["hosts"]
        assert (found["serviceName"], host["ip"], host["port"]) == ("whole", "10.9.0.1", PORT)


@row("updateCluster")
def update_cluster(operator: Operator) -> None:
    operator.create("checked")
    checker = {"type": "TCP"}
    cluster = {"clusterName": CLUSTER, "healthyCheckPort": 81, "useInstancePortForCheck": False, "metadata": {"a": "b"},
               "healthChecker": checker}  # fmt: skip
    assert operator.call("updateCluster(Service,ClusterInfo)", named("checked"), cluster) == "ok"
    found = operator.call("getServiceDetail(Service)", named("checked"))["clusterMap"][CLUSTER]
    assert (found["healthyCheckPort"], found["useInstancePortForCheck"], found["metadata"]) == (81, False, {"a": "b"})
    assert found["healthChecker"]["type"] == "TCP"


@row("updateInstanceHealthStatus")
def update_instance_health_status(operator: Operator) -> None:
    operator.register("unwell", "10.9.0.1", "10.9.0.2")
    cluster = {"clusterName": CLUSTER, "healthyCheckPort": 80, "useInstancePortForCheck": True, "metadata": {},
               "healthChecker": {"type": "NONE"}}  # fmt: skip
    assert operator.call("updateCluster(Service,ClusterInfo)", named("unwell"), cluster) == "ok"
    unwell = instance("10.9.0.1", healthy=False, clusterName=CLUSTER)
    assert operator.call("updateInstanceHealthStatus(Service,Instance)", named("unwell"), unwell) == "ok"
    operator.until_shown("unwell", "public", "10.9.0.1", healthy=False)
    operator.until_shown("unwell", "public", "10.9.0.2", healthy=True)

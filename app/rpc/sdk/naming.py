"""The naming requests of SDKs: their fields, their effect, and their answers."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import islice
from typing import Any, TypeVar

from app.auth.access_rules import READ, WRITE, Target, naming
from app.machine.limits.answer_budget import LARGE_ANSWER_BYTES
from app.metrics.audit_trail import Actor, acting_as
from app.naming.clients.client_model import ServiceKey
from app.naming.clients.client_subscriptions import CLUSTERS_CHARS_MAX
from app.naming.model.json_fields import Fields
from app.naming.model.keys import (
    CLUSTER_NAME,
    DEFAULT_CLUSTER,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    GROUP_SPLITTER,
    INT_MAX,
    METADATA_CHARS_MAX,
    NAME_CHARS_MAX,
    PORT_MAX,
    check_cluster_chars,
    compose_service_name,
    is_four_numbers,
    short_name_of,
)
from app.naming.model.model import WEIGHT_MAX
from app.naming.model.nacos_errors import InvalidParam, Unavailable
from app.naming.model.service_names import NameRule, check_service_name, is_usual_name
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.peers import payload as wire
from app.peers.payload import success
from app.ports.grpc_ports import RpcServices
from app.rpc.sdk.service_messages import InfoVariant, ServiceInfos
from app.rpc.sdk.subscriptions import GrpcSubscriptions
from app.rpc.server.connections import Connection
from app.rpc.server.grpc_messages import MESSAGE_BYTES_MAX
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute, KnownMessage

T = TypeVar("T")
REGISTER, DEREGISTER, BATCH = "registerInstance", "deregisterInstance", "batchRegisterInstance"
REGISTERED = wire.encode_json("InstanceResponse", success(type=REGISTER))
DEREGISTERED = wire.encode_json("InstanceResponse", success(type=DEREGISTER))
QUERY_ANSWER = "QueryServiceResponse"
QUERY_HEAD = b'{"resultCode":200,"errorCode":0,"success":true,"serviceInfo":'
SUBSCRIBE_ANSWER = "SubscribeServiceResponse"
SUBSCRIBE_HEAD = b'{"resultCode":200,"errorCode":0,"message":"success","success":true,"serviceInfo":'
INSTANCE_BYTES_MAX = 524_288
"""The longest request with one instance: its metadata may have 65,536 characters, each of them escaped."""
BATCH_BYTES_PER_VALUE = 6
"""SDKs send some 20 for each comma and bracket; short instances with short metadata have 10."""
AUDITED_MAX = 1_000
"""The most instances of a withdrawn publication that the audit log has."""
BATCH_STEP = 64
"""Instances of a batch that are read in one turn of the loop: under a millisecond's work."""
POOL_THREADS = 4
POOLED_MAX = 256
"""Calls that wait for a thread, or are worked on by one."""


class NamingHandlers:
    """One method for each type of request. Used on the loop's thread; work that may block goes to a pool."""

    def __init__(
        self,
        services: RpcServices,
        subscriptions: GrpcSubscriptions,
        infos: ServiceInfos,
        name_rule: NameRule = NameRule.NACOS_2,
    ) -> None:
        """``name_rule``: the names of services that requests may have."""
        self._services = services
        self._subscriptions = subscriptions
        self._infos = infos
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="rpc")
        self._pooled = 0
        self._name_rule = name_rule

    def routes(self) -> Mapping[str, GrpcRoute]:
        """The handlers by type of request."""
        return {
            "InstanceRequest": GrpcRoute(
                self.instance, "InstanceResponse", naming(WRITE), self.instance_again, INSTANCE_BYTES_MAX
            ),
            "BatchInstanceRequest": GrpcRoute(
                self.batch,
                "BatchInstanceResponse",
                naming(WRITE),
                bytes_max=MESSAGE_BYTES_MAX,
                bytes_per_value=BATCH_BYTES_PER_VALUE,
            ),
            "PersistentInstanceRequest": GrpcRoute(
                self.persistent, "InstanceResponse", naming(WRITE), bytes_max=INSTANCE_BYTES_MAX
            ),
            "ServiceQueryRequest": GrpcRoute(self.query, QUERY_ANSWER, naming(READ), self.query_again),
            "ServiceListRequest": GrpcRoute(self.list, "ServiceListResponse", naming(READ, Target.GROUP)),
            "SubscribeServiceRequest": GrpcRoute(self.subscribe, SUBSCRIBE_ANSWER, naming(READ)),
        }

    def stop(self) -> None:
        """Begin nothing more in the pool. What runs is waited for when the process ends."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the threads after ``stop``."""
        self._pool.shutdown()

    # --- instances -------------------------------------------------------------------------------

    async def instance(self, request: GrpcRequest) -> bytes:
        """Publish one instance of a service, or withdraw all that the connection published of it."""
        kind = request.fields.text("type")
        namespace, service = key_of(request.fields, self._name_rule)
        clients, client_id = self._services.clients.own, request.connection.id
        if kind == REGISTER:
            command = command_of(request, namespace, service, request.fields.inner("instance"))
            unchanged = clients.register(client_id, command)
            if unchanged is None:
                self._audit("register", request, (namespace, service), command)
            elif request.known is not None:
                request.known.memo = (client_id, (command.namespace, service), unchanged)
            return REGISTERED
        if kind == DEREGISTER:
            # Its instance is not looked at: some SDKs send half of one.
            former = clients.deregister(client_id, namespace, service)
            gone = list(islice(former.instances.values(), AUDITED_MAX)) if former else None
            self._audit("remove", request, (namespace, service), None, gone)
            return DEREGISTERED
        raise InvalidParam(f"Unsupported request type {kind}")

    def instance_again(self, connection: Connection, known: KnownMessage) -> bytes | None:
        """The answer to a registration that changes nothing, as the same message before changed nothing, or None."""
        if (memo := known.memo) is None:
            return None
        client_id, key, publication = memo
        if client_id != connection.id or not self._services.clients.table.publishes(client_id, key, publication):
            return None
        return REGISTERED

    async def batch(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Publish a list of instances, perhaps empty, in place of all that the connection published of a service."""
        kind = request.fields.text("type")
        if kind != BATCH:
            raise InvalidParam(f"Unsupported request type {kind}")
        namespace, service = key_of(request.fields, self._name_rule)
        commands = []
        for number, one in enumerate(request.fields.items("instances"), 1):
            commands.append(command_of(request, namespace, service, one))
            if number % BATCH_STEP == 0:
                await asyncio.sleep(0)
        if request.connection.address is not None:
            request.connection.address.owe(max(len(commands) - 1, 0))  # each counts as a write
        if self._services.clients.own.batch_register(request.connection.id, namespace, service, commands) is None:
            self._audit("register", request, (namespace, service), commands)
        return success(type=kind)

    def _audit(self, verb: str, request: GrpcRequest, key: ServiceKey, after: object, before: object = None) -> None:
        """Write a client's publications of a service, or their withdrawal."""
        audit = self._services.instruments.audit
        if audit.covers_instances:
            audit.write(
                f"instance.{verb}",
                f"{'/'.join(key)}/{request.connection.id}",
                before=before,
                after=after,
                actor=actor_of(request),
            )

    async def persistent(self, request: GrpcRequest) -> Mapping[str, Any]:
        """Write a durable instance, or remove it: as over HTTP, it outlives the connection."""
        kind = request.fields.text("type")
        namespace, service = key_of(request.fields, self._name_rule)
        writes, fields = self._services.persistent_writes, request.fields.inner("instance")
        if kind == REGISTER:
            command = command_of(request, namespace, service, fields, ephemeral=False)
            await self._in_pool(lambda: writes.execute(command, request.token), actor_of(request))
        elif kind == DEREGISTER:
            ip, port, cluster = _address_of(fields)
            gone = DeregisterInstance(service, ip, port, namespace, cluster, ephemeral=False)
            await self._in_pool(lambda: writes.execute(gone, request.token), actor_of(request))
        else:
            raise InvalidParam(f"Unsupported request type {kind}")
        return success(type=kind)

    # --- services --------------------------------------------------------------------------------

    async def query(self, request: GrpcRequest) -> bytes:
        """Answer with a service's instances; an unknown one gives an empty list."""
        fields = request.fields
        variant = InfoVariant(fields.text("cluster", chars_max=CLUSTERS_CHARS_MAX), fields.flag("healthyOnly", False))
        key = key_of(fields, self._name_rule)
        if request.known is not None:
            request.known.memo = (key, variant)
        info = await self._infos.get(key, variant)
        return self._infos.answer(info, QUERY_ANSWER, QUERY_HEAD, variant.clusters)

    def query_again(self, _connection: Connection, known: KnownMessage) -> bytes | None:
        """The answer to a query of a service whose present state is rendered, or None."""
        if known.memo is None or (info := self._infos.kept(*known.memo)) is None or info.size > LARGE_ANSWER_BYTES:
            return None
        return wire.encode(QUERY_ANSWER, QUERY_HEAD + info.json(self._infos.now_ms(), known.memo[1].clusters) + b"}")

    async def subscribe(self, request: GrpcRequest) -> bytes:
        """Subscribe the connection to a service, or unsubscribe it; answer with the service's instances."""
        fields, connection = request.fields, request.connection
        key, clusters = key_of(fields, self._name_rule), fields.text("clusters", chars_max=CLUSTERS_CHARS_MAX)
        if fields.flag("subscribe", True):
            # Before the service is read: no later change is missed.
            self._services.clients.subscriptions.subscribe(connection.id, *key, clusters)
            if not self._subscriptions.subscribe(connection.id, key, clusters):
                self._services.clients.subscriptions.unsubscribe(connection.id, *key)
                raise Unavailable("the client is subscribed to too many services")
        else:
            self._services.clients.subscriptions.unsubscribe(connection.id, *key)
            self._subscriptions.unsubscribe(connection.id, key)
        info = await self._infos.get(key, InfoVariant(clusters))
        return self._infos.answer(info, SUBSCRIBE_ANSWER, SUBSCRIBE_HEAD, clusters)

    async def list(self, request: GrpcRequest) -> Mapping[str, Any]:
        """A page of the sorted service names of a group; the first page is 1, and lower numbers mean it too."""
        fields = request.fields
        namespace, group = fields.text("namespace", DEFAULT_NAMESPACE), fields.text("groupName", DEFAULT_GROUP)
        page = max(fields.whole("pageNo", 1, -INT_MAX, INT_MAX), 1)
        asked = max(fields.whole("pageSize", 10, -INT_MAX, INT_MAX), 0)
        size = self._services.addresses.stats.cut_page(asked, self._services.settings.limits.page_size)
        names = await self._in_pool(lambda: self._services.naming.list_services(namespace, group))
        chosen = names[(page - 1) * size : page * size]
        return success(count=len(names), serviceNames=[short_name_of(name) for name in chosen])

    async def _in_pool(self, work: Callable[[], T], actor: Actor | None = None) -> T:
        def run() -> T:
            with acting_as(actor) if actor else nullcontext():
                return work()

        if self._pooled >= POOLED_MAX:
            raise Unavailable("too many requests are under way, please try another server")
        self._pooled += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, run)
        finally:
            self._pooled -= 1


def actor_of(request: GrpcRequest) -> Actor:
    """Return the actor of a request. Its address is the connection's: a client's setup could state any other."""
    return Actor(request.connection.remote_ip, agent=request.connection.agent)


def key_of(fields: Fields, rule: NameRule) -> ServiceKey:
    """Return namespace and full name of the service that a request names.

    Raises:
        InvalidParam: the name is missing or not allowed, or a text has another type.
    """
    group, service = fields.text("groupName", DEFAULT_GROUP), fields.required("serviceName")
    # Since 2.3, Nacos refuses a name with a separate group.
    is_checked = rule is NameRule.NACOS_2
    name = f"{group}{GROUP_SPLITTER}{service}" if is_checked else compose_service_name(service, group)
    if not is_usual_name(name):
        check_service_name(name, rule)
    return fields.text("namespace", DEFAULT_NAMESPACE), name


def command_of(
    request: GrpcRequest, namespace: str, service: str, fields: Fields, *, ephemeral: bool = True
) -> RegisterInstance:
    """The registration of an instance that a request brings.

    Raises:
        InvalidParam: a field is missing or has another type; the text names it.
    """
    app = request.connection.app
    app = app if app != "-" else "DEFAULT"
    if (values := _plain_values(fields.values)) is not None:
        ip, port, cluster, weight, healthy, enabled, metadata = values
    else:
        ip, port, cluster = _address_of(fields)
        weight, metadata = fields.number("weight", 1.0), fields.texts("metadata")
        healthy, enabled = fields.flag("healthy", True), fields.flag("enabled", True)
    return RegisterInstance(
        service, ip, port, namespace, cluster, weight, healthy, enabled, ephemeral, metadata=metadata, app=app
    )


def _plain_values(values: Mapping[str, Any]) -> tuple[str, int, str, float, bool, bool, dict[str, str]] | None:
    """Return the fields of an instance if all are as SDKs send them, which takes a third of the time; else None."""
    ip, port, cluster, weight = values.get("ip"), values.get("port"), values.get("clusterName"), values.get("weight")
    healthy, enabled, metadata = values.get("healthy"), values.get("enabled"), values.get("metadata")
    if (
        type(ip) is str
        and is_four_numbers(ip)
        and type(port) is int
        and 0 <= port <= PORT_MAX
        and type(cluster) is str
        and len(cluster) <= NAME_CHARS_MAX
        and CLUSTER_NAME.fullmatch(cluster)
        and (type(weight) is float or type(weight) is int)
        and 0 <= weight <= WEIGHT_MAX
        and type(healthy) is bool
        and type(enabled) is bool
        and type(metadata) is dict
    ):
        with suppress(TypeError):  # a value that is no text
            if len("".join([*metadata, *metadata.values()])) <= METADATA_CHARS_MAX:
                return ip, port, cluster, float(weight), healthy, enabled, metadata
    return None


def _address_of(fields: Fields) -> tuple[str, int, str]:
    cluster = fields.text("clusterName", DEFAULT_CLUSTER)
    check_cluster_chars(cluster)
    return fields.required("ip"), fields.whole("port", 0, 0, PORT_MAX), cluster

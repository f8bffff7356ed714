"""Health: how a cluster's instances are checked, instances' health set by hand, and this node's own health."""

from app.auth.access_rules import LOGGED_IN, WRITE, naming
from app.http.api.answers import durable_elsewhere, json_reply
from app.http.api.call import OK, Answer, Call, Services, route
from app.http.input.schemas import ClusterConfigSchema, ClusterNameSchema, HealthSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import SERVER_HEALTH
from app.http.shapes.service_shapes import CHECKERS
from app.naming.health.check_headers import check_request
from app.naming.model.flags import lenient_bool
from app.naming.model.meta import DEFAULT_CLUSTER_CONFIG, ClusterConfig, HealthChecker, health_checker
from app.naming.model.model import ServiceView
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.record_keys import persistent_key, service_meta_key

_CLUSTER, _CONFIG, _HEALTH = ClusterNameSchema(), ClusterConfigSchema(), HealthSchema()


@route(
    "PUT", "/v1/ns/cluster", access=naming(WRITE), described=Described(takes=(ClusterNameSchema, ClusterConfigSchema))
)
def update_cluster(call: Call, services: Services) -> Answer:
    """Set how a cluster's persistent instances are checked, and its metadata; a missing cluster is created.

    A MYSQL checker is stored and shown, as clients expect, but without its password: it checks nothing.
    """
    names = load_parameters(_CLUSTER, call.parameters)
    namespace, service, cluster = names["namespace"], names["service"], names["cluster"]
    if other := durable_elsewhere(call, services, service_meta_key(namespace, service)):
        return other
    if services.naming.service_view(namespace, service) is None:
        raise InvalidParam(f"service not found:{service}")
    config = load_parameters(_CONFIG, call.parameters)
    checker = health_checker(config["checker"])
    check_request(checker.path, checker.headers)
    services.durable.update_cluster(
        namespace,
        service,
        cluster,
        ClusterConfig(checker, config["check_port"], config["use_instance_port"], config["metadata"]),
    )
    return OK


@route(
    "PUT", "/v1/ns/health", "/v1/ns/health/instance", access=naming(WRITE), described=Described(takes=(HealthSchema,))
)
def set_health(call: Call, services: Services) -> Answer:
    """Set an instance's health in a cluster without a checker; an unknown instance is no error."""
    values = load_parameters(_HEALTH, call.parameters)
    namespace, service, cluster = values["namespace"], values["service"], values["cluster"]
    word = values["healthy"] or values["valid"]
    if not word:
        raise InvalidParam("Param 'healthy' is required.")
    found = services.naming.find(namespace, service, cluster, values["ip"], values["port"])
    if found is None or found.ephemeral:
        other: Answer | None = services.writes.elsewhere(service, call)
    else:
        other = durable_elsewhere(call, services, persistent_key(namespace, service, found.key))
    if other:
        return other
    if _checker_of(services.naming.service_view(namespace, service), service, cluster).kind != "NONE":
        raise InvalidParam(f"health check is still working, service: {service}")
    if found is not None:
        setter = services.naming.set_health if found.ephemeral else services.durable.set_health
        setter(namespace, service, found.key, lenient_bool(word))
    return OK


def _checker_of(view: ServiceView | None, service: str, cluster: str) -> HealthChecker:
    """The health checker of a cluster.

    Raises:
        InvalidParam: there is no such service, or no such cluster in it.
    """
    if view is None:
        raise InvalidParam(f"service not found: {service}")
    if cluster not in view.clusters:
        raise InvalidParam(f"cluster not found: {cluster} of service {service}")
    return view.meta.clusters.get(cluster, DEFAULT_CLUSTER_CONFIG).checker


@route("GET", "/v1/ns/health/server", access=LOGGED_IN, described=Described(SERVER_HEALTH))
def server_health(call: Call, services: Services) -> Answer:
    """The answer of a node that runs, with the number of its services and its port in a text. Shape: msg."""
    count = services.naming.counts(services.cluster.responsible).services
    port = services.settings.port
    return json_reply({"msg": f"Hello! I am Nacos-Naming and healthy! total services: raft {count}, local port:{port}"})


@route("GET", "/v1/ns/health/checkers", access=LOGGED_IN, described=Described(CHECKERS))
def checkers(call: Call, services: Services) -> Answer:
    """Each kind of checker with its defaults. The path is that of Nacos 2.x; 1.4 maps another by mistake."""
    return json_reply({kind: HealthChecker(kind).to_json() for kind in ("TCP", "HTTP", "MYSQL", "NONE")})

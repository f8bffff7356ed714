"""Health: how a cluster's instances are checked, instances' health set by hand, and this node's own health."""

from app.auth.access_rules import LOGGED_IN, WRITE, naming
from app.commands.record_commands import UpdateCluster, UpdateHealth, read_late
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, rendered, route
from app.http.input.fields import FILLED, JsonObject, MetadataText, Needed, NeededLenientFlag, Number, Trimmed
from app.http.input.schemas import (
    CLUSTER_NAME_TEXT,
    PORT_RANGE,
    CallSchema,
    NamespaceSchema,
    NeededServiceSchema,
    load_parameters,
)
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import SERVER_HEALTH
from app.http.shapes.service_shapes import CHECKERS
from app.naming.health.check_headers import check_request
from app.naming.model.json_fields import lenient_bool
from app.naming.model.keys import DEFAULT_CLUSTER
from app.naming.model.meta import ClusterConfig, HealthChecker, health_checker
from app.naming.model.nacos_errors import InvalidParam


class ClusterNameSchema(NamespaceSchema):
    """PUT ``/cluster``: the names of the cluster and its service."""

    cluster = Needed("clusterName", CLUSTER_NAME_TEXT, needs=FILLED)
    service = Needed("serviceName", "The service's name, alone or as `group@@name`.", needs=FILLED, example="orders")


class ClusterConfigSchema(CallSchema):
    """PUT ``/cluster``: the settings of the cluster."""

    check_port = Number("checkPort", "The port that is checked.", needs=FILLED, validate=PORT_RANGE)
    use_instance_port = NeededLenientFlag(
        "useInstancePort4Check", "Whether an instance is checked at its own port, and not at `checkPort`.", needs=FILLED
    )
    checker = JsonObject(
        "healthChecker", "How persistent instances are checked: a JSON object with `type`.", needs=FILLED
    )
    metadata = MetadataText("metadata", "The cluster's metadata: a JSON object of texts, or `k=v,k=v`.", dict)


class HealthSchema(NeededServiceSchema):
    ip = Needed("ip", "The address of the instance.", needs=FILLED, example="10.0.0.1")
    port = Number("port", "The port of the instance.", needs=FILLED, example=8080)
    cluster = Trimmed("clusterName", CLUSTER_NAME_TEXT, DEFAULT_CLUSTER)
    healthy = Trimmed("healthy", "Whether the instance is healthy.", "")
    valid = Trimmed("valid", "The old name of `healthy`.", "")


@route(
    "PUT", "/v1/ns/cluster", access=naming(WRITE), described=Described(takes=(ClusterNameSchema, ClusterConfigSchema))
)
def update_cluster(call: Call, services: Services) -> Answer:
    """Set how a cluster's persistent instances are checked, and its metadata; a missing cluster is created.

    A MYSQL checker is stored and shown, as clients expect, but without its password: it checks nothing.
    """
    names = load_parameters(ClusterNameSchema, call.parameters)
    namespace, service, cluster = names["namespace"], names["service"], names["cluster"]
    command = UpdateCluster(namespace, service, cluster, read_late(lambda: _config_of(call)))
    return rendered(services.writes.execute(command, call))


def _config_of(call: Call) -> ClusterConfig:
    config = load_parameters(ClusterConfigSchema, call.parameters)
    checker = health_checker(config["checker"])
    check_request(checker.path, checker.headers)
    return ClusterConfig(checker, config["check_port"], config["use_instance_port"], config["metadata"])


@route(
    "PUT", "/v1/ns/health", "/v1/ns/health/instance", access=naming(WRITE), described=Described(takes=(HealthSchema,))
)
def set_health(call: Call, services: Services) -> Answer:
    """Set an instance's health in a cluster without a checker; an unknown instance is ignored."""
    values = load_parameters(HealthSchema, call.parameters)
    namespace, service, cluster = values["namespace"], values["service"], values["cluster"]
    word = values["healthy"] or values["valid"]
    if not word:
        raise InvalidParam("Param 'healthy' is required.")
    command = UpdateHealth(namespace, service, cluster, values["ip"], values["port"], lenient_bool(word))
    return rendered(services.writes.execute(command, call))


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

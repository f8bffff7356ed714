"""Operators' calls over HTTP v3 about naming at this member: switches, counters, logs, health."""

from app.auth.access_rules import READ, WRITE, Target, admin, naming
from app.http.api.answers import server_status
from app.http.api.call import Answer, Call, Services
from app.http.input.schemas import load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import SWITCH_NAMES_3, V3_SWITCHES
from app.http.shapes.service_shapes import CHECKERS
from app.http.shapes.v3_shapes import V3_METRICS
from app.http.v1 import health, operator, switches
from app.http.v1.health import HealthSchema
from app.http.v1.operator import LogLevelSchema
from app.http.v1.switches import SwitchSchema
from app.http.v2.envelope import called_service, require, require_present, result, wrapped
from app.http.v2.operator import HealthV2Schema, MetricsV2Schema, SwitchV2Schema, answer_health
from app.http.v3.earlier_owners import v3_route
from app.http.v3.forms import ADMIN

OPS, HEALTH = f"{ADMIN}/ops", f"{ADMIN}/health"


@v3_route("GET", f"{OPS}/switches", access=admin(READ), described=Described(V3_SWITCHES))
def get_switches(call: Call, services: Services) -> Answer:
    """All switches in force on this member."""
    found = services.durable.switches.to_json()
    return result({SWITCH_NAMES_3.get(name, name): value for name, value in found.items()})


@v3_route("PUT", f"{OPS}/switches", access=admin(WRITE), described=Described(takes=(SwitchV2Schema, SwitchSchema)))
def set_switch(call: Call, services: Services) -> Answer:
    """Set one switch, or with ``batch`` several; on all members, or with ``debug`` here and until the restart."""
    require(call, SwitchV2Schema)
    return wrapped(switches.set_switch(call, services))


@v3_route("GET", f"{OPS}/metrics", access=admin(READ), described=Described(V3_METRICS, takes=(MetricsV2Schema,)))
def metrics(call: Call, services: Services) -> Answer:
    """The node's status, and its counts where ``onlyStatus`` is false."""
    status = {"status": server_status(services)}
    if load_parameters(MetricsV2Schema, call.parameters)["only_status"]:
        return result(status)
    counts, clients = services.naming.counts(services.cluster.responsible), services.clients.table.counts()
    clients_by_address = services.naming.address_clients()
    addresses = clients_by_address.ids_of(clients_by_address.found)
    ephemeral = sum(one.endswith("#true") for one in addresses)
    connected = clients.native + clients.copies
    is_ours = services.cluster.responsible
    return result(
        {
            **status,
            "serviceCount": counts.services,
            "instanceCount": counts.instances,
            "subscribeCount": clients.subscriptions,
            "clientCount": connected + len(addresses),
            "connectionBasedClientCount": connected,
            "ephemeralIpPortClientCount": ephemeral,
            "persistentIpPortClientCount": len(addresses) - ephemeral,
            "responsibleClientCount": clients.native + sum(is_ours(one.partition("#")[0]) for one in addresses),
        }
    )


@v3_route("PUT", f"{OPS}/log", access=admin(WRITE), described=Described(takes=(LogLevelSchema,)))
def set_log_level(call: Call, services: Services) -> Answer:
    """Set the level of one of this node's logs, until its restart; an unknown log changes nothing."""
    require_present(call, LogLevelSchema)
    return wrapped(operator.set_log_level(call, services))


@v3_route("PUT", f"{HEALTH}/instance", access=naming(WRITE), described=Described(takes=(HealthV2Schema, HealthSchema)))
def set_health(call: Call, services: Services) -> Answer:
    """Set an instance's health in a cluster without a checker; an unknown instance is ignored."""
    called_service(call, services, HealthV2Schema, HealthSchema)
    return answer_health(call, services)


@v3_route("GET", f"{HEALTH}/checkers", access=naming(WRITE, Target.NAMESPACE).of_read(), described=Described(CHECKERS))
def checkers(call: Call, services: Services) -> Answer:
    """Each kind of checker with its defaults. The caller needs a right to change, as in Nacos 3."""
    return wrapped(health.checkers(call, services))

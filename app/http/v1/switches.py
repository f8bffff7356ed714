"""The switches that an operator may change while all members run."""

from app.auth.access_rules import READ, WRITE, admin
from app.http.api.answers import SWITCHES_PATHS, durable_elsewhere, json_reply
from app.http.api.call import OK, Answer, Call, Services, route
from app.http.input.schemas import SwitchBatchSchema, SwitchSchema, load, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import SWITCHES
from app.naming.records.record_keys import SWITCHES_KEY

BATCH = "batch"
_SWITCH, _BATCH = SwitchSchema(), SwitchBatchSchema()


@route("GET", *SWITCHES_PATHS, access=admin(READ), described=Described(SWITCHES))
def switches(call: Call, services: Services) -> Answer:
    """All switches in force on this member."""
    return json_reply(services.durable.switches.to_json())


@route("PUT", *SWITCHES_PATHS, access=admin(WRITE), described=Described(takes=(SwitchSchema,)))
def set_switch(call: Call, services: Services) -> Answer:
    """Set one switch, or with ``batch`` several; on all members, or with ``debug`` here and until the restart.

    An unknown entry changes nothing. Source: Nacos 1.4.1 SwitchManager.update.
    """
    values = load_parameters(_SWITCH, call.parameters)
    here_only, entry, value = values["here_only"], values["entry"], values["value"]
    if not here_only and (other := durable_elsewhere(call, services, SWITCHES_KEY)):
        return other
    if entry != BATCH:
        services.durable.update_switch(entry, value, here_only=here_only)
        return OK
    services.durable.update_switches(load(_BATCH, values)["value"], here_only=here_only)
    return OK

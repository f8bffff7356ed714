"""The switches that an operator may change while all members run."""

from marshmallow import validate

from app.auth.access_rules import READ, WRITE, admin
from app.commands.record_commands import UpdateSwitch, UpdateSwitches
from app.http.api.answers import SWITCHES_PATHS, json_reply
from app.http.api.call import Answer, Call, Services, rendered, route
from app.http.input.fields import PRESENT, Flag, JsonObject, Text
from app.http.input.schemas import CallSchema, load, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import SWITCHES

BATCH = "batch"
SWITCH_CHARS_MAX = 64 * 1024
"""Every member stores each value that is set."""


class SwitchSchema(CallSchema):
    here_only = Flag("debug", "Only at this member, until its restart.", False)
    entry = Text("entry", "The switch; `batch` for several.", needs=PRESENT)
    value = Text(
        "value",
        "The value of the switch; for `batch` a JSON object of switches.",
        needs=PRESENT,
        validate=validate.Length(max=SWITCH_CHARS_MAX),
    )


class SwitchBatchSchema(CallSchema):
    """PUT ``/operator/switches`` with ``batch``: the switches in place of one switch's value."""

    value = JsonObject(
        "value",
        "The switches, by name.",
        needs=PRESENT,
        error_messages=dict.fromkeys(("required", "invalid"), "it should be a JSON object of switches"),
    )


@route("GET", *SWITCHES_PATHS, access=admin(READ), described=Described(SWITCHES))
def switches(call: Call, services: Services) -> Answer:
    """All switches in force on this member."""
    return json_reply(services.durable.switches.to_json())


@route("PUT", *SWITCHES_PATHS, access=admin(WRITE), described=Described(takes=(SwitchSchema,)))
def set_switch(call: Call, services: Services) -> Answer:
    """Set one switch, or with ``batch`` several; on all members, or with ``debug`` here and until the restart.

    An unknown entry changes nothing. Source: Nacos 1.4.1 SwitchManager.update.
    """
    values = load_parameters(SwitchSchema, call.parameters)
    here_only, entry, value = values["here_only"], values["entry"], values["value"]
    command = (
        UpdateSwitches(load(SwitchBatchSchema, values)["value"], here_only)
        if entry == BATCH
        else UpdateSwitch(entry, value, here_only)
    )
    return rendered(services.writes.execute(command, call))

"""Calls to a configuration server, which this node is not: refused, or answered as if there were no configurations."""

from app.auth.access_rules import LOGGED_IN, MEMBERS
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Later, Reply, Services, route
from app.http.input.fields import Text
from app.http.input.schemas import CallSchema
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DONE, NO_CHANGE

CONFIG = "/v1/cs"
CONFIGS = "/v1/cs/configs"
HOLD_MS_MIN, HOLD_MS_MAX = 10_000, 60_000
"""Bounds of the time for which a listen is held."""
HOLD_LESS_MS = 500
"""A listen is answered so long before its client gives it up. Source of the three: Nacos 1.4.1 LongPollingService."""
_ABSENT = Reply(404, b"config data not exist")
_UNCHANGED = Reply(200, b"", None)
SEARCH = "search"


class ConfigSearchSchema(CallSchema):
    """GET ``/cs/configs``; clients repeat the call, which loads nothing."""

    search = Text(SEARCH, "A search among configurations: refused.", None)


@route("GET", "/v1/cs/communication/dataChange", access=MEMBERS, described=Described(DONE))
def data_change(call: Call, services: Services) -> Answer:
    """Acknowledge a configuration's change: a member that is real Nacos repeats the call until it is."""
    return json_reply(True)


@route(
    "GET",
    CONFIGS,
    access=LOGGED_IN,
    hot=True,
    described=Described(None, takes=(ConfigSearchSchema,), refusals=(404, 501)),
)
def get_config(call: Call, services: Services) -> Answer:
    """No configuration exists, with ``rollcall.config.absent``; a search among them is refused."""
    if not services.settings.config_absent or call.parameters.get(SEARCH) is not None:
        return not_served(call, services)
    services.config_calls.absent()
    return _ABSENT


@route("POST", "/v1/cs/configs/listener", access=LOGGED_IN, hot=True, described=Described(NO_CHANGE, refusals=(501,)))
def listen(call: Call, services: Services) -> Answer:
    """Nothing has changed, with ``rollcall.config.absent``: told when the client's time is nearly over, as by Nacos."""
    if not services.settings.config_absent:
        return not_served(call, services)
    services.config_calls.absent()
    # Without a time, or with this header, a client asks once and polls by itself.
    asked = call.header("long-pulling-timeout") or ""
    if call.header("long-pulling-timeout-no-hangup") == "true" or not asked.isascii() or not asked.isdecimal():
        return _UNCHANGED
    hold_ms = min(max(int(asked[:9]) - HOLD_LESS_MS, HOLD_MS_MIN), HOLD_MS_MAX)
    return Later(_UNCHANGED, hold_ms)


def is_config(path: str) -> bool:
    """Return whether a path belongs to a configuration server."""
    return path == CONFIG or path.startswith(CONFIG + "/")


def not_served(call: Call, services: Services) -> Reply:
    """Return the answer, 501, to a call to a configuration server: this node is not one."""
    services.config_calls.refused(call.remote_ip, f"{call.method} {call.path}")
    return text_reply(
        501, f"this is a naming server without configurations: {call.method}:{call.uri} is not served here"
    )

"""Calls to a configuration server, which this node is not: the answer is 501."""

from app.auth.access_rules import MEMBERS
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Reply, Services, route

CONFIG = "/v1/cs"


@route("GET", "/v1/cs/communication/dataChange", access=MEMBERS)
def data_change(call: Call, services: Services) -> Answer:
    """Acknowledge a configuration's change: a member that is real Nacos repeats the call until it is."""
    return json_reply(True)


def is_config(path: str) -> bool:
    """Whether a path belongs to a configuration server."""
    return path == CONFIG or path.startswith(CONFIG + "/")


def not_served(call: Call) -> Reply:
    """The answer, 501, to a call to a configuration server that this node is not."""
    return text_reply(
        501, f"this is a naming server without configurations: {call.method}:{call.uri} is not served here"
    )

"""What is asked of a configuration server. This is none, and says so."""

from app.http.api.answers import json_reply, text_reply
from app.http.api.call import Answer, Call, Reply, Services, route

CONFIG = "/v1/cs"


@route("GET", "/v1/cs/communication/dataChange")
def data_change(call: Call, services: Services) -> Answer:
    """That a configuration's change was noted: a member that is real Nacos tells it, and repeats it until it is."""
    return json_reply(True)


def is_config(path: str) -> bool:
    return path == CONFIG or path.startswith(CONFIG + "/")


def not_served(call: Call) -> Reply:
    """The answer to every other call of that kind."""
    return text_reply(
        501, f"this is a naming server without configurations: {call.method}:{call.uri} is not served here"
    )

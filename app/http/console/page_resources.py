"""The files that pages load, and the server-sent events that tell a page that it is out of date."""

import orjson

from app.auth.access_rules import PUBLIC, READ, naming
from app.http.api.answers import filter_error
from app.http.api.call import Answer, Call, Events, Reply, Services, route
from app.http.console.page import CONSOLE, SAFE, assets
from app.http.v1.changes import service_changes

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_KEPT = {**SAFE, "Cache-Control": "public, max-age=31536000, immutable"}
"""The headers of files whose addresses change with their contents."""


@route("GET", "/console/assets/<name>", access=PUBLIC)
def asset(call: Call, services: Services) -> Answer:
    """One file, by its name."""
    name = call.path_values["name"]
    body = assets().get(name) if services.settings.told.console else None
    if body is None:
        return filter_error(call.uri, 404, "No message available", services.wall_ms())
    return Reply(200, body, _TYPES[name.rpartition(".")[2]], _KEPT)


# --- events, without names and numbers of services ---------------------------------------------------


@route("GET", "/console/events", access=CONSOLE, hot=True)
def cluster_events(call: Call, services: Services) -> Answer:
    """Stream the members' states and the time of the last counts, whenever these change. Shape: rev, members."""
    if not services.settings.told.console:
        return filter_error(call.uri, 404, "No message available", services.wall_ms())

    def read() -> bytes:
        latest = services.count_history.latest()
        return orjson.dumps(
            {
                "rev": latest.wall_ms if latest else 0,
                "members": [f"{one.address} {one.state.value}" for one in services.cluster.members()],
            }
        )

    return Events(("cluster",), read)


@route("GET", "/console/events/service", access=naming(READ).in_console(), hot=True)
def service_events(call: Call, services: Services) -> Answer:
    """Stream the revision of one service at this member, whenever it changes; 0 without the service. Shape: rev."""
    if not services.settings.told.console:
        return filter_error(call.uri, 404, "No message available", services.wall_ms())
    return service_changes(call, services)

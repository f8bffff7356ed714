"""The files that pages load: style sheet, script, icon."""

from app.auth.access_rules import PUBLIC
from app.http.api.answers import filter_error
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.console.page import SAFE, assets

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

"""Calls of HTTP v3 to parts of Nacos 3 that are not here: configurations, AI, plug-ins. One refusal for all."""

from app.http.api.call import Call, Reply, Services
from app.http.v2.envelope import ResultCode, refusal

V3 = "/v3/"
_SERVED = ("ns", "core", "server", "health")
_CALLERS = ("client", "admin", "console")
_PLUGINS = "core/plugin/"
CONFIG = "cs"


def is_absent(path: str) -> bool:
    """Return whether a path, below the context path, belongs to a part of Nacos 3 that this node has not."""
    if not path.startswith(V3):
        return False
    caller, _, rest = path.removeprefix(V3).partition("/")
    part = rest.partition("/")[0]
    if caller in _CALLERS:
        return part not in _SERVED or f"{rest}/".startswith(_PLUGINS)
    return caller != "auth"


def not_here(call: Call, services: Services) -> Reply:
    """Return the refusal, 501 with code 40001, of a call to a part of Nacos 3 that this node has not."""
    if f"/{CONFIG}/" in f"{call.path}/":
        services.config_calls.refused(call.remote_ip, f"{call.method} {call.path}")
    text = (
        f"this is a naming server without configurations, AI and plug-ins: {call.method}:{call.uri} is not served here"
    )
    return refusal(501, ResultCode.FUNCTION_DISABLED, text)

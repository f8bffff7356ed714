"""What members send each other about datums. Taken from listed members only; standalone, from this machine."""

import re

import orjson

from app.http.agents import is_peer
from app.http.answers import require_member
from app.http.call import BYTES, JSON, OK, TEXT, Answer, Call, Reply, Services, route
from app.http.schemas import KeysSchema, SourceSchema, load, parameter_values
from app.naming.errors import InvalidParam

_SOURCE, _KEYS = SourceSchema(), KeysSchema()
_EMPTY_MAP = re.compile(rb"\s*\{\s*\}\s*")


@route("PUT", "/v1/ns/distro/datum")
def put_datum(call: Call, services: Services) -> Answer:
    """Take the datums of a peer. Shape: ``{key: {key, value, timestamp}}``, gzip or plain."""
    require_member(call, services)
    if _EMPTY_MAP.fullmatch(call.body):
        # Real Nacos answers 400, and as a sender repeats the same empty map for ever.
        if services.cluster.standalone or not is_peer(call.agent):
            raise InvalidParam("receive empty entity!")
        return OK
    return _received(services.replication.receive(call.body, call.headers, call.remote_ip))


@route("PUT", "/v1/ns/distro/checksum")
def put_checksum(call: Call, services: Services) -> Answer:
    """Compare what a peer holds with what is held here. Shape: ``{key: checksum or version}``."""
    require_member(call, services)
    source = load(_SOURCE, parameter_values(call.parameters))["source"]
    return _received(services.replication.verify(call.body, source, call.headers, call.remote_ip, _type(call)))


@route("GET", "/v1/ns/distro/datum")
def get_datum(call: Call, services: Services) -> Answer:
    """The datums of the keys that the body names, as far as they are known. Shape: ``{"keys": "k1,k2"}``."""
    require_member(call, services)
    try:
        body = orjson.loads(call.body)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise InvalidParam("the body should be a JSON object with 'keys'")
    keys = [key for key in load(_KEYS, body)["keys"].split(",") if key]
    return _datums(*services.replication.datums(keys, call.headers, call.remote_ip))


@route("GET", "/v1/ns/distro/datums")
def get_datums(call: Call, services: Services) -> Answer:
    """All datums held. While this node loads and holds nothing, a peer must not take that for everything."""
    require_member(call, services)
    return _datums(*services.replication.datums(None, call.headers, call.remote_ip, _type(call)))


def _type(call: Call) -> str:
    """The resource type that members of our kind name; real Nacos knows one, and names none."""
    return call.parameters.get("type") or ""


def _received(body: bytes) -> Reply:
    return Reply(200, body, TEXT if body == OK.body else JSON)


def _datums(body: bytes, zipped: bool) -> Reply:
    return Reply(200, body, BYTES, {"Content-Encoding": "gzip"} if zipped else {})

"""Answers about this node and the other members: state, counters, switches, dumps, connections, namespaces."""

from app.http.shapes.common_shapes import ADDRESS, ADDRESS_EXAMPLE, NAMESPACE, SERVICE_EXAMPLE, STATE
from app.http.shapes.described import JSON_TYPE, OK_TEXT, TEXT_TYPE, Content, json_of, rest_result
from app.http.shapes.json_shapes import (
    Shape,
    array,
    either,
    facts,
    flag,
    map_of,
    number,
    one_of,
    or_null,
    record,
    text,
    tuple_of,
    whole,
)
from app.naming.model.switches import FIELDS as SWITCH_FIELDS
from app.naming.model.switches import CheckParams, SwitchDomain

MEMBER = record(
    "Member",
    {
        "ip": text("10.0.0.5"),
        "port": whole(8848),
        "state": STATE,
        "extendInfo": facts("What the member tells of itself.", version="1.4.8", lastRefreshTime=1_790_000_000_000),
        "address": ADDRESS,
        "failAccessCnt": whole(0, "Reports to it that failed in a row."),
    },
)
MEMBERS = array(MEMBER)
SERVERS = json_of(record("Servers", {"servers": MEMBERS}))
DISTRO_STATUS = json_of(record("DistroStatus", {}, {"status": MEMBERS}))
MEMBER_RESULT = rest_result("MemberResult", MEMBER)
MEMBERS_RESULT = rest_result("MembersResult", MEMBERS)
ADDRESSES_RESULT = rest_result("AddressesResult", array(ADDRESS))
TEXT_RESULT = rest_result("TextResult", text("UP"))
EMPTY_RESULT = rest_result("EmptyResult")
FACTS_RESULT = rest_result("FactsResult", facts("By name."))

_COUNTERS = {"additionalProperties": either(number(0), flag(False))}
METRICS = json_of(
    record(
        "NodeMetrics",
        {
            "status": text("UP", "The state, or the status that an operator set in its place."),
            "serviceCount": whole(10, "Services with and without instances."),
            "instanceCount": whole(20),
            "raftNotifyTaskCount": whole(0, "Always 0."),
            "responsibleServiceCount": whole(10, "Services that this node owns."),
            "responsibleInstanceCount": whole(20),
            "cpu": number(0.1, "The share of the machine's processors that is busy."),
            "load": number(0.5),
            "mem": number(0.4, "The share of the machine's memory that is in use."),
        },
        {"emptyServiceCount": whole(1, "Services without an instance. Nacos does not count them.")},
    )
    | _COUNTERS
)
V2_METRICS = json_of(
    record("NodeStatus", {"status": text("UP")}) | {**_COUNTERS, "description": "The status alone, or all counters."}
)
ENGINE = json_of(
    record(
        "EngineFacts",
        {
            "writer": text("10.0.0.5:8848~1a2136970ab8947", "This run of the node."),
            "loading": flag(False),
            "steady": flag(True),
            "workers": map_of("distro-local", facts("What a worker does.", waiting=0)),
            "peers": map_of("10.0.0.6:8848", facts("What a peer lacks, and how rounds with it went.", queue={})),
            "versions": map_of("rollcall.records", facts("The highest version of this writer.", highestOwn=None)),
            "counters": map_of("sync_sent", whole(0)),
            "contents": facts("The last comparisons of contents that this node made.", parts=8, of=256, count=0),
        },
    )
)
RAFT_STATE = json_of(
    record(
        "RaftState",
        {
            "ip": ADDRESS,
            "term": whole(-1),
            "leaderDueMs": whole(0),
            "heartbeatDueMs": whole(0),
            "state": one_of("FOLLOWER"),
        },
    )
)
PUSH_STATE = json_of(
    record(
        "PushState",
        {
            "succeed": whole(10),
            "total": whole(10),
            "ratio": number(1.0, "0 where nothing was pushed."),
            "reset": flag(False),
        },
        {"data": array(text("public##orders to 10.0.0.9:41000", "A push that is not acknowledged."))},
    )
)
NODE_DRAIN_STATE = json_of(
    record(
        "NodeDrain",
        {
            "draining": flag(False),
            "state": STATE,
            "sdkConnections": whole(3, "Clients that are still connected."),
            "unsentKeys": whole(0),
            "handedOver": flag(False, "Whether the node may be stopped."),
        },
    )
)
_DIGEST = text("0ebc18d3e8da3720", pattern="^[0-9a-f]{16}$")
_DIGEST_HEAD = {"format": whole(1), "address": ADDRESS, "version": text("0.1.0")}
DIGEST = json_of(
    either(
        record(
            "BucketDigests", {**_DIGEST_HEAD, "services": whole(2), "instances": whole(2), "buckets": array(_DIGEST)}
        ),
        record(
            "ServiceDigests",
            {**_DIGEST_HEAD, "services": array(tuple_of(NAMESPACE, text(SERVICE_EXAMPLE), whole(1), _DIGEST))},
        ),
    )
)
_WALL_MS = whole(1_790_000_000_000)
_VALUES = either({"type": "null", "examples": [None]}, facts("By name."), text("UP"), array(facts("One.")))
EVENT = record(
    "Event",
    {
        "id": text("10.0.0.5:8848~19c3f~17", "The same in each answer until the member restarts."),
        "number": whole(17, "Its place among the events that the member noted."),
        "atMs": _WALL_MS,
        "time": text("2026-11-28T10:12:13.120Z"),
        "node": ADDRESS,
        "kind": one_of("instances", "operators", "cluster", "access"),
        "what": text("instance.register", "As in the audit log."),
        "says": text("10.0.0.7:8080 registered", "The event in words, without its service and its author."),
        "namespaceId": text("public", "Empty for an event of no namespace."),
        "serviceName": text(SERVICE_EXAMPLE, "The full name; empty for an event of no service."),
        "ip": text("10.0.0.7", "Empty unless the event is of one instance."),
        "port": whole(8080, "0 unless the event is of one instance."),
        "clusterName": text("DEFAULT"),
        "instances": array(tuple_of(text("10.0.0.7"), whole(8080), text("DEFAULT"))),
        "key": text("public/DEFAULT_GROUP@@orders/10.0.0.7:8080:unknown:DEFAULT", "As in the audit log."),
        "user": text("", "Empty without a login; `node` for the member itself."),
        "from": text("10.0.0.9", "The address of the caller."),
        "via": text("", "The member that passed the call on."),
        "agent": text("Nacos-Java-Client:v2.3.2"),
        "before": _VALUES,
        "after": _VALUES,
    },
)
_MEMORY = record(
    "EventMemory",
    {
        "audit": flag(True, "False: the member writes no audit log, and remembers nothing."),
        "auditInstances": flag(True, "False: it leaves out instances and clients."),
        "lost": whole(0, "Events that it did not take, as too many came at once."),
        "rev": text("19c3f.17", "Changes with each event."),
        "sinceMs": map_of("instances", _WALL_MS, "The time from which it remembers all events, by kind."),
    },
)
EVENTS = Content(
    JSON_TYPE,
    either(
        record(
            "Events",
            {
                "askedAt": ADDRESS,
                "takenMs": _WALL_MS,
                "more": flag(False, "Whether there are older ones: give `next` as `before`."),
                "next": text(""),
                "events": array(EVENT, "The latest first."),
                "members": map_of(ADDRESS_EXAMPLE, _MEMORY),
                "notAnswered": array(ADDRESS),
                "otherKinds": array(ADDRESS),
            },
        ),
        record("EventsOfMember", {"events": array(EVENT), "more": flag(False), "memory": _MEMORY}),
    ),
    beside=(Content("text/csv", text("time,node,kind\r\n", "One event a line.")),),
)
DUMP = Content("application/x-ndjson", text('{"kind":"end","services":0,"instances":0}\n', "One JSON object a line."))
HEAL = json_of(
    record(
        "Heal",
        {
            "address": ADDRESS,
            "owner": ADDRESS,
            "keys": whole(2, "The keys of the service."),
            "owned": whole(1, "Those that this node owns."),
            "asked": map_of("10.0.0.6:8848", whole(1), "How many keys each member is asked for."),
        },
    )
)
SERVER_HEALTH = json_of(record("ServerHealth", {"msg": text("Hello! I am Nacos-Naming and healthy!")}))
SERVER_STATE = json_of(
    record(
        "ServerState",
        {
            "version": text("1.4.8", "The release of Nacos whose API this is."),
            "standalone_mode": one_of("standalone", "cluster"),
            "function_mode": one_of("naming"),
        },
    )
)
ACTUATOR_UP = json_of(record("ActuatorUp", {"status": one_of("UP")}))
ACTUATOR_DOWN = json_of(
    record(
        "ActuatorDown",
        {"status": one_of("DOWN"), "details": record("DownReason", {"reason": text("the data is being loaded")})},
    )
)
PROMETHEUS = Content(TEXT_TYPE, text("rollcall_up 1\n", "Prometheus's text format."))

# --- switches ------------------------------------------------------------------------------------------

_PARAMS = record("CheckParams", {"max": whole(5_000), "min": whole(500), "factor": number(0.85)})


def _switch(value: object) -> Shape:
    match value:
        case bool():
            return flag(value)
        case int():
            return whole(value)
        case float():
            return number(value)
        case str():
            return text(value)
        case None:
            return either({"type": "null", "examples": [None]}, text(""), array(text("10.0.0.5")))
        case CheckParams():
            return _PARAMS
        case tuple():
            return array(text("a"))
        case _:
            return map_of("a", either(whole(1), text("1")))


_SWITCHES = SwitchDomain()
_SWITCH_SHAPES = {name: _switch(getattr(_SWITCHES, one.name)) for name, one in SWITCH_FIELDS.items()}
SWITCHES = json_of(record("Switches", _SWITCH_SHAPES))
SWITCH_NAMES_3 = {
    "pushGoVersion": "pushVersionOfGo",
    "pushJavaVersion": "pushVersionOfJava",
    "pushPythonVersion": "pushVersionOfPython",
    "pushCVersion": "pushVersionOfC",
    "pushCSharpVersion": "pushVersionOfCsharp",
}
"""The names of the switches that Nacos 3 has renamed. Source: Nacos 3.0.3, observed."""
V3_SWITCHES = json_of(
    record("SwitchesV3", {SWITCH_NAMES_3.get(name, name): shape for name, shape in _SWITCH_SHAPES.items()})
)

# --- connections over gRPC -------------------------------------------------------------------------------

CONNECTIONS = json_of(map_of("1790000000000_10.0.0.9_41000", facts("One connection."), "By id."))
_TOTAL = whole(2)
LOAD = json_of(
    record(
        "ClusterLoad",
        {
            "detail": array(
                record(
                    "MemberLoad",
                    {"address": ADDRESS, "metric": map_of("sdkConCount", text("2"), "Numbers as texts.")},
                )
            ),
            "memberCount": _TOTAL,
            "metricsCount": whole(2, "Members that answered."),
            "completed": flag(True),
            "max": _TOTAL,
            "min": _TOTAL,
            "avg": _TOTAL,
            "threshold": number(2.2),
            "total": _TOTAL,
        },
    )
)

# --- namespaces ------------------------------------------------------------------------------------------

_NAMESPACE_FIELDS = {
    "namespace": text("", "The id; empty for the public namespace."),
    "namespaceShowName": text("public"),
    "quota": whole(200),
    "configCount": whole(0),
    "type": whole(0, "0: the public one; 2: one that was created."),
}
NAMESPACE_QUERY = json_of(
    either(
        record(
            "NamespaceList",
            {"code": whole(200), "message": {"type": "null"}, "data": array(record("Namespace", _NAMESPACE_FIELDS))},
        ),
        record("NamespaceInFull", {**_NAMESPACE_FIELDS, "namespaceDesc": text("Public Namespace")}),
        flag(True, "Whether the id is taken."),
    )
)
V2_NAMESPACES = json_of(
    array(record("NamespaceV2", {**_NAMESPACE_FIELDS, "namespaceDesc": or_null(text("for tests"))}))
)
V2_NAMESPACE = json_of(
    record("NamespaceInFullV2", {**_NAMESPACE_FIELDS, "namespaceDesc": or_null(text("Public Namespace"))})
)
DONE = json_of(flag(True))
READY = json_of(text("ok"))
NO_CHANGE = Content(TEXT_TYPE, text("", maxLength=0))

# --- members' calls --------------------------------------------------------------------------------------

REPORT_BODY = json_of(facts("A member on itself.", ip="10.0.0.6", port=8848, address=ADDRESS_EXAMPLE))
REPORT = json_of(
    record("ReportReply", {"code": whole(200), "message": or_null(text("")), "data": or_null(text("true"))})
)
ADDRESSES_BODY = json_of(array(ADDRESS))
DATUM_BODY = Content(JSON_TYPE, facts("Datums by key, gzip or plain: docs/wire-data.md."))
RECEIVED = Content(JSON_TYPE, facts("What of it was not taken: docs/wire-data.md."), beside=(OK_TEXT,))
WRITES_BODY = Content(JSON_TYPE, array(array(or_null(text("PUT")))))
WRITES_ANSWERED = Content(JSON_TYPE, array(or_null({"type": "array", "items": {}})))
DATUMS = Content("application/octet-stream", text("{}", "Datums by key: docs/wire-data.md."))
KEYS_BODY = json_of(record("DatumKeys", {"keys": text("key1,key2")}))
STATUS_BODY = Content(TEXT_TYPE, text("%7B%7D", "A JSON object, URL-encoded: statuses, clientIP."))
LOG_BODY = json_of(record("LogLevel", {"logName": text("naming-main"), "logLevel": text("INFO")}))

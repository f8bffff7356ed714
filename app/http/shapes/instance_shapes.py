"""Answers about instances."""

from app.http.shapes.common_shapes import (
    ADDRESS,
    CLUSTER,
    COUNT,
    ENABLED,
    EPHEMERAL,
    FULL_NAME,
    GROUP,
    HEALTHY,
    INSTANCE_ID,
    IP,
    METADATA,
    MILLISECONDS,
    MS,
    NAMESPACE,
    PORT,
    WEIGHT,
)
from app.http.shapes.described import JSON_TYPE, Content, json_of
from app.http.shapes.json_shapes import array, either, facts, flag, map_of, number, or_null, record, text, whole

_DERIVED = {
    "instanceHeartBeatInterval": MILLISECONDS,
    "instanceHeartBeatTimeOut": MILLISECONDS,
    "ipDeleteTimeout": MILLISECONDS,
}
_ID_GENERATOR = {"instanceIdGenerator": text("simple")}
_CACHE_MS = whole(3_000, "The client may keep the answer for so long, in milliseconds.")

BEAT_REPLY = json_of(
    record(
        "BeatReply",
        {
            "clientBeatInterval": whole(5_000, "The next beat should come after so many milliseconds."),
            "code": whole(10_200, "10200; 20404 where the instance is unknown and has to be registered again."),
        },
        {"lightBeatEnabled": flag(True, "Whether the next beat may leave out ``beat``.")},
    )
)
INSTANCE = json_of(
    record(
        "InstanceDetail",
        {
            "service": FULL_NAME,
            "ip": IP,
            "port": PORT,
            "clusterName": CLUSTER,
            "weight": WEIGHT,
            "healthy": HEALTHY,
            "instanceId": INSTANCE_ID,
            "metadata": METADATA,
        },
    )
)
_HOST = record(
    "Host",
    {
        "ip": IP,
        "port": PORT,
        "valid": flag(True, "The same as ``healthy``."),
        "healthy": flag(True, "At or below the protect threshold it is true of all."),
        "marked": flag(False),
        "instanceId": INSTANCE_ID,
        "metadata": METADATA,
        "enabled": ENABLED,
        "weight": WEIGHT,
        "clusterName": CLUSTER,
        "serviceName": text("orders", "Without the group; with it for Java SDKs since 1.0."),
        "ephemeral": EPHEMERAL,
    },
)
_LIST_OF_KNOWN = record(
    "InstanceList",
    {
        "hosts": array(_HOST),
        "dom": text("orders", "Without the group; with it for Java SDKs since 1.0."),
        "name": FULL_NAME,
        "cacheMillis": _CACHE_MS,
        "lastRefTime": MS,
        "checksum": text("5ff4a3ca58b1e0ee3b7e5fa4f0a7ee15", "It changes with the instances."),
        "useSpecifiedURL": flag(False),
        "clusters": text("", "The clusters that were asked for."),
        "env": text(""),
        "metadata": METADATA,
    },
)
_LIST_OF_UNKNOWN = record(
    "UnknownServiceList",
    {"name": FULL_NAME, "clusters": text(""), "cacheMillis": _CACHE_MS, "hosts": {**array(_HOST), "maxItems": 0}},
)
_CHECKED_LIST = {**record("CheckedList", {}), "maxProperties": 0}
INSTANCE_LIST = Content(JSON_TYPE, either(_LIST_OF_KNOWN, _LIST_OF_UNKNOWN, _CHECKED_LIST))
UPDATED = json_of(
    record("UpdatedInstances", {"updated": array(text("10.0.0.1:8080:unknown:DEFAULT:ephemeral", "One instance."))})
)
REMAINED = json_of(
    record(
        "RemainingInstances",
        {
            "total": whole(5, "All instances of the service, in any state."),
            "serving": whole(4, "Instances that clients called before: healthy, enabled, with a weight above 0."),
            "remaining": whole(3, "Instances among these that clients keep calling."),
            "threshold": number(0.0, "The protect threshold of the service."),
        },
    )
)
_LISTED = {
    "ip": IP,
    "port": PORT,
    "weight": WEIGHT,
    "healthy": HEALTHY,
    "enabled": ENABLED,
    "ephemeral": EPHEMERAL,
    "clusterName": CLUSTER,
    "serviceName": FULL_NAME,
}
LISTED_INSTANCE = record(
    "ListedInstance",
    {
        **_LISTED,
        "lastBeat": whole(1_790_000_000_000, "The last beat, of a persistent instance the last change; ms since 1970."),
        "marked": flag(False),
        **_DERIVED,
    },
    {"instanceId": INSTANCE_ID, "app": text("DEFAULT"), "metadata": METADATA, **_ID_GENERATOR},
)
CATALOG_INSTANCES = json_of(record("CatalogInstances", {"list": array(LISTED_INSTANCE), "count": COUNT}))

HOST_V2 = record("HostV2", {**_LISTED, "metadata": METADATA, **_DERIVED}, {"instanceId": INSTANCE_ID, **_ID_GENERATOR})
V2_INSTANCE = json_of(
    record(
        "InstanceV2",
        {
            "serviceName": FULL_NAME,
            "ip": IP,
            "port": PORT,
            "clusterName": CLUSTER,
            "weight": WEIGHT,
            "healthy": HEALTHY,
            "instanceId": INSTANCE_ID,
            "metadata": METADATA,
        },
    )
)
V2_LIST = json_of(
    record(
        "ServiceInfo",
        {
            "name": FULL_NAME,
            "groupName": GROUP,
            "clusters": text(""),
            "cacheMillis": _CACHE_MS,
            "hosts": array(HOST_V2),
            "lastRefTime": MS,
            "checksum": text(""),
            "allIPs": flag(False),
            "reachProtectionThreshold": flag(False, "Whether all are shown as healthy, as too few are."),
            "valid": flag(True),
        },
    )
)
V2_PAGE = json_of(record("InstancePage", {"instances": array(LISTED_INSTANCE), "count": COUNT}))

STATUSES = json_of(record("InstanceHealths", {"ips": array(text("10.0.0.1:8080_true", "Address and health."))}))
DRAIN_JOB = json_of(
    record(
        "InstanceDrain",
        {
            "state": text("drained", "How far it is, in words."),
            "isOver": flag(True),
            "tookMs": MILLISECONDS,
            "subscribers": whole(2),
            "behind": whole(0, "Subscribers that do not know yet."),
            "notAnswered": array(ADDRESS, "Members that did not answer."),
        },
    )
)
DRAIN_STEP = json_of(
    record(
        "DrainStep",
        {
            "known": flag(True),
            "inLists": flag(False, "Whether clients are still shown the instance."),
            "subscribers": whole(2),
            "behind": whole(0),
        },
    )
)
_PLACE = record(
    "InstancePlace",
    {
        "serviceName": FULL_NAME,
        "clusterName": CLUSTER,
        "ip": IP,
        "held": flag(True, "False if only the removal of the instance is recorded there."),
    },
)
_MEMBER_FACTS = record(
    "InstanceAtMember",
    {
        "address": ADDRESS,
        "state": text("UP"),
        "run": text("10.0.0.5:8848~1a2136970ab8947", "The run of the member's process."),
        "release": text("0.1.0"),
        "takenMs": MS,
        "responsible": record(
            "Responsible",
            {
                "member": ADDRESS,
                "tag": FULL_NAME,
                "candidates": array(ADDRESS),
                "hash": whole(248_381_274),
                "index": whole(0),
            },
        ),
        "serviceKnown": flag(True),
        "listed": or_null(facts("The instance as this member lists it.", healthy=True)),
        "removed": or_null(facts("The tombstone of the instance.", ageMs=1_000)),
        "heldBack": or_null(facts("For how long it is still shown.", leftMs=1_000)),
        "persistent": or_null(facts("The durable record.", healthy=True)),
        "persistentRemoved": or_null(facts("The removal of the durable record.", atMs=1_000)),
        "override": or_null(
            facts("The change by an operator, which is stored separately from the registration.", enabled=False)
        ),
        "published": array(facts("A client that publishes it.", client="1790000000000_10.0.0.9_41000")),
        "publishedCount": whole(0),
        "foreign": array(facts("A link to another cluster that brought it.", link="dc-b", origin="dc-b", stale=False)),
        "shown": or_null(facts("What clients are shown.", inLists=True)),
        "history": array(record("InstanceEvent", {"ageMs": MILLISECONDS, "what": text("registered")})),
        "pending": array(record("PendingSend", {"peer": ADDRESS, "what": text("instances"), "is": text("queued")})),
        "subscribers": map_of("udp", facts("Subscribers over one transport.", count=0), "By transport."),
        "places": array(_PLACE, "The services and clusters in which this member knows the address."),
    },
)


EXPLAINED = json_of(
    either(
        record(
            "ExplainedInstance",
            {
                "instance": record(
                    "AskedInstance",
                    {
                        "namespaceId": NAMESPACE,
                        "serviceName": FULL_NAME,
                        "ip": IP,
                        "port": PORT,
                        "clusterName": CLUSTER,
                    },
                ),
                "askedAt": ADDRESS,
                "verdict": array(text("10.0.0.5:8848 is responsible for the service.")),
                "differences": array(text("10.0.0.6:8848 does not list it.")),
                "notAnswered": array(ADDRESS),
                "otherKinds": array(ADDRESS, "Members that are real Nacos, and are not asked."),
                "elsewhere": array(_PLACE, "Further places of the same address."),
                "members": map_of("10.0.0.5:8848", _MEMBER_FACTS, "What each member knows."),
            },
        ),
        _MEMBER_FACTS,
    )
)
HOST_OF_SERVICE = record(
    "CatalogHost",
    {"valid": HEALTHY, "metadata": METADATA, "port": PORT, "ip": IP, "weight": WEIGHT, "enabled": ENABLED},
)
TARGETS = Content(
    JSON_TYPE,
    array(
        record(
            "Target",
            {
                "targets": array(text("10.0.0.1:8080")),
                "labels": map_of("__meta_clusterName", text("DEFAULT"), "The labels of the target."),
            },
        )
    ),
)

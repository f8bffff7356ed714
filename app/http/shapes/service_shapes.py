"""Answers about services, their clusters and subscribers."""

from app.http.shapes.common_shapes import (
    CLUSTER,
    COUNT,
    EPHEMERAL,
    FULL_NAME,
    GROUP,
    HEALTH_CHECKER,
    IP,
    METADATA,
    MILLISECONDS,
    NAMESPACE,
    PORT,
    SELECTOR,
    SHORT_NAME,
    V2_SELECTOR,
)
from app.http.shapes.described import JSON_TYPE, Content, json_of
from app.http.shapes.instance_shapes import HOST_OF_SERVICE
from app.http.shapes.json_shapes import array, either, flag, map_of, null, number, one_of, or_null, record, text, whole

_THRESHOLD = number(0.0, "At or below this share of healthy instances all are shown as healthy.")
_CLUSTER_FIELDS = {"healthChecker": HEALTH_CHECKER, "metadata": METADATA}
SERVICE = json_of(
    record(
        "Service",
        {
            "name": SHORT_NAME,
            "namespaceId": NAMESPACE,
            "protectThreshold": _THRESHOLD,
            "metadata": METADATA,
            "selector": SELECTOR,
            "groupName": GROUP,
            "clusters": array(record("Cluster", {"name": CLUSTER, **_CLUSTER_FIELDS})),
        },
    )
)
_CLUSTER_V2 = record("ClusterV2", {"clusterName": CLUSTER, **_CLUSTER_FIELDS, "hosts": null()})
V2_SERVICE = json_of(
    record(
        "ServiceV2",
        {
            "namespace": NAMESPACE,
            "serviceName": SHORT_NAME,
            "groupName": GROUP,
            "clusterMap": map_of("DEFAULT", _CLUSTER_V2),
            "metadata": METADATA,
            "protectThreshold": _THRESHOLD,
            "selector": V2_SELECTOR,
            "ephemeral": EPHEMERAL,
        },
    )
)
SERVICE_NAMES = json_of(
    record("ServiceList", {"doms": array(text("orders", "With the group where ``*`` was asked for.")), "count": COUNT})
)
V2_SERVICE_NAMES = json_of(record("ServiceListV2", {"count": COUNT, "services": array(SHORT_NAME)}))
_NAMESPACES = whole(1, "The number of namespaces.")
NAMES_BY_NAMESPACE = json_of(
    record("FoundServices", {"services": map_of("public", array(SHORT_NAME)), "count": _NAMESPACES})
)
ALL_NAMES = json_of(
    record(
        "AllNames",
        {"count": _NAMESPACES, "doms": either(map_of("public", array(SHORT_NAME)), array(SHORT_NAME))},
    )
)
CHECKSUM = json_of(record("ServiceChecksum", {"checksum": text("5ff4a3ca58b1e0ee3b7e5fa4f0a7ee15")}))
_CHECK_PORT = whole(80)
CATALOG_SERVICE = json_of(
    record(
        "CatalogService",
        {
            "service": record(
                "ServiceSettings",
                {
                    "name": SHORT_NAME,
                    "protectThreshold": _THRESHOLD,
                    "groupName": GROUP,
                    "selector": SELECTOR,
                    "metadata": METADATA,
                },
            ),
            "clusters": array(
                record(
                    "CatalogCluster",
                    {
                        "serviceName": FULL_NAME,
                        "name": CLUSTER,
                        "healthChecker": HEALTH_CHECKER,
                        "defaultPort": _CHECK_PORT,
                        "defaultCheckPort": _CHECK_PORT,
                        "useIPPort4Check": flag(True, "Whether an instance is checked at its own port."),
                        "metadata": METADATA,
                        "sitegroup": text(""),
                        "defCkport": whole(80, "The port of checks."),
                        "empty": flag(False, "Whether it has no instances."),
                        "defIPPort": _CHECK_PORT,
                    },
                )
            ),
        },
    )
)
COUNTED_SERVICE = record(
    "CountedService",
    {
        "name": SHORT_NAME,
        "groupName": GROUP,
        "clusterCount": whole(1),
        "ipCount": whole(2, "The number of instances."),
        "healthyInstanceCount": whole(2),
        "triggerFlag": one_of("false", "true", says="Whether so few are healthy that all are shown as healthy."),
    },
)
_WITH_INSTANCES = record(
    "ServiceWithInstances",
    {
        "serviceName": SHORT_NAME,
        "groupName": GROUP,
        "clusterMap": map_of("DEFAULT", record("HostsOfCluster", {"hosts": array(HOST_OF_SERVICE)})),
        "metadata": METADATA,
    },
)
CATALOG_SERVICES = Content(
    JSON_TYPE,
    either(record("CatalogServices", {"serviceList": array(COUNTED_SERVICE), "count": COUNT}), array(_WITH_INSTANCES)),
)
CHECK_TIMES = json_of(
    record(
        "CheckTimes",
        {
            "clusters": array(
                record(
                    "ClusterCheckTimes",
                    {
                        "name": CLUSTER,
                        "checkRTBest": MILLISECONDS,
                        "checkRTWorst": MILLISECONDS,
                        "checkRTNormalized": MILLISECONDS,
                    },
                )
            )
        },
    )
)
SUBSCRIBERS = json_of(
    record(
        "Subscribers",
        {
            "subscribers": array(
                record(
                    "Subscriber",
                    {
                        "addrStr": text("10.0.0.9:41000"),
                        "agent": text("Nacos-Java-Client:v1.4.1"),
                        "app": text("shop"),
                        "ip": text("10.0.0.9"),
                        "namespaceId": NAMESPACE,
                        "serviceName": FULL_NAME,
                    },
                )
            ),
            "count": COUNT,
        },
    )
)
RESPONSIBLE = json_of(record("ResponsibleServer", {"responsibleServer": or_null(text("10.0.0.5:8848"))}))
_CHECKER = dict.fromkeys(("TCP", "HTTP", "MYSQL", "NONE"), HEALTH_CHECKER)
CHECKERS = json_of(record("HealthCheckers", _CHECKER))

_HELD = {
    "address": text("10.0.0.5:8848", "The member."),
    "known": flag(True, "Whether it knows the service. Of one that it does not know the rest is empty or 0."),
    "version": text("1.4.10.0.0.5:8848~1a2136970ab8947"),
    "writer": text("10.0.0.5:8848", "The member that wrote this version."),
    "instances": whole(2),
    "healthy": whole(2),
    "digest": or_null(text("9f2c6a1e", "Of the instances; null of so many that it would take long.")),
}
_HELD_BY_MEMBER = record("HeldVersion", _HELD)
SERVICE_BEATS = json_of(
    record(
        "ServiceBeats",
        {
            "member": text("10.0.0.5:8848", "The member that counts the beats: the owner of the service."),
            "answered": flag(True),
            "beats": array(
                record(
                    "InstanceBeat",
                    {"ip": IP, "port": PORT, "clusterName": CLUSTER, "ageMs": MILLISECONDS},
                ),
                "Instances that have beaten since that member owns the service.",
            ),
        },
    )
)
SERVICE_VERSIONS = json_of(
    either(
        record(
            "ServiceVersions",
            {
                "serviceName": FULL_NAME,
                "namespaceId": NAMESPACE,
                "responsible": text("10.0.0.5:8848", "The member that owns the service; empty where none does."),
                "members": map_of("10.0.0.5:8848", _HELD_BY_MEMBER),
                "notAnswered": array(text("10.0.0.7:8848")),
                "otherKinds": array(text("10.0.0.8:8848", "A member of real Nacos, which cannot be asked.")),
            },
        ),
        _HELD_BY_MEMBER,
    )
)

"""Answers of HTTP v3, as far as they differ from those of v1 and v2."""

from app.http.shapes.common_shapes import (
    ADDRESS,
    ADDRESS_EXAMPLE,
    CLUSTER,
    EPHEMERAL,
    GROUP,
    HEALTH_CHECKER,
    IP,
    METADATA,
    MS,
    NAMESPACE,
    PORT,
    SHORT_NAME,
    V2_SELECTOR,
)
from app.http.shapes.described import Content, json_of
from app.http.shapes.instance_shapes import HOST_V2
from app.http.shapes.json_shapes import (
    Shape,
    array,
    facts,
    flag,
    map_of,
    null,
    number,
    one_of,
    or_null,
    record,
    text,
    whole,
)
from app.http.shapes.service_shapes import COUNTED_SERVICE
from app.http.shapes.user_shapes import FIRST_ADMIN

_NAMES = {"namespaceId": NAMESPACE, "groupName": GROUP, "serviceName": SHORT_NAME}
_THRESHOLD = number(0.0, "At or below this share of healthy instances all are shown as healthy.")


def page_of(title: str, *items: Shape) -> Content:
    """Return the answer with one page of items of these shapes."""
    return json_of(
        record(
            title,
            {
                "totalCount": whole(1, "Of all pages."),
                "pageNumber": whole(1),
                "pagesAvailable": whole(1),
                "pageItems": array(items[0] if len(items) == 1 else {"anyOf": list(items)}),
            },
        )
    )


# --- instances ---------------------------------------------------------------------------------------

V3_INSTANCE = json_of(HOST_V2)
V3_INSTANCES = json_of(array(HOST_V2))
V3_INSTANCE_PAGE = page_of("InstancePageV3", HOST_V2)

# --- services ----------------------------------------------------------------------------------------

_DESCRIBED = {
    **_NAMES,
    "clusterMap": map_of(
        "DEFAULT",
        record(
            "ClusterV3",
            {
                "clusterName": CLUSTER,
                "healthChecker": HEALTH_CHECKER,
                "healthyCheckPort": whole(80, "The port of checks."),
                "useInstancePortForCheck": flag(True, "Whether an instance is checked at its own port."),
                "metadata": METADATA,
                "hosts": or_null(array(HOST_V2)),
            },
        ),
    ),
    "metadata": METADATA,
    "protectThreshold": _THRESHOLD,
    "selector": V2_SELECTOR,
    "ephemeral": EPHEMERAL,
}
_SERVICE = record("ServiceV3", _DESCRIBED)
V3_SERVICE = json_of(_SERVICE)
V3_SERVICE_PAGE = page_of("ServicePageV3", COUNTED_SERVICE, _SERVICE)
SELECTOR_TYPES = json_of(array(one_of("none", "label")))
V3_SUBSCRIBER_PAGE = page_of(
    "SubscriberPageV3",
    record(
        "SubscriberV3",
        {
            **_NAMES,
            "ip": IP,
            "port": whole(0, "The port for UDP; 0 over gRPC."),
            "agent": text("Nacos-Java-Client:v3.0.3"),
            "appName": text("shop"),
            "address": text("10.0.0.9:0"),
        },
    ),
)

# --- clients -----------------------------------------------------------------------------------------

_CLIENT_ID = text("10.0.0.1:8080#true")
V3_CLIENT = json_of(
    record(
        "ClientV3",
        {
            "clientId": _CLIENT_ID,
            "ephemeral": EPHEMERAL,
            "lastUpdatedTime": MS,
            "clientType": one_of("ipPort", "connection"),
            "connectType": or_null(text("GRPC")),
            "appName": or_null(text("shop")),
            "version": or_null(text("Nacos-Java-Client:v3.0.3")),
            "clientIp": or_null(IP),
            "clientPort": whole(0),
        },
    )
)
_PUBLISHER = record("PublisherV3", {"clientId": or_null(_CLIENT_ID), "ip": IP, "port": PORT, "clusterName": CLUSTER})
_SUBSCRIBER = record(
    "SubscribedClientV3",
    {
        "clientId": or_null(text("1790000000000_10.0.0.9_41000")),
        "appName": text("shop"),
        "agent": text("Nacos-Java-Client:v3.0.3"),
        "address": text("10.0.0.9"),
    },
)
V3_CLIENT_SERVICES = json_of(
    array(
        record(
            "ServiceOfClientV3",
            {**_NAMES, "publisherInfo": or_null(_PUBLISHER), "subscriberInfo": or_null(_SUBSCRIBER)},
        )
    )
)
V3_PUBLISHERS = json_of(array(_PUBLISHER))
V3_SUBSCRIBERS = json_of(array(_SUBSCRIBER))

# --- this node, and the other members ----------------------------------------------------------------

_COUNT = whole(2)
V3_METRICS = json_of(
    record(
        "NamingCounts",
        {"status": text("UP", "The state, or the status that an operator set in its place.")},
        {
            "serviceCount": _COUNT,
            "instanceCount": _COUNT,
            "subscribeCount": whole(2, "Subscriptions of clients that are connected here."),
            "clientCount": _COUNT,
            "connectionBasedClientCount": _COUNT,
            "ephemeralIpPortClientCount": _COUNT,
            "persistentIpPortClientCount": _COUNT,
            "responsibleClientCount": _COUNT,
        },
    )
)
MEMBERS_BODY = json_of(array(facts("A member.", ip="10.0.0.6", port=8848, address=ADDRESS_EXAMPLE)))
_STATE_FIELDS = {
    "version": text("3.0.3", "The release of Nacos whose API v3 this is."),
    "startup_mode": one_of("standalone", "cluster"),
    "function_mode": one_of("naming"),
    "server_port": text("8848"),
    "auth_enabled": one_of("false", "true"),
    "auth_system_type": one_of("nacos"),
    "auth_admin_request": one_of("false", "true", says="Whether the first administrator is still to be made."),
}
STATES = json_of(record("StateOfNode", _STATE_FIELDS))
CONSOLE_STATE = json_of(
    record(
        "StateForConsole",
        {
            **_STATE_FIELDS,
            "login_page_enabled": one_of("false", "true"),
            "console_ui_enabled": one_of("true"),
        },
    )
)
V3_LOAD = json_of(
    record(
        "ClusterLoadV3",
        {
            "detail": array(
                record(
                    "MemberLoadV3",
                    {
                        "address": ADDRESS,
                        "sdkConCount": _COUNT,
                        "conCount": _COUNT,
                        "load": text("0.5"),
                        "cpu": text("0.1"),
                    },
                )
            ),
            "memberCount": _COUNT,
            "metricsCount": whole(2, "Members that answered."),
            "completed": flag(True),
            "max": _COUNT,
            "min": _COUNT,
            "avg": _COUNT,
            "threshold": text("2.2"),
            "total": _COUNT,
        },
    )
)
ID_GENERATORS = json_of(array(facts("An id generator.", resource="a")))
NOTHING = json_of(null())
FAILURE = json_of(or_null(text("Smart reload failed, please try again later.", "Null where all went well.")))
BEATEN = json_of(or_null(text("ok", "Null with code 21003, for the beat of an unknown instance.")))
FIRST_ADMIN_ONCE = json_of(or_null(FIRST_ADMIN.shape))
NO_TEXT = json_of(text("", maxLength=0))
ANSWERED_TEXT = json_of(text("create user ok!"))

# --- namespaces --------------------------------------------------------------------------------------

_NAMESPACE = record(
    "NamespaceV3",
    {
        "namespace": NAMESPACE,
        "namespaceShowName": text("public"),
        "namespaceDesc": or_null(text("Default Namespace")),
        "quota": whole(200),
        "configCount": whole(0),
        "type": whole(0, "0: the public one; 1: one that was created."),
    },
)
V3_NAMESPACE = json_of(_NAMESPACE)
V3_NAMESPACES = json_of(array(_NAMESPACE))
NAMESPACE_COUNT = json_of(whole(1, "0 or 1.", minimum=0, maximum=1))

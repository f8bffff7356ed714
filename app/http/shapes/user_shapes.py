"""Answers about users, and about clients."""

from app.http.shapes.common_shapes import EPHEMERAL, FULL_NAME, GROUP, IP, NAMESPACE, PORT, SHORT_NAME
from app.http.shapes.described import Content, json_of
from app.http.shapes.json_shapes import Shape, array, either, facts, flag, null, one_of, or_null, record, text, whole

_USER = text("alice")
LOGIN = json_of(
    record(
        "Login",
        {
            "accessToken": text("eyJhbGciOiJIUzI1NiJ9.e30.abc", "To be sent with further calls."),
            "tokenTtl": whole(18_000, "The token is good for so many seconds."),
            "globalAdmin": flag(False),
            "username": _USER,
        },
        {"message": text("", "The reason for the missing token: users are switched off.")},
    )
)
FIRST_ADMIN = json_of(
    record("FirstAdmin", {"username": text("nacos")}, {"password": text("s3cret", "The password that was made up.")})
)
HAS_ADMIN = json_of(
    record("HasAdmin", {"code": whole(409), "message": text("have admin user cannot use it"), "data": null()})
)
DONE_RESULT = json_of(
    record(
        "UserResult",
        {"code": whole(200, "200, or that of a refusal."), "message": text("create user ok!"), "data": null()},
    )
)


def _page(title: str, item: Shape) -> Content:
    return json_of(
        record(
            title,
            {
                "totalCount": whole(1),
                "pageNumber": whole(1),
                "pagesAvailable": whole(1),
                "pageItems": array(item),
            },
        )
    )


USER_PAGE = _page("UserPage", record("User", {"username": _USER}))
ROLE_PAGE = _page("RolePage", record("Role", {"role": text("readers"), "username": _USER}))
PERMISSION_PAGE = _page(
    "PermissionPage",
    record(
        "Permission",
        {"role": text("readers"), "resource": text("public:*:naming/*"), "action": one_of("r", "w", "rw")},
    ),
)
NAMES = json_of(array(text("alice")))

# --- clients ---------------------------------------------------------------------------------------------

_CLIENT_ID = text("10.0.0.1:8080#true")
CLIENT_IDS = json_of(array(_CLIENT_ID))
CLIENTS_FOUND = json_of(
    record(
        "ClientsFound",
        {
            "count": whole(1, "All that were found, on any page."),
            "connected": whole(0, "gRPC connections at this member."),
            "clientIds": array(_CLIENT_ID),
        },
    )
)
_KNOWN = {"clientId": _CLIENT_ID, "ephemeral": EPHEMERAL}
_ADDRESS = {"clientIp": text("10.0.0.9"), "clientPort": text("41000")}
CLIENT = json_of(
    either(
        record("AddressClient", {**_KNOWN, "clientType": one_of("ipPort"), **_ADDRESS}),
        record(
            "ConnectedClient",
            {
                **_KNOWN,
                "clientType": one_of("connection"),
                "isNative": flag(True, "Whether it is connected to this member."),
                "connectType": one_of("GRPC"),
                "appName": text("shop"),
                "version": text("Nacos-Java-Client:v2.4.0"),
                **_ADDRESS,
            },
        ),
    )
)
_OF_SERVICE = {"namespace": NAMESPACE, "group": GROUP, "serviceName": SHORT_NAME}
PUBLISHED = json_of(
    array(
        record(
            "PublishedInstance",
            {
                **_OF_SERVICE,
                "registeredInstance": record("Place", {"ip": IP, "port": PORT, "cluster": text("DEFAULT")}),
            },
        )
    )
)
SUBSCRIBED = json_of(
    array(
        record(
            "Subscription",
            {
                **_OF_SERVICE,
                "subscriberInfo": record(
                    "SubscriberInfo", {"app": text("shop"), "agent": text("Nacos-Java-Client:v2.4.0"), "addr": IP}
                ),
            },
        )
    )
)
CLIENTS_OF_SERVICE = json_of(array(record("ClientOfService", {"clientId": _CLIENT_ID, "ip": IP, "port": PORT})))

_AT_MEMBER = {
    "clientId": _CLIENT_ID,
    "ip": IP,
    "port": PORT,
    "app": text("shop"),
    "agent": text("Nacos-Java-Client:v2.4.0"),
    "member": text("10.0.0.5:8848", "The member that it is connected to."),
}
_CLIENT_AT_MEMBER = record("ClientAtMember", _AT_MEMBER)
_SILENT = {
    "notAnswered": array(text("10.0.0.7:8848"), "Members that did not answer."),
    "otherKinds": array(text("10.0.0.8:8848"), "Members of real Nacos, which cannot be asked."),
}
CLIENTS_OF_CLUSTER = json_of(
    either(
        record(
            "ClientsOfCluster",
            {
                "count": whole(1, "All that were found, on any page."),
                "connected": whole(1, "gRPC connections at all members."),
                "clients": array(
                    either(
                        _CLIENT_AT_MEMBER,
                        record("ClientByAddress", {"clientId": _CLIENT_ID, "member": one_of("")}),
                    )
                ),
                **_SILENT,
            },
        ),
        record(
            "ClientsOfMember",
            {
                "member": text("10.0.0.5:8848"),
                "count": whole(1),
                "connected": whole(1),
                "clients": array(_CLIENT_AT_MEMBER),
            },
        ),
    )
)
CONNECTED_CLIENT = json_of(
    record(
        "ConnectedClientFacts",
        {
            "client": or_null(_CLIENT_AT_MEMBER),
            "connection": or_null(facts("The connection at its member.", createTime=1_790_000_000_000)),
            "subscribed": array(record("SubscribedService", {"namespaceId": NAMESPACE, "serviceName": FULL_NAME})),
            "notAnswered": _SILENT["notAnswered"],
        },
    )
)
_SUBSCRIBER = record("SubscriberAtMember", {**_AT_MEMBER, "over": one_of("gRPC", "UDP"), "serviceName": FULL_NAME})
SUBSCRIBERS_OF_CLUSTER = json_of(
    either(
        record("SubscribersOfCluster", {"count": whole(1), "subscribers": array(_SUBSCRIBER), **_SILENT}),
        record("SubscribersOfMember", {"count": whole(1), "subscribers": array(_SUBSCRIBER)}),
    )
)

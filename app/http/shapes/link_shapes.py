"""The answers of the calls about links between clusters."""

from app.http.shapes.described import json_of
from app.http.shapes.json_shapes import array, facts, flag, map_of, record, text, tuple_of, whole

DIGEST = text("00000000000000ff", "16 hexadecimal digits that stand for the instances.")
HELD_BODY = json_of(record("HeldServices", {"held": array(tuple_of(text("public"), text("G@@orders"), DIGEST))}))
FOREIGN_SERVICE = record(
    "ForeignService",
    {
        "ns": text("public"),
        "service": text("DEFAULT_GROUP@@orders"),
        "digest": DIGEST,
        "instances": array(
            facts("An instance, without fields that have their default values.", ip="10.0.0.1", port=80)
        ),
    },
)
COMPARED = json_of(
    record(
        "Compared",
        {
            "cluster": text("dc-a"),
            "member": text("10.0.0.1:8848~1"),
            "upMs": whole(60_000),
            "run": text("1a2b3c4d5e6f7081"),
            "place": whole(7),
            "count": whole(1, "Services of the slice that have instances."),
            "services": whole(1, "Services that the part may have."),
            "more": flag(False),
            "gone": array(tuple_of(text("public"), text("G@@orders")), "Services that are held, and not here."),
            "set": array(FOREIGN_SERVICE),
        },
    )
)
LINK = record(
    "Link",
    {
        "name": text("dc-b"),
        "kind": text("rollcall"),
        "direction": text("in"),
        "arrival": text("merge"),
        "servers": array(text("10.1.0.1:8848")),
        "server": text("10.1.0.1:8848", "The member that is followed; empty while none is."),
        "cluster": text("dc-b", "The id of the other cluster."),
        "part": text("1/3", "The part of the services that this member follows."),
        "silent": flag(False),
        "heardAgoMs": whole(400),
        "services": whole(12),
        "instances": whole(40),
        "staleInstances": whole(0),
        "sentServices": whole(0, "Services whose local instances this member registers at a Nacos."),
        "sentInstances": whole(0),
        "changes": whole(52),
        "compared": whole(1),
        "refused": whole(0),
        "kept": whole(0),
        "bytes": whole(12_000),
        "connections": whole(1),
        "error": text("", "Why the link is silent."),
        "refusal": text("", "Why something was refused last."),
    },
)
_FIELDS = map_of("servers", text("10.1.0.1:8848"), "The fields of the link that calls set, as texts.")
CALLED = json_of(record("CalledLink", {"link": text("dc-b"), "byCall": _FIELDS}))
LINKS = json_of(
    record(
        "Links",
        {
            "cluster": text("dc-a", "The id of this cluster."),
            "members": array(
                record(
                    "LinksOfMember",
                    {
                        "address": text("10.0.0.1:8848"),
                        "error": text("", "The reason why settings are ignored."),
                        "links": array(LINK),
                        "byCall": map_of("dc-b", _FIELDS, "The fields of links that calls set, by link."),
                    },
                )
            ),
            "notAnswered": array(text("10.0.0.7:8848"), "Members that did not answer."),
            "otherKinds": array(text("10.0.0.9:8848"), "Members of other software, which have no links."),
        },
    )
)
FETCHED = json_of(
    record(
        "FetchedAgain",
        {
            "address": text("10.0.0.1:8848"),
            "link": text("dc-b"),
            "services": whole(1, "Services that are fetched whole."),
        },
    )
)

"""The digests of this node, for the audit's watch: a cheap look at all that it holds."""

from typing import Any

from marshmallow import validate

from app.auth.access_rules import READ, admin
from app.config.version import __version__
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import OK, Answer, Call, Reply, Services, route
from app.http.api.digest_values import bucket_digests, service_digests
from app.http.input.fields import PRESENT, BucketList, JsonObject
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DIGEST
from app.operator.content_checks import DIFFERENCES_MAX
from app.rows.rows import DIGEST_FORMAT

RETRY_AFTER_S = 2


class DigestSchema(CallSchema):
    buckets = BucketList(
        "buckets", "The numbers of the buckets whose services are wanted, with commas between them.", frozenset()
    )


@route(
    "GET",
    "/v1/ns/operator/digest",
    access=admin(READ).or_members(),
    described=Described(DIGEST, takes=(DigestSchema,)),
)
def digest(call: Call, services: Services) -> Answer:
    """Digests of all buckets; with ``buckets`` of their services. Shape: docs/wire-tools.md.

    It takes one of the places of dumps, as it is long work of one thread, too.
    """
    values = load_parameters(DigestSchema, call.parameters)
    place = services.dumps.begin(())
    if place is None:
        busy = text_reply(503, "as many dumps as this node gives at a time are being read, please try again later")
        return Reply(503, busy.body, busy.content_type, {"Retry-After": str(RETRY_AFTER_S)})
    try:
        found = _found(values, services)
    finally:
        place.close()
    told = {"format": DIGEST_FORMAT, "address": services.cluster.self_address, "version": __version__}
    return json_reply(told | found)


def _found(values: dict[str, Any], services: Services) -> dict[str, Any]:
    if values["buckets"]:
        return service_digests(services.naming, values["buckets"])
    return bucket_digests(services.naming)


class DifferencesSchema(CallSchema):
    services = JsonObject(
        "services",
        "The services that differ: lists of their full names, by namespace.",
        needs=PRESENT,
        validate=validate.Length(max=DIFFERENCES_MAX),
    )


@route("POST", "/v1/ns/operator/differences", access=admin(READ), described=Described(takes=(DifferencesSchema,)))
def note_differences(call: Call, services: Services) -> Answer:
    """Take note that services were seen to differ between members. This member compares them itself next.

    Its console shows them until then.
    """
    named = load_parameters(DifferencesSchema, call.parameters)["services"]
    listed = [(namespace, name) for namespace, names in named.items() if isinstance(names, list) for name in names]
    for namespace, name in listed[:DIFFERENCES_MAX]:
        if services.naming.service_view(namespace, str(name)) is not None:
            services.content_checks.suspect(namespace, str(name))
    return OK

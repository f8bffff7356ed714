"""Answers to searches."""

from app.http.shapes.common_shapes import (
    CLUSTER,
    COUNT,
    ENABLED,
    EPHEMERAL,
    FULL_NAME,
    HEALTHY,
    IP,
    METADATA,
    NAMESPACE,
    PORT,
    WEIGHT,
)
from app.http.shapes.described import json_of
from app.http.shapes.json_shapes import array, flag, one_of, record, whole
from app.http.shapes.service_shapes import COUNTED_SERVICE

_INSTANCE = record(
    "FoundInstance",
    {
        "namespaceId": NAMESPACE,
        "serviceName": FULL_NAME,
        "clusterName": CLUSTER,
        "ip": IP,
        "port": PORT,
        "healthy": HEALTHY,
        "enabled": ENABLED,
        "ephemeral": EPHEMERAL,
        "weight": WEIGHT,
        "source": one_of("HTTP", "gRPC", "persistent", says="How the instance came."),
        "metadata": METADATA,
    },
)
FOUND_SERVICES = json_of(
    record(
        "ServicesWithCounts",
        {
            "serviceList": array(
                record(
                    "ServiceWithCounts",
                    {
                        **COUNTED_SERVICE["properties"],
                        "unhealthyInstanceCount": whole(0, "The unhealthy instances, without disabled ones."),
                    },
                )
            ),
            "count": COUNT,
        },
    )
)
_SERVICE = record(
    "FoundService",
    {
        "namespaceId": NAMESPACE,
        "serviceName": FULL_NAME,
        "instanceCount": whole(3),
        "healthyInstanceCount": whole(2),
        "unhealthyInstanceCount": whole(1, "Without disabled ones."),
    },
)
FOUND_INSTANCES = json_of(
    record(
        "FoundInstances",
        {
            "count": whole(1, "The number of instances on all pages."),
            "complete": flag(True, "False if the search ended early, with as many instances as it may find."),
            "instances": array(_INSTANCE),
            "serviceCount": whole(1, "The number of services whose names contain the text."),
            "services": array(_SERVICE, "The first of these services."),
        },
    )
)

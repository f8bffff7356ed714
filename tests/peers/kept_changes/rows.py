"""Operators' calls that change an instance, for a table of how long each change is kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("http", "grpc", "persistent")
"""How an instance was registered: with beats over HTTP, by a connection, or persistent over HTTP."""
PORT = 80
V1, V2, V3 = "/v1/ns/instance", "/v2/ns/instance", "/v3/admin/ns/instance"
BATCH = "/metadata/batch"

Attributes = dict[str, Any]
"""``weight``, ``enabled`` and ``metadata`` of an instance."""
REGISTERED: Attributes = {"weight": 3.0, "enabled": True, "metadata": {"zone": "a"}}
ANEW: Attributes = {"weight": 4.0, "enabled": True, "metadata": {"zone": "c", "build": "2"}}
"""A publisher's own values in its second registration."""
WEIGHT, ENABLED, METADATA = {"weight": "5.0"}, {"enabled": "false"}, {"metadata": '{"zone":"b","by":"ops"}'}
SAME = {"weight": "3.0", "enabled": "true", "metadata": '{"zone":"a"}'}
"""The registered values in a call that needs all of them."""


@dataclass(frozen=True)
class Call:
    """One call of an operator, beside the instance that it names."""

    method: str
    path: str
    values: Mapping[str, str]

    def parameters(self, service: str, ip: str, kind: str) -> dict[str, str | int]:
        """Return the parameters of the call for an instance."""
        if (self.method, self.path) == ("PATCH", V2):
            service = f"DEFAULT_GROUP@@{service}"  # without the group it is refused
        if self.path.endswith(BATCH):
            one = {"ip": ip, "port": PORT, "clusterName": "DEFAULT", "ephemeral": kind != "persistent"}
            return {"serviceName": service, "instances": json.dumps([one]), **self.values}
        return {"serviceName": service, "ip": ip, "port": PORT, **self.values}


@dataclass(frozen=True)
class Row:
    """Calls that change an instance, made one after the other.

    ``like``: the row to compare with of real Nacos 2.3.1, which has no HTTP v3.
    """

    name: str
    calls: tuple[Call, ...]
    like: str = ""


def _rows() -> list[Row]:
    rows = []
    attributes = {"weight": WEIGHT, "enabled": ENABLED, "metadata": METADATA}
    for api, path in (("v1", V1), ("v2", V2), ("v3", V3)):
        for name, values in attributes.items():
            like = f"v2 PUT {name}" if api == "v3" else ""
            rows.append(Row(f"{api} PUT {name}", (Call("PUT", path, values),), like))
        for name, values in attributes.items():
            if api == "v3":
                rows.append(Row(f"v3 partial {name}", (Call("PUT", f"{path}/partial", values),), f"v1 PATCH {name}"))
            else:
                whole = SAME if api == "v2" else {}
                rows.append(Row(f"{api} PATCH {name}", (Call("PATCH", path, {**whole, **values}),)))
        batch = Call("PUT", path + BATCH, METADATA)
        removal = Call("DELETE", path + BATCH, {"metadata": '{"by":""}'})
        like = "v2" if api == "v3" else ""
        rows.append(Row(f"{api} batch", (batch,), like and f"{like} batch"))
        rows.append(Row(f"{api} batch, removal", (batch, removal), like and f"{like} batch, removal"))
    return rows


ROWS = _rows()
WHOLE = Call("PUT", V2, {**WEIGHT, **ENABLED, **METADATA})
"""A change of all three attributes, on the majority's side of a partition."""
LATER = Call("PUT", V2, {**WHOLE.values, "weight": "6.0"})
"""The later one, on the other side."""
MINORITY, MAJORITY, BOTH = "minority", "majority", "majority, then minority"
APART = (MINORITY, MAJORITY, BOTH)
"""Where an instance is changed during a partition."""

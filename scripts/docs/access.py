"""Writes the pages of permissions from the tables of HTTP routes and of gRPC requests."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from app.auth.access_rules import words
from app.http import blueprints
from app.http.api.call import ROUTES
from app.rpc.members.handlers import MemberHandlers
from app.rpc.sdk.fuzzy_requests import FuzzyHandlers
from app.rpc.sdk.naming import NamingHandlers
from app.rpc.sdk.rebalancer import Rebalancer
from app.rpc.server.connections import Connections
from app.rpc.server.grpc_routes import GrpcRoute

DOCS = Path(__file__).resolve().parents[2] / "docs"
assert blueprints.MODULES, "their import fills the table of routes"

MAIN, V1, LATER = "access.md", "access/v1.md", "access/v2-v3.md"
HEAD = """\
# Access: the permission of each call

Each HTTP route and each type of gRPC request declares its callers. A node checks them on the decoded path, so the
spelling of a path does not matter. A route without a declaration fails at import.

| text in the tables | meaning |
|---|---|
| anyone | every caller |
| any user | every user who is logged in |
| users with `r` or `w` for ... | users who have this [permission](security/users.md#permissions-and-tokens) |
| administrators | users with the role `ROLE_ADMIN`; *to change* marks calls that change something |
| members | members that prove the [identity](security/members.md#the-identity); *only* means that every user gets 403 |
| by the console's cookie | the session of the console, instead of a token |

While `nacos.core.auth.enabled` is false, everyone may make the calls of users. The calls of members stay protected.

`python -m scripts.docs.access` generates these pages from the code.

- [Console, probes and metrics](#console-probes-and-metrics)
- [gRPC](#grpc)
- [HTTP v1](access/v1.md)
- [HTTP v2](access/v2-v3.md#http-v2)
- [HTTP v3](access/v2-v3.md#http-v3)

```{toctree}
:hidden:

access/v1
access/v2-v3
```

"""
HEADS = {
    V1: "# Access: HTTP v1\n\n[Access](../access.md) explains the texts in this table.\n\n",
    LATER: "# Access: HTTP v2 and v3\n\n[Access](../access.md) explains the texts in these tables.\n\n",
}
VERSION = re.compile(r"/(v[123])/")


def rpc_routes() -> dict[str, GrpcRoute]:
    """Return the gRPC requests that need a registered connection, except for the health check."""
    none: Any = None
    naming, members = NamingHandlers(none, none, none), MemberHandlers(none, none, none, none)
    rebalancer = Rebalancer(Connections(int, int), 0, none, int, none)
    naming.stop()
    members.stop()
    fuzzy = FuzzyHandlers(none, none, none)
    return {**naming.routes(), **fuzzy.routes(), **members.routes(), **rebalancer.routes()}


def documents() -> dict[str, str]:
    """Return the text of each page, by its path below ``docs``."""
    calls: dict[str, list[tuple[str, str]]] = {"": [], "v1": [], "v2": [], "v3": []}
    for path, method, who in sorted({(row.path, row.method, words(row.access)) for row in ROUTES}):
        version = VERSION.match(path)
        calls[version[1] if version else ""].append((f"{method} {path}", who))
    requests = [(kind, words(row.access)) for kind, row in sorted(rpc_routes().items())]
    requests += [(kind, "anyone") for kind in ("ServerCheckRequest", "HealthCheckRequest")]
    return {
        MAIN: HEAD
        + f"## Console, probes and metrics\n\n{_table('call', calls[''])}\n## gRPC\n\n{_table('request', requests)}",
        V1: HEADS[V1] + _table("call", calls["v1"]),
        LATER: HEADS[LATER]
        + f"## HTTP v2\n\n{_table('call', calls['v2'])}\n## HTTP v3\n\n{_table('call', calls['v3'])}",
    }


def _table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"| `{name}` | {who} |\n" for name, who in rows)
    return f"| {head} | callers |\n|---|---|\n{lines}"


if __name__ == "__main__":
    for name, text in documents().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")

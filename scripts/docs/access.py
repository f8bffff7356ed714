"""Writes docs/access.md from the tables of HTTP routes and of gRPC requests."""

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

ROOT = Path(__file__).resolve().parents[2]
assert blueprints.MODULES, "their import fills the table of routes"

HEAD = """\
# Who may call what

Each HTTP route and each gRPC request type declares its callers, and both ways to an endpoint check them on the decoded
route. A route without a declaration fails at import. `r` and `w` are the actions of permissions;
[security.md](security.md) explains them. Without `nacos.core.auth.enabled` the rows of users are open; those of members
are not.

Made by `python -m scripts.docs.access`.

"""


def rpc_routes() -> dict[str, GrpcRoute]:
    """The gRPC requests that need a registered connection, but for the health check."""
    none: Any = None
    naming, members = NamingHandlers(none, none, none), MemberHandlers(none, none, none, none)
    rebalancer = Rebalancer(Connections(int, int), 0, none, int, none)
    naming.stop()
    members.stop()
    fuzzy = FuzzyHandlers(none, none, none)
    return {**naming.routes(), **fuzzy.routes(), **members.routes(), **rebalancer.routes()}


def document() -> str:
    """The page's whole text."""
    lines = ["## HTTP\n\n", "| call | who |\n", "|---|---|\n"]
    rows = sorted({(row.path, row.method, words(row.access)) for row in ROUTES})
    lines += [f"| `{method} {path}` | {who} |\n" for path, method, who in rows]
    lines += ["\n## gRPC\n\n", "| request | who |\n", "|---|---|\n"]
    lines += [f"| `{kind}` | {words(row.access)} |\n" for kind, row in sorted(rpc_routes().items())]
    lines += [f"| `{kind}` | anybody |\n" for kind in ("ServerCheckRequest", "HealthCheckRequest")]
    return HEAD + "".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "access.md").write_text(document(), encoding="utf-8")

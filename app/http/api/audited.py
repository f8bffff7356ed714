"""Entries of calls in the audit trail: their actors, and the changes that they made."""

from app.auth.access_rules import Action, Scope
from app.http.api.call import Call, Reply, Route, Services

_ADMIN, _WRITE = Scope.ADMIN, Action.WRITE
"""Python 3.11 needs ten times as long to look a member up in its class."""


def audit_refusal(call: Call, services: Services, why: str, user: str = "") -> None:
    """Write that a call was refused. ``user``: whose token it brought, if that is known."""
    actor = call.actor
    services.instruments.audit.on_access(
        "access.refused", f"{call.method} {call.path}", actor._replace(user=user or actor.user), why
    )


def audit_operation(row: Route, call: Call, reply: Reply, services: Services) -> None:
    """Write an administrator's call that changed something, whatever it was, with its parameters.

    The change of a durable record has a line of its own beside this one, with its values.
    """
    if row.access.scope is _ADMIN and row.access.action is _WRITE and reply.status < 300:
        parameters = dict(call.parameters.items())
        services.instruments.audit.write("operation", f"{row.method} {row.path}", after=parameters)

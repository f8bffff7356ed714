"""What calls leave in the audit trail: who made them, and what they changed."""

from app.auth.access_rules import Action, Scope
from app.http.api.call import CLIENT_ADDRESS, Call, Reply, Route, Services
from app.metrics.audit_trail import Actor
from app.naming.model.model import Instance
from app.naming.registry import operations
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Replaced

_ADMIN, _WRITE = Scope.ADMIN, Action.WRITE
"""Python 3.11 needs ten times as long to look a member up in its class."""
Command = RegisterInstance | DeregisterInstance | PatchInstance | Beat
AGENT_CHARS_MAX = 200
# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__


def actor_of(call: Call, services: Services) -> Actor:
    """Who makes a call. A member that passed it on tells the client's address; nobody else is believed."""
    address, via = call.remote_ip, ""
    if call.caller.is_member and (told := call.header(CLIENT_ADDRESS)):
        address, via = told, address
    return _new_tuple(Actor, (address, call.user, call.client_agent[:AGENT_CHARS_MAX], via))


def replaced(call: Call, services: Services, command: Command) -> Instance | None:
    """The instance that a command is going to change, for ``audit_instance``; None when that is not written anyway."""
    if not services.instruments.audit.covers_instances:
        return None
    return services.naming.quick_detail(command.namespace, command.service, command.ip, command.port, command.cluster)


def audit_instance(call: Call, services: Services, verb: str, command: Command, before: Instance | None) -> None:
    """Write what a command changed of an ephemeral instance."""
    audit = services.instruments.audit
    if audit.covers_instances:
        key = f"{command.namespace}/{command.service}/{operations.key_of(command)}"
        after = None if verb == "remove" else command
        audit.write_instance(f"instance.{verb}", key, before, after, actor_of(call, services))


def audit_replaced(call: Call, services: Services, verb: str, command: RegisterInstance, done: Replaced) -> None:
    """Write what a registration changed of an ephemeral instance."""
    audit = services.instruments.audit
    if audit.covers_instances:
        key = f"{command.namespace}/{command.service}/{done.instance_key}"
        audit.write_instance(f"instance.{verb}", key, done.before, command, actor_of(call, services))


def audit_refusal(call: Call, services: Services, why: str, user: str = "") -> None:
    """Write that a call was refused. ``user``: whose token it brought, if that is known."""
    actor = actor_of(call, services)
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

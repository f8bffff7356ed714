"""Commands as the calls of Nacos's API that mean the same: so members pass on what came another way than over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from app.naming.model.flags import flag_text
from app.naming.registry.operations import DeregisterInstance, RegisterInstance

PATH = "/v1/ns/instance"
AGENT = "Rollcall-gRPC"


@dataclass(frozen=True, slots=True)
class NacosCall:
    """A ``MemberRequest`` that no client made."""

    method: str
    parameters: Mapping[str, str]
    context_path: str
    path: str = PATH
    agent: str = AGENT
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_ip: str = ""


def nacos_call(
    command: RegisterInstance | DeregisterInstance, context_path: str, token: str, remote_ip: str
) -> NacosCall:
    """Return the call that registers or removes a persistent instance.

    ``token``: of the user, for the owner to check; empty for none. ``remote_ip``: the address that the client called
    from.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    named = {
        "serviceName": command.service,
        "namespaceId": command.namespace,
        "ip": command.ip,
        "port": str(command.port),
        "clusterName": command.cluster,
        "ephemeral": "false",
    }
    if isinstance(command, DeregisterInstance):
        return NacosCall("DELETE", named, context_path, headers=headers, remote_ip=remote_ip)
    attributes = {
        "weight": repr(command.weight),
        "healthy": flag_text(command.healthy),
        "enabled": flag_text(command.enabled),
        "metadata": orjson.dumps(command.metadata or {}).decode(),
        "app": command.app,
    }
    return NacosCall("POST", named | attributes, context_path, headers=headers, remote_ip=remote_ip)

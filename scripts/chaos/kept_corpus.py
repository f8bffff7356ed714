"""Inputs for ``kept.py``: keys, sizes and kinds at and beyond the limits of the store, for every API.

Each input states the meaning of its acknowledgement: which durable record then has a value, or has none.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.naming.model.json_fields import lenient_bool
from app.naming.model.keys import (
    DEFAULT_CLUSTER,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    EPHEMERAL_PREFIX,
    NAMESPACE_SPLITTER,
    TRIMMED,
    compose_service_name,
    instance_key,
)
from app.naming.records.record_keys import (
    PERSISTENT_PREFIX,
    SWITCHES_KEY,
    namespace_key,
    permission_key,
    persistent_key,
    role_key,
    service_meta_key,
    user_key,
)
from distro.wire.http_agent import MEMBER_HEADER
from scripts.chaos.hostile_corpus import DATUM, Shot

FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
ODD = (
    *("$", "/", "*", " ", "#", "##", "%", "\\", "\n", "\r\n", "\t", "\0", "\x7f", "\u0085", "\u2028", "\u200b", "\xa0"),
    *("\u00ad", "\ufeff", "\u202e", "\ue000", "\ufffd", "\U0001f600", "服务", "é", "e\u0301", "|", ";", "'", '"', "&"),
    *("=", "+", "?", "<b>", "{}", "[]", "@", "@@", ":", "..", "-", "_", ".", ",", "~", "^", "`", "\u0430", "\uff41"),
)  # fmt: skip
LENGTHS = (0, 1, 127, 128, 129, 255, 300, 498, 499, 500, 511, 512, 513, 600, 1_024, 1_025, 2_048, 2_049, 8_000, 20_000)
IPS = (
    *("10.0.0.1", "10.0.0.2", "1.2.3.256", "1.2.3", "::1", "fe80::1%eth0", "[::1]", "host", "a b", ""),
    *("h" * 128, "h" * 129),
)
PORTS = ("80", "0", "-1", "65535", "65536", "abc", "2147483648", "9223372036854775808", "", "+80", " 80 ", "8_0", "٣")
WEIGHTS = ("1", "0", "-1", "NaN", "Infinity", "1e999", "0.00001", "10001", "-0.0", "x")
FLAGS = ("true", "false", "1", "0", "yes", "", "TRUE")
NAMESPACES = (
    *("public", "Public", "\uff50ublic", "publi\u0441", "public\u00a0", "dev", "Dev", "dev#", "a##b", "#", "测试"),
)  # fmt: skip
PAIRS = (
    *('{"k":"v"}', "k=v", "null", "[]", '{"k":{"x":1}}', '{"k":"\\ud800"}', '{"k":null}', '{"":""}'),
    '{"\\u0000":"\\n"}',
)
SIZES = (65_535, 65_536, 65_537, 70_000)
CHECKERS = (
    *('{"type":"TCP"}', '{"type":"HTTP","path":"/x","headers":"a:b"}', '{"type":"NONE"}', "{}", "[]", '{"type":1}'),
)  # fmt: skip
SWITCHES = ("distroThreshold", "clientBeatInterval", "pushCacheMillis", "masters", "limitedUrlMap", "healthCheckTimes")


@dataclass(frozen=True, slots=True)
class KeyInput:
    """One input: a call over HTTP, ``shot``, or a message of gRPC, ``request`` with its ``fields``."""

    way: str
    shot: Shot | None = None
    request: str = ""
    fields: Mapping[str, Any] | None = None
    key: str = ""
    """The durable record that an acknowledgement refers to; empty if there is none, or if it depends on the state."""
    is_set: bool | None = False
    """True if the record has a value afterwards; None if that depends on the earlier state."""
    service: str = ""
    """The key of the description of its service, for a persistent instance, which also creates the service. ``key`` may
    still be empty."""


class Corpus:
    """An endless stream of inputs, the same for the same seed."""

    def __init__(self, seed: int, members: Sequence[str]) -> None:
        """``members``: the addresses that appear as senders of datums."""
        self._rng = random.Random(seed)
        self._members = members
        self._ways: Sequence[Callable[[], KeyInput]] = (
            *[self._instance] * 8,
            *[self._persistent] * 4,
            *[self._instance_over_grpc] * 5,
            *[self._service] * 3,
            *[self._namespace] * 3,
            *[self._datum] * 5,
            self._beat,
            self._batch,
            self._cluster,
            self._health,
            self._switch,
            self._user,
        )

    def next(self) -> KeyInput:
        return self._rng.choice(self._ways)()

    # --- parts -----------------------------------------------------------------------------------

    def _name(self, plain: str) -> str:
        """A name: often a plain one, or one with odd characters, a long one, or random text."""
        rng = self._rng
        match rng.randrange(16):
            case 0:
                return plain[0] * rng.choice(LENGTHS)
            case 1:
                return "".join(
                    chr(rng.choice((rng.randrange(0x80), rng.randrange(0xD800)))) for _ in range(rng.randrange(9))
                )
            case 2 | 3 | 4:
                odd = rng.choice(ODD)
                return rng.choice((odd + plain, plain + odd, f"{plain}{odd}{plain}", odd))
            case _:
                return f"{plain}{rng.randrange(20)}"

    def _any_namespace(self) -> str:
        return self._rng.choice(
            (*[DEFAULT_NAMESPACE] * 16, *NAMESPACES, self._name("ns"), "n" * self._rng.choice(LENGTHS))
        )

    def _metadata(self) -> str:
        if self._rng.randrange(12) == 0:
            return json.dumps({"k": "x" * (self._rng.choice(SIZES) - 1)})
        return self._rng.choice((*[""] * 8, *PAIRS, json.dumps({self._name("k"): self._name("v")})))

    def _address(self) -> dict[str, str]:
        """Return the parameters of HTTP that name an instance."""
        rng = self._rng
        found = {
            "serviceName": self._name("s"),
            "ip": rng.choice((*["10.0.0.1"] * 20, *IPS, self._name("h"))),
            "port": rng.choice((*["80"] * 40, *PORTS)),
            "namespaceId": self._any_namespace(),
        }
        if rng.randrange(3) == 0:
            found["groupName"] = self._name("g")
        if rng.randrange(3) == 0:
            found[rng.choice(("clusterName", "cluster"))] = self._name("c")
        return found

    def _call(self, method: str, path: str, fields: Mapping[str, str], **more: Any) -> KeyInput:
        text = urlencode(fields)
        if len(text) < 4_000 and self._rng.randrange(2):
            return KeyInput(f"{method} {path}", Shot(method, f"{path}?{text}", b""), **more)
        return KeyInput(f"{method} {path}", Shot(method, path, text.encode(), FORM), **more)

    # --- APIs ------------------------------------------------------------------------------------

    def _instance(self) -> KeyInput:
        rng, fields = self._rng, self._address()
        method = rng.choice(("POST", "POST", "DELETE", "DELETE", "DELETE", "PUT", "PATCH"))
        if rng.randrange(4):
            fields["ephemeral"] = rng.choice(FLAGS)
        fields |= {
            "weight": rng.choice((*["1"] * 30, *WEIGHTS)),
            "metadata": self._metadata(),
            "app": self._name("app"),
        }
        if method == "PATCH" or rng.randrange(2):
            fields["healthy"] = rng.choice(FLAGS)
        path = rng.choice(("/v1/ns/instance", "/v1/ns/instance", "/v1/ns/api", "/v2/ns/instance"))
        return self._of_instance(method, path, fields)

    def _persistent(self) -> KeyInput:
        """Deregister like an SDK that was refused and still deregisters when it exits."""
        fields = self._address() | {"ephemeral": self._rng.choice(("false", "1", "0", "no"))}
        path = self._rng.choice(("/v1/ns/instance", "/v1/ns/api", "/v2/ns/instance"))
        return self._of_instance(self._rng.choice(("POST", "DELETE")), path, fields)

    def _of_instance(self, method: str, path: str, fields: dict[str, str]) -> KeyInput:
        flag = fields.get("ephemeral", "").strip(TRIMMED)
        is_kept = bool(flag) and not lenient_bool(flag) and method != "PATCH"
        key, service = (_persistent_key(fields), _service_key(fields)) if is_kept else ("", "")
        return self._call(method, path, fields, key=key, is_set=method != "DELETE", service=service)

    def _beat(self) -> KeyInput:
        fields = self._address()
        if self._rng.randrange(2):
            fields["port"] = "80"
            fields["clusterName"] = self._name("c")
            beat = {"ip": fields["ip"], "port": 80, "metadata": {self._name("k"): "v"}}
            beat["cluster"] = fields["clusterName"]
            fields["beat"] = json.dumps(beat | {"ephemeral": bool(self._rng.randrange(2))})
        path = self._rng.choice(("/v1/ns/instance/beat", "/v1/ns/api/beat", "/v2/ns/instance/beat"))
        # For a persistent instance it may register a removed one again.
        return self._call("PUT", path, fields, key=_persistent_key(fields), is_set=None, service=_service_key(fields))

    def _batch(self) -> KeyInput:
        fields = {"serviceName": self._name("s"), "namespaceId": self._any_namespace(), "metadata": self._metadata()}
        fields["consistencyType"] = self._rng.choice(("ephemeral", "persist", ""))
        fields["instances"] = json.dumps([{"ip": "10.0.0.1", "port": 80, "clusterName": self._name("c")}])
        path = self._rng.choice(("/v1/ns/instance/metadata/batch", "/v2/ns/instance/metadata/batch"))
        return self._call(self._rng.choice(("PUT", "DELETE")), path, fields)

    def _service(self) -> KeyInput:
        rng = self._rng
        fields = {"serviceName": self._name("s"), "namespaceId": self._any_namespace(), "metadata": self._metadata()}
        if rng.randrange(3) == 0:
            fields["groupName"] = self._name("g")
        fields["protectThreshold"] = rng.choice(("0", "0.5", "NaN", "-1", "2"))
        method, path = rng.choice(("POST", "PUT", "DELETE")), rng.choice(("/v1/ns/service", "/v2/ns/service"))
        return self._call(method, path, fields, key=_service_key(fields), is_set=method != "DELETE")

    def _cluster(self) -> KeyInput:
        fields = {"serviceName": f"s{self._rng.randrange(20)}", "clusterName": self._name("c"), "namespaceId": "public"}
        fields |= {"checkPort": self._rng.choice(PORTS), "useInstancePort4Check": self._rng.choice(FLAGS)}
        fields |= {"healthChecker": self._rng.choice(CHECKERS), "metadata": self._metadata()}
        # The service of an instance that is not stored gets a description with it.
        return self._call("PUT", "/v1/ns/cluster", fields, key=_service_key(fields), is_set=None)

    def _health(self) -> KeyInput:
        fields = self._address() | {"healthy": self._rng.choice(FLAGS)}
        return self._call("PUT", self._rng.choice(("/v1/ns/health", "/v1/ns/health/instance")), fields)

    def _namespace(self) -> KeyInput:
        method = self._rng.choice(("POST", "POST", "PUT", "DELETE"))
        name, text = self._any_namespace(), self._name("text")
        match method:
            case "POST":
                fields = {"customNamespaceId": name, "namespaceName": text, "namespaceDesc": self._name("d")}
            case "PUT":
                fields = {"namespace": name, "namespaceShowName": text, "namespaceDesc": self._name("d")}
            case _:
                fields = {"namespaceId": name}
        trimmed = name.strip(TRIMMED)
        # The member invents the id of a POST without one; a PUT is answered with true even for an unknown id.
        is_about = trimmed and method != "PUT" and (method == "POST" or name == trimmed)
        key = namespace_key(trimmed) if is_about else ""
        return self._call(method, "/v1/console/namespaces", fields, key=key, is_set=method == "POST")

    def _switch(self) -> KeyInput:
        entry = self._rng.choice(SWITCHES)
        value = self._rng.choice((*PORTS, *WEIGHTS, self._name("v"), "10000", "/x:404", "a:b:c"))
        return self._call("PUT", "/v1/ns/operator/switches", {"entry": entry, "value": value})

    def _user(self) -> KeyInput:
        name, role = self._name("u"), self._name("r")
        method = self._rng.choice(("POST", "DELETE"))
        path = self._rng.choice(("users", "roles", "permissions"))
        fields = {"username": name, "password": self._name("p"), "role": role, "action": "rw", "resource": "a:*:*"}
        return self._call(method, f"/v1/auth/{path}", fields)

    def _instance_over_grpc(self) -> KeyInput:
        rng, fields = self._rng, self._address()
        request = rng.choice(("InstanceRequest", "PersistentInstanceRequest", "PersistentInstanceRequest"))
        kind = rng.choice(("registerInstance", "deregisterInstance", "deregisterInstance"))
        port: Any = rng.choice((*[80] * 20, 0, -1, 65_536, "80", None))
        instance: dict[str, Any] = {
            "ip": fields["ip"],
            "port": port,
            "clusterName": fields.get("clusterName", DEFAULT_CLUSTER),
        }
        instance["metadata"] = {self._name("k"): self._name("v")}
        message: dict[str, Any] = {
            "type": kind,
            "namespace": fields["namespaceId"],
            "serviceName": fields["serviceName"],
        }
        message |= {"groupName": fields.get("groupName", DEFAULT_GROUP), "instance": instance}
        key, service = "", ""
        if request.startswith("Persistent"):  # a blank name is the default one
            shown = fields | {
                "port": str(port or 0),
                "clusterName": instance["clusterName"],
                # Over gRPC the blanks in front of a name belong to it.
                "serviceName": compose_service_name(message["serviceName"], message["groupName"]),
            }
            shown.pop("cluster", None)
            key, service = _persistent_key(shown), _service_key(shown)
        elif rng.randrange(3) == 0:
            request, message["type"] = "BatchInstanceRequest", "batchRegisterInstance"
            message["instances"] = [instance, instance | {"ip": self._name("h")}]
        return KeyInput(f"{request} {kind}", None, request, message, key, kind == "registerInstance", service)

    def _datum(self) -> KeyInput:
        """A list or a record as a member sends it; no other input uses its names."""
        rng = self._rng
        sender = rng.choice(self._members)
        version = f"1.{rng.randrange(1, 1_000)}.{sender}~1"
        service, namespace = (
            f"{self._name('d')}@@{self._name('datum')}",
            rng.choice((DEFAULT_NAMESPACE, self._name("datum"))),
        )
        address = instance_key(rng.choice((*IPS, self._name("h"))), rng.choice((80, 0, -1)), self._name("c"))
        if rng.randrange(2):
            key = f"{EPHEMERAL_PREFIX}{namespace}{NAMESPACE_SPLITTER}{service}"
            instance = {"ip": "10.0.0.1", "port": 80, "clusterName": self._name("c"), "app": self._name("app")}
            instance |= {"serviceName": service, "version": version, "metadata": {self._name("k"): self._name("v")}}
            tombstones = {address: {"version": version, "age": 0, "keep": 60_000}}
            listed = [instance] if rng.randrange(2) else []
            value: Any = {"key": key, "value": {"instanceList": listed}, "tombstones": tombstones, "version": version}
        else:
            keys = (
                persistent_key(namespace, service, address),
                service_meta_key(namespace, service),
                namespace_key(self._name("datum")),
                user_key(self._name("datum")),
                role_key(self._name("datum"), self._name("u")),
                permission_key(self._name("datum"), "rw", self._name("a:*:")),
                f"{SWITCHES_KEY}{rng.choice(ODD)}",
                PERSISTENT_PREFIX,
            )
            key = rng.choice(keys)
            held = rng.choice(
                (None, None, {}, {"name": self._name("n"), "description": ""}, {"ip": "10.0.0.1", "port": 80})
            )
            value = {
                "key": key,
                "version": version,
                "changed": version,
                "value": held,
                "changedMs": rng.choice((1, 0, -1)),
            }
        body = json.dumps({key: value}).encode()
        headers = {MEMBER_HEADER: sender, "Content-Type": "application/json;charset=UTF-8"}
        return KeyInput("PUT datum", Shot("PUT", DATUM, body, headers))


def _names_of(fields: Mapping[str, str]) -> tuple[str, str]:
    """The namespace and the full name of the service in the parameters."""
    namespace = fields["namespaceId"].strip(TRIMMED) or DEFAULT_NAMESPACE
    group = fields.get("groupName", "")
    return namespace, compose_service_name(
        fields["serviceName"].strip(TRIMMED), group if group.strip() else DEFAULT_GROUP
    )


def _service_key(fields: Mapping[str, str]) -> str:
    """The key of the description of the service in the parameters."""
    return service_meta_key(*_names_of(fields))


def _persistent_key(fields: Mapping[str, str]) -> str:
    """The key of the record of the persistent instance in the parameters; empty if the port is no number."""
    namespace, full_name = _names_of(fields)
    port, cluster = fields["port"].strip(TRIMMED), fields.get("clusterName", "") or fields.get("cluster", "")
    if not (port.isascii() and port.isdecimal()):
        return ""
    address = instance_key(fields["ip"].strip(TRIMMED), int(port), cluster.strip(TRIMMED) or DEFAULT_CLUSTER)
    return persistent_key(namespace, full_name, address)

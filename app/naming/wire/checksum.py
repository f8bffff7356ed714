"""Checksums as real Nacos computes them, byte for byte."""

import hashlib
from collections.abc import Iterable

from app.naming.model.json_fields import flag_text
from app.naming.model.model import Instance, Metadata, ServiceView


def java_double(value: float) -> str:
    """Return a double as Java prints it, for the weights that exist: 0 and 0.01 to 10000."""
    return repr(float(value))


def java_order(text: str) -> bytes:
    """Return the sort key of Java's ``String.compareTo``: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def instance_text(one: Instance) -> str:
    """Return the text that Java sorts an instance with. Source: Nacos 1.4.1 Instance.toString."""
    return f"{one.key}_{java_double(one.weight)}_{flag_text(one.healthy)}_{flag_text(one.marked)}_{one.cluster_name}"


def in_java_order(instances: Iterable[Instance]) -> list[Instance]:
    """Return the instances sorted as Java sorts them, by ``instance_text``."""
    return sorted(instances, key=lambda one: java_order(instance_text(one)))


def metadata_text(metadata: Metadata | None) -> str:
    """Return metadata as a checksum reads it: ``name:value,`` for each pair, by name in Java's order."""
    if not metadata:
        return ""
    pairs = sorted(metadata.items(), key=lambda pair: java_order(pair[0]))
    return "".join(f"{name}:{'null' if value is None else value}," for name, value in pairs)


def instance_list_checksum(instances: Iterable[Instance]) -> str:
    """Return the MD5 over an instance list.

    Source: Nacos 1.4.1 Instances.recalculateChecksum; facts in docs/wire-data.md.
    """
    text = "".join(
        f"{one.ip}:{one.port}_{java_double(one.weight)}_{flag_text(one.healthy)}_{flag_text(one.enabled)}"
        f"_{one.cluster_name}_{metadata_text(one.metadata)},"
        for one in in_java_order(instances)
    )
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def checksum(view: ServiceView) -> str:
    """Return the digest with which members compare a service. Source: Nacos 1.4.1 Service.recalculateChecksum."""
    healthy = sum(one.healthy for one in view.instances)
    clusters = ",".join(
        '{"healthChecker":{},"defIPPort":80,"defCkport":80,"name":"' + name + '","useIPPort4Check":true,"sitegroup":""}'
        for name in view.clusters
    )
    instances = "".join(
        f"{one.ip}:{one.port}_{java_double(one.weight)}_{flag_text(one.healthy)}_{one.cluster_name},"
        for one in in_java_order(view.instances)
    )
    text = (
        f'{{"invalidIPCount":{len(view.instances) - healthy},"name":"{view.full_name}",'
        f'"ipCount":{len(view.instances)},"owners":[],"protectThreshold":{java_double(view.protect_threshold)},'
        f'"clusters":[{clusters}]}}'
    )
    return hashlib.md5((text + instances).encode(), usedforsecurity=False).hexdigest()

"""The checks of an instance's values, the same for every source: HTTP, gRPC, members' datums, clients and records."""

from app.naming.model.keys import (
    APP_CHARS_MAX,
    METADATA_CHARS_MAX,
    SIMPLE_ID,
    check_ip,
    check_names,
    check_port,
    check_text,
)
from app.naming.model.model import Instance, Metadata, kept_id
from app.naming.model.nacos_errors import InvalidParam

STORED_ID_CHARS_MAX = 2_048
"""The longest stored instance id: one made from the longest address and names exceeds the bound for clients."""
INSTANCE_KEY_CHARS_MAX = 1_024
"""The longest instance key: above that of the longest address in the cluster with the longest name."""


def check_instance(one: Instance, namespace: str, full_name: str) -> None:
    """Refuse an instance of the service ``full_name`` that no client could register, or that would harm readers.

    Raises:
        InvalidParam: names the field.
    """
    check_names(full_name, one.cluster_name, namespace)
    if one.service_name and one.service_name != full_name:
        raise InvalidParam(f"Param 'serviceName' is illegal, it should be that of the instance's service: {full_name}")
    check_ip(one.ip)
    check_port(one.port)
    if one.app:
        check_text("app", one.app, APP_CHARS_MAX)
    instance_id = kept_id(one)
    if instance_id and instance_id is not SIMPLE_ID:  # that is made of the parts that were checked
        check_text("instanceId", instance_id, STORED_ID_CHARS_MAX)
    check_metadata_size(one.metadata)


def check_instance_key(key: str) -> None:
    """Refuse a text that is no instance's key. The key of every legal address passes.

    Raises:
        InvalidParam: it is too long, or not printable.
    """
    check_text("instance", key, INSTANCE_KEY_CHARS_MAX)


def check_metadata_size(metadata: Metadata | None) -> None:
    """Check the size of metadata.

    Raises:
        InvalidParam: keys and values together are over ``METADATA_CHARS_MAX``.
    """
    if metadata and sum(map(len, metadata)) + sum(map(len, filter(None, metadata.values()))) > METADATA_CHARS_MAX:
        raise InvalidParam(f"Param 'metadata' is illegal, the param length should not exceed {METADATA_CHARS_MAX}.")

"""The keys of durable records: services, persistent instances, overrides, namespaces, switches, links, users."""

from dataclasses import dataclass

from app.naming.model.keys import NAMESPACE_SPLITTER, SERVICE_META_PREFIX
from app.naming.model.switches import SWITCH_DOMAIN_NAME

PERSISTENT_PREFIX = "rollcall.instance."
"""Not Nacos's prefix: with it a namespace called "ephemeral." would make the key of an ephemeral list."""
OVERRIDE_PREFIX = "rollcall.override."
NAMESPACE_PREFIX, LINK_PREFIX = "rollcall.namespace.", "rollcall.link."
SWITCHES_KEY = SERVICE_META_PREFIX + SWITCH_DOMAIN_NAME
USER_PREFIX, ROLE_PREFIX, PERMISSION_PREFIX = "rollcall.user.", "rollcall.role.", "rollcall.permission."
OF_NO_SERVICE = (NAMESPACE_PREFIX, LINK_PREFIX, USER_PREFIX, ROLE_PREFIX, PERMISSION_PREFIX)
USERS_TAG = "rollcall.users"
"""All records of users have one owner, because a write to one is decided by the users and roles that are read."""
LINKS_TAG = "rollcall.links"
"""All records of links have one owner, because there is one limit for all of them."""
NAME_SPLITTER = "/"
"""Separates the parts of a key. Names of users and roles do not contain it."""
_ESCAPES = (("%", "%25"), ("#", "%23"))
"""Escapes for service names in keys, so that no name contains ``##``. Names of Nacos 1.4 have neither character."""


@dataclass(frozen=True, slots=True)
class ServiceMetaKey:
    """The key of a service's description."""

    namespace: str
    full_name: str


@dataclass(frozen=True, slots=True)
class PersistentKey:
    """The key of a persistent instance."""

    namespace: str
    full_name: str
    instance_key: str


@dataclass(frozen=True, slots=True)
class OverrideKey:
    """The key of an operator's change of an instance."""

    namespace: str
    full_name: str
    instance_key: str


@dataclass(frozen=True, slots=True)
class NamespaceKey:
    """The key of a namespace that was created."""

    namespace: str


@dataclass(frozen=True, slots=True)
class SwitchesKey:
    """The key of the switches."""


@dataclass(frozen=True, slots=True)
class LinkKey:
    """The key of the fields that calls set of a link."""

    link: str


@dataclass(frozen=True, slots=True)
class UserKey:
    """The key of a user."""

    user: str


@dataclass(frozen=True, slots=True)
class RoleKey:
    """The key of a role that a user has."""

    role: str
    user: str


@dataclass(frozen=True, slots=True)
class PermissionKey:
    """The key of a role's permission: actions, some of ``r`` and ``w``, and the pattern of the resources."""

    role: str
    actions: str
    resource: str


OfUsers = UserKey | RoleKey | PermissionKey
RecordKey = ServiceMetaKey | PersistentKey | OverrideKey | NamespaceKey | SwitchesKey | LinkKey | OfUsers


def service_meta_key(namespace: str, full_name: str) -> str:
    """Return the record key of a service's description."""
    return f"{SERVICE_META_PREFIX}{namespace}{NAMESPACE_SPLITTER}{_escape(full_name)}"


def persistent_key(namespace: str, full_name: str, instance_key: str) -> str:
    """Return the record key of a persistent instance."""
    return NAMESPACE_SPLITTER.join((PERSISTENT_PREFIX + namespace, _escape(full_name), instance_key))


def override_key(namespace: str, full_name: str, instance_key: str) -> str:
    """Return the record key of an operator's change of an instance."""
    return OVERRIDE_PREFIX + NAMESPACE_SPLITTER.join((namespace, _escape(full_name), instance_key))


def namespace_key(namespace: str) -> str:
    """Return the record key of a namespace."""
    return NAMESPACE_PREFIX + namespace


def link_key(link: str) -> str:
    """Return the record key of the fields that calls set of a link."""
    return LINK_PREFIX + link


def user_key(user: str) -> str:
    """Return the record key of a user."""
    return USER_PREFIX + user


def role_key(role: str, user: str) -> str:
    """Return the record key of a role that a user has."""
    return f"{ROLE_PREFIX}{role}{NAME_SPLITTER}{user}"


def permission_key(role: str, actions: str, resource: str) -> str:
    """Return the record key of a role's permission."""
    return NAME_SPLITTER.join((PERMISSION_PREFIX + role, actions, resource))


def _escape(full_name: str) -> str:
    for char, escape in _ESCAPES:
        full_name = full_name.replace(char, escape)
    return full_name


def _unescape(part: str) -> str:
    """Return the name in a part of a key; an empty text if the name has another key."""
    full_name = part
    for char, escape in reversed(_ESCAPES):
        full_name = full_name.replace(escape, char)
    return full_name if _escape(full_name) == part else ""


def _service_parts(key: str, prefix: str) -> tuple[str, str, str] | None:
    """Return the namespace, full name and instance key in a key behind its prefix; None for any other text."""
    parts = key.removeprefix(prefix).split(NAMESPACE_SPLITTER, 2)
    if len(parts) != 3 or not all(parts) or not (name := _unescape(parts[1])):
        return None
    return parts[0], name, parts[2]


def _parse_users_key(key: str) -> RecordKey | None:
    """Return the parts of the key of a user, role or permission; None for any other text."""
    if key.startswith(USER_PREFIX):
        return UserKey(name) if (name := key.removeprefix(USER_PREFIX)) else None
    if key.startswith(ROLE_PREFIX):
        parts = key.removeprefix(ROLE_PREFIX).split(NAME_SPLITTER)
        return RoleKey(*parts) if len(parts) == 2 and all(parts) else None
    if key.startswith(PERMISSION_PREFIX):
        parts = key.removeprefix(PERMISSION_PREFIX).split(NAME_SPLITTER, 2)
        return PermissionKey(*parts) if len(parts) == 3 and all(parts) else None
    return None


def parse_record_key(key: str) -> RecordKey | None:
    """Return the parts of a record key; None for any other text."""
    if key == SWITCHES_KEY:
        return SwitchesKey()
    if key.startswith(NAMESPACE_PREFIX):
        name = key.removeprefix(NAMESPACE_PREFIX)
        return NamespaceKey(name) if name else None
    if key.startswith(LINK_PREFIX):
        return LinkKey(name) if (name := key.removeprefix(LINK_PREFIX)) else None
    if key.startswith(SERVICE_META_PREFIX):
        parts = key.removeprefix(SERVICE_META_PREFIX).split(NAMESPACE_SPLITTER)
        if len(parts) != 2 or not all(parts) or not (name := _unescape(parts[1])):
            return None
        return ServiceMetaKey(parts[0], name)
    if key.startswith(PERSISTENT_PREFIX):
        return PersistentKey(*of_instance) if (of_instance := _service_parts(key, PERSISTENT_PREFIX)) else None
    if key.startswith(OVERRIDE_PREFIX):
        return OverrideKey(*of_instance) if (of_instance := _service_parts(key, OVERRIDE_PREFIX)) else None
    return _parse_users_key(key)


def record_tag(key: str) -> str:
    """Return the text that determines a record's owner: the service's name, common to all its records, or the key."""
    match parse_record_key(key):
        case ServiceMetaKey(full_name=name) | PersistentKey(full_name=name) | OverrideKey(full_name=name):
            return name
        case UserKey() | RoleKey() | PermissionKey():
            return USERS_TAG
        case LinkKey():
            return LINKS_TAG
        case _:
            return key

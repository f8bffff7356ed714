"""Rights: resources as calls name them, patterns of resources as permissions name them, and the rights of a user."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.auth.access_rules import Action
from app.naming.model.keys import DEFAULT_NAMESPACE, GROUP_SPLITTER
from app.naming.records.user_records import ADMIN_ROLE

ANY = "*"
NAMING_TYPE = "naming"


@dataclass(frozen=True, slots=True)
class Resource:
    """A service that a call is about. ``*`` as group or service: all of them. ``namespace`` None: all namespaces.

    The public namespace is the empty text, as in Nacos's permissions.
    """

    namespace: str | None
    group: str = ANY
    service: str = ANY

    @classmethod
    def of_service(cls, namespace: str, full_name: str | None) -> "Resource":
        """Return the resource of a service by its full name.

        None or a blank name means all services of the namespace.
        """
        namespace = rule_namespace(namespace)
        if not full_name or not full_name.strip():
            return cls(namespace)
        group, _, service = full_name.partition(GROUP_SPLITTER)
        return cls(namespace, group, service)


def rule_namespace(namespace: str) -> str:
    """Return a namespace as permissions name it: the public one is the empty text."""
    return "" if namespace == DEFAULT_NAMESPACE else namespace


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text in which each ``*`` stands for any text. Matching takes time in proportion to the text."""

    pieces: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """Return the pattern of a text with stars."""
        return cls(tuple(text.split(ANY)))

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        first, *rest = self.pieces
        if not rest:
            return text == first
        last = rest.pop()
        if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in rest:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    @property
    def is_any(self) -> bool:
        """Return whether every text matches."""
        return len(self.pieces) > 1 and not any(self.pieces)


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission of a role: actions on the resources that match three patterns.

    The parts are matched one by one: a name with a colon in it cannot pass for two parts.
    """

    namespace: Pattern
    group: Pattern
    service: Pattern
    actions: str

    @classmethod
    def of(cls, resource: str, actions: str) -> "Permission | None":
        """Return the permission of a rule ``namespace:group:naming/service``; None for a rule about other things.

        ``:*:*`` is the public namespace, and ``public:*:*`` too; a last part ``*`` is every type.
        """
        namespace, _, rest = resource.partition(":")
        group, marked, service = rest.partition(f":{NAMING_TYPE}/")
        if not marked:
            group, _, service = rest.rpartition(":")
            if service != ANY:
                return None
        return cls(Pattern.of(rule_namespace(namespace)), Pattern.of(group), Pattern.of(service), actions)

    def allows(self, action: Action, resource: Resource) -> bool:
        """Return whether it permits an action on a resource."""
        if action.value not in self.actions:
            return False
        name = resource.namespace
        fits = self.namespace.is_any if name is None else self.namespace.matches(name)
        return fits and self.group.matches(resource.group) and self.service.matches(resource.service)


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one user."""

    is_admin: bool
    permissions: tuple[Permission, ...]

    @classmethod
    def of(cls, roles: Iterable[str], permissions: Iterable[Permission]) -> "Rights":
        """Return the rights of a user with these roles, which together have these permissions."""
        return cls(ADMIN_ROLE in roles, tuple(permissions))

    def allows(self, action: Action, resource: Resource) -> bool:
        """Return whether the user may do this with a resource."""
        return self.is_admin or any(one.allows(action, resource) for one in self.permissions)

    def sees_namespace(self, namespace: str) -> bool:
        """Return whether the user has any right in a namespace."""
        return self.is_admin or any(one.namespace.matches(rule_namespace(namespace)) for one in self.permissions)

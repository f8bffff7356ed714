"""The access that a route or a gRPC request type declares: who may call it, and what the call reads or changes."""

import enum
from dataclasses import dataclass, replace


class Action(enum.Enum):
    """What a call does with its resource, by the letter that a permission names it with."""

    READ = "r"
    WRITE = "w"


class Scope(enum.Enum):
    """The kinds of callers, or of resources, that a route is for."""

    PUBLIC = "public"
    """Anybody: the login, and answers that tell nothing but that this node runs or serves."""
    LOGGED_IN = "logged in"
    """Any user, whatever their permissions."""
    NAMING = "naming"
    """Users with a permission for the namespace, group and service that the call names."""
    ADMIN = "admin"
    """Administrators."""
    MEMBERS = "members"
    """Listed members of the cluster alone; never a user."""
    METRICS = "metrics"
    """Who brings the scrape token. Without one in the settings: anybody while users are off, else administrators."""
    RECENT_MEMBERS = "recent members"
    """As MEMBERS, and also a member that was listed until lately: it still hands its data over."""


class Target(enum.Enum):
    """What a NAMING call is about, and which of its parameters say so: those that its endpoint goes by, no others."""

    SERVICE = "service"
    """One service: ``namespaceId``, ``serviceName`` with its group, or ``dom`` and ``groupName``."""
    DOM = "dom"
    """The service ``dom`` of the default group."""
    KEY = "key"
    """The service of ``key``: ``namespace##group@@service``."""
    GROUP = "group"
    """All services of ``namespaceId`` and ``groupName``, by default the default group; ``*``: all groups."""
    NAMESPACE = "namespace"
    """All services of ``namespaceId``."""
    NAMESPACES = "namespaces"
    """All services of ``namespaceId``, without it those of all namespaces."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One row's rule. ``members_too``: a listed member may call it as well, as members read it of each other."""

    scope: Scope
    action: Action = Action.READ
    members_too: bool = False
    target: Target = Target.SERVICE
    """Of a NAMING row."""
    by_cookie: bool = False
    """A page of the console: the token comes in its cookie and nowhere else, and who has none is sent to log in."""

    @property
    def is_for_members(self) -> bool:
        """Whether it makes a difference if a listed member calls."""
        return self.members_too or self.scope in _MEMBERS

    def in_console(self) -> "AccessRule":
        """The same rule for a page of the console."""
        return replace(self, by_cookie=True)

    def or_members(self) -> "AccessRule":
        """The same rule, open to listed members as well."""
        return replace(self, members_too=True)


_MEMBERS = (Scope.MEMBERS, Scope.RECENT_MEMBERS)
READ, WRITE = Action.READ, Action.WRITE
PUBLIC = AccessRule(Scope.PUBLIC)
METRICS = AccessRule(Scope.METRICS)
LOGGED_IN = AccessRule(Scope.LOGGED_IN)
MEMBERS = AccessRule(Scope.MEMBERS, WRITE)
RECENT_MEMBERS = AccessRule(Scope.RECENT_MEMBERS, WRITE)


def naming(action: Action, target: Target = Target.SERVICE) -> AccessRule:
    """The rule of a call about a service, or about the services of a group or namespace."""
    return AccessRule(Scope.NAMING, action, target=target)


def admin(action: Action) -> AccessRule:
    """The rule of an administrator's call."""
    return AccessRule(Scope.ADMIN, action)

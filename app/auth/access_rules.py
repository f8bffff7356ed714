"""The access that a route or a gRPC request type declares: who may call it, and which resource it reads or changes."""

import enum
from dataclasses import dataclass, replace


class Action(enum.Enum):
    """A call's action on its resource, by the letter that permissions use for it."""

    READ = "r"
    WRITE = "w"


class Scope(enum.Enum):
    """The kinds of callers, or of resources, that a route is for."""

    PUBLIC = "public"
    """Anyone: for the login, and for answers that say only that this node runs or serves."""
    LOGGED_IN = "logged in"
    """Any user, with any permissions."""
    NAMING = "naming"
    """Users with a permission for the namespace, group and service that the call names."""
    ADMIN = "admin"
    """Administrators."""
    MEMBERS = "members"
    """Only listed members of the cluster, never a user."""
    METRICS = "metrics"
    """Callers with the scrape token. If no token is set: anyone while users are off, else administrators."""
    RECENT_MEMBERS = "recent members"
    """Like MEMBERS, and also a member that was recently listed, because it still hands its data over."""


class Target(enum.Enum):
    """The resource of a NAMING call, and the parameters that name it: exactly those that its endpoint reads."""

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
    PATTERN = "pattern"
    """All services that match the pattern of a fuzzy watch, over gRPC alone."""
    NAMESPACES = "namespaces"
    """All services of ``namespaceId``; without it, those of all namespaces."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The rule of one row. ``members_too``: listed members may call it, too, because they read it from each other."""

    scope: Scope
    action: Action = Action.READ
    members_too: bool = False
    target: Target = Target.SERVICE
    """The target of a NAMING row."""
    by_cookie: bool = False
    """A page of the console: the token comes only in its cookie. A caller without one is redirected to the login."""
    only_reads: bool = False
    """True if the call changes nothing, though it needs the right to change."""

    @property
    def changes(self) -> bool:
        """Return whether a call may change something."""
        return self.action is Action.WRITE and not self.only_reads

    @property
    def is_for_members(self) -> bool:
        """Return whether the decision depends on the caller being a listed member."""
        return self.members_too or self.scope in _MEMBERS

    def in_console(self) -> "AccessRule":
        """Return the same rule for a page of the console."""
        return replace(self, by_cookie=True)

    def of_read(self) -> "AccessRule":
        """Return the same rule for a call that changes nothing, though it needs the right to change."""
        return replace(self, only_reads=True)

    def or_members(self) -> "AccessRule":
        """Return the same rule, open to listed members as well."""
        return replace(self, members_too=True)


_MEMBERS = (Scope.MEMBERS, Scope.RECENT_MEMBERS)
READ, WRITE = Action.READ, Action.WRITE
PUBLIC = AccessRule(Scope.PUBLIC)
METRICS = AccessRule(Scope.METRICS)
LOGGED_IN = AccessRule(Scope.LOGGED_IN)
MEMBERS = AccessRule(Scope.MEMBERS, WRITE)
RECENT_MEMBERS = AccessRule(Scope.RECENT_MEMBERS, WRITE)


def naming(action: Action, target: Target = Target.SERVICE) -> AccessRule:
    """Return the rule of a call about a service, or about the services of a group or namespace."""
    return AccessRule(Scope.NAMING, action, target=target)


def admin(action: Action) -> AccessRule:
    """Return the rule of an administrator's call."""
    return AccessRule(Scope.ADMIN, action)


_ABOUT = {
    Target.SERVICE: "the service",
    Target.DOM: "the service `dom`",
    Target.KEY: "the service in `key`",
    Target.GROUP: "all services of the group",
    Target.NAMESPACE: "all services of the namespace",
    Target.PATTERN: "all services that match the pattern",
    Target.NAMESPACES: "all services of the namespace, or of all namespaces if none is given",
}


def words(rule: AccessRule) -> str:
    """Return a rule as text, for the page of them and for the description of the API."""
    match rule.scope:
        case Scope.PUBLIC:
            who = "anyone"
        case Scope.LOGGED_IN:
            who = "any user"
        case Scope.NAMING:
            who = f"users with `{rule.action.value}` for {_ABOUT[rule.target]}"
        case Scope.ADMIN:
            who = "administrators" if rule.action is Action.READ or rule.only_reads else "administrators, to change"
        case Scope.METRICS:
            who = "anyone with the scrape token; if none is set, anyone, or administrators if users are on"
        case Scope.MEMBERS:
            who = "members only"
        case Scope.RECENT_MEMBERS:
            who = "members only, and those removed from the list recently"
    if rule.by_cookie:
        who += ", by the console's cookie"
    return f"{who}; members" if rule.members_too else who

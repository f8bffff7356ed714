"""Access rules as text, for the page of them and for the description of the API."""

from app.auth.access_rules import AccessRule, Action, Scope, Target

_ABOUT = {
    Target.SERVICE: "the service",
    Target.DOM: "the service `dom`",
    Target.KEY: "the service in `key`",
    Target.GROUP: "all services of the group",
    Target.NAMESPACE: "all services of the namespace",
    Target.NAMESPACES: "all services of the namespace, or of all namespaces if none is given",
}


def words(rule: AccessRule) -> str:
    """Return a rule as text."""
    match rule.scope:
        case Scope.PUBLIC:
            who = "anybody"
        case Scope.LOGGED_IN:
            who = "any user"
        case Scope.NAMING:
            who = f"users with `{rule.action.value}` for {_ABOUT[rule.target]}"
        case Scope.ADMIN:
            who = "administrators" if rule.action is Action.READ else "administrators, to change"
        case Scope.METRICS:
            who = "anyone with the scrape token; if none is set, anyone, or administrators if users are on"
        case Scope.MEMBERS:
            who = "members only"
        case Scope.RECENT_MEMBERS:
            who = "members only, and those removed from the list recently"
    if rule.by_cookie:
        who += ", by the console's cookie"
    return f"{who}; members" if rule.members_too else who

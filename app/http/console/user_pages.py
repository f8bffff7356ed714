"""Users, roles and permissions, for administrators; one's own password."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, form_route, page_route
from app.languages.catalogues import N_

USERS, ROLES, PERMISSIONS = "/v1/auth/users", "/v1/auth/roles", "/v1/auth/permissions"
PAGE = {"pageNo": 1, "pageSize": 500}
ACTIONS = {"r": N_("read"), "w": N_("write"), "rw": N_("read and write")}


@page_route("/console/users")
def users(page: ConsolePage) -> Reply:
    """Show users with their roles, and the permissions of the roles."""
    return _users(page)


def _users(page: ConsolePage, refusal: ApiRefusal | None = None) -> Reply:
    roles: dict[str, list[str]] = {}
    for one in page.api.get(ROLES, **PAGE)["pageItems"]:
        roles.setdefault(one["username"], []).append(one["role"])
    found = page.api.get(USERS, **PAGE)
    permissions = page.api.get(PERMISSIONS, **PAGE)["pageItems"]
    return page.show(
        "users.html",
        page.gettext("Users"),
        status=refusal.status if refusal else 200,
        nav="users",
        users=[{"name": one["username"], "roles": roles.get(one["username"], [])} for one in found["pageItems"]],
        count=found["totalCount"],
        permissions=permissions,
        roles=sorted({role for held in roles.values() for role in held} | {one["role"] for one in permissions}),
        actions=ACTIONS,
        problem=refusal.text if refusal else "",
    )


def _change(page: ConsolePage, done: str, method: str, path: str, **parameters: Any) -> Reply:
    """Have something changed, and show the users again, with the reason if it was refused."""
    try:
        page.api.send(method, path, **parameters)
    except ApiRefusal as refusal:
        return _users(page, refusal)
    return page.go("/console/users", done=done)


def _password(page: ConsolePage) -> str:
    """Return the password of a form, as it was typed."""
    return page.call.parameters.get("new-password") or ""


@form_route("/console/users")
def create_user(page: ConsolePage) -> Reply:
    """Create a user."""
    return _change(page, "user-saved", "POST", USERS, username=page.text("name"), password=_password(page))


@form_route("/console/users/password")
def set_password(page: ConsolePage) -> Reply:
    """Give a user a new password."""
    return _change(page, "user-saved", "PUT", USERS, username=page.text("name"), newPassword=_password(page))


@form_route("/console/users/roles")
def add_role(page: ConsolePage) -> Reply:
    """Give a user a role."""
    return _change(page, "role-saved", "POST", ROLES, username=page.text("name"), role=page.text("role"))


@form_route("/console/users/permissions")
def add_permission(page: ConsolePage) -> Reply:
    """Give a role a permission."""
    return _change(page, "permission-saved", "POST", PERMISSIONS, **_permission(page))


def _permission(page: ConsolePage) -> dict[str, str]:
    return {"role": page.text("role"), "resource": page.text("resource"), "action": page.text("action")}


@page_route("/console/users/remove")
def ask_to_remove(page: ConsolePage) -> Reply:
    """Ask whether to remove a user, a user's role or a permission."""
    name, role, resource = page.text("name"), page.text("role"), page.text("resource")
    fields = {"name": name, "role": role, "resource": resource, "action": page.text("action")}
    if resource:
        question = page.gettext(
            "Take the permission for %(resource)s from the role %(role)s?", resource=resource, role=role
        )
        advice = page.gettext("It ends at once on all members, for calls and for connections.")
    elif role:
        question = page.gettext("Take the role %(role)s from %(name)s?", role=role, name=name)
        advice = page.gettext("The permissions of this role end at once on all members.")
    else:
        question = page.gettext("Remove the user %(name)s?", name=name)
        advice = page.gettext("The tokens of the user end at once on all members.")
    return page.show(
        "confirm.html",
        page.gettext("Remove?"),
        nav="users",
        question=question,
        advice=advice,
        action=page.url("/console/users/remove"),
        fields=fields,
        word=page.gettext("Remove"),
        back=page.url("/console/users"),
    )


@form_route("/console/users/remove")
def remove(page: ConsolePage) -> Reply:
    """Remove a user, a user's role or a permission."""
    name, role = page.text("name"), page.text("role")
    if page.text("resource"):
        return _change(page, "permission-removed", "DELETE", PERMISSIONS, **_permission(page))
    if role:
        return _change(page, "role-removed", "DELETE", ROLES, role=role, username=name)
    return _change(page, "user-removed", "DELETE", USERS, username=name)


# --- one's own password -------------------------------------------------------------------------


@page_route("/console/password")
def own_password(page: ConsolePage) -> Reply:
    """Show the form for the user's own password."""
    return page.show("password.html", page.gettext("Your password"), problem="")


@form_route("/console/password")
def set_own_password(page: ConsolePage) -> Reply:
    """Change the user's own password; all sessions of the user end, this one too."""
    parameters = page.call.parameters
    old, new = parameters.get("old-password") or "", parameters.get("new-password") or ""
    try:
        page.api.send("PUT", f"{USERS}/password", oldPassword=old, newPassword=new)
    except ApiRefusal as refusal:
        return page.show("password.html", page.gettext("Your password"), status=refusal.status, problem=refusal.text)
    return page.go("/console/login")

"""Users, roles and permissions, at Nacos's paths and in its shapes; no answer has a hash of a password."""

from collections.abc import Sequence
from typing import Any

from app.auth.access_rules import LOGGED_IN, READ, WRITE, admin
from app.auth.passwords import Passwords
from app.auth.refusals import AUTH_IS_OFF, NOT_PERMITTED, AccessDenied
from app.auth.user_rights import Pattern
from app.http.api.answers import durable_elsewhere, json_reply, rest_refusal
from app.http.api.audited import audit_refusal
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.api.user_access import token_of
from app.http.input.schemas import load_parameters
from app.http.input.user_schemas import (
    ChangePasswordSchema,
    LoginSchema,
    NameSearchSchema,
    NewPasswordSchema,
    PermissionSchema,
    RemovedRoleSchema,
    RoleSchema,
    UserNameSchema,
    UserPageSchema,
)
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import DONE_RESULT, NAMES, PERMISSION_PAGE, ROLE_PAGE, USER_PAGE
from app.naming.model.nacos_errors import NoRight
from app.naming.records.record_keys import user_key

USERS = ("/v1/auth/users", "/v1/auth")
LOGOUT = "/v1/auth/users/logout"
ROLES, PERMISSIONS = "/v1/auth/roles", "/v1/auth/permissions"
_CREATE, _NEW_PASSWORD, _CHANGE_PASSWORD, _NAME = (
    LoginSchema(),
    NewPasswordSchema(),
    ChangePasswordSchema(),
    UserNameSchema(),
)
_ROLE, _REMOVED_ROLE, _PERMISSION = RoleSchema(), RemovedRoleSchema(), PermissionSchema()
_ANY_USER = user_key("any")
"""All users have one owner."""
_PAGE, _SEARCH = UserPageSchema(), NameSearchSchema()


def _done(message: str) -> Reply:
    """A success as Nacos 1.4 answers it. Shape: code, message, data (null)."""
    return json_reply({"code": 200, "message": message, "data": None})


def _elsewhere(call: Call, services: Services) -> Answer | None:
    """The answer to a change of users that this node must not execute; None when it owns the users.

    Raises:
        NoRight: users are not asked for. Whoever could make one now would be a user when they are.
    """
    if not services.access.enabled:
        raise NoRight(AUTH_IS_OFF)
    return durable_elsewhere(call, services, _ANY_USER)


def _passwords(services: Services) -> Passwords:
    passwords = services.access.passwords
    if passwords is None:
        raise NoRight(AUTH_IS_OFF)
    return passwords


def _page(listed: Sequence[dict[str, Any]], values: dict[str, Any]) -> Reply:
    """One page. Shape: totalCount, pageNumber, pagesAvailable, pageItems."""
    page, size = values["page"], values["size"]
    return json_reply(
        {
            "totalCount": len(listed),
            "pageNumber": page,
            "pagesAvailable": -(-len(listed) // size),
            "pageItems": listed[(page - 1) * size : page * size],
        }
    )


def _fits(wanted: str, name: str, search: str) -> bool:
    """Return whether a name matches the search of a list; an empty text matches any name."""
    if not wanted:
        return True
    return Pattern.of(wanted).matches(name) if search == "blur" else wanted == name


# --- users ---------------------------------------------------------------------------------------


@route("POST", *USERS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(LoginSchema,)))
def create_user(call: Call, services: Services) -> Answer:
    """Create a user."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_CREATE, call.parameters)
    services.users.create(values["username"], _passwords(services).hash(values["password"]))
    return _done("create user ok!")


@route("PUT", *USERS, access=LOGGED_IN, described=Described(DONE_RESULT, takes=(NewPasswordSchema,)))
def update_user(call: Call, services: Services) -> Answer:
    """Set a user's password: one's own, or an administrator any. Tokens of the user end."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_NEW_PASSWORD, call.parameters)
    if not _is_own_or_admin(call, services, values["username"]):
        audit_refusal(call, services, NOT_PERMITTED)
        return rest_refusal(403, NOT_PERMITTED)
    services.users.set_password(values["username"], _passwords(services).hash(values["password"]))
    return _done("update user ok!")


def _is_own_or_admin(call: Call, services: Services, name: str) -> bool:
    return call.user == name or services.access.table.rights(call.user).is_admin


@route(
    "PUT", "/v1/auth/users/password", access=LOGGED_IN, described=Described(DONE_RESULT, takes=(ChangePasswordSchema,))
)
def change_password(call: Call, services: Services) -> Answer:
    """Change the caller's own password, given the old one. Tokens of the user end."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_CHANGE_PASSWORD, call.parameters)
    passwords = _passwords(services)
    try:
        services.access.log_in(call.user, values["old"], call.actor.address, call.login_wait)
    except AccessDenied:
        return rest_refusal(401, "Old password is invalid")
    services.users.set_password(call.user, passwords.hash(values["new"]))
    return _done("Update password success")


@route("DELETE", "/v1/auth/users/tokens", access=LOGGED_IN, described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def end_tokens(call: Call, services: Services) -> Answer:
    """End all tokens of a user, on all members: one's own, or an administrator anybody's."""
    if other := _elsewhere(call, services):
        return other
    name = load_parameters(_NAME, call.parameters)["username"]
    if not _is_own_or_admin(call, services, name):
        audit_refusal(call, services, NOT_PERMITTED)
        return rest_refusal(403, NOT_PERMITTED)
    services.users.end_tokens(name)
    return _done("end tokens ok!")


@route("POST", LOGOUT, access=LOGGED_IN, described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def log_out(call: Call, services: Services) -> Answer:
    """End the token that the call brings, on all members. The user that is named is the token's."""
    if other := _elsewhere(call, services):
        return other
    session = services.access.session(token_of(call))
    if load_parameters(_NAME, call.parameters)["username"] != session.user:
        audit_refusal(call, services, NOT_PERMITTED)
        return rest_refusal(403, NOT_PERMITTED)
    services.users.end_token(session.user, session.token_id, session.end_ms // 1_000)
    services.instruments.audit.on_access("logout", "", call.actor)
    return _done("logout ok!")


@route("DELETE", *USERS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def delete_user(call: Call, services: Services) -> Answer:
    """Remove a user, whose tokens end."""
    if other := _elsewhere(call, services):
        return other
    services.users.delete(load_parameters(_NAME, call.parameters)["username"])
    return _done("delete user ok!")


@route("GET", *USERS, access=admin(READ), described=Described(USER_PAGE, takes=(UserPageSchema,)))
def list_users(call: Call, services: Services) -> Answer:
    """A page of the users. Shape of an item: username."""
    values = load_parameters(_PAGE, call.parameters)
    names = [one for one in services.access.table.users() if _fits(values["username"], one, values["search"])]
    return _page([{"username": name} for name in names], values)


@route("GET", "/v1/auth/users/search", access=admin(READ), described=Described(NAMES, takes=(NameSearchSchema,)))
def search_users(call: Call, services: Services) -> Answer:
    """The names of users that contain a text. Shape: array."""
    text = load_parameters(_SEARCH, call.parameters)["username"]
    return json_reply([name for name in services.access.table.users() if text in name])


# --- roles ---------------------------------------------------------------------------------------


@route("POST", ROLES, access=admin(WRITE), described=Described(DONE_RESULT, takes=(RoleSchema,)))
def add_role(call: Call, services: Services) -> Answer:
    """Give a user a role."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_ROLE, call.parameters)
    services.users.add_role(values["role"], values["username"])
    return _done("add role ok!")


@route("DELETE", ROLES, access=admin(WRITE), described=Described(DONE_RESULT, takes=(RemovedRoleSchema,)))
def remove_role(call: Call, services: Services) -> Answer:
    """Take a role from a user; without a user from all, with its permissions."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_REMOVED_ROLE, call.parameters)
    services.users.remove_role(values["role"], values["username"])
    return _done(f"delete role of user {values['username']} ok!")


@route("GET", ROLES, access=admin(READ), described=Described(ROLE_PAGE, takes=(UserPageSchema,)))
def list_roles(call: Call, services: Services) -> Answer:
    """A page of the roles that users have. Shape of an item: role, username."""
    values = load_parameters(_PAGE, call.parameters)
    search = values["search"]
    found = [
        {"role": role, "username": name}
        for role, name in services.access.table.roles()
        if _fits(values["username"], name, search) and _fits(values["role"], role, search)
    ]
    return _page(found, values)


@route("GET", f"{ROLES}/search", access=admin(READ), described=Described(NAMES, takes=(NameSearchSchema,)))
def search_roles(call: Call, services: Services) -> Answer:
    """The names of roles that contain a text. Shape: array."""
    text = load_parameters(_SEARCH, call.parameters)["role"]
    return json_reply(sorted({role for role, _ in services.access.table.roles() if text in role}))


# --- permissions ---------------------------------------------------------------------------------


@route("POST", PERMISSIONS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(PermissionSchema,)))
def add_permission(call: Call, services: Services) -> Answer:
    """Permit a role actions on the resources that fit a pattern."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_PERMISSION, call.parameters)
    services.users.add_permission(values["role"], values["resource"], values["action"])
    return _done("add permission ok!")


@route("DELETE", PERMISSIONS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(PermissionSchema,)))
def remove_permission(call: Call, services: Services) -> Answer:
    """Take a permission from a role."""
    if other := _elsewhere(call, services):
        return other
    values = load_parameters(_PERMISSION, call.parameters)
    services.users.remove_permission(values["role"], values["resource"], values["action"])
    return _done("delete permission ok!")


@route("GET", PERMISSIONS, access=admin(READ), described=Described(PERMISSION_PAGE, takes=(UserPageSchema,)))
def list_permissions(call: Call, services: Services) -> Answer:
    """A page of the permissions. Shape of an item: role, resource, action."""
    values = load_parameters(_PAGE, call.parameters)
    found = [
        {"role": role, "resource": resource, "action": actions}
        for role, resource, actions in services.access.table.permissions()
        if _fits(values["role"], role, values["search"])
    ]
    return _page(found, values)

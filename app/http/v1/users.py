"""Users, roles and permissions, at Nacos's paths and in its shapes; no answer has a hash of a password."""

from collections.abc import Callable, Sequence
from typing import Any

from marshmallow import validate

from app.auth.access_rules import LOGGED_IN, READ, WRITE, admin
from app.auth.refusals import AUTH_IS_OFF
from app.auth.user_rights import Pattern
from app.commands.record_commands import (
    AddPermission,
    AddRole,
    ChangePassword,
    CreateUser,
    EndToken,
    EndTokens,
    NotOwnUser,
    RecordCommand,
    RemovePermission,
    RemoveRole,
    RemoveUser,
    SetPassword,
    WrongPassword,
)
from app.http.api.answers import json_reply, rest_refusal
from app.http.api.call import Answer, Call, Reply, Services, rendered, route
from app.http.api.user_access import audit_refusal, token_of
from app.http.input.fields import FILLED, Number, Text, invalid
from app.http.input.forms import Parameters
from app.http.input.schemas import PAGE_NO_TEXT, PAGE_SIZE_TEXT, CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import DONE_RESULT, NAMES, PERMISSION_PAGE, ROLE_PAGE, USER_PAGE
from app.http.v1.auth import LoginSchema
from app.naming.model.nacos_errors import NoRight

USERS = ("/v1/auth/users", "/v1/auth")
LOGOUT = "/v1/auth/users/logout"
ROLES, PERMISSIONS = "/v1/auth/roles", "/v1/auth/permissions"
PAGE_SIZE_MAX = 500
_USERNAME = Text("username", "The name of the user.", needs=FILLED)
_ROLE = Text("role", "The name of the role.", needs=FILLED)


class _Count(Number):
    """A whole number, whose refusal names the parameter."""

    default_error_messages = invalid("it should be a whole number")


class NewPasswordSchema(CallSchema):
    username = _USERNAME
    password = Text("newPassword", "The new password.", needs=FILLED)


class ChangePasswordSchema(CallSchema):
    old = Text("oldPassword", "The current password.", needs=FILLED)
    new = Text("newPassword", "The new password.", needs=FILLED)


class UserNameSchema(CallSchema):
    """Calls about one user."""

    username = _USERNAME


class RoleSchema(CallSchema):
    role, username = _ROLE, _USERNAME


class RemovedRoleSchema(CallSchema):
    """DELETE ``/auth/roles``: of one user, or of all."""

    role = _ROLE
    username = Text("username", "The name of the user.", "")


class PermissionSchema(CallSchema):
    role = _ROLE
    resource = Text(
        "resource", "The pattern of the permitted services: `namespace:group:naming/service`.", needs=FILLED
    )
    action = Text("action", "What is permitted: `r`, `w` or `rw`.", needs=FILLED)


class UserPageSchema(CallSchema):
    """A page of users, roles or permissions, perhaps of those that one name finds; ``search`` blur: ``*`` in it."""

    page = _Count("pageNo", PAGE_NO_TEXT, needs=FILLED, validate=validate.Range(min=1, error="it should be 1 or more"))
    size = _Count(
        "pageSize",
        PAGE_SIZE_TEXT,
        needs=FILLED,
        validate=validate.Range(1, PAGE_SIZE_MAX, error=f"it should be a number from 1 to {PAGE_SIZE_MAX}"),
    )
    username = Text("username", "The name of the user.", "")
    role = Text("role", "The name of the role.", "")
    search = Text("search", "`accurate`, or `blur`: names with `*` in them.", "accurate")


class NameSearchSchema(CallSchema):
    username = Text("username", "The name of the user.", "")
    role = Text("role", "The name of the role.", "")


def _answer(call: Call, services: Services, read: Callable[[Parameters], RecordCommand], message: str) -> Answer:
    """Execute the command that ``read`` reads in the parameters, and answer as Nacos 1.4 does.

    Shape: code, message, data (null).

    Raises:
        NoRight: users are not asked for. Anyone who could make one now would be a user when they are.
    """
    if not services.access.enabled:
        raise NoRight(AUTH_IS_OFF)
    command = read(call.parameters)
    try:
        outcome = services.writes.execute(command, call)
    except NotOwnUser as error:
        audit_refusal(call, services, error.text)
        return rest_refusal(error.status, error.text)
    except WrongPassword as error:
        return rest_refusal(error.status, error.text)
    return rendered(outcome, json_reply({"code": 200, "message": message.format(command), "data": None}))


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
    return _answer(call, services, lambda given: CreateUser(**load_parameters(LoginSchema, given)), "create user ok!")


@route("PUT", *USERS, access=LOGGED_IN, described=Described(DONE_RESULT, takes=(NewPasswordSchema,)))
def update_user(call: Call, services: Services) -> Answer:
    """Set a user's password: one's own, or an administrator any. Tokens of the user end."""
    return _answer(
        call, services, lambda given: SetPassword(**load_parameters(NewPasswordSchema, given)), "update user ok!"
    )


@route(
    "PUT", "/v1/auth/users/password", access=LOGGED_IN, described=Described(DONE_RESULT, takes=(ChangePasswordSchema,))
)
def change_password(call: Call, services: Services) -> Answer:
    """Change the caller's own password, given the old one. Tokens of the user end."""
    return _answer(
        call,
        services,
        lambda given: ChangePassword(**load_parameters(ChangePasswordSchema, given)),
        "Update password success",
    )


@route("DELETE", "/v1/auth/users/tokens", access=LOGGED_IN, described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def end_tokens(call: Call, services: Services) -> Answer:
    """End all tokens of a user, on all members: one's own, or an administrator anybody's."""
    return _answer(call, services, lambda given: EndTokens(**load_parameters(UserNameSchema, given)), "end tokens ok!")


@route("POST", LOGOUT, access=LOGGED_IN, described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def log_out(call: Call, services: Services) -> Answer:
    """End the token that the call brings, on all members. The user that is named is the token's."""
    return _answer(
        call,
        services,
        lambda given: EndToken(token=token_of(call), **load_parameters(UserNameSchema, given)),
        "logout ok!",
    )


@route("DELETE", *USERS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(UserNameSchema,)))
def delete_user(call: Call, services: Services) -> Answer:
    """Remove a user, whose tokens end."""
    return _answer(
        call, services, lambda given: RemoveUser(**load_parameters(UserNameSchema, given)), "delete user ok!"
    )


@route("GET", *USERS, access=admin(READ), described=Described(USER_PAGE, takes=(UserPageSchema,)))
def list_users(call: Call, services: Services) -> Answer:
    """A page of the users. Shape of an item: username."""
    values = load_parameters(UserPageSchema, call.parameters)
    names = [one for one in services.access.table.users() if _fits(values["username"], one, values["search"])]
    return _page([{"username": name} for name in names], values)


@route("GET", "/v1/auth/users/search", access=admin(READ), described=Described(NAMES, takes=(NameSearchSchema,)))
def search_users(call: Call, services: Services) -> Answer:
    """The names of users that contain a text. Shape: array."""
    text = load_parameters(NameSearchSchema, call.parameters)["username"]
    return json_reply([name for name in services.access.table.users() if text in name])


# --- roles ---------------------------------------------------------------------------------------


@route("POST", ROLES, access=admin(WRITE), described=Described(DONE_RESULT, takes=(RoleSchema,)))
def add_role(call: Call, services: Services) -> Answer:
    """Give a user a role."""
    return _answer(call, services, lambda given: AddRole(**load_parameters(RoleSchema, given)), "add role ok!")


@route("DELETE", ROLES, access=admin(WRITE), described=Described(DONE_RESULT, takes=(RemovedRoleSchema,)))
def remove_role(call: Call, services: Services) -> Answer:
    """Take a role from a user; without a user from all, with its permissions."""
    return _answer(
        call,
        services,
        lambda given: RemoveRole(**load_parameters(RemovedRoleSchema, given)),
        "delete role of user {0.username} ok!",
    )


@route("GET", ROLES, access=admin(READ), described=Described(ROLE_PAGE, takes=(UserPageSchema,)))
def list_roles(call: Call, services: Services) -> Answer:
    """A page of the roles that users have. Shape of an item: role, username."""
    values = load_parameters(UserPageSchema, call.parameters)
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
    text = load_parameters(NameSearchSchema, call.parameters)["role"]
    return json_reply(sorted({role for role, _ in services.access.table.roles() if text in role}))


# --- permissions ---------------------------------------------------------------------------------


@route("POST", PERMISSIONS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(PermissionSchema,)))
def add_permission(call: Call, services: Services) -> Answer:
    """Permit a role actions on the resources that fit a pattern."""
    return _answer(
        call, services, lambda given: AddPermission(**load_parameters(PermissionSchema, given)), "add permission ok!"
    )


@route("DELETE", PERMISSIONS, access=admin(WRITE), described=Described(DONE_RESULT, takes=(PermissionSchema,)))
def remove_permission(call: Call, services: Services) -> Answer:
    """Take a permission from a role."""
    return _answer(
        call,
        services,
        lambda given: RemovePermission(**load_parameters(PermissionSchema, given)),
        "delete permission ok!",
    )


@route("GET", PERMISSIONS, access=admin(READ), described=Described(PERMISSION_PAGE, takes=(UserPageSchema,)))
def list_permissions(call: Call, services: Services) -> Answer:
    """A page of the permissions. Shape of an item: role, resource, action."""
    values = load_parameters(UserPageSchema, call.parameters)
    found = [
        {"role": role, "resource": resource, "action": actions}
        for role, resource, actions in services.access.table.permissions()
        if _fits(values["role"], role, values["search"])
    ]
    return _page(found, values)

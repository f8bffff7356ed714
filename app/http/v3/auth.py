"""Users, roles and permissions over HTTP v3, and the first administrator. The login is in ``v1/auth.py``."""

from collections.abc import Callable
from typing import Any

from app.auth.access_rules import LOGGED_IN, PUBLIC, READ, WRITE, admin
from app.auth.refusals import AUTH_IS_OFF
from app.commands.record_commands import (
    AddPermission,
    AddRole,
    CreateUser,
    NotOwnUser,
    RecordCommand,
    RemovePermission,
    RemoveRole,
    RemoveUser,
    SetPassword,
)
from app.http.api.call import JSON, Answer, Call, Reply, Services, rendered
from app.http.api.user_access import audit_refusal
from app.http.input.schemas import load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import DONE
from app.http.shapes.user_shapes import NAMES, PERMISSION_PAGE, ROLE_PAGE, USER_PAGE
from app.http.shapes.v3_shapes import ANSWERED_TEXT, FIRST_ADMIN_ONCE
from app.http.v1 import auth, users
from app.http.v1.auth import FirstAdminSchema, LoginSchema
from app.http.v1.users import (
    NameSearchSchema,
    NewPasswordSchema,
    PermissionSchema,
    RemovedRoleSchema,
    RoleSchema,
    UserNameSchema,
    UserPageSchema,
)
from app.http.v2.envelope import require, result, wrapped
from app.http.v3.earlier_owners import v3_route
from app.naming.model.nacos_errors import NoRight

HAS_ADMIN = b'{"code":409,"message":"have admin user cannot use it.","data":null}'
USER, ROLE, PERMISSION = "/v3/auth/user", "/v3/auth/role", "/v3/auth/permission"


def _execute(call: Call, services: Services, command: Callable[[], RecordCommand], message: str) -> Answer:
    """Execute a command, which is read where users are asked for.

    Raises:
        NoRight: users are not asked for; or the caller may not do this to another user.
    """
    if not services.access.enabled:
        raise NoRight(AUTH_IS_OFF)
    try:
        outcome = services.writes.execute(command(), call)
    except NotOwnUser as error:
        audit_refusal(call, services, error.text)
        raise NoRight(error.text) from None
    return rendered(outcome, result(message))


# --- users ---------------------------------------------------------------------------------------


@v3_route("POST", USER, access=admin(WRITE), at_root=(USER,), described=Described(ANSWERED_TEXT, takes=(LoginSchema,)))
def create_user(call: Call, services: Services) -> Answer:
    """Create a user."""
    require(call, LoginSchema)
    return _execute(
        call, services, lambda: CreateUser(**load_parameters(LoginSchema, call.parameters)), "create user ok!"
    )


@v3_route(
    "PUT", USER, access=LOGGED_IN, at_root=(USER,), described=Described(ANSWERED_TEXT, takes=(NewPasswordSchema,))
)
def update_user(call: Call, services: Services) -> Answer:
    """Set a user's password: one's own, or an administrator any. Tokens of the user end."""
    require(call, NewPasswordSchema)
    return _execute(
        call, services, lambda: SetPassword(**load_parameters(NewPasswordSchema, call.parameters)), "update user ok!"
    )


@v3_route(
    "DELETE", USER, access=admin(WRITE), at_root=(USER,), described=Described(ANSWERED_TEXT, takes=(UserNameSchema,))
)
def delete_user(call: Call, services: Services) -> Answer:
    """Remove a user, whose tokens end."""
    require(call, UserNameSchema)
    return _execute(
        call, services, lambda: RemoveUser(**load_parameters(UserNameSchema, call.parameters)), "delete user ok!"
    )


@v3_route(
    "GET",
    f"{USER}/list",
    access=admin(READ),
    at_root=(f"{USER}/list",),
    described=Described(USER_PAGE, takes=(UserPageSchema,)),
)
def list_users(call: Call, services: Services) -> Answer:
    """A page of the users. No password is shown, nor its hash."""
    require(call, UserPageSchema)
    return wrapped(users.list_users(call, services))


@v3_route(
    "GET",
    f"{USER}/search",
    access=admin(WRITE).of_read(),
    at_root=(f"{USER}/search",),
    described=Described(NAMES, takes=(NameSearchSchema,)),
)
def search_users(call: Call, services: Services) -> Answer:
    """The names of users that contain a text."""
    return wrapped(users.search_users(call, services))


@v3_route(
    "POST",
    f"{USER}/admin",
    access=PUBLIC,
    at_root=(f"{USER}/admin",),
    described=Described(FIRST_ADMIN_ONCE, takes=(FirstAdminSchema,), refusals=(403,)),
)
def first_admin(call: Call, services: Services) -> Answer:
    """Make the first administrator, once. Shape of data: username; password if it was made up.

    The parameter ``secret`` is the content of the file ``first-admin.secret`` in this member's data folder; without it,
    or with another one: 403, and 429 after many. Where there is an administrator, the code is 409, under status 200.
    """
    answer = auth.first_admin(call, services)
    if isinstance(answer, Reply) and answer.status == 409:
        return Reply(200, HAS_ADMIN, JSON)
    return wrapped(answer)


# --- roles ---------------------------------------------------------------------------------------


@v3_route("POST", ROLE, access=admin(WRITE), at_root=(ROLE,), described=Described(ANSWERED_TEXT, takes=(RoleSchema,)))
def add_role(call: Call, services: Services) -> Answer:
    """Give a user a role."""
    require(call, RoleSchema)
    return _execute(call, services, lambda: AddRole(**load_parameters(RoleSchema, call.parameters)), "add role ok!")


@v3_route(
    "DELETE", ROLE, access=admin(WRITE), at_root=(ROLE,), described=Described(ANSWERED_TEXT, takes=(RemovedRoleSchema,))
)
def remove_role(call: Call, services: Services) -> Answer:
    """Take a role from a user; without a user from all, with its permissions."""
    require(call, RemovedRoleSchema)
    asked: dict[str, Any] = load_parameters(RemovedRoleSchema, call.parameters)
    return _execute(call, services, lambda: RemoveRole(**asked), f"delete role of user {asked['username']} ok!")


@v3_route(
    "GET",
    f"{ROLE}/list",
    access=admin(READ),
    at_root=(f"{ROLE}/list",),
    described=Described(ROLE_PAGE, takes=(UserPageSchema,)),
)
def list_roles(call: Call, services: Services) -> Answer:
    """A page of the roles that users have."""
    require(call, UserPageSchema)
    return wrapped(users.list_roles(call, services))


@v3_route(
    "GET",
    f"{ROLE}/search",
    access=admin(READ),
    at_root=(f"{ROLE}/search",),
    described=Described(NAMES, takes=(NameSearchSchema,)),
)
def search_roles(call: Call, services: Services) -> Answer:
    """The names of roles that contain a text."""
    return wrapped(users.search_roles(call, services))


# --- permissions ---------------------------------------------------------------------------------


@v3_route(
    "POST",
    PERMISSION,
    access=admin(WRITE),
    at_root=(PERMISSION,),
    described=Described(ANSWERED_TEXT, takes=(PermissionSchema,)),
)
def add_permission(call: Call, services: Services) -> Answer:
    """Permit a role actions on the resources that fit a pattern."""
    require(call, PermissionSchema)
    return _execute(
        call,
        services,
        lambda: AddPermission(**load_parameters(PermissionSchema, call.parameters)),
        "add permission ok!",
    )


@v3_route(
    "DELETE",
    PERMISSION,
    access=admin(WRITE),
    at_root=(PERMISSION,),
    described=Described(ANSWERED_TEXT, takes=(PermissionSchema,)),
)
def remove_permission(call: Call, services: Services) -> Answer:
    """Take a permission from a role."""
    require(call, PermissionSchema)
    return _execute(
        call,
        services,
        lambda: RemovePermission(**load_parameters(PermissionSchema, call.parameters)),
        "delete permission ok!",
    )


@v3_route(
    "GET",
    f"{PERMISSION}/list",
    access=admin(READ),
    at_root=(f"{PERMISSION}/list",),
    described=Described(PERMISSION_PAGE, takes=(UserPageSchema,)),
)
def list_permissions(call: Call, services: Services) -> Answer:
    """A page of the permissions."""
    require(call, UserPageSchema)
    return wrapped(users.list_permissions(call, services))


@v3_route(
    "GET", PERMISSION, access=admin(READ), at_root=(PERMISSION,), described=Described(DONE, takes=(PermissionSchema,))
)
def has_permission(call: Call, services: Services) -> Answer:
    """Answer true if a role has a permission already: that of both actions contains that of each."""
    require(call, PermissionSchema)
    asked = load_parameters(PermissionSchema, call.parameters)
    found = (asked["role"], asked["resource"])
    return result(
        any(
            (role, resource) == found and actions in (asked["action"], "rw")
            for role, resource, actions in services.access.table.permissions()
        )
    )

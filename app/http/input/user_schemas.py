"""The parameters of the calls about users, roles and permissions, as marshmallow schemas."""

from marshmallow import EXCLUDE, Schema, fields, validate

from app.http.input.fields import Number, Trimmed, filled, invalid, present

PAGE_SIZE_MAX = 500


class _Count(Number):
    """A whole number, whose refusal names the parameter."""

    default_error_messages = invalid("it should be a whole number")


class _UsersSchema(Schema):
    """Ignores the values that it has no field for."""

    class Meta:
        unknown = EXCLUDE


class LoginSchema(_UsersSchema):
    """POST ``/auth/login``."""

    username = fields.String(**present("username"))
    password = fields.String(**present("password"))


class NewPasswordSchema(_UsersSchema):
    """PUT ``/auth/users``."""

    username = fields.String(**filled("username"))
    password = fields.String(**filled("newPassword"))


class ChangePasswordSchema(_UsersSchema):
    """PUT ``/auth/users/password``."""

    old = fields.String(**filled("oldPassword"))
    new = fields.String(**filled("newPassword"))


class FirstAdminSchema(_UsersSchema):
    """POST ``/auth/users/admin``."""

    username = Trimmed(load_default="nacos")
    password = fields.String(load_default="")
    secret = Trimmed(load_default="")


class UserNameSchema(_UsersSchema):
    """Calls about one user."""

    username = fields.String(**filled("username"))


class RoleSchema(_UsersSchema):
    """POST ``/auth/roles``."""

    role = fields.String(**filled("role"))
    username = fields.String(**filled("username"))


class RemovedRoleSchema(_UsersSchema):
    """DELETE ``/auth/roles``: of one user, or of all."""

    role = fields.String(**filled("role"))
    username = fields.String(load_default="")


class PermissionSchema(_UsersSchema):
    """POST and DELETE ``/auth/permissions``."""

    role = fields.String(**filled("role"))
    resource = fields.String(**filled("resource"))
    action = fields.String(**filled("action"))


class UserPageSchema(_UsersSchema):
    """A page of users, roles or permissions, perhaps of those that one name finds; ``search`` blur: ``*`` in it."""

    page = _Count(**filled("pageNo"), validate=validate.Range(min=1, error="it should be 1 or more"))
    size = _Count(
        **filled("pageSize"),
        validate=validate.Range(1, PAGE_SIZE_MAX, error=f"it should be a number from 1 to {PAGE_SIZE_MAX}"),
    )
    username = fields.String(load_default="")
    role = fields.String(load_default="")
    search = fields.String(load_default="accurate")


class NameSearchSchema(_UsersSchema):
    """GET ``/auth/users/search`` and ``/auth/roles/search``."""

    username = fields.String(load_default="")
    role = fields.String(load_default="")

"""Logins, and the first administrator."""

import secrets

import orjson

from app.auth.access_rules import PUBLIC
from app.auth.refusals import AUTH_IS_OFF, UNKNOWN_USER, AccessDenied, TooManyLogins
from app.auth.users import AdminExists
from app.commands.record_commands import CreateFirstAdmin
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import BEARER, JSON, Answer, Call, Reply, Services, rendered, route
from app.http.api.user_access import token_of, too_many_logins
from app.http.input.fields import PRESENT, Text, Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import FIRST_ADMIN, HAS_ADMIN, LOGIN
from app.naming.model.nacos_errors import NoRight

OFF_TOKEN = "auth-is-off"
OFF_TTL_S = 18_000
PASSWORD_BYTES = 18


class LoginSchema(CallSchema):
    username = Text("username", "The name of the user.", needs=PRESENT)
    password = Text("password", "The password.", needs=PRESENT)


class FirstAdminSchema(CallSchema):
    username = Trimmed("username", "The name of the user.", "nacos")
    password = Text("password", "The password.", "")
    secret = Trimmed("secret", "The content of the file first-admin.secret in the data folder of this member.", "")


@route(
    "POST",
    "/v3/auth/user/login",
    access=PUBLIC,
    at_root=True,
    described=Described(LOGIN, takes=(LoginSchema,), refusals=(403,)),
)
@route(
    "POST",
    "/v1/auth/login",
    "/v1/auth/users/login",
    "/v3/auth/user/login",
    access=PUBLIC,
    described=Described(LOGIN, takes=(LoginSchema,), refusals=(403,)),
)
def login(call: Call, services: Services) -> Answer:
    """A token for a user and password. Shape: accessToken, tokenTtl (s), globalAdmin, username.

    While users are not asked for, the answer says so in ``message`` and grants nothing: its token is not valid. It
    still is a success, as client libraries that have a user configured go no further without one.
    """
    values = load_parameters(LoginSchema, call.parameters)
    name, control = values["username"], services.access
    if control.tokens is None:
        return _logged_in(OFF_TOKEN, OFF_TTL_S, name, is_admin=False, message=AUTH_IS_OFF)
    try:
        session = control.log_in(name, values["password"], call.remote_ip, call.login_wait)
    except AccessDenied:
        return text_reply(403, UNKNOWN_USER)
    except TooManyLogins as error:
        return too_many_logins(error)
    is_admin = control.rights(session).is_admin
    return _logged_in(control.token_of(session), control.tokens.ttl_s, name, is_admin=is_admin)


def _logged_in(token: str, ttl_s: int, name: str, *, is_admin: bool, message: str = "") -> Reply:
    answer = {"accessToken": token, "tokenTtl": ttl_s, "globalAdmin": is_admin, "username": name}
    body = orjson.dumps(answer | ({"message": message} if message else {}))
    return Reply(200, body, JSON, {"Authorization": f"{BEARER}{token}"})


@route(
    "POST",
    "/v1/auth/users/admin",
    access=PUBLIC,
    described=Described(FIRST_ADMIN, takes=(FirstAdminSchema,), refusals=(403,), also={409: HAS_ADMIN}),
)
def first_admin(call: Call, services: Services) -> Answer:
    """Make the first administrator, once. Shape: username; password if it was made up.

    The parameter ``secret`` is the content of the file ``first-admin.secret`` in this member's data folder; without it,
    or with another one: 403, and 429 after many. Where there is an administrator: 409.
    """
    control = services.access
    if control.tokens is None or control.passwords is None or control.setup is None:
        raise NoRight(AUTH_IS_OFF)
    if control.table.has_admin():
        return _has_admin()
    values = load_parameters(FirstAdminSchema, call.parameters)
    name, password = values["username"], values["password"]
    if not control.tokens.is_first_admin(token_of(call)):
        try:
            control.setup.check(values["secret"], call.remote_ip)
        except TooManyLogins as error:
            return too_many_logins(error)
        call.give_token(control.tokens.make_first_admin(), "secret")
    answer = {"username": name}
    if not password:
        answer["password"] = password = secrets.token_urlsafe(PASSWORD_BYTES)
    try:
        outcome = services.writes.execute(CreateFirstAdmin(name, password), call)
    except AdminExists:
        return _has_admin()
    except TooManyLogins as error:
        return too_many_logins(error)
    return rendered(outcome, json_reply(answer))


def _has_admin() -> Reply:
    body = {"code": 409, "message": "have admin user cannot use it", "data": None}
    return Reply(409, orjson.dumps(body), JSON)

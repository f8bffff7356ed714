"""The login that SDKs expect. No call needs one."""

import orjson

from app.auth.access_rules import PUBLIC
from app.http.api.call import JSON, Answer, Call, Reply, Services, route
from app.http.input.schemas import LoginSchema, load_parameters

TOKEN = "auth-is-off"
TOKEN_TTL_S = 18_000
_LOGIN = LoginSchema()


@route("POST", "/v1/auth/login", "/v1/auth/users/login", access=PUBLIC)
def login(call: Call, services: Services) -> Answer:
    """The answer to an SDK that has a user configured. Shape: accessToken, tokenTtl (s), globalAdmin, username.

    It protects nothing: any user and password will do, all get the same token, and no call reads it.
    """
    username = load_parameters(_LOGIN, call.parameters)["username"]
    answer = {"accessToken": TOKEN, "tokenTtl": TOKEN_TTL_S, "globalAdmin": True, "username": username}
    return Reply(200, orjson.dumps(answer), JSON, {"Authorization": f"Bearer {TOKEN}"})

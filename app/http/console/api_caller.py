"""Calls of the API in this process, in the name of a page's user: with the rights, owners and audit of any call."""

from functools import cache
from typing import Any
from urllib.parse import urlencode

import orjson

from app.http.api.answers import error_reply
from app.http.api.call import AUTHORIZATION, BEARER, ROUTES, Call, Reply, Route, Services
from app.http.api.dispatch import answer_call
from app.naming.model.json_fields import flag_text
from app.naming.model.nacos_errors import NacosError
from distro.model.errors import CodecError, NotInitialized

AGENT = "Rollcall-Console"
Value = str | int | float | bool | None
"""The value of a parameter; None leaves it out."""


class ApiRefusal(Exception):
    """A call that was refused: the status, and the reason in words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@cache
def _rows() -> dict[tuple[str, str], Route]:
    return {(row.method, row.path): row for row in ROUTES}


class ApiCaller:
    """Makes calls for one page. Each blocks until the member that owns the data has answered.

    Raises (each): ApiRefusal.
    """

    def __init__(self, call: Call, services: Services, token: str) -> None:
        """``call``: that of the page. ``token``: its user's; empty while authentication is off."""
        self._call = call
        self._services = services
        self._headers = {"user-agent": AGENT} | ({AUTHORIZATION: BEARER + token} if token else {})

    def get(self, path: str, **parameters: Value) -> Any:
        """Return the JSON of a read; of an answer in Nacos's envelope its data."""
        reply = self._reply("GET", path, parameters)
        return _data(orjson.loads(reply.body))

    def find(self, path: str, **parameters: Value) -> Any | None:
        """Return the JSON as ``get`` does; None if the user may not read it, or it does not exist."""
        try:
            return self.get(path, **parameters)
        except ApiRefusal as refusal:
            if refusal.status in (403, 404):
                return None
            raise

    def send(self, method: str, path: str, **parameters: Value) -> None:
        """Have something changed."""
        reply = self._reply(method, path, parameters)
        if reply.body.startswith(b"{"):
            _data(orjson.loads(reply.body))
        elif reply.body == b"false":
            raise ApiRefusal(400, "Refused: the name is taken, or not allowed.")

    def _reply(self, method: str, path: str, parameters: dict[str, Value]) -> Reply:
        outer, row = self._call, _rows()[method, path]
        given = [(name, _text(value)) for name, value in parameters.items() if value is not None]
        call = Call(
            method=method,
            path=path,
            raw_query=urlencode(given).encode(),
            headers=self._headers,
            body=b"",
            remote_ip=outer.remote_ip,
            context_path=outer.context_path,
            address=outer.address,
            login_wait=outer.login_wait,
        )
        try:
            reply = answer_call(row, call, self._services, is_page_read=method == "GET")
        except (NacosError, CodecError, NotInitialized) as error:
            reply = error_reply(error)
        if not 200 <= reply.status < 300:
            raise ApiRefusal(reply.status, _words(reply.body))
        return reply


def _text(value: Value) -> str:
    return flag_text(value) if isinstance(value, bool) else str(value)


def _data(answer: Any) -> Any:
    """Return the content of an answer: the data in the envelopes of core, console and v2.

    Raises:
        ApiRefusal: the code in the envelope is an error's, under status 200.
    """
    if not isinstance(answer, dict) or not {"code", "message", "data"} <= answer.keys():
        return answer
    code = answer["code"]
    if code not in (0, 200):
        raise ApiRefusal(code if 400 <= code < 600 else 400, str(answer["message"] or answer["data"]))
    return answer["data"]


def _words(body: bytes) -> str:
    """Return the text of a refusal: the message of JSON, the data of v2."""
    text = body.decode("utf-8", "replace")
    if text.startswith("{"):
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            return text
        data = told.get("data")
        return str(data if isinstance(data, str) else told.get("message", text))
    return text

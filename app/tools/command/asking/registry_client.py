"""The calls of commands to a server; each failure comes with advice."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.config.client_config import SERVER_VARIABLE, TOKEN_VARIABLE, USER_VARIABLE
from app.languages.command_texts import gettext
from app.tools.audit.client.access import Access, parse_url
from app.tools.command.asking.exits import CommandError, ExitCode, StoppedByServer
from app.tools.command.asking.server_connection import (
    EventStream,
    NoServerAnswer,
    Parameters,
    ServerConnection,
    ServerReply,
)
from app.tools.printable import printable

LOGIN = "/v1/auth/login"
NAMESPACES = "/v1/console/namespaces"
CATALOG_SERVICES = "/v1/ns/catalog/services"
SERVICE_NAMES = "/v1/ns/service/list"
NAMES_BY_NAMESPACE = "/v1/ns/service/names"
NO_NAME = "-"
"""A pattern that no name fits: the answer then has the namespaces with services, and no service."""
PUBLIC = "public"
SERVICE_CHANGES, CATALOG_CHANGES = "/v1/ns/service/changes", "/v1/ns/catalog/changes"
EVENT_CHANGES = "/v1/ns/operator/events/changes"
CATALOG_INSTANCES = "/v2/ns/catalog/instances"
PAGE, INSTANCES_PAGE = 10_000, 500
"""The most entries in a page of a member with default settings, and with API v2."""
SAID_CHARS_MAX = 300
ALIKE_CHARS_MAX = 200
ALIKE_MAX = 3
DEFAULT_PREFIX = "DEFAULT_GROUP@@"
NOT_PERMITTED = "authorization failed"
_OK, _ACCEPTED = 200, 202
_SAID = re.compile(r'"(?:data|message)":("(?:[^"\\]|\\.)*")')
_ENVELOPE_OK = 0
Row = Mapping[str, Any]


class RegistryClient:
    """A server, for commands. Every failure is a ``CommandError``."""

    def __init__(self, server: str, namespace: str, access: Access, config_file: str) -> None:
        _, address, _ = parse_url(server)
        self.server = printable(server)
        self.namespace = namespace
        self._access = access
        self._config_file = config_file
        self._connection = ServerConnection(address, access)
        self._is_logged_in = False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def user(self) -> str:
        """The user of the calls; empty without a name, as with only a token."""
        return self._access.user

    # --- calls -----------------------------------------------------------------------------------

    def get(self, path: str, parameters: Parameters | None = None) -> Any:
        """Return the value of the server's JSON answer; of an answer in an envelope its ``data``.

        Raises:
            CommandError: the server answers something else, or not at all.
        """
        return self._value(path, self._call(lambda: self._connection.get(path, parameters or {})))

    def find(self, path: str, parameters: Parameters) -> Any:
        """Return the value as ``get`` does, or None if the server says that the thing does not exist."""
        try:
            return self.get(path, parameters)
        except CommandError as error:
            if error.code is ExitCode.NOT_FOUND:
                return None
            raise

    def change(self, method: str, path: str, parameters: Parameters, timeout_s: float | None = None) -> ServerReply:
        """Have the server change something.

        Raises:
            CommandError: the server did not, or it is unknown whether it did.
        """
        return self._call(lambda: self._connection.change(method, path, parameters, timeout_s))

    def changed(self, method: str, path: str, parameters: Parameters) -> Any:
        """Have the server change something, and return the value of its answer, as ``get`` does."""
        return self._value(path, self.change(method, path, parameters))

    def changes(self, services: Sequence[str]) -> EventStream | None:
        """Return a stream with an event for each change of one service, or for any change in the namespace.

        None if the server has no such stream. From any thread, after the first stream.

        Raises:
            NoServerAnswer: the stream cannot be opened now.
            CommandError: the login for the first stream failed.
        """
        wanted: dict[str, str | int] = {"namespaceId": self.namespace}
        if len(services) == 1:
            return self.stream(SERVICE_CHANGES, {**wanted, "serviceName": services[0]})
        return self.stream(CATALOG_CHANGES, wanted)

    def stream(self, path: str, parameters: Parameters) -> EventStream | None:
        """Return a stream of events, as ``changes`` does."""
        self._ensure_login()
        return self._connection.events(path, parameters)

    def log_in(self) -> Row:
        """Log in, and return the answer. Shape: accessToken, tokenTtl (s), username; message where there are no users.

        Raises:
            CommandError: user and password are not accepted.
        """
        form = {"username": self._access.user, "password": self._access.password}
        reply = self._reply(lambda: self._connection.change("POST", LOGIN, form))
        if reply.status in (401, 403):
            raise CommandError(
                ExitCode.REFUSED,
                gettext(
                    "%(server)s does not accept user %(user)s with this password: %(reply)s",
                    server=self.server,
                    user=printable(self._access.user),
                    reply=_said(reply),
                ),
            )
        answer = self._value(LOGIN, self._checked(reply))
        token = answer.get("accessToken") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise self.unusable(LOGIN)
        self._connection.token, self._is_logged_in = token, True
        return {**answer}

    def _call(self, call: Callable[[], ServerReply]) -> ServerReply:
        self._ensure_login()
        reply = self._reply(call)
        if reply.status in (401, 403) and self._is_logged_in and "expired" in reply.text():
            self.log_in()  # a watch outlives its token
            reply = self._reply(call)
        return self._checked(reply)

    def _ensure_login(self) -> None:
        if self._access.user and not self._is_logged_in:
            self.log_in()

    def _reply(self, call: Callable[[], ServerReply]) -> ServerReply:
        try:
            return call()
        except NoServerAnswer as error:
            raise CommandError(
                ExitCode.NO_SERVER,
                gettext(
                    "%(server)s does not answer: %(error)s. Name a running server: --server URL, "
                    "%(server_variable)s, or `server` in %(config_file)s",
                    server=self.server,
                    error=error,
                    server_variable=SERVER_VARIABLE,
                    config_file=self._config_file,
                ),
            ) from None

    def _checked(self, reply: ServerReply) -> ServerReply:
        """Return the reply if the call was executed.

        Raises:
            CommandError: it was not executed.
        """
        if reply.status in (_OK, _ACCEPTED):
            status = _status_inside(reply)
            if status in (_ENVELOPE_OK, _OK):
                return reply
        else:
            status = reply.status
        said = _said(reply)
        match status:
            case 401 | 403:
                raise CommandError(ExitCode.REFUSED, self._refusal(said))
            case 404 if _is_of_rollcall(reply):
                raise CommandError(ExitCode.NOT_FOUND, said)
            case 404 | 501:
                raise CommandError(
                    ExitCode.FAILED,
                    gettext(
                        "%(server)s has no such call: is it a Rollcall member, and --context-path right?",
                        server=self.server,
                    ),
                )
            case 409:
                raise StoppedByServer(said)
            case 429 | 503:
                raise CommandError(
                    ExitCode.NO_SERVER,
                    gettext(
                        "%(server)s does not serve now: %(said)s. Try another server, or again later",
                        server=self.server,
                        said=said,
                    ),
                )
        raise CommandError(
            ExitCode.FAILED,
            gettext(
                "%(server)s refused the request with status %(status)s: %(said)s",
                server=self.server,
                status=status,
                said=said,
            ),
        )

    def _refusal(self, said: str) -> str:
        if said == NOT_PERMITTED:
            who = f"user {printable(self._access.user)}" if self._access.user else "the user of this token"
            return f"permission denied for {who} at {self.server}; an administrator grants it: rollcall user permit"
        if self._access.user:
            return f"{self.server} refuses user {printable(self._access.user)}: {said}"
        if self._access.token:
            return f"{self.server} refuses the token: {said}. Get a new one: rollcall user login --user NAME"
        return f"{self.server} requires a login: {said}. Give --user NAME, {USER_VARIABLE} or {TOKEN_VARIABLE}"

    def _value(self, path: str, reply: ServerReply) -> Any:
        value = reply.json()
        if value is None:
            raise self.unusable(path)
        return value["data"] if isinstance(value, dict) and {"code", "message", "data"} <= value.keys() else value

    def unusable(self, path: str) -> CommandError:
        """Return the error of an answer that lacks an expected part."""
        text = gettext(
            "%(server)s%(path)s gave an answer that no Rollcall member gives: is it one, and is --context-path right?",
            server=self.server,
            path=path,
        )
        return CommandError(ExitCode.FAILED, text)

    # --- what several commands ask ---------------------------------------------------------------

    def rows(self, path: str, value: Any) -> list[Row]:
        """Return the rows of a list that a server sent.

        Raises:
            CommandError: the value is not a list of objects.
        """
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.unusable(path)
        return value

    def pages(self, path: str, parameters: Parameters, field: str, size: int) -> Iterator[Row]:
        """Yield all rows of a list that comes in pages; ``field`` holds them in each page, ``count`` their number.

        A server may give shorter pages than requested: the next page is requested by the length of the first.
        """
        page, seen = 1, 0
        while True:
            value = self.get(path, {**parameters, "pageNo": page, "pageSize": size})
            if not isinstance(value, dict) or not isinstance(value.get("count"), int):
                raise self.unusable(path)
            rows = self.rows(path, value.get(field))
            yield from rows
            seen += len(rows)
            if not rows or seen >= value["count"]:
                return
            if page == 1:
                size = len(rows)
            page += 1

    def services(self, name: str = "", group: str = "", namespace: str | None = None) -> Iterator[Row]:
        """Yield the services whose names contain the texts. Shape: name, groupName, clusterCount, ipCount and so on."""
        namespace = self.namespace if namespace is None else namespace
        wanted = {"namespaceId": namespace, "serviceNameParam": name, "groupNameParam": group}
        return self.pages(CATALOG_SERVICES, wanted, "serviceList", PAGE)

    def instances(self, service: str) -> list[Row]:
        """Return all instances of a service, with their true health.

        Raises:
            CommandError: the service does not exist; the text suggests services with similar names.
        """
        found = self.instances_in(self.namespace, service)
        if found is None:
            raise self.no_service(service)
        return found

    def instances_in(self, namespace: str, service: str) -> list[Row] | None:
        """Return all instances of a service, with their true health; None if the service does not exist."""
        wanted = {"namespaceId": namespace, "serviceName": service}
        try:
            return list(self.pages(CATALOG_INSTANCES, wanted, "instances", INSTANCES_PAGE))
        except CommandError as error:
            if error.code is not ExitCode.NOT_FOUND:
                raise
        return None

    def namespaces(self) -> list[Row]:
        """Return the namespaces that the caller may see. Shape: namespace (empty for public), namespaceShowName."""
        return self.rows(NAMESPACES, self.get(NAMESPACES))

    def all_namespaces(self) -> list[str]:
        """Return the ids of the namespaces that the caller may see, and of those that have services.

        A service may be registered in a namespace that was never created.
        """
        listed = [str(one.get("namespace") or PUBLIC) for one in self.namespaces()]
        try:
            answer = self.get(NAMES_BY_NAMESPACE, {"expr": NO_NAME})
        except CommandError as error:
            if error.code is not ExitCode.REFUSED:  # the caller may not search all namespaces
                raise
            return listed
        used = answer.get("services") if isinstance(answer, dict) else None
        return list(dict.fromkeys([*listed, *sorted(used)])) if isinstance(used, dict) else listed

    def no_service(self, service: str) -> CommandError:
        """Return the error for a service that does not exist, with similar names."""
        self.check_namespace()
        text = gettext(
            "there is no service %(service)s in namespace %(namespace)s",
            service=printable(service),
            namespace=printable(self.namespace),
        )
        return CommandError(ExitCode.NOT_FOUND, f"{text}{self._alike(service)}")

    def check_namespace(self) -> None:
        """Check that the namespace exists, for a better error: calls may use any.

        Raises:
            CommandError: it does not exist; the text lists those that do.
        """
        try:
            listed = self.namespaces()
        except CommandError:
            return  # whoever may not list them is not told of them
        known = [str(one.get("namespace") or PUBLIC) for one in listed]
        if self.namespace not in ("", *known):
            names = printable(", ".join(known))[:ALIKE_CHARS_MAX]
            raise CommandError(
                ExitCode.NOT_FOUND,
                gettext(
                    "there is no namespace %(namespace)s; there are: %(names)s",
                    namespace=printable(self.namespace),
                    names=names,
                ),
            )

    def _alike(self, service: str) -> str:
        """Return the services that may be meant, as the end of a sentence."""
        import difflib

        try:
            value = self.get(
                SERVICE_NAMES, {"namespaceId": self.namespace, "groupName": "*", "pageNo": 1, "pageSize": PAGE}
            )
        except CommandError:
            return ""
        listed = value.get("doms") if isinstance(value, dict) else None
        names = [str(one).removeprefix(DEFAULT_PREFIX) for one in listed] if isinstance(listed, list) else []
        name = service.removeprefix(DEFAULT_PREFIX)
        near = [one for one in names if one.rpartition("@@")[2] == name.rpartition("@@")[2]]
        shown = ", ".join((near or difflib.get_close_matches(name, names))[:ALIKE_MAX])
        if shown:
            return f"; did you mean {printable(shown)[:ALIKE_CHARS_MAX]}?"
        return "; `rollcall services` lists all"


def _status_inside(reply: ServerReply) -> int:
    """Return the status in the envelope of an answer with status 200; that of a success without an envelope."""
    if not reply.body.startswith(b'{"code":'):
        return _OK
    value = reply.json()
    is_envelope = isinstance(value, dict) and {"message", "data"} <= value.keys() and isinstance(value["code"], int)
    return int(value["code"]) if is_envelope else _OK


def _is_of_rollcall(reply: ServerReply) -> bool:
    """Return whether a 404 is about a missing thing, not a missing call: the domain's are a text or an envelope."""
    body = reply.body.lstrip()
    return not body.startswith(b"<") and b'"timestamp"' not in body


def _said(reply: ServerReply) -> str:
    """Return the server's message, in one line without a full stop, as a sentence continues after it."""
    text = reply.text()
    found = [json.loads(one) for one in _SAID.findall(text)] if text.lstrip().startswith("{") else []
    said = next((one for one in reversed(found) if one), text)
    return printable(" ".join(said.split()))[:SAID_CHARS_MAX].rstrip(".! ") or f"status {reply.status}"

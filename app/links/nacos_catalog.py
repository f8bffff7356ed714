"""The calls over HTTP of a link to a Nacos: logging in, and the names of namespaces and services."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from app.config.link_settings import LinkSettings
from app.links.link_calls import LinkCalls, LinkError, LinkRefused
from app.links.nacos_side import on_pages
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER

T = TypeVar("T")
LOGIN_PATHS = "/v1/auth/login", "/v3/auth/user/login"
NAMESPACE_PATHS = "/v1/console/namespaces", "/v3/admin/core/namespace/list"
CATALOG_PATHS = "/v1/ns/catalog/services", "/v3/admin/ns/service/list"
"""In each row the path of Nacos 1.x and 2.x, then that of 3.x."""
PAGE, PAGES_MAX = 500, 2_000
NAMESPACES_MAX = 1_000


class NacosCatalog:
    """The lists of one server. Each list has a separate connection: they are few."""

    def __init__(self, settings: LinkSettings, server: str) -> None:
        self._settings, self._server, self.token = settings, server, ""
        self._renewed_s = 0.0
        """When the token is to be replaced."""
        self._refused: set[str] = set()

    def log_in(self) -> str:
        """Return a token for the user of the link, a new one in time; an empty one without a user.

        Raises:
            LinkError: the server refuses the user, or does not answer.
        """
        if self._settings.user and time.monotonic() >= self._renewed_s:
            self.token = self._first(LOGIN_PATHS, self._logged_in)
        return self.token

    def _logged_in(self, path: str) -> str:
        with LinkCalls(self._settings, self._server) as calls:
            calls.log_in(path)
            self._renewed_s = time.monotonic() + calls.token_ttl_s / 2
            return calls.token

    def namespaces(self) -> list[str]:
        """Return the ids of the namespaces; none if the server does not list them to this user.

        Raises:
            LinkError: the server does not answer.
        """
        return self._listed(NAMESPACE_PATHS, self._namespaces) or []

    def _namespaces(self, path: str) -> list[str]:
        with LinkCalls(self._settings, self._server, self.token) as calls:
            listed = calls.json("GET", path, {}).get("data")
        rows = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return [str(one.get("namespace") or DEFAULT_NAMESPACE) for one in rows[:NAMESPACES_MAX]]

    def names(self, namespace: str) -> set[str] | None:
        """Return the full names of a namespace's services; None if the server does not list them to this user.

        Raises:
            LinkError: the server does not answer.
        """
        return self._listed(CATALOG_PATHS, lambda path: set(self._names(path, namespace)))

    def _names(self, path: str, namespace: str) -> Iterator[str]:
        query: dict[str, object] = {"namespaceId": namespace, "pageSize": PAGE, "hasIpCount": "false"}
        with LinkCalls(self._settings, self._server, self.token) as calls:
            yield from self._named_on_pages(calls, path, query)

    def _named_on_pages(self, calls: LinkCalls, path: str, query: Mapping[str, object]) -> Iterator[str]:
        def ask(page: int) -> object:
            answer = calls.json("GET", path, {**query, "pageNo": page})
            data = answer.get("data")
            return data.get("pageItems") if isinstance(data, dict) else answer.get("serviceList")

        for one in on_pages(ask, PAGE, PAGES_MAX, f"{self._server} answers {path} without a list of services"):
            if isinstance(one, dict) and isinstance(name := one.get("name"), str) and name:
                group = one.get("groupName") or DEFAULT_GROUP
                yield name if GROUP_SPLITTER in name else f"{group}{GROUP_SPLITTER}{name}"

    def _listed(self, paths: tuple[str, ...], ask: Callable[[str], T]) -> T | None:
        """Return the first answer to calls that the server did not refuse before; None if it refuses all."""
        left = [one for one in paths if one not in self._refused]
        if not left:
            return None
        try:
            return self._first(tuple(left), ask)
        except LinkRefused:
            return None

    def _first(self, paths: tuple[str, ...], ask: Callable[[str], T]) -> T:
        error: LinkError = LinkRefused("there is no such call")
        for path in paths:
            try:
                return ask(path)
            except LinkRefused as refused:
                self._refused.add(path)
                error = refused
        raise error

"""The shared parts of the console's pages: the user, the templates, the headers, the forms that change something."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.auth.access_rules import LOGGED_IN, AccessRule
from app.config.version import __version__
from app.http.api.answers import filter_error
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.api.console_cookie import (
    address_of,
    form_token,
    is_form_token,
    set_cookie,
    token_in_cookie,
)
from app.http.console.api_caller import ApiCaller, ApiRefusal, Value
from app.http.console.page_language import language_of
from app.http.console.shown_texts import DONE, age_text, number_text, time_text, units_of
from app.languages.catalogues import CONSOLE as CONSOLE_TEXTS
from app.languages.catalogues import LANGUAGES, N_, Texts, texts_of
from app.languages.template_texts import with_texts
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.operator.switch_effects import TURNS_AWAY, effects

FOLDER = Path(__file__).parent
HTML = "text/html; charset=utf-8"
CONSOLE = LOGGED_IN.in_console()
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""A policy that makes a browser run and load only files that this node serves."""
SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HEADERS = {**SAFE, "Cache-Control": "no-store"}
ANONYMOUS_S = 30 * 24 * 3_600
"""The life of the cookie of a browser without a login: it holds a random text, for the forms."""
NAV = (
    ("overview", N_("Overview"), "/", False),
    ("services", N_("Services"), "/console/services", False),
    ("members", N_("Members"), "/console/members", False),
    ("links", N_("Links"), "/console/links", True),
    ("charts", N_("Charts"), "/console/charts", False),
    ("events", N_("Events"), "/console/history", True),
    ("clients", N_("Clients"), "/console/clients", True),
    ("subscribers", N_("Subscribers"), "/console/subscribers", False),
    ("namespaces", N_("Namespaces"), "/console/namespaces", False),
    ("switches", N_("Switches"), "/console/switches", True),
    ("users", N_("Users"), "/console/users", True),
    ("reports", N_("Nightly check"), "/console/reports", True),
)
"""The entries of the navigation: name, text, path, and true if for administrators only."""
NOT_CHANGED_HERE = 409
"""The status of a page that would change data that another service decides on."""
FORM_FIELD = "form"
"""The field with the token that shows from which page a form comes."""


@cache
def templates(language: str) -> Environment:
    """Return the templates in a language, each compiled once. They escape all values."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["host_port"] = host_port
    texts = texts_of(CONSOLE_TEXTS, language)
    made.filters |= {"age": partial(age_text, units=units_of(texts)), "number": number_text, "time": time_text}
    return with_texts(made, texts)


@cache
def assets() -> dict[str, bytes]:
    """Return the files that pages load, by name."""
    return {file.name: file.read_bytes() for file in sorted((FOLDER / "assets").iterdir())}


@cache
def asset_version(name: str) -> str:
    """Return the part of a file's address that changes with its contents."""
    return sha256(assets()[name]).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One call of a page, with its user, its API calls and its templates."""

    call: Call
    services: Services
    api: ApiCaller
    cookie: str
    """The value of the console's cookie; a new one where the browser sent none."""
    texts: Texts
    """The texts of pages in the language of the reader."""

    @classmethod
    def of(cls, call: Call, services: Services) -> "ConsolePage":
        """Return the page of a call whose access was checked."""
        given = token_in_cookie(call)
        token = given if services.access.enabled and call.user else ""
        texts = texts_of(CONSOLE_TEXTS, language_of(call))
        return cls(call, services, ApiCaller(call, services, token), given or secrets.token_urlsafe(24), texts)

    @property
    def namespace(self) -> str:
        """The namespace that the page is about."""
        return self.text("namespaceId", DEFAULT_NAMESPACE)

    @property
    def is_admin(self) -> bool:
        """True if the user has the rights of an administrator."""
        access = self.services.access
        return not access.enabled or (bool(self.call.user) and access.table.rights(self.call.user).is_admin)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter, trimmed."""
        return self.call.parameters.optional(name, default)

    def gettext(self, message: str, **values: object) -> str:
        """Return a text in the language of the page, with its placeholders filled in."""
        return self.texts.gettext(message, **values)

    def ngettext(self, singular: str, plural: str, number: int, **values: object) -> str:
        """Return the form of a text that fits a number, in the language of the page."""
        return self.texts.ngettext(singular, plural, number, **values)

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter as a number from 1 to ``most``; the default if it is not one."""
        text = self.text(name)
        return min(max(int(text), 1), most) if text.isascii() and text.isdigit() and len(text) < 10 else default

    def url(self, path: str, **parameters: Value) -> str:
        """Return the address of a page, with the parameters that are not empty."""
        query = urlencode({name: value for name, value in parameters.items() if value not in (None, "")})
        return f"{self.call.context_path}{path}" + (f"?{query}" if query else "")

    # --- answers -----------------------------------------------------------------------------------

    def show(self, template: str, title: str, *, status: int = 200, nav: str = "", **values: Any) -> Reply:
        """Return the page of a template. ``nav``: its place in the navigation."""
        services = self.services
        harmful = (
            effects(services.durable.switches, self.texts) if self.call.user or not services.access.enabled else []
        )
        entries = [
            (name, self.gettext(text), path)
            for name, text, path, for_admins in NAV
            if (self.is_admin or not for_admins) and (name != "users" or services.access.enabled)
        ]
        common = {
            "title": title,
            "nav": nav,
            "entries": entries,
            "url": self.url,
            "asset": lambda name: self.url(f"/console/assets/{name}", v=asset_version(name)),
            "user": self.call.user,
            "is_admin": self.is_admin,
            "users_on": services.access.enabled,
            "self_address": services.cluster.self_address,
            "release": __version__,
            "form_field": FORM_FIELD,
            "form_token": form_token(self.cookie),
            "done": self.gettext(DONE.get(self.text("done"), "")),
            "language": self.texts.language,
            "languages": LANGUAGES,
            "here": address_of(self.call) if self.call.method == "GET" else "",
            "namespace": self.namespace,
            "harmful": harmful,
            "turns_away": any(name in TURNS_AWAY for name, _, _ in harmful),
            "now_ms": services.wall_ms(),
            "live": "",
            "may_search": not services.access.enabled or bool(self.call.user),
            "find_text": "",
        }
        body = templates(self.texts.language).get_template(template).render(common | values)
        return Reply(status, body.encode("utf-8", "replace"), HTML, self.headers())

    def headers(self) -> dict[str, str]:
        """Return the headers of a page, which set the cookie if the browser lacks it."""
        if token_in_cookie(self.call):
            return HEADERS
        return {**HEADERS, "Set-Cookie": self.cookie_line(self.cookie, ANONYMOUS_S)}

    def cookie_line(self, value: str, age_s: int) -> str:
        """Return the header line that sets the cookie."""
        return set_cookie(self.call, value, age_s, is_tls=self.services.settings.scheme == "https")

    def refused(self, refusal: ApiRefusal) -> Reply:
        """Return the page that says why something was refused."""
        return self.show(
            "refused.html",
            self.gettext(_TITLES.get(refusal.status, N_("Not possible"))),
            status=refusal.status,
            why=refusal,
        )

    def go(self, path: str, **parameters: Value) -> Reply:
        """Redirect to another page, after a change."""
        return Reply(303, b"", None, {"Location": self.url(path, **parameters), "Cache-Control": "no-store"})


_TITLES = {
    NOT_CHANGED_HERE: N_("Not changed here"),
    403: N_("Permission denied"),
    404: N_("Not found"),
    503: N_("Not serving now"),
}
Show = Callable[[ConsolePage], Reply]
View = Callable[[Call, Services], Answer]


def page_route(path: str, access: AccessRule = CONSOLE) -> Callable[[Show], View]:
    """Return a decorator that adds a page to the route table."""
    return _route("GET", path, access, _shown)


def form_route(path: str, access: AccessRule = CONSOLE) -> Callable[[Show], View]:
    """Return a decorator that adds the action of a form, which must come from a page of the same session."""
    return _route("POST", path, access, _done)


def _route(
    method: str, path: str, access: AccessRule, run: Callable[[Show, ConsolePage], Reply]
) -> Callable[[Show], View]:
    def add(show: Show) -> View:
        @wraps(show)
        def view(call: Call, services: Services) -> Answer:
            if not services.settings.told.console:
                return filter_error(call.uri, 404, "No message available", services.wall_ms())
            page = ConsolePage.of(call, services)
            try:
                return run(show, page)
            except ApiRefusal as refusal:
                return page.refused(refusal)

        return route(method, path, access=access)(view)

    return add


def _shown(show: Show, page: ConsolePage) -> Reply:
    return show(page)


def _done(show: Show, page: ConsolePage) -> Reply:
    if not is_form_token(token_in_cookie(page.call), page.call.parameters.get(FORM_FIELD) or ""):
        raise ApiRefusal(
            403,
            page.gettext(
                "The form is not of this session, which may have ended. Nothing was changed: open the page again."
            ),
        )
    return show(page)

"""Login and logout, and the language of the pages."""

import logging
from urllib.parse import urlsplit

from app.auth.access_rules import PUBLIC
from app.auth.refusals import AccessDenied, TooManyLogins
from app.config.auth_settings import FIRST_ADMIN_FILE
from app.http.api.call import Reply
from app.http.api.console_cookie import LANGUAGE_COOKIE, LOGIN_PATH, NO_RIGHT_PATH, set_cookie
from app.http.console.api_caller import ApiCaller, ApiRefusal
from app.http.console.page import HEADERS, ConsolePage, form_route, page_route
from app.http.v1.users import LOGOUT
from app.languages.catalogues import LANGUAGES

log = logging.getLogger(__name__)
LANGUAGE_PATH, LANGUAGE_S = "/console/language", 365 * 24 * 3_600


@page_route(LOGIN_PATH, access=PUBLIC)
def login_form(page: ConsolePage) -> Reply:
    """Show the login; redirect to the first page if no call needs a user."""
    if not page.services.access.enabled:
        return page.go("/")
    return _form(page)


def _form(page: ConsolePage, problem: str = "", status: int = 200) -> Reply:
    # A user who sees this form is not logged in: its fields are tied to the cookie, whatever that holds.
    if not page.services.access.table.has_admin():
        return page.show(
            "first_admin.html",
            page.gettext("First administrator"),
            status=status,
            problem=problem,
            file_name=FIRST_ADMIN_FILE,
        )
    return page.show("login.html", page.gettext("Log in"), status=status, problem=problem, next=page.text("next"))


@form_route("/console/first-admin", access=PUBLIC)
def make_first_admin(page: ConsolePage) -> Reply:
    """Make the first administrator, who then logs in."""
    parameters = page.call.parameters
    given = {"username": page.text("username"), "password": parameters.get("password") or ""}
    if not given["password"]:
        return _form(page, page.gettext("A password is needed."), 400)
    try:
        page.api.send("POST", "/v1/auth/users/admin", **given, secret=page.text("secret"))
    except ApiRefusal as refusal:
        return _form(page, refusal.text, refusal.status)
    return page.go(LOGIN_PATH, done="admin-made")


@form_route(LOGIN_PATH, access=PUBLIC)
def log_in(page: ConsolePage) -> Reply:
    """Log in with name and password, and set the cookie with the token for as long as that is valid."""
    parameters, control = page.call.parameters, page.services.access
    if control.tokens is None:
        return page.go("/")
    name, password = page.text("username"), parameters.get("password") or ""
    try:
        session = control.log_in(name, password, page.call.remote_ip, page.call.login_wait)
    except AccessDenied:
        return _form(page, page.gettext("Unknown user or wrong password."), 403)
    except TooManyLogins as error:
        return _form(
            page,
            page.gettext("Too many users log in now: try again in %(seconds)s s.", seconds=error.retry_after_s),
            error.status,
        )
    cookie = page.cookie_line(control.token_of(session), control.tokens.ttl_s)
    return Reply(303, b"", None, {"Location": _next(page), "Set-Cookie": cookie, "Cache-Control": "no-store"})


def _next(page: ConsolePage) -> str:
    """Return the page to go to after the login, which is always one of this console."""
    wanted, own = page.text("next"), page.call.context_path
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return page.url("/")
    is_own = parts.path == f"{own}/" or parts.path.startswith(f"{own}/console/")
    safe = not parts.scheme and not parts.netloc and wanted.isascii() and wanted.isprintable() and "\\" not in wanted
    return wanted if is_own and safe and not wanted.startswith("//") else page.url("/")


@form_route("/console/logout", access=PUBLIC)
def log_out(page: ConsolePage) -> Reply:
    """Remove the cookie, and end the token that it held."""
    done = "logged-out"
    if page.services.access.enabled:
        try:
            session = page.services.access.session(page.cookie)
            ApiCaller(page.call, page.services, page.cookie).send("POST", LOGOUT, username=session.user)
        except AccessDenied:
            pass  # it has ended
        except ApiRefusal as refusal:
            done = "logged-out-here"
            log.info("a log-out of user %a is not known to the other members: %s", session.user, refusal.text)
        page.services.access.end_here(page.cookie)
    headers = {**HEADERS, "Location": page.url(LOGIN_PATH, done=done), "Set-Cookie": page.cookie_line("", 0)}
    return Reply(303, b"", None, headers)


@page_route(NO_RIGHT_PATH)
def no_right(page: ConsolePage) -> Reply:
    """Refuse a page that this user may not see."""
    if not page.call.user:
        raise ApiRefusal(403, page.gettext("The user of this session may not see that page."))
    raise ApiRefusal(403, page.gettext("The user %(name)s may not see that page.", name=page.call.user))


@form_route(LANGUAGE_PATH, access=PUBLIC)
def choose_language(page: ConsolePage) -> Reply:
    """Remember a language for this browser, and go back to the page."""
    language, is_tls = page.text("language"), page.services.settings.scheme == "https"
    if language not in LANGUAGES:
        raise ApiRefusal(400, page.gettext("The language should be one of %(known)s.", known=", ".join(LANGUAGES)))
    cookie = set_cookie(page.call, language, LANGUAGE_S, is_tls=is_tls, cookie=LANGUAGE_COOKIE)
    return Reply(303, b"", None, {"Location": _next(page), "Set-Cookie": cookie, "Cache-Control": "no-store"})

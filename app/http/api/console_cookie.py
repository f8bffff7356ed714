"""The console's cookie: a session's token, sent with the console's own pages and with no other call.

No call of the API reads it. So a page of another site, which can have a browser send it, only reaches pages of the
console with it. A change by these needs the token of a form, which such a page cannot know.
"""

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

from app.http.api.call import Call, Reply

COOKIE = "rollcall-console"
LANGUAGE_COOKIE = "rollcall-language"
LOGIN_PATH = "/console/login"
NO_RIGHT_PATH = "/console/no-right"
FORM_LABEL = b"rollcall console form 1"
COOKIE_CHARS_MAX = 8_192


def token_in_cookie(call: Call, cookie: str = COOKIE) -> str:
    """The value of the console's cookie, or of another one; empty for a call without it."""
    text = call.header("cookie") or ""
    if cookie not in text or len(text) > COOKIE_CHARS_MAX:
        return ""
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == cookie:
            return value.strip('"')
    return ""


def set_cookie(call: Call, value: str, age_s: int, *, is_tls: bool, cookie: str = COOKIE) -> str:
    """The header line that sets the console's cookie, or another one, for as long; 0 takes it away."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar[cookie] = value
    except CookieError:
        raise AssertionError("the token contains a character that is not allowed in a cookie") from None
    one = jar[cookie]
    one["path"], one["max-age"] = f"{call.context_path}/", age_s
    one["httponly"], one["samesite"], one["secure"] = True, "Strict", is_tls
    return one.OutputString()


def form_token(cookie: str) -> str:
    """Return the token that proves that a page of this console made a form.

    It is made from the cookie, which pages cannot read.
    """
    return hmac.digest(cookie.encode("utf-8", "replace"), FORM_LABEL, "sha256").hex()


def is_form_token(cookie: str, given: str) -> bool:
    """Return whether a form was made for the session of this cookie."""
    return bool(cookie) and hmac.compare_digest(form_token(cookie).encode(), given.encode("utf-8", "replace"))


def log_in_first(call: Call) -> Reply:
    """Return a redirect to the login page, which leads back to the page that a GET asked for."""
    back = f"?next={quote(address_of(call), safe='')}" if call.method == "GET" else ""
    return Reply(303, b"", None, {"Location": f"{call.context_path}{LOGIN_PATH}{back}", "Cache-Control": "no-store"})


def address_of(call: Call) -> str:
    """Return the path and query that a call asked for."""
    here = call.raw_path or call.context_path + call.path
    return here + (f"?{call.raw_query.decode('latin-1')}" if call.raw_query else "")


def is_page_wanted(call: Call) -> bool:
    """Return whether a browser asks for a page to show, and not a script in a page for data."""
    return call.method == "GET" and "text/html" in (call.header("accept") or "")


def no_right(call: Call) -> Reply:
    """Return a redirect to the page that says that the user lacks a permission."""
    location = f"{call.context_path}{NO_RIGHT_PATH}"
    return Reply(303, b"", None, {"Location": location, "Cache-Control": "no-store"})

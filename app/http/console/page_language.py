"""The language of a page: that of the switch in the header, else the first of the browser's that has a catalogue."""

from functools import lru_cache

from werkzeug.datastructures import LanguageAccept
from werkzeug.http import parse_accept_header

from app.http.api.call import Call
from app.http.api.console_cookie import LANGUAGE_COOKIE, token_in_cookie
from app.languages.catalogues import ENGLISH, LANGUAGES
from app.languages.language_tags import language_of_tags

HEADER_CHARS_MAX = 500
"""A longer header is not read: browsers send some 100 characters."""


def language_of(call: Call) -> str:
    """Return the language in which a page is shown to the browser of a call."""
    chosen = token_in_cookie(call, LANGUAGE_COOKIE)
    return chosen if chosen in LANGUAGES else language_of_header(call.header("accept-language") or "")


@lru_cache(maxsize=256)
def language_of_header(header: str) -> str:
    """Return the language for an ``Accept-Language`` header, whose tags the browser's user ordered by quality."""
    if len(header) > HEADER_CHARS_MAX:
        return ENGLISH
    accepted = parse_accept_header(header, LanguageAccept)
    return language_of_tags(tag for tag, quality in accepted if quality > 0) or ENGLISH

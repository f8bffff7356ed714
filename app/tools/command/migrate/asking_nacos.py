"""Calls of ``rollcall migrate``, each failure in one line."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from app.languages.command_texts import gettext
from app.tools.audit.client.http_client import LOGIN_PATHS, CallError, Refused
from app.tools.command.asking.exits import CommandError, ExitCode

T = TypeVar("T")
_NO_SUCH_CALL = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_NO_RIGHT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def asked(server: str, user_option: str, user: str, call: Callable[[], T]) -> T:
    """Return the result of a call to a server. ``user_option``: names the user of these calls.

    Raises:
        CommandError: the call failed.
    """
    try:
        return call()
    except Refused as error:
        values = {"server": server, "error": error, "option": user_option, "user": user}
        is_login = str(error).startswith(LOGIN_PATHS)
        if is_login:
            text = gettext("%(server)s does not accept user %(user)s with this password: %(error)s", **values)
            raise CommandError(ExitCode.REFUSED, text) from None
        if error.status in _NO_SUCH_CALL:
            text = gettext("%(server)s has no such call: is it a server of the right kind? %(error)s", **values)
            raise CommandError(ExitCode.FAILED, text) from None
        if error.status not in _NO_RIGHT:
            text = gettext("%(server)s refuses a call: %(error)s", **values)
            raise CommandError(ExitCode.FAILED, text) from None
        if user:
            text = gettext("%(server)s refuses user %(user)s: %(error)s", **values)
        else:
            text = gettext("%(server)s requires a login: %(error)s. Give %(option)s NAME", **values)
        raise CommandError(ExitCode.REFUSED, text) from None
    except CallError as error:
        text = gettext("%(server)s gave no answer that can be used: %(error)s", server=server, error=error)
        raise CommandError(ExitCode.NO_SERVER, text) from None

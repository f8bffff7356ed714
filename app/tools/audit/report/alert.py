"""The delivery of an alert: posted to the operator's URL, again after failures that may pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from urllib.parse import urlsplit, urlunsplit

import requests
from urllib3.exceptions import HTTPError

from app.config.version import __version__
from app.tools.audit.report.alert_bodies import Alert, AlertFormat, Body, body_of

ALERTMANAGER_PATH = "/api/v2/alerts"

TIMEOUT_S = 10.0
"""The time-out of the connection, and again of the answer."""

BACK_OFF_S = (1.0, 4.0)
"""The waits before the second and the third try, which is the last."""

RETRY_AFTER_MAX_S = 30.0

_PASSING = {408, 425, 429}
"""Statuses after which a further try may succeed, beside those of 500 and above."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of an alert. ``reason``: why it was not delivered, without the URL's path, query and credentials."""

    delivered: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str
    passing: bool = True
    retry_after_s: float = 0.0


def post(
    url: str,
    alert: Alert,
    form: AlertFormat = AlertFormat.JSON,
    *,
    back_off_s: Sequence[float] = BACK_OFF_S,
    timeout_s: float = TIMEOUT_S,
    stop: Event | None = None,
) -> Delivery:
    """Post the alert, again after temporary failures; return whether it was accepted with a status of 2xx.

    For Alertmanager its base URL is enough: the path of its API is added. Redirects are not followed, as they would
    turn the POST into a GET. User and password in the URL are sent as basic authentication. ``stop``: once set, it is
    not tried again.
    """
    try:
        where = _origin(url)
    except ValueError:
        return Delivery(False, "the URL needs http or https, and a host")
    if form is AlertFormat.ALERTMANAGER:
        url = _api_url(url)
    body, ended = body_of(alert, form), stop or Event()
    with requests.Session() as session:
        failure = _try(session, url, body, timeout_s)
        for wait_s in back_off_s:
            if failure is None or not failure.passing or ended.wait(max(wait_s, failure.retry_after_s)):
                break
            failure = _try(session, url, body, timeout_s)
    if failure is None:
        return Delivery(True)
    often = f", also in the last of {len(back_off_s) + 1} tries" if failure.passing else ""
    return Delivery(False, f"{where} {failure.text}{often}")


def _origin(url: str) -> str:
    """Return scheme, host and port: the rest of a web hook's address is often its secret."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


def _api_url(url: str) -> str:
    """Return the URL with the path of Alertmanager's API at its end, also behind the operator's prefix."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(ALERTMANAGER_PATH) else path + ALERTMANAGER_PATH))


def _try(session: requests.Session, url: str, body: Body, timeout_s: float) -> _Failure | None:
    headers = {"Content-Type": body.content_type, "User-Agent": f"rollcall/{__version__}"}
    try:
        with session.post(
            url, data=body.content, headers=headers, timeout=timeout_s, allow_redirects=False, stream=True
        ) as answer:
            status, retry_after = answer.status_code, answer.headers.get("Retry-After", "")
    except (OSError, ValueError, HTTPError) as error:  # some of urllib3's own come through, and requests' are OSErrors
        return _failure_of(error, timeout_s)
    if 200 <= status < 300:
        return None
    wait_s = min(float(retry_after), RETRY_AFTER_MAX_S) if retry_after.isdecimal() else 0.0
    return _Failure(f"answered with status {status}", status in _PASSING or status >= 500, wait_s)


def _failure_of(error: Exception, timeout_s: float) -> _Failure:
    """Return the failure in our words: the library's text holds the whole URL."""
    match error:
        case requests.exceptions.ConnectTimeout():
            return _Failure(f"could not be reached within {timeout_s:g} s")
        case requests.exceptions.Timeout():
            return _Failure(f"did not answer within {timeout_s:g} s")
        case requests.exceptions.SSLError():
            return _Failure("has no trusted certificate, or does not speak TLS", passing=False)
        case requests.exceptions.ProxyError():
            return _Failure("could not be reached through the proxy")
        case requests.exceptions.ConnectionError():
            return _Failure("could not be reached, or closed the connection")
        case _:
            return _Failure(f"could not be called ({type(error).__name__})", passing=False)

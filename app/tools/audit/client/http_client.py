"""Calls to one member: retries, bounds, deadlines and credentials in one place."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ReadTimeoutError

from app.config.version import NACOS_VERSION, __version__
from app.languages.phrases import phrase
from app.tools.audit.client.access import Access

T = TypeVar("T")
AGENT = f"Rollcall-Audit:v{__version__}"
PEER_AGENT = f"Nacos-Server:v{NACOS_VERSION}"
"""The User-Agent of calls that real Nacos takes from its members only, and answers while it is not UP."""
LOGIN_PATHS = "/v1/auth/login", "/v3/auth/user/login"
"""The login of Nacos 1.x and 2.x, then that of 3.x."""
BODY_BYTES_MAX = 512 * 1024 * 1024
"""The largest answer. All instance lists of a real Nacos come in one, at 400 bytes an instance: a million instances."""
LINE_BYTES_MAX = 16 * 1024 * 1024
PIECE_BYTES = 65_536
ANSWER_S_MAX = 300.0
STREAM_S_MAX = 3_600.0
BACK_OFF_S, BACK_OFF_S_MAX = 0.25, 5.0
ERROR_CHARS_MAX = 200
_PASSING = {429, 502, 503, 504}
_NOT_LOGGED_IN = {401, 403}
_NO_LOGIN = {404, 405, 410, 501}


class CallError(Exception):
    """A call got no answer, or an answer that cannot be used; the text says which.

    ``passing``: true if another attempt may succeed. ``retry_after_s``: the wait before it that the member asks for.
    """

    passing = True
    retry_after_s = 0.0


class Refused(CallError):
    """The member answered with another status than 200."""

    def __init__(self, path: str, status: int, text: str, retry_after_s: float = 0.0) -> None:
        said = " ".join(text.split())[:ERROR_CHARS_MAX]
        if said:
            text = phrase("%(path)s: status %(status)s, %(text)s", path=path, status=status, text=said)
        else:
            text = phrase("%(path)s: status %(status)s", path=path, status=status)
        super().__init__(text)
        self.status = status
        self.said = said
        self.passing = status in _PASSING
        self.retry_after_s = retry_after_s


class Unusable(CallError):
    """A call that would fail again: its answer cannot be read here or is too large, or the dump was stopped."""

    passing = False


class OtherType(Unusable):
    """The answer has another content type than the call asked for."""


class Patience:
    """The further tries of a member in a round: ``retries`` in all, after pauses that double up to ``BACK_OFF_S_MAX``.

    ``stop``: once set, pauses end and tries stop.
    """

    def __init__(self, retries: int, stop: Event) -> None:
        self._left = retries
        self._pause_s = BACK_OFF_S
        self.stop = stop

    def try_again(self, error: CallError) -> bool:
        """Wait, and return True for a further try; False when none is left, none would help, or ``stop`` is set."""
        if not error.passing or self._left == 0 or self.stop.is_set():
            return False
        self._left -= 1
        pause_s = min(max(self._pause_s, error.retry_after_s), BACK_OFF_S_MAX)
        self._pause_s *= 2
        return not self.stop.wait(pause_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of status 200."""

    body: bytes
    headers: Mapping[str, str]
    path: str

    def json(self) -> Any:
        """Return the value of the JSON body.

        Raises:
            CallError: the body is not JSON.
        """
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise CallError(phrase("%(path)s: the answer is not JSON", path=self.path)) from None


class MemberClient:
    """Calls to one member, over connections that are kept between them. For one thread."""

    def __init__(self, address: str, access: Access, patience: Patience) -> None:
        self.address = address
        self._access = access
        self._patience = patience
        self._base = f"{access.scheme}://{address}{access.context_path}"
        self._token: str | None = access.token or None
        self._session = requests.Session()
        # No proxy and no netrc of the environment: the member itself is asked, with the credentials given for it.
        self._session.trust_env = False
        self._session.verify = access.ca or True
        self._adapter = HTTPAdapter()
        self._session.mount(f"{access.scheme}://", self._adapter)

    def close(self) -> None:
        """Close the connections now: urllib3 does so only when nothing refers to them, not even an error."""
        pools = self._adapter.poolmanager.pools
        for key in pools.keys():  # noqa: SIM118, as it is no mapping that can be iterated
            if (pool := pools.get(key)) is not None:
                pool.close()
        self._session.close()

    def pause(self, seconds: float) -> None:
        """Wait for so many seconds.

        Raises:
            Unusable: the dump was stopped in the meantime.
        """
        if self._patience.stop.wait(seconds):
            raise Unusable(phrase("the dump was stopped"))

    def get(
        self,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        *,
        body: bytes | None = None,
        agent: str = AGENT,
    ) -> Answer:
        """Return the answer to a GET with ``parameters`` as its query; try again as often as ``Patience`` allows.

        Raises:
            CallError: no whole answer came. ``Refused``: the answer has another status than 200.
        """
        while True:
            try:
                return self._with_login(
                    lambda: self._whole(path, self._open(path, parameters, body, agent), BODY_BYTES_MAX)
                )
            except CallError as error:
                if not self._patience.try_again(error):
                    raise

    def post(self, path: str, parameters: Mapping[str, str | int]) -> Answer:
        """Return the answer to a POST with ``parameters`` as its query; it must be safe to send it twice.

        Raises:
            CallError: as ``get``.
        """
        while True:
            try:
                return self._with_login(
                    lambda: self._whole(path, self._open(path, parameters, None, AGENT, "POST"), BODY_BYTES_MAX)
                )
            except CallError as error:
                if not self._patience.try_again(error):
                    raise

    @contextlib.contextmanager
    def lines(
        self, path: str, content_type: str, parameters: Mapping[str, str | int] | None = None
    ) -> Iterator[Iterator[bytes]]:
        """Give the lines of a streamed answer as they come, without line ends. An incomplete last line is left out.

        The call is not tried again.

        Raises:
            CallError: no answer came, or it breaks off while its lines are read.
            OtherType: the answer has another content type than ``content_type``.
        """
        response = self._with_login(lambda: self._open(path, parameters, None, AGENT, with_identity=False))
        with contextlib.closing(response):
            if response.headers.get("Content-Type", "").partition(";")[0].strip() != content_type:
                raise OtherType(f"{path}: the answer is not {content_type}")
            yield _lines(path, self._pieces(path, response, STREAM_S_MAX))

    # --- one try -----------------------------------------------------------------------------------

    def _open(
        self,
        path: str,
        parameters: Mapping[str, str | int] | None,
        body: bytes | None,
        agent: str,
        method: str = "GET",
        *,
        with_identity: bool = True,
    ) -> requests.Response:
        query = dict(parameters or {})
        if self._token:
            query["accessToken"] = self._token
        headers = self._headers(agent, body is not None, with_identity=with_identity)
        return self._send(method, path, params=query, data=body, headers=headers)

    def _headers(self, agent: str, has_json: bool, *, with_identity: bool) -> dict[str, str]:
        """Return the headers of a call. Only real Nacos asks for the identity, and only on some of its paths."""
        headers = {"User-Agent": agent, "Client-Version": NACOS_VERSION, "Accept-Encoding": "gzip"}
        if has_json:
            headers["Content-Type"] = "application/json;charset=UTF-8"
        if self._access.identity and with_identity:
            headers[self._access.identity[0]] = self._access.identity[1]
        return headers

    def _send(self, method: str, path: str, **rest: Any) -> requests.Response:
        """Return the head of an answer with status 200."""
        timeout_s = self._access.timeout_s
        try:
            response = self._session.request(
                method, self._base + path, timeout=timeout_s, stream=True, allow_redirects=False, **rest
            )
        except (requests.RequestException, UnicodeError, OSError) as error:
            # Never the error's own text: it holds the whole URL, and with it the token.
            raise CallError(phrase("%(path)s: %(reason)s", path=path, reason=_why(error, timeout_s))) from None
        if response.status_code == 200:
            return response
        with contextlib.closing(response):
            text = b""
            with contextlib.suppress(CallError):
                text = self._read(path, response, 4_096, cut=True)
            after = response.headers.get("Retry-After", "")
            retry_after_s = float(after) if after.isascii() and after.isdecimal() and len(after) < 6 else 0.0
            raise Refused(path, response.status_code, text.decode("utf-8", "replace"), retry_after_s)

    def _whole(self, path: str, response: requests.Response, bytes_max: int) -> Answer:
        """Return the whole answer, its body read to the end."""
        with contextlib.closing(response):
            return Answer(self._read(path, response, bytes_max), response.headers, path)

    def _read(self, path: str, response: requests.Response, bytes_max: int, *, cut: bool = False) -> bytes:
        body = bytearray()
        for piece in self._pieces(path, response, ANSWER_S_MAX):
            body += piece
            if len(body) > bytes_max:
                if cut:
                    break
                raise Unusable(phrase("%(path)s: the answer is over %(count)s bytes", path=path, count=bytes_max))
        return bytes(body)

    def _pieces(self, path: str, response: requests.Response, seconds_max: float) -> Iterator[bytes]:
        deadline_s = time.monotonic() + seconds_max
        try:
            # Each piece as it comes: a read that waits for a full piece would not notice the deadline.
            while piece := response.raw.read1(PIECE_BYTES, decode_content=True):
                if self._patience.stop.is_set():
                    raise Unusable(phrase("the dump was stopped"))
                if time.monotonic() > deadline_s:
                    raise CallError(
                        phrase("%(path)s: the answer took over %(seconds)s s", path=path, seconds=f"{seconds_max:g}")
                    )
                yield piece
        except (HTTPError, OSError) as error:
            raise CallError(
                phrase(
                    "%(path)s: the answer ended early: %(reason)s",
                    path=path,
                    reason=_why(error, self._access.timeout_s),
                )
            ) from None

    # --- credentials -------------------------------------------------------------------------------

    def _with_login(self, call: Callable[[], T]) -> T:
        """Return the result of ``call``, after a login if a user was given; an expired token is replaced once."""
        if not self._access.user:
            return call()
        fresh = self._token is None
        if fresh:
            self._log_in()
        try:
            return call()
        except Refused as error:
            if fresh or error.status not in _NOT_LOGGED_IN:
                raise
        self._log_in()
        return call()

    def _log_in(self) -> None:
        """Get a token from the member; a member without a login is called without a token.

        Source: Nacos 1.4, POST /v1/auth/login, by the form; every call then has the parameter accessToken.
        """
        for path in LOGIN_PATHS:
            try:
                self._token = self._token_of(path)
                return
            except Refused as error:
                if error.status not in _NO_LOGIN:
                    raise
        self._token = ""

    def _token_of(self, path: str) -> str:
        form = {"username": self._access.user, "password": self._access.password}
        response = self._send("POST", path, data=form, headers=self._headers(AGENT, False, with_identity=False))
        answer = self._whole(path, response, PIECE_BYTES).json()
        token = answer.get("accessToken") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise Unusable(phrase("%(path)s: the answer has no accessToken", path=path))
        return token


def _lines(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LINE_BYTES_MAX:
            raise Unusable(phrase("%(path)s: a line is over %(count)s bytes", path=path, count=LINE_BYTES_MAX))


def _why(error: BaseException, timeout_s: float) -> str:
    """Return a failure in a few words."""
    if isinstance(error, requests.ConnectTimeout):
        return phrase("no connection within %(seconds)s s", seconds=f"{timeout_s:g}")
    if isinstance(error, requests.Timeout | ReadTimeoutError):
        return phrase("no answer within %(seconds)s s", seconds=f"{timeout_s:g}")
    seen: set[int] = set()
    found: list[BaseException] = [error]
    while found:
        one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, TimeoutError):
            return phrase("no answer within %(seconds)s s", seconds=f"{timeout_s:g}")
        if isinstance(one, OSError) and one.strerror:
            return one.strerror.lower()
        found += [
            part
            for part in (*one.args, getattr(one, "reason", None), one.__cause__, one.__context__)
            if isinstance(part, BaseException)
        ]
    is_closed = isinstance(error, requests.ConnectionError | HTTPError)
    return phrase("the connection was closed") if is_closed else type(error).__name__

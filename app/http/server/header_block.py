"""The headers of a request as texts by name, with its framing, deadline and a member's marks, read in one pass."""

from collections.abc import Callable

from app.auth.member_calls import AGENT, PREFIX
from app.http.api.call import CLIENT_AGENT, DEADLINE, WANTS_CHANGE

RawHeaders = list[tuple[bytes, bytes]]

_AGENT_NAMES = ("user-agent", "client-version")
_FRAMING = frozenset({"content-length", "connection", "expect", "host", "transfer-encoding"})


class HeaderBlock:
    """The headers of a request; kept for the next request of the connection if that has the same, as most have."""

    __slots__ = (
        "_client_agent",
        "chunked",
        "claims_member",
        "connection",
        "content_length",
        "deadline",
        "encoded_otherwise",
        "expects",
        "foreign",
        "get",
        "hosts",
        "named",
        "raw",
        "wants_change",
    )

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        named: dict[str, str] = {}
        self.named = named
        """The values by name in lower case; those of a name that comes twice are joined by a comma.

        A name with an underscore is left out, as in gunicorn: in WSGI it would equal the name with a hyphen.
        """
        self.get: Callable[[str], str | None] = named.get
        """Returns a header by its name in lower case. The mapping's own method, as a call asks for twenty of them."""
        self._client_agent: str | None = None
        self.content_length: bytes | None = None
        self.connection = self.expects = self.chunked = False
        self.encoded_otherwise = False
        """A header Transfer-Encoding names more or else than chunks, which is all that is undone here."""
        self.foreign = False
        """They are of a page of another origin, which may change nothing. Set by the reader."""
        self.hosts = 0
        """The number of headers Host."""
        self.claims_member = False
        """The agent or a header says that a member makes the call; whether one does is for others to find out."""
        for raw_name, raw_value in raw:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
            if name.startswith(PREFIX) or (AGENT in value and name in _AGENT_NAMES):
                self.claims_member = True
            if "_" in name:
                continue
            named[name] = f"{named[name]},{value}" if name in named else value
            if name not in _FRAMING:
                continue
            match name:
                case "content-length":
                    self.content_length = raw_value.strip()
                case "connection":
                    self.connection = True
                case "expect":
                    self.expects = raw_value.strip().lower() == b"100-continue"
                case "transfer-encoding":
                    self.encoded_otherwise = self.chunked or raw_value.strip().lower() != b"chunked"
                    self.chunked = True
                case "host":
                    self.hosts += 1
        self.deadline = named.get(DEADLINE)
        self.wants_change = named.get(WANTS_CHANGE)

    @property
    def client_agent(self) -> str:
        """As ``Call.client_agent``; looked for once."""
        if self._client_agent is None:
            get = self.get
            self._client_agent = get(CLIENT_AGENT) or get("user-agent") or get("client-version") or ""
        return self._client_agent

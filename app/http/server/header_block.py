"""The headers of a request: framing, deadline and a member's marks when it is read, all else as text when asked for."""

from collections.abc import Mapping

from app.auth.member_calls import AGENT, PREFIX
from app.http.api.call import CLIENT_AGENT, DEADLINE, WANTS_CHANGE

RawHeaders = list[tuple[bytes, bytes]]

_LENGTHS = frozenset(
    map(len, ("content-length", "connection", "expect", "host", "transfer-encoding", DEADLINE, WANTS_CHANGE))
)
_AGENT_NAMES = (b"user-agent", b"client-version")
_AGENT, _PREFIX = AGENT.encode(), PREFIX.encode()
_MARKS = (_PREFIX[:1], _PREFIX[:1].upper())


class HeaderBlock:
    """The headers of a request; kept for the next request of the connection if that has the same, as most have."""

    __slots__ = (
        "_client_agent",
        "_fields",
        "_named",
        "_texts",
        "chunked",
        "claims_member",
        "connection",
        "content_length",
        "deadline",
        "encoded_otherwise",
        "expects",
        "foreign",
        "hosts",
        "raw",
        "wants_change",
    )

    def __init__(self, raw: RawHeaders) -> None:
        self.raw = raw
        self._fields: dict[bytes, bytes] | None = None
        self._texts: dict[str, str | None] = {}
        """The headers that were asked for, which the next request will be asked for too."""
        self._named: dict[str, str] | None = None
        self._client_agent: str | None = None
        self.content_length: bytes | None = None
        self.deadline: str | None = None
        self.wants_change: str | None = None
        self.connection = self.expects = self.chunked = False
        self.encoded_otherwise = False
        """A header Transfer-Encoding names more or else than chunks, which is all that is undone here."""
        self.foreign = False
        """They are of a page of another origin, which may change nothing. Set by the reader."""
        self.hosts = 0
        """The number of headers Host."""
        self.claims_member = False
        """The agent or a header says that a member makes the call; whether one does is for others to find out."""
        for name, value in raw:
            # Nearly all headers of nearly all clients pass here: none begins with the letter of ours.
            is_ours = name[:1] in _MARKS and name.lower().startswith(_PREFIX)
            if is_ours or (_AGENT in value and name.lower() in _AGENT_NAMES):
                self.claims_member = True
            if len(name) not in _LENGTHS:
                continue
            match name.lower():
                case b"content-length":
                    self.content_length = value.strip()
                case b"connection":
                    self.connection = True
                case b"expect":
                    self.expects = value.strip().lower() == b"100-continue"
                case b"transfer-encoding":
                    self.encoded_otherwise = self.chunked or value.strip().lower() != b"chunked"
                    self.chunked = True
                case b"host":
                    self.hosts += 1
                case b"rollcall-deadline":
                    self.deadline = self.get(DEADLINE)
                case b"rollcall-wants-change":
                    self.wants_change = self.get(WANTS_CHANGE)

    def get(self, name: str) -> str | None:
        """Return ``named.get(name)`` without decoding the other headers. ``name`` must be a constant of ours.

        Each name is remembered, so that a name which clients choose would fill the memory.
        """
        try:
            return self._texts[name]
        except KeyError:
            pass
        fields = self._fields
        if fields is None:
            fields = self._fields = {raw_name.lower(): value for raw_name, value in self.raw}
        if len(fields) != len(self.raw):
            text = self.named.get(name)
        else:
            value = fields.get(name.encode())
            text = None if value is None else value.decode("latin-1").strip(" \t")
        self._texts[name] = text
        return text

    @property
    def client_agent(self) -> str:
        """As ``Call.client_agent``; looked for once."""
        if self._client_agent is None:
            get = self.get
            self._client_agent = get(CLIENT_AGENT) or get("user-agent") or get("client-version") or ""
        return self._client_agent

    @property
    def named(self) -> Mapping[str, str]:
        """The values by name in lower case; those of a name that comes twice are joined by a comma.

        A name with an underscore is left out, as in gunicorn: in WSGI it would equal the name with a hyphen.
        """
        if self._named is None:
            named: dict[str, str] = {}
            for raw_name, raw_value in self.raw:
                if b"_" in raw_name:
                    continue
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
                named[name] = f"{named[name]},{value}" if name in named else value
            self._named = named
        return self._named

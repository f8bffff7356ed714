"""What a member asks of another, byte by byte, and what it makes of the answers."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest

from distro.model.errors import ForbiddenError, RejectedError, TransportError, UnfitError
from distro.model.types import CAPABILITY_GZIP, CAPABILITY_VERSIONS, NO_VERSION, Datum, Page, Received, Version
from distro.wire.call_trust import CLOCK_HEADER, DEADLINE_HEADER, CallSigner, PeerTls
from distro.wire.http_agent import GZIP_FROM_BYTES, MEMBER_HEADER, DistroHttpAgent
from tests.support.tiny_server import Given, tiny_server
from tests.support.tiny_server import Received as Request

VERSION = Version(1, 2, "a:1~x")
OWN = frozenset({CAPABILITY_VERSIONS, CAPABILITY_GZIP})
TYPE = "rollcall.records & more"
BODY_BYTES_MAX = 100_000


class TextCodec:
    """Values are texts. Shape: ``{"v": text}``, with ``version`` for our own kind."""

    def __init__(self) -> None:
        self.decoded_ms: list[int] = []
        """The time of each ``decode``, for the ages in the datum."""
        self.encoded: list[tuple[str, int]] = []
        """The key and the time of each ``encode``."""

    def encode(self, datum: Datum, now_ms: int, versioned: bool) -> bytes:
        self.encoded.append((datum.key, now_ms))
        return json.dumps({"v": datum.value} | ({"version": datum.version.to_text()} if versioned else {})).encode()

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, _version: Version | None = None) -> Datum:
        self.decoded_ms.append(now_ms)
        return Datum(key, Version.from_text(body["version"]) if "version" in body else NO_VERSION, body["v"])


class StandingClock:
    def monotonic_ms(self) -> int:
        return 1_000

    def boot_ms(self) -> int:
        return 77_000

    def wall_ms(self) -> int:
        return 0


class Caller:
    """An agent, and one server that answers it."""

    def __init__(
        self,
        capabilities: frozenset[str] = OWN,
        resource_type: str = TYPE,
        deadline: str | None = "run 77",
        tls: PeerTls | None = None,
        signer: CallSigner | None = None,
    ) -> None:
        self.asked: list[tuple[str, int]] = []
        self.dated: list[tuple[str, str | None]] = []
        """The peer and the clock of each answer whose time was asked for."""
        self.sent: list[tuple[str, int]] = []
        """The peer and the bytes of each body."""
        self.codec = TextCodec()

        def deadline_of(peer: str, left_ms: int) -> str | None:
            self.asked.append((peer, left_ms))
            return deadline

        self.agent = DistroHttpAgent(
            self_address="10.0.0.1:8848",
            context_path="/base",
            user_agent="Nacos-Server:1.4.8",
            headers={"More": "yes"},
            codec=self.codec,  # type: ignore[arg-type]
            clock=StandingClock(),
            capabilities=lambda _peer: capabilities,
            deadline=deadline_of,
            stamp=lambda: "own-run 5",
            sent_ms=self.sent_ms,
            body_bytes_max=BODY_BYTES_MAX,
            sent=lambda peer, count: self.sent.append((peer, count)),
            tls=tls,
            signer=signer,
            **({"resource_type": resource_type} if resource_type else {}),
        )

    def sent_ms(self, peer: str, clock: str | None) -> int:
        self.dated.append((peer, clock))
        return 4_321

    def ask(self, given: Given, method: str, *arguments: Any) -> tuple[Request, Any]:
        """Call a method of the agent, with the peer's address first; return the request and the result."""
        with tiny_server(lambda _: given) as server:
            try:
                result = getattr(self.agent, method)(server.address, *arguments)
            except TransportError as error:
                result = error
            finally:
                self.agent.close()
            assert self.asked == [(server.address, arguments[-1])]
            [request] = server.received
        return request, result


def test_a_send() -> None:
    request, result = Caller().ask(
        Given(200, b'{"refused":{"k":"1.2.b"}}'), "sync_data", [Datum("k", VERSION, "x")], 2_000
    )
    assert (request.method, request.target) == ("PUT", "/base/v1/ns/distro/datum")
    assert json.loads(request.body) == {"k": {"v": "x", "version": VERSION.to_text()}}
    assert request.headers["content-type"] == "application/json;charset=UTF-8"
    assert request.headers[MEMBER_HEADER.lower()] == "10.0.0.1:8848"
    assert request.headers[DEADLINE_HEADER.lower()] == "run 77"
    assert request.headers[CLOCK_HEADER.lower()] == "own-run 5"
    assert (request.headers["more"], request.headers["user-agent"]) == ("yes", "Nacos-Server:1.4.8")
    assert "content-encoding" not in request.headers
    assert result == Received({"k": Version(1, 2, "b")})


def test_a_send_to_real_nacos_has_no_version_and_no_deadline_that_it_names_none_for() -> None:
    caller = Caller(frozenset(), deadline="")
    request, result = caller.ask(
        Given(200, b'{"refused":{"k":"1.2.b"}}'), "sync_data", [Datum("k", VERSION, "x")], 2_000
    )
    assert json.loads(request.body) == {"k": {"v": "x"}}
    assert not {DEADLINE_HEADER.lower(), CLOCK_HEADER.lower()} & request.headers.keys()
    assert result == Received(), "what it answers is no answer of our kind"


def test_a_peer_whose_clock_is_not_known_yet_gets_no_call() -> None:
    caller = Caller(deadline=None)
    with pytest.raises(TransportError, match="has not reported itself yet"):
        caller.agent.sync_data("127.0.0.1:9", [Datum("k", VERSION, "x")], 2_000)


@pytest.mark.parametrize(("size", "is_packed"), [(GZIP_FROM_BYTES - 1, False), (GZIP_FROM_BYTES, True)])
@pytest.mark.parametrize("capabilities", [OWN, OWN - {CAPABILITY_GZIP}], ids=["gzip", "plain"])
def test_a_long_body_is_packed_for_a_peer_that_can_unpack_it(
    size: int, is_packed: bool, capabilities: frozenset[str]
) -> None:
    plain = len(b'{"k":' + TextCodec().encode(Datum("k", VERSION, ""), 0, True) + b"}")
    datum = Datum("k", VERSION, "x" * (size - plain))
    request, _ = Caller(capabilities).ask(Given(200, b"ok"), "sync_data", [datum], 2_000)
    if is_packed and CAPABILITY_GZIP in capabilities:
        assert request.headers["content-encoding"] == "gzip"
        request.body = gzip.decompress(request.body)
    else:
        assert "content-encoding" not in request.headers
    assert len(request.body) == size


@pytest.mark.parametrize(
    ("resource_type", "target"),
    [(TYPE, "source=10.0.0.1:8848&type=rollcall.records%20%26%20more"), ("", "source=10.0.0.1:8848")],
)
def test_a_verify_round(resource_type: str, target: str) -> None:
    caller = Caller(resource_type=resource_type)
    request, result = caller.ask(Given(200, b'{"refused":{"k":"1.2.b"}}'), "verify", {"k": "1.1.b"}, 1_000)
    assert (request.method, request.target) == ("PUT", f"/base/v1/ns/distro/checksum?{target}")
    assert json.loads(request.body) == {"k": "1.1.b"}
    assert result == Received({"k": Version(1, 2, "b")})


def test_the_answer_of_real_nacos_to_a_round_is_not_read() -> None:
    _, result = Caller(frozenset()).ask(Given(200, b'{"refused":{"k":"1.2.b"}}'), "verify", {}, 1_000)
    assert result == Received()


def test_an_answer_that_is_none_is_a_failure() -> None:
    _, result = Caller().ask(Given(200, b"what"), "verify", {}, 1_000)
    assert type(result) is TransportError
    assert "the peer's answer cannot be read" in str(result)


@pytest.mark.parametrize("packed", [True, False])
def test_a_query(packed: bool) -> None:
    """Its body is never packed: real Nacos reads the body of a GET, but not gzip."""
    keys = tuple(f"key{number:04}" for number in range(GZIP_FROM_BYTES // 8 + 1))
    answer = b'{"k":{"v":"x","version":"1.2.b"},"bad":7}'
    given = Given(200, gzip.compress(answer) if packed else answer)
    request, result = Caller().ask(given, "query", keys, 1_000)
    assert (request.method, request.target) == ("GET", "/base/v1/ns/distro/datum")
    assert json.loads(request.body) == {"keys": ",".join(keys)}
    assert result == [Datum("k", Version(1, 2, "b"), "x")]


@pytest.mark.parametrize("method", ["query", "page"])
def test_keys_with_commas_are_an_array_besides(method: str) -> None:
    """Nacos splits the text at the commas; a member of our own kind would get nothing, in each verify round."""
    request, _ = Caller().ask(Given(200, b"{}"), method, ("a,b##s", "k"), 1_000)
    assert json.loads(request.body) == {"keys": "a,b##s,k", "listed": ["a,b##s", "k"]}


@pytest.mark.parametrize(("method", "asked"), [("query", (("k",), 2_000)), ("load", (2_000,))])
@pytest.mark.parametrize("headers", [{CLOCK_HEADER: "their-run 7"}, {}], ids=["ours", "real Nacos"])
def test_ages_in_an_answer_count_from_its_making(method: str, asked: tuple[Any, ...], headers: dict[str, str]) -> None:
    caller = Caller()
    caller.ask(Given(200, b'{"k":{"v":"x"}}', headers), method, *asked)
    assert [clock for _, clock in caller.dated] == [headers.get(CLOCK_HEADER)]
    assert [peer for peer, _ in caller.dated] == [peer for peer, _ in caller.asked]
    assert caller.codec.decoded_ms == [4_321]


def test_an_empty_answer_to_a_query_has_no_datums() -> None:
    _, result = Caller().ask(Given(200, b""), "query", ("k",), 1_000)
    assert result == []


def test_an_answer_that_is_no_frame_is_a_failure() -> None:
    _, result = Caller().ask(Given(200, b"["), "query", ("k",), 1_000)
    assert type(result) is UnfitError
    assert "the peer's datums cannot be read" in str(result)


@pytest.mark.parametrize(
    ("resource_type", "target"),
    [(TYPE, "/distro/datums?type=rollcall.records%20%26%20more&pages=true"), ("", "/distro/datums?pages=true")],
)
def test_a_load(resource_type: str, target: str) -> None:
    caller = Caller(resource_type=resource_type)
    request, result = caller.ask(Given(200, b'{"k":{"v":"x"}}'), "load", 1_000)
    assert (request.method, request.target, request.body) == ("GET", f"/base/v1/ns{target}", b"")
    assert result == [Datum("k", NO_VERSION, "x")]


def test_a_load_from_a_peer_that_gives_pages() -> None:
    told = Given(200, gzip.compress(b'{"k":"1.2.a:1~x","l":"1.3.a:1~x"}'), {"Rollcall-Snapshot": "versions"})
    _, result = Caller().ask(told, "load", 1_000)
    assert result == {"k": VERSION, "l": Version(1, 3, "a:1~x")}


@pytest.mark.parametrize("body", [b'{"k":5}', b'{"k":"x"}', b"["])
def test_versions_that_cannot_be_read_are_a_failure(body: bytes) -> None:
    _, result = Caller().ask(Given(200, body, {"Rollcall-Snapshot": "versions"}), "load", 1_000)
    assert type(result) is TransportError
    assert "the peer's versions cannot be read" in str(result)


def test_a_page_names_every_key_that_the_peer_gave() -> None:
    caller = Caller()
    given = Given(200, b'{"k":{"v":"x"},"l":7}', {CLOCK_HEADER: "run 5"})
    request, result = caller.ask(given, "page", ["k", "l", "m"], 1_000)
    assert (request.method, request.target) == ("GET", "/base/v1/ns/distro/datum?pages=true")
    assert json.loads(request.body) == {"keys": "k,l,m"}
    assert result == Page([Datum("k", NO_VERSION, "x")], ("k", "l"))
    assert caller.codec.decoded_ms == [4_321]
    assert [clock for _, clock in caller.dated] == ["run 5"]


def test_a_page_that_is_no_frame_is_a_failure() -> None:
    _, result = Caller().ask(Given(200, b"["), "page", ["k"], 1_000)
    assert type(result) is UnfitError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (399, TransportError),
        (400, RejectedError),
        (403, ForbiddenError),
        (499, RejectedError),
        (500, TransportError),
        (501, RejectedError),
        (502, TransportError),
        (201, TransportError),
    ],
)
def test_only_a_fault_of_ours_is_a_rejection(status: int, kind: type[TransportError]) -> None:
    _, result = Caller().ask(Given(status, b"no"), "verify", {}, 1_000)
    assert type(result) is kind
    assert f"status {status}: b'no'" in str(result)

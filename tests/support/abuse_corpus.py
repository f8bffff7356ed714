"""Requests that no client means: every route and parameter with every kind of nonsense, none of them a valid write.

Each request that could change something holds what must be refused in any case: a service name with characters that
none may have, a number that is none. So whatever else is wrong with it, nothing may be stored.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

CONTEXT_PATH = "/nacos"
BAD_SERVICE = "DEFAULT_GROUP@@!abuse!\x7f!name!"
READS = ("GET", "HEAD", "OPTIONS")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", "G\u00cbT")
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
LONG = b"a" * 20_000
DEEP = b"[" * 20_000
TRACES = (b"Traceback", b'File "', b"line ", b"java.lang", b"\tat ", b"werkzeug", b"site-packages", b".py")
"""What must stand in no answer's body: it shows the inside of the program."""

TEXTS: tuple[bytes, ...] = (
    *(b"", b" ", b"\0", b"a\0b", b"\r\nX-Injected: 1", b"\t", b"\x1b[2J", b"\x7f", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"\xf0\x9f\x98\x80", "\u2028".encode(), "\u202e".encode(), "٣".encode(), "½".encode(), b"%", b"%zz", b"+", b"&="),
    *(b"null", b"undefined", b"true", b"-1", b"0", b"-0", b"1e999", b"NaN", b"Infinity", b"0x10", b"1_0", b"65536"),
    *(b"99999999999999999999", b"9" * 400, b"1." + b"0" * 600, b"1.2.3", b"256.256.256.256", b"[::1", b"a..b"),
    *(b"[]", b"{}", b'"', b'{"a":', b'{"a":{"b":{}}}', b'{"a":[1]}', b'{"a":1e999}', b'{"a":NaN}', b'{"":""}'),
    *(b'{"\\ud800":"x"}', b'{"a":"\\ud800"}', b'{"type":1}', b'{"type":"label","expression":1}', b'{"type":"HTTP"}'),
    *(b'{"type":"label","expression":"CONSUMER.label.A=PROVIDER.label.B"}', b'{"type":"TCP","path":[]}'),
    *(b"<script>", b"../../etc/passwd", b"'; DROP TABLE record; --", b"${jndi:ldap://x}", b"{{7*7}}", b"%s%n", b"*"),
    *(b"@@", b"a@@b@@c", b"##", b"a##b", b",,,", b"com.alibaba.nacos.naming.iplist.", b"00-00---000", LONG, DEEP),
)
NUMBERS: tuple[bytes, ...] = (b"abc", b"-1", b"1.5.5", b"NaN", b"-Infinity", b"{}", b"\0", b"--1", b"0x")
"""Refused as the value of every switch that is a number."""
BODIES: tuple[bytes, ...] = (
    *(b"", b"{", b"[]", b"{}", b"null", b"1", b'"x"', b'{"a":1}', b'{"keys":1}', b'{"keys":",,,"}', b'{"keys":null}'),
    *(DEEP, b'{"a":' * 5_000, b"\0" * 100, b"\x1f\x8b", b"\x1f\x8b\x08\0\0\0\0\0\0\x03broken", b"\xff" * 1_000),
    b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##g@@abuse":1}',
    b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##g@@abuse":{"value":{"instanceList":[{"ip":1}]}}}',
    b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##g@@abuse":{"value":{"instanceList":{}},"version":"1.1.x"}}',
    b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##g@@abuse":{"value":null,"timestamp":"x"}}',
    b'{"com.alibaba.nacos.naming.domains.meta.public##g@@abuse":{"value":{},"version":"1.1.x","changed":"1.1.x"}}',
    b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##!!":{"value":{"instanceList":[{"ip":"1.1.1.1","port":1}]}}}',
    b'{"statuses":"{\\"namespaceId\\":1}","clientIP":"1.1.1.1:1"}',
    b'{"statuses":1,"clientIP":[]}',
    b'{"ip":1,"port":"x"}',
    b'{"ip":"127.0.0.1","port":99999}',
    b'{"ip":"127.0.0.1","port":1,"state":5,"extendInfo":[]}',
    b'{"ip":"127.0.0.1","port":1,"extendInfo":{"rollcall":{"view":5,"capabilities":{}}}}',
    b'[1,"a",null]',
    b'{"command":"\\ud800"}',
)
TYPES = (FORM, JSON, "text/plain", "multipart/form-data", "multipart/form-data; boundary=x", "\u00e9", "a/b; charset=x")
HEADERS: tuple[tuple[str, str], ...] = (
    *(
        ("User-Agent", agent)
        for agent in ("", "Nacos-Server", "Nacos-Server:v9", "Nacos-Java-Client:vx.y", "\u00ff" * 50)
    ),
    *(("Content-Encoding", text) for text in ("gzip", "deflate", "br", "\u00ff")),
    *(("Accept-Encoding", text) for text in ("gzip;q=x", "\u00ff", ",,,,")),
    *(("Rollcall-Member", text) for text in ("", "127.0.0.1:1", "\u00ff", "x" * 5_000)),
    *(("X-Forwarded-For", text) for text in ("", "x", "1.2.3.4, 5.6.7.8", "\u00ff" * 100)),
    *(("Accept", text) for text in ("", "\u00ff", "*/*;q=nan")),
    *(("Host", text) for text in ("", "a b", "x:99999", "[::1", "\u00ff")),
    *(("Cookie", text) for text in ("=", "a=\u00ff", "x" * 5_000)),
    *(("Range", text) for text in ("bytes=0-", "bytes=-1", "x")),
    *(("If-Modified-Since", text) for text in ("x", "Thu, 99 Foo 2026")),
    *(("Expect", text) for text in ("x",)),
    *(("Authorization", text) for text in ("Basic x", "Bearer " + "x" * 3_000, "\u00ff")),
    *(("Client-Version", text) for text in ("\u00ff", "x" * 5_000)),
    *(("Rollcall-Client-Agent", text) for text in ("\u00ff", "x" * 5_000)),
)
_NAMING = ("serviceName", "groupName", "namespaceId", "clusterName", "ip", "port", "encoding")
PARAMETERS: dict[str, tuple[str, ...]] = {
    "/instance/list": ("clusters", "healthyOnly", "isCheck", "env", "udpPort", "clientIP", "app", "tid"),
    "/api/srvIPXT": ("dom", "clusters", "healthyOnly", "isCheck", "env", "udpPort", "clientIP"),
    "/instance/beat": ("beat", "cluster"),
    "/api/clientBeat": ("dom", "beat", "cluster"),
    "/metadata/batch": ("instances", "metadata", "consistencyType"),
    "/instance": ("weight", "enabled", "enable", "healthy", "ephemeral", "metadata", "app", "cluster", "dom"),
    "/api": ("weight", "enabled", "healthy", "ephemeral", "metadata", "app", "cluster", "dom"),
    "/service/list": ("pageNo", "pageSize", "selector"),
    "/service/names": ("expr", "responsibleOnly"),
    "/service/subscribers": ("pageNo", "pageSize", "aggregation"),
    "/service": ("protectThreshold", "metadata", "selector"),
    "/cluster": ("checkPort", "useInstancePort4Check", "metadata", "healthChecker"),
    "/health": ("healthy", "valid"),
    "/catalog": (
        "pageNo",
        "pageSize",
        "withInstances",
        "hasIpCount",
        "serviceNameParam",
        "groupNameParam",
        "ipCountParam",
    ),
    "/switches": ("entry", "value", "debug"),
    "/namespaces": (
        *("customNamespaceId", "namespaceName", "namespaceDesc", "namespace", "namespaceShowName"),
        *("show", "checkNamespaceIdExist", "namespaceId"),
    ),
    "/distro": ("source", "type", "keys", "clean"),
    "/operator": ("healthy", "serverStatus", "logName", "logLevel", "detail", "reset", "expr"),
    "/ops": ("healthy", "serverStatus", "logName", "logLevel", "detail", "reset", "command", "value"),
    "/nodes": ("keyword", "withInstances", "pageNo", "pageSize", "ip"),
    "/lookup": ("type",),
    "/login": ("username", "password"),
    "/statuses": ("key",),
}


RAW: tuple[bytes, ...] = (
    *(b"\r\n\r\n", b"\0" * 1_000, b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G" * 20_000),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\xaa" * 500,
    *(b"GET /nacos/v1/ns/instance/list HTTP/1.1\r\n" + head + b"\r\n\r\n" for head in (
        *(b"Host", b": x", b"Host: x\r\n folded", b"A" * 9_000 + b": x", b"A: " + b"x" * 9_000, b"A\0: x", b"A: \0"),
        *(b"\r\n".join(b"X-%d: y" % number for number in range(500)), b"Host: x\r\nHost: y", b"Transfer-Encoding: x"),
    )),
    *(b"POST /nacos/v1/ns/instance HTTP/1.1\r\nHost: x\r\n" + rest for rest in (
        *(b"Content-Length: -1\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Length: 99999999999999999999\r\n\r\n"),
        *(b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", b"Content-Length: 100\r\n\r\nshort"),
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        *(b"Transfer-Encoding: chunked\r\n\r\n" + chunks for chunks in (
            *(b"", b"x\r\n", b"-1\r\n", b"FFFFFFFFFFFFFFFFFF\r\n", b"5\r\nabc", b"5\r\nabcdefgh\r\n0\r\n\r\n"),
            *(b"5;x=" + b"y" * 9_000 + b"\r\nabcde\r\n0\r\n\r\n", b"0\r\nX: \0\r\n\r\n", b"0" * 9_000 + b"\r\n\r\n"),
        )),
        b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    )),
    *(line + b" HTTP/1.1\r\nHost: x\r\n\r\n" for line in (
        *(b"OPTIONS *", b"CONNECT x:1", b"GET http://x/nacos/v1/ns/instance/list", b"GET http://[::1"),
        *(b"GET //", b"GET ?"),
        *(b"GET /nacos/\xff\xfe", b"GET /nacos/v1/ns/instance/list?\xff=\0", b"GET /%00", b"GET /nacos\\v1", b"POST #"),
        *(b"G\0T /", b"\xc3\x8b /", b"GET  /", b"GET /a b c", b"GET /" + b"%41" * 4_000),
    )),
)  # fmt: skip
"""What is no request, or a broken one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``parameters`` are names and values as bytes, still unescaped."""

    method: str
    path: str
    query: tuple[tuple[bytes, bytes], ...] = ()
    form: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def target(self) -> str:
        query = encode(self.query)
        return CONTEXT_PATH + self.path + (f"?{query}" if query else "")

    @property
    def payload(self) -> bytes:
        return self.body if self.body is not None else encode(self.form).encode("ascii")

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The headers, with the type of a form where there is one."""
        typed = any(name == "Content-Type" for name, _ in self.headers)
        return [*self.headers, *([("Content-Type", FORM)] if self.form and not typed else [])]


def encode(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    return "&".join(f"{quote_from_bytes(name, safe='')}={quote_from_bytes(value, safe='')}" for name, value in pairs)


def parameters_of(path: str) -> list[str]:
    """The parameters that a path may look at."""
    own = (names for part, names in PARAMETERS.items() if path.endswith(part) or f"{part}/" in path)
    return [*dict.fromkeys(itertools.chain(_NAMING, *own))]


def base_of(method: str, path: str, fuzzed: str) -> dict[str, bytes]:
    """Parameters beside the fuzzed one with which the request must be refused, or changes nothing."""
    if method in READS and "clientBeat" not in path:
        base = {
            "serviceName": b"DEFAULT_GROUP@@witness",
            "dom": b"witness",
            "pageNo": b"1",
            "pageSize": b"10",
            "port": b"8066",
        }
        return {**base, "ip": b"10.66.6.6", "key": b"public##DEFAULT_GROUP@@witness"}
    if "namespaces" in path:
        name = {} if fuzzed == "customNamespaceId" else {"namespaceName": b"x", "namespaceShowName": b"x"}
        return {
            "customNamespaceId": b"!bad id!",
            "namespace": b"!no!",
            "namespaceId": b"!no!",
            "namespaceDesc": b"",
            **name,
        }
    if "switches" in path:
        return {"entry": b"clientBeatInterval", "value": b"abc"}
    base = {"serviceName": BAD_SERVICE.encode(), "dom": b"!abuse\x7f!", "ip": b"10.66.6.6", "port": b"8066"}
    base["beat"] = (
        b'{"cluster":"DEFAULT","ip":"10.66.6.6","port":8066,"metadata":{},"serviceName":"!\\u007f!","weight":1}'
    )
    if fuzzed in ("serviceName", "dom", "groupName"):
        # The name may turn out well, so something else must not.
        base |= {"port": b"70000", "protectThreshold": b"NaN", "beat": b"{", "weight": b"NaN"}
        if fuzzed != "serviceName":
            del base["serviceName"]
    return base


def by_parameter(method: str, path: str) -> Iterator[Request]:
    """Each parameter with each text, in the query, the form, or twice."""
    turn = 0
    for name in parameters_of(path):
        values: Sequence[bytes] = NUMBERS if "switches" in path and name == "value" and method not in READS else TEXTS
        for value in values:
            turn += 1
            base = [(key.encode(), text) for key, text in base_of(method, path, name).items() if key != name]
            pair = (name.encode(), value)
            long = len(value) > 2_000
            if long and method not in READS:
                yield Request(method, path, (), (*base, pair))
            elif turn % 3 == 0 and method not in READS:
                yield Request(method, path, tuple(base), (pair,))
            elif turn % 3 == 1:
                yield Request(method, path, (*base, pair, pair))
            else:
                yield Request(method, path, (pair, *base))


def by_body(method: str, path: str, seed: int) -> Iterator[Request]:
    """Bodies that are no forms, as different types."""
    rng = random.Random(f"{seed}{method}{path}")
    base = tuple((key.encode(), text) for key, text in base_of(method, path, "").items())
    for body in BODIES:
        kind = rng.choice(TYPES)
        coded = (("Content-Encoding", rng.choice(("gzip", "deflate", "x"))),) if rng.random() < 0.3 else ()
        yield Request(method, path, base, body=body, headers=(("Content-Type", kind), *coded))


def by_header(method: str, path: str) -> Iterator[Request]:
    base = tuple((key.encode(), text) for key, text in base_of(method, path, "").items())
    for header in HEADERS:
        yield Request(method, path, base, headers=(header,))


def switches() -> Iterator[Request]:
    """Each switch with values that it must refuse."""
    numbers = "distroThreshold clientBeatInterval pushVersion pushCacheMillis defaultCacheMillis healthCheckTimes"
    more = "serviceStatusSynchronizationPeriodMillis serverStatusSynchronizationPeriodMillis distroServerExpiredMillis"
    for entry in (*numbers.split(), *more.split(), "limitedUrlMap", "overriddenServerStatus", "batch", "unknown", ""):
        for value in (
            *NUMBERS,
            b'{"tcpHealthParams":{"max":1e308,"min":1000,"factor":0.5}}',
            b'{"distroThreshold":"x"}',
        ):
            if entry == "batch" and value == b"{}":
                continue  # a batch of nothing is allowed
            yield Request(
                "PUT", "/v1/ns/operator/switches", ((b"entry", entry.encode()), (b"value", value), (b"debug", b"false"))
            )


def hopeless(method: str, path: str) -> Iterator[Request]:
    """Requests with so much wrong in them that a few changed bytes make none of them right."""
    base = {
        **base_of("PUT", path, ""),
        "serviceName": BAD_SERVICE.encode(),
        "namespaceId": b"!no!##!no!##",
        "ip": b"256.256.256.256 !",
        "port": b"99999999",
        "weight": b"NaN-NaN-NaN",
        "protectThreshold": b"NaN-NaN-NaN",
        "healthChecker": b"}}}}",
        "value": b"abcdefghabcdefgh",
    }
    base.pop("namespaceName", None)
    pairs = tuple((name.encode(), value) for name, value in base.items())
    yield Request(method, path, pairs)
    if method not in READS:
        yield Request(method, path, (), pairs)
        yield Request(
            method, path, pairs, body=b'{"a":{"value":{"instanceList":[]}}}', headers=(("Content-Type", JSON),)
        )


def wrong_paths(routes: Sequence[tuple[str, str]]) -> Iterator[Request]:
    """Wrong methods, and paths beside the known ones."""
    known = set(routes)
    base = ((b"serviceName", BAD_SERVICE.encode()), (b"ip", b"10.66.6.6"), (b"port", b"8066"))
    for path in dict.fromkeys(path for _, path in routes):
        for method in METHODS:
            if (method, path) not in known:
                yield Request(method, path, base)
        for beside in (
            f"{path}/",
            f"/{path}",
            f"{path}%00",
            f"{path};x=1",
            f"{path}/../..",
            f"{path}%2f",
            path.upper(),
        ):
            yield Request("POST", beside, base)
    for path in ("", "/", "//", "/v1", "/v1/ns/", "/%", "/%ff", "/v1/ns/nothing", "/v1/cs/configs", "/" + "a/" * 1_000):
        for method in METHODS:
            yield Request(method, path, base)


def is_always_wrong(path: str) -> bool:
    """Whether nonsense can be no call there: without parameters the node or an instance is drained, as asked for."""
    return not path.endswith("/drain")


def corpus(routes: Sequence[tuple[str, str]], seed: int = 1) -> Iterator[Request]:
    """All of it, for routes given as method and path."""
    unique = sorted({(method, path) for method, path in routes if is_always_wrong(path)})
    for method, path in unique:
        yield from by_parameter(method, path)
        yield from by_body(method, path, seed)
        yield from by_header(method, path)
    yield from switches()
    yield from wrong_paths(unique)


def complaint(status: int, body: bytes) -> str | None:
    """What is wrong with an answer to nonsense, None when nothing is."""
    if status == 500 or status < 200:
        return f"status {status}"
    shown = [trace.decode() for trace in TRACES[:1] + TRACES[3:7] if trace in body]
    return f"the body shows {shown}" if shown else None

"""The table of attacks on a node: each must be refused and change nothing. For ``attacks.py`` and tests/attacks."""

import asyncio
import base64
import gzip
import json
import random
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import urlencode

import jwt

from scripts.chaos.attack_calls import CONTEXT, INSTANCE, Victim
from scripts.chaos.slow_clients import slow_body, slow_head
from scripts.chaos.socket_attacks import QUICK, at_most, half_close
from scripts.chaos.socket_attacks import Attack as SocketAttack
from scripts.support.raw_sockets import HOST, Target, Wrong, is_answer

REGISTER = f"{INSTANCE}?serviceName=attacked&ip=10.66.6.6&port=80"
HIDDEN = f"POST {REGISTER} HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 0\r\n\r\n"
"""The request that smuggling hides inside another one."""
DATUM = f"{CONTEXT}/v1/ns/distro/datum"
LIST_KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@attacked"
JAVA = "Nacos-Java-Client:v1.4.8"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept-Language": "de"}
FORGED_LINE = "2026-01-01 00:00:00,000 INFO 8848 app.node: all is well"
ELSEWHERE = "192.0.2.66"
"""An address reserved for documentation (RFC 5737)."""
Attack = Callable[[Victim], None]
TABLE: dict[str, Attack] = {}
"""The attacks by name, in the order of docs/security/attacks.md."""
OF_USERS: set[str] = set()
"""Attacks that only members with required login can refuse."""
PUBLISHED_KEY = "SecretKey012345678901234567890123456789012345678901234567890123456789"
"""Source: Nacos 1.4.1 application.properties; every Nacos with the default key accepts tokens signed with it."""
FORGED_S = 3_600


def attack(name: str, *, of_users: bool = False) -> Callable[[Attack], Attack]:
    """Return a decorator that adds an attack to the table."""

    def add(function: Attack) -> Attack:
        TABLE[name] = function
        if of_users:
            OF_USERS.add(name)
        return function

    return add


# --- HTTP ------------------------------------------------------------------------------------------


@attack("smuggling")
def smuggling(victim: Victim) -> None:
    """Bodies whose length a proxy may read differently, with a registration behind or inside them."""
    start = f"GET {INSTANCE}/list?serviceName=nothing HTTP/1.1\r\n".encode() + HOST
    chunked, length = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n" % len(b"0\r\n\r\n" + HIDDEN)
    encodings = (
        *(b": chunked, identity", b": gzip, chunked", b": xchunked", b" : chunked", b":\r\n chunked", b":\x0bchunked"),
        *(b":", b": identity", b": chunked\nX: y"),
    )
    lengths = (b": 0\r\n" + length[:-2], b": 0, 5", b": +5", b": -5", b": 5\nX: y", b": 0x5", b":", b" : 5")
    for lines in (
        *(length + chunked, chunked + length, chunked + chunked),
        *(b"Transfer-Encoding" + value + b"\r\n" for value in encodings),
        *(b"Content-Length" + value + b"\r\n" for value in lengths),
    ):
        victim.refused_raw(start + lines + b"\r\n0\r\n\r\n" + HIDDEN)
    for chunk in (b"0x0", b"0 ", b"-1", b"0\n\r\n", b"FFFFFFFFFFFFFFFFFF", b"0;x\rx"):
        victim.refused_raw(start + chunked + b"\r\n" + chunk + b"\r\n\r\n" + HIDDEN)


@attack("HTTP that can be read in two ways")
def ambiguous(victim: Victim) -> None:
    start = f"POST {REGISTER}".encode()
    forms = (
        *(b"HTTP/1.1\r\n\r\n", b"HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"HTTP/1.1\nHost: x\n\n"),
        *(b"HTTP/0.9\r\nHost: a\r\n\r\n", b"HTTP/2.0\r\nHost: a\r\n\r\n", b"HTTP/1.1\r\nHost: a b\r\n\r\n"),
        *(b"HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", b"HTTP/1.1\r\nHost : a\r\n\r\n"),
        b"HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    )
    for sent in (start + b"\r\n\r\n", *(start + b" " + form for form in forms)):
        victim.refused_raw(sent)


@attack("odd forms of a path and a method")
def odd_paths(victim: Victim) -> None:
    """No form may reach a route other than the one whose access rule was checked; a read stays a read."""
    paths = (
        *("/nacos//v1/ns/instance", "/nacos/v1/ns/instance;a=b", "/nacos/v1/ns/./instance", "/nacos/v1/ns/instance/"),
        *("/nacos/v1/ns/x/../instance", "/nacos/v1/ns%2Finstance", "/ns/api/v1/ns/instance"),
    )
    for path in paths:
        victim.refused("POST", f"{path}?serviceName=attacked&ip=10.66.6.6&port=80")
    override = {"X-HTTP-Method-Override": "DELETE", "X-Method-Override": "DELETE", "X-HTTP-Method": "DELETE"}
    known = urlencode({"serviceName": victim.service, "ip": "10.1.1.1", "port": 80, "_method": "DELETE"})
    for method in ("GET", "HEAD"):
        answer = victim.call(method, f"{INSTANCE}?{known}", headers=override)
        if answer.status != 200:
            raise Wrong(f"{method} of a known instance is answered {answer.status}")


# --- callers -------------------------------------------------------------------------------------


@attack("calls of members by strangers")
def forged_members(victim: Victim) -> None:
    """Calls with a member's agent, name and headers, from an address that belongs to no member."""
    words = {
        "User-Agent": "Nacos-Server:v1.4.8",
        "Rollcall-Member": (*victim.others, victim.address)[0],
        "X-Forwarded-For": "127.0.0.1",
        "X-Real-IP": "127.0.0.1",
        "Forwarded": "for=127.0.0.1",
        "Content-Type": "application/json",
    }
    version = f"1.1.{words['Rollcall-Member']}~1"
    host = {"ip": "10.66.6.6", "port": 80, "serviceName": "DEFAULT_GROUP@@attacked", "clusterName": "DEFAULT"}
    datum = {LIST_KEY: {"key": LIST_KEY, "value": {"instanceList": [host]}, "timestamp": 1, "version": version}}
    member = {"ip": "127.0.0.1", "port": 1, "address": "127.0.0.1:1", "state": "UP"}
    for method, path, body in (
        ("PUT", "/v1/ns/distro/datum", datum),
        ("PUT", f"/v1/ns/distro/checksum?source={words['Rollcall-Member']}", {LIST_KEY: version}),
        ("PUT", "/v1/ns/distro/beats", {LIST_KEY: {}}),
        ("GET", "/v1/ns/distro/datums", {}),
        ("GET", "/v1/ns/distro/datum", {"keys": LIST_KEY}),
        ("POST", "/v1/core/cluster/report", member),
    ):
        victim.refused(method, CONTEXT + path, json.dumps(body).encode(), words)


GUARDED = (
    ("POST", REGISTER),
    ("DELETE", f"{INSTANCE}?serviceName=witness&ip=10.1.1.1&port=80"),
    ("PUT", f"{INSTANCE}/beat?serviceName=witness&ip=10.1.1.1&port=80"),
    ("GET", f"{INSTANCE}/list?serviceName=witness"),
    ("PUT", f"{CONTEXT}/v1/ns/operator/switches?entry=pushEnabled&value=false"),
    ("GET", f"{CONTEXT}/v1/ns/operator/dump"),
    ("GET", f"{CONTEXT}/v1/auth/users?pageNo=1&pageSize=10"),
    ("POST", f"{CONTEXT}/v1/auth/users?username=evil&password=evil-evil"),
    ("PUT", f"{CONTEXT}/v1/auth/users?username=nacos&newPassword=evil-evil"),
    ("POST", f"{CONTEXT}/v1/auth/roles?role=ROLE_ADMIN&username=evil"),
    ("POST", f"{CONTEXT}/v1/auth/users/admin?username=evil&password=evil-evil"),
    ("POST", f"{CONTEXT}/v1/auth/users/admin?username=evil&password=evil-evil&secret=evil"),
    ("POST", f"{CONTEXT}/v1/console/namespaces?customNamespaceId=evil&namespaceName=evil"),
    ("PUT", f"{CONTEXT}/operator/drain?enabled=true"),
)
"""Calls that need a right: of the registry, of operators and of users."""


@attack("calls without a user", of_users=True)
def without_user(victim: Victim) -> None:
    """No agent, forwarded address or odd form of a path may give a client a right."""
    for words in (
        {},
        {"User-Agent": "Nacos-Server:v1.4.8"},
        {"User-Agent": "Nacos-Server", "X-Forwarded-For": "127.0.0.1", "Rollcall-Member": victim.address},
        {"serverIdentity": "security"},
        {"nacos": "nacos"},
    ):
        for method, target in GUARDED:
            victim.refused(method, target, headers={"Authorization": "", **words})
            victim.refused(method, target.replace("/instance", "/%69nstance"), headers={"Authorization": "", **words})


@attack("forged tokens", of_users=True)
def forged_tokens(victim: Victim) -> None:
    """Tokens with other keys, the published key or no algorithm, expired ones, and ones with another user's name."""
    now_s = int(time.time())
    claims = {"sub": "nacos", "exp": now_s + FORGED_S}
    head, payload, signature = victim.token.split(".")
    unsigned = jwt.encode(claims, "", "none")  # its third part is empty
    other_payload = jwt.encode(claims, "x" * 64, "HS256").split(".")[1]
    tokens = (
        *(jwt.encode(claims, key, "HS256") for key in (PUBLISHED_KEY, "x" * 64, base64.b64decode(PUBLISHED_KEY[:68]))),
        *(jwt.encode(claims, "x" * 64, algorithm) for algorithm in ("HS384", "HS512")),
        *(unsigned, unsigned + signature, f"{head}.{other_payload}.{signature}", f"{head}.{payload}."),
        jwt.encode({**claims, "exp": now_s - FORGED_S}, "x" * 64, "HS256"),
        *("", "a.b.c", "." * 5_000, victim.token[:-2], victim.token + "A", victim.token.upper()),
    )
    for token in tokens:
        for method, target in GUARDED[:4]:
            victim.refused(method, target, headers={"Authorization": f"Bearer {token}"})
            victim.refused(method, f"{target}&accessToken={token[:3_000]}", headers={"Authorization": ""})


@attack("UDP pushes to a victim")
def reflected(victim: Victim) -> None:
    """Queries that name another address, a privileged port or many addresses must not subscribe anything."""
    for ip, port in (
        (ELSEWHERE, 50_000),
        ("255.255.255.255", 50_000),
        ("224.0.0.1", 50_000),
        ("", 53),
        ("127.0.0.77", 1_023),
    ):
        query = urlencode({"serviceName": victim.service, "clientIP": ip, "udpPort": port})
        answer = victim.call("GET", f"{INSTANCE}/list?{query}", headers={"User-Agent": JAVA})
        if answer.status != 200:
            raise Wrong(f"the list for {ip}:{port} is answered {answer.status}")
    found = victim.call("GET", f"{CONTEXT}/v1/ns/service/subscribers", serviceName=victim.service).json()
    if found["subscribers"]:
        raise Wrong(f"there are subscribers: {found['subscribers']}")


@attack("pages in a browser")
def pages(victim: Victim) -> None:
    """A page whose host name points to the node, and a page of another site."""
    rebound = BROWSER | {"Host": "rebound.example:8848"}
    victim.refused("POST", REGISTER, headers=rebound)
    victim.refused("GET", f"{INSTANCE}/list?serviceName={victim.service}", headers=rebound)
    # Writes that the script of a page may try.
    victim.refused("POST", REGISTER, headers=rebound | {"User-Agent": "curl/8", "Accept-Language": ""})
    for site in ("cross-site", "same-site"):
        victim.refused("GET", f"{INSTANCE}/list?serviceName=a", headers=BROWSER | {"Sec-Fetch-Site": site})
    for origin in ("null", "http://evil.example", f"http://{victim.address}.evil.example", "http://127.0.0.1:1"):
        for method in ("POST", "PUT", "DELETE"):
            victim.refused(method, REGISTER, headers=BROWSER | {"Origin": origin})
    for path in ("/v2/core/loader/reloadCurrent?count=0", "/v2/core/loader/smartReloadCluster",
                 "/v1/ns/operator/push/state?reset=true", "/v1/ns/api/clientBeat?dom=attacked&beat={}"):  # fmt: skip
        victim.refused("GET", CONTEXT + path, headers=BROWSER)


@attack("health checks that carry rights")
def check_headers(victim: Victim) -> None:
    refused = (
        *("Host:metadata", "Authorization:Basic x", "Metadata-Flavor:Google", "Cookie:a=b"),
        *("X-Forwarded-For:127.0.0.1", "Content-Length:5", "Transfer-Encoding:chunked", "X-A:b\r\nHost:x"),
    )
    for headers in refused:
        checker = json.dumps({"type": "HTTP", "path": "/latest/meta-data", "headers": headers})
        settings = {
            "checkPort": 80,
            "useInstancePort4Check": "false",
            "healthChecker": checker,
            "clusterName": "DEFAULT",
        }
        victim.refused("PUT", f"{CONTEXT}/v1/ns/cluster", serviceName=victim.service, **settings)


@attack("guessed passwords")
def guessing(victim: Victim) -> None:
    """No answer may give a right, and no check may delay the event loop."""
    for number in range(25):
        body = f"username=nacos&password=guess{number}".encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = victim.call("POST", f"{CONTEXT}/v1/auth/login", body, form)
        if not is_answer(answer.status) or b"Traceback" in answer.body:
            raise Wrong(f"a login is answered {answer.status} {answer.body[:100]!r}")


# --- excessive load --------------------------------------------------------------------------------------


@attack("bombs")
def bombs(victim: Victim) -> None:
    """Bodies that decompress to large data, are deeply nested or too large, from a stranger and from a member."""
    packed = gzip.compress(b'{"a": "' + b"a" * (60 << 20) + b'"}', 9)
    deep = b"[" * 200_000
    for source in ("127.0.0.1", "127.0.0.77"):
        victim.refused("PUT", DATUM, packed, {"Content-Type": "application/json"}, source)
        victim.refused("PUT", DATUM, deep, {"Content-Type": "application/json"}, source)
    for value in ("[" * 3_000, '{"a":' * 1_000, '{"ip":' + "9" * 4_000 + "}", '{"metadata":{"a":{"b":{}}}}'):
        victim.refused("PUT", f"{INSTANCE}/beat", serviceName="attacked", beat=value)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for metadata in ("a" * 2_000_000, json.dumps({"a": "b" * 2_000_000}), "{" * 100_000):
        body = f"serviceName=attacked&ip=10.66.6.6&port=80&metadata={metadata}".encode()
        victim.refused("POST", INSTANCE, body, form)
    victim.refused_raw(f"POST {INSTANCE} HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 99999999999\r\n\r\n")
    victim.refused_raw(b"GET /nacos/" + b"a" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    victim.refused_raw(b"GET /nacos HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200 + b"\r\n")


@attack("slow clients")
def slow(victim: Victim) -> None:
    """Heads and bodies that arrive byte by byte; each connection is ended in time."""
    asyncio.run(_all_slow(victim.target))


async def _all_slow(target: Target) -> None:
    rng = random.Random(1)
    await asyncio.gather(*(one(target, rng) for one in (slow_head, slow_body) for _ in range(40)))


@attack("floods")
def floods(victim: Victim) -> None:
    """Garbage, incomplete and endless requests, clients that read nothing, and hundreds of silent connections."""
    # TLS has no half-open state: ending one side ends the connection.
    kinds = [one for one in QUICK if not (victim.has_tls and one is half_close)]
    asyncio.run(_all_hot(victim.target, kinds))
    host, _, port = victim.address.rpartition(":")
    with ExitStack() as stack:
        for number in range(500):
            source = (f"127.0.2.{number % 250 + 1}", 0)
            stack.enter_context(closing(socket.create_connection((host, int(port)), 10, source)))
        if victim.call("GET", f"{INSTANCE}/list?serviceName={victim.service}").status != 200:
            raise Wrong("a list is not answered beside idle connections")


async def _all_hot(target: Target, kinds: Iterable[SocketAttack]) -> None:
    await asyncio.gather(*(at_most(one, target, random.Random(number)) for number in range(8) for one in kinds))


@attack("costly reads at once")
def costly(victim: Victim) -> None:
    """Large pages, dumps and patterns, from many clients."""
    paths = (
        "/v1/ns/service/list?pageNo=1&pageSize=1000000000",
        "/v1/ns/catalog/services?withInstances=true&pageNo=0&pageSize=1000000000&hasIpCount=false",
        "/v1/ns/operator/dump",
        "/v1/ns/service/names",
        "/v1/ns/service/subscribers?serviceName=a&pageSize=1000000000",
    )
    with ThreadPoolExecutor(16) as pool:
        for answer in pool.map(lambda number: victim.call("GET", CONTEXT + paths[number % len(paths)]), range(160)):
            if not is_answer(answer.status):
                raise Wrong(f"a costly read is answered {answer.status} {answer.body[:100]!r}")


# --- names -----------------------------------------------------------------------------------------


@attack("hostile names")
def names(victim: Victim) -> None:
    """Names that could forge a log line, a metric's label, a path or a command; the log is checked, too."""
    unprintable = (
        *(f"x\n{FORGED_LINE}", f"x\r\n{FORGED_LINE}", "x\x1b[2J", "x\0y", "x\u2028y", "x\x7f", "x\x85"),
        'x"} 1\nforged_total{a="',
    )
    odd = ("../../etc/passwd", "${jndi:ldap://x}", "<script>", "\ud7ff\u202e", "'; DROP TABLE record; --", '"} 1')
    for name in unprintable:
        victim.refused("POST", INSTANCE, serviceName="attacked", namespaceId=name, ip="10.66.6.6", port=80)
    for name in (*unprintable, *odd):
        victim.refused("POST", INSTANCE, serviceName=name, ip="10.66.6.6", port=80)
        victim.refused("POST", INSTANCE, serviceName="attacked", groupName=name, ip="10.66.6.6", port=80)
        victim.refused("POST", INSTANCE, serviceName="attacked", clusterName=name, ip="10.66.6.6", port=80)
        victim.refused("PUT", f"{CONTEXT}/v1/ns/operator/log", logName=name, logLevel=name)
        # These may be answered, but must not forge a line.
        victim.call("GET", f"{CONTEXT}/v1/ns/operator/heal", serviceName=name)
        victim.call("PUT", f"{CONTEXT}/v1/ns/operator/switches", entry=name, value=name)
        victim.call("GET", f"{INSTANCE}/list", serviceName="nothing", clusters=name, app=name, tid=name, env=name)
    metrics = victim.call("GET", f"{CONTEXT}/v1/ns/operator/metrics")
    if metrics.status != 200 or b"forged" in metrics.body or not isinstance(metrics.json(), dict):
        raise Wrong(f"metrics are answered {metrics.status}")
    for path in ("/metrics", f"{CONTEXT}/actuator/prometheus"):
        if b"forged_total{" in victim.call("GET", path).body:
            raise Wrong(f"{path} has a forged metric")


def log_complaints(text: str) -> list[str]:
    """Return the lines that no attack may leave in a log: forged or unprintable ones, and tracebacks."""
    lines = text.splitlines()
    found = [line for line in lines if line.startswith(FORGED_LINE) or not line.isprintable()]
    found += [line for line in lines if "Traceback (most recent call last)" in line]
    return found


def settled(victim: Victim, before: list[str], patience_s: float = 10.0) -> list[str]:
    """Return the differences to the earlier data as lines with + or -, waiting up to ``patience_s`` for none."""
    end_s = time.monotonic() + patience_s
    while True:
        now = victim.held()
        changed = [f"+ {line}" for line in set(now) - set(before)] + [f"- {line}" for line in set(before) - set(now)]
        if not changed or time.monotonic() > end_s:
            return sorted(changed)
        time.sleep(0.2)

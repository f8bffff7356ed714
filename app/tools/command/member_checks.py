"""The doctor's checks of the members: names, answers, clocks, releases, lists, and the calls that they accept."""

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from threading import Event
from typing import Any

from app.config.addresses import split_address
from app.config.identity_settings import IDENTITY_KEY, IDENTITY_VALUE
from app.config.settings import Settings
from app.languages.phrases import phrase
from app.tools.audit.client.access import Access
from app.tools.command.doctor_findings import CheckFinding, failure, ok, warning

NAME_S, CALL_S = 3.0, 3.0
SKEW_S, SKEW_BAD_S = 2.0, 60.0
AT_ONCE_MAX = 16
SERVERS = "/v1/ns/operator/servers"
EXPLAIN = "/v1/ns/explain"
PLANNED = ("drained", "left")
"""The absences of members that operators planned."""
NO_INSTANCE: dict[str, str | int] = {"serviceName": "rollcall-doctor", "ip": "127.0.0.1", "port": 1, "local": "true"}
"""An instance that does not exist: the answer has clock and release all the same."""
ADDRESS_CHARS_MAX = 300
PROBE = "/v1/cs/communication/dataChange"
"""A members' call that changes nothing."""
_RELEASE = re.compile(r"[0-9A-Za-z.+-]{1,40}")


@dataclass(frozen=True, slots=True)
class SeenMember:
    """The answers of one member; ``error`` if it gave none."""

    address: str
    error: str = ""
    skew_s: float | None = None
    release: str = ""
    listed: tuple[str, ...] = ()
    states: tuple[tuple[str, str], ...] = ()
    takes_anybody: bool = False
    """True if it accepts a call without an identity from this machine as a member's."""


def member_findings(settings: Settings, access: Access) -> Iterator[CheckFinding]:
    """Yield the findings on the members in this node's list; all are asked at once."""
    if settings.standalone:
        yield ok("members", phrase("standalone: there are no others"))
        return
    others = [one for one in settings.members if one != settings.self_address]
    pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="doctor")
    try:
        names = {one: pool.submit(_resolve, one) for one in settings.members}
        seen = [pool.submit(_look, one, settings, access) for one in settings.members]
        for address, future in names.items():
            yield from _name_findings(address, future)
        members = [one.result() for one in seen]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for one in members:
        yield from _of_member(one, settings, is_own=one.address not in others)
    yield from _together([one for one in members if not one.error], settings)


def _resolve(address: str) -> tuple[tuple[str, ...], str]:
    """Return the addresses of a member's host, and the name to which the first of these resolves back."""
    host, port = split_address(address)
    found = tuple(sorted({str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}))
    return found, socket.getnameinfo((found[0], port), socket.NI_NUMERICSERV)[0]


def _name_findings(address: str, future: "Future[tuple[tuple[str, ...], str]]") -> Iterator[CheckFinding]:
    host = split_address(address)[0]
    try:
        found, back = future.result(NAME_S)
    except LateError:
        yield warning(
            "DNS",
            phrase("%(host)s: no answer within %(seconds)s s", host=host, seconds=f"{NAME_S:.0f}"),
            phrase("mend the name server, or list addresses"),
        )
        return
    except OSError as error:
        yield failure(
            "DNS",
            f"{host}: {error.strerror or error}",
            phrase("mend the name, or list the member by its address"),
        )
        return
    if _is_address(host):
        yield ok("DNS", phrase("%(host)s is an address; it leads back to %(back)s", host=host, back=back))
    elif back.split(".")[0] == host.split(".")[0]:
        yield ok(
            "DNS",
            phrase("%(host)s is %(names)s, which leads back to %(back)s", host=host, names=", ".join(found), back=back),
        )
    else:
        yield warning(
            "DNS",
            phrase("%(host)s is %(names)s, which leads back to %(back)s", host=host, names=", ".join(found), back=back),
            phrase("members know a caller by its address: that is fine if the name is right; mend the reverse entry"),
        )


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _look(address: str, settings: Settings, access: Access) -> SeenMember:
    """Ask one member all questions; a failure is in its ``error`` and raises nothing."""
    from app.tools.audit.client.http_client import CallError, MemberClient, Patience

    client = MemberClient(address, access, Patience(0, Event()))
    try:
        before_ms = time.time() * 1_000
        told = _fields(client.get(EXPLAIN, NO_INSTANCE).json())
        after_ms = time.time() * 1_000
        rows = _fields(client.get(SERVERS, {}).json()).get("servers")
        anybody = _probe(access, address)
    except CallError as error:
        return SeenMember(address, error=str(error))
    finally:
        client.close()
    taken_ms = told.get("takenMs")
    members = [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
    release = str(told.get("release", ""))
    return SeenMember(
        address,
        skew_s=_skew_s(taken_ms, before_ms, after_ms) if isinstance(taken_ms, int) else None,
        release=release if _RELEASE.fullmatch(release) else "",
        listed=tuple(sorted(str(one.get("address"))[:ADDRESS_CHARS_MAX] for one in members)),
        states=tuple(sorted((str(one.get("address"))[:ADDRESS_CHARS_MAX], _state(one)[:20]) for one in members)),
        takes_anybody=anybody,
    )


def _state(row: dict[str, Any]) -> str:
    """Return the state of a listed member, or why it is out by plan."""
    info = row.get("extendInfo")
    absence = info.get("plannedAbsence") if isinstance(info, dict) else None
    return str(absence if absence in PLANNED else row.get("state"))


def _probe(access: Access, address: str) -> bool:
    """Return whether a member accepts a call from here, without an identity, as a member's."""
    import requests

    with requests.Session() as session:
        session.trust_env = False
        url = f"{access.scheme}://{address}{access.context_path}{PROBE}"
        try:
            return session.get(url, timeout=CALL_S, allow_redirects=False).status_code == HTTPStatus.OK
        except requests.RequestException:
            return False


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _skew_s(at_ms: int, before_ms: float, after_ms: float) -> float:
    """Return how far a member's clock is ahead of ours, at least, given the duration of the call."""
    return (max(at_ms - after_ms, 0) + min(at_ms - before_ms, 0)) / 1_000


def _of_member(one: SeenMember, settings: Settings, *, is_own: bool) -> Iterator[CheckFinding]:
    what = phrase("member %(address)s", address=one.address)
    if one.error:
        text = phrase("this node itself does not answer") if is_own else phrase("it does not answer")
        advice = (
            phrase("start it")
            if is_own
            else phrase("start it, or open its port in the firewall; remove it from the list if it is gone")
        )
        (make, shown) = (warning, text) if is_own else (failure, text)
        yield make(what, phrase("%(text)s (%(error)s)", text=shown, error=one.error), advice)
        return
    if one.skew_s is None:
        yield warning(
            what,
            phrase("it does not report its time"),
            phrase("it is of an older release or of another kind: compare the clocks by hand"),
        )
    elif abs(one.skew_s) > SKEW_S:
        make = failure if abs(one.skew_s) > SKEW_BAD_S else warning
        yield make(
            what,
            phrase("its clock is %(seconds)s s off ours", seconds=f"{one.skew_s:+.1f}"),
            phrase("have NTP or chrony keep both clocks"),
        )
    else:
        release = one.release or phrase("unknown")
        yield ok(what, phrase("it answers, and its clock is right; release %(release)s", release=release))
    if one.takes_anybody:
        yield warning(
            what,
            phrase("it accepts a call from this machine as a member's, without an identity"),
            phrase(
                "set %(identity_key)s and %(identity_value)s at all members, and keep others off the port",
                identity_key=IDENTITY_KEY.name,
                identity_value=IDENTITY_VALUE.name,
            ),
        )
    elif settings.identity is not None:
        yield ok(what, phrase("it refuses members' calls without an identity"))


def _together(members: list[SeenMember], settings: Settings) -> Iterator[CheckFinding]:
    """Yield the findings on how the members fit together."""
    lists = {one.address: one.listed for one in members if one.listed}
    own = tuple(sorted(settings.members))
    if unlike := sorted(address for address, listed in lists.items() if listed != own):
        yield failure(
            "member lists",
            phrase("another list than the one here: %(names)s", names=", ".join(unlike)),
            phrase("give all members the same cluster.conf, with each address written the same way"),
        )
    elif lists:
        yield ok(
            "member lists",
            phrase(
                "%(count)s of %(total)s members answered, with the list that is here",
                count=len(lists),
                total=len(own),
            ),
        )
    for one in members:
        if down := [f"{address} {state}" for address, state in one.states if state not in ("UP", *PLANNED)]:
            yield warning(
                "states",
                phrase("%(address)s sees %(names)s", address=one.address, names=", ".join(down)),
                phrase("see whether the way between the two is open"),
            )
    if planned := sorted(
        {f"{address} {state}" for one in members for address, state in one.states if state in PLANNED}
    ):
        yield ok("planned absences", ", ".join(planned))
    releases = {one.release for one in members if one.release}
    if len(releases) > 1:
        yield warning(
            "releases",
            phrase("members run %(names)s", names=", ".join(sorted(releases))),
            phrase("bring all to one release"),
        )
    elif releases:
        yield ok("releases", phrase("all that answered run %(release)s", release=releases.pop()))

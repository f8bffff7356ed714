"""The threads of the engine: what fails in one of its events, and what becomes of a peer's threads."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.engine.runtime import DistroRuntime
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.errors import TransportError
from distro.model.monitor import DistroStats
from distro.model.types import PeerReport
from distro.protocol.protocol import DistroProtocol
from distro.timing.clock import monotonic_s
from tests.support.processes import eventually

SELF, B, C = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"


class Clock:
    """The machine's."""

    def monotonic_ms(self) -> int:
        return int(monotonic_s() * 1_000)

    def boot_ms(self) -> int:
        return self.monotonic_ms()

    def wall_ms(self) -> int:
        return 0


class Silent:
    """A way to members of which none answers."""

    def report(self, peer: str, timeout_ms: int) -> PeerReport:
        raise TransportError(f"{peer} does not answer")


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox(1_000, DistroStats())


@pytest.fixture
def runtime(mailbox: Mailbox) -> Iterator[DistroRuntime]:
    config, clock, nothing = DistroConfig(), Clock(), Any
    members = MemberList(SELF, config, clock.monotonic_ms())
    protocol = DistroProtocol(members, f"{SELF}~1", config, {}, DistroStats(), clock.monotonic_ms())
    parts = EngineParts(protocol.reader, nothing, mailbox, {}, Silent(), clock, config, protocol.stats)  # type: ignore[arg-type]
    made = DistroRuntime(protocol, parts)
    made.start()
    yield made
    assert made.stop(20)


def threads_of(peer: str) -> list[str]:
    return sorted(one.name for one in threading.enumerate() if one.name.endswith(peer))


def test_an_event_that_fails_leaves_the_others_alone(
    mailbox: Mailbox, runtime: DistroRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    seen, begun = list[str](), threading.Event()

    def fail(protocol: DistroProtocol, now_ms: int) -> None:
        raise KeyError("nobody foresaw this")

    mailbox.put(lambda _protocol, _now_ms: (begun.wait(60) and seen.append("first")) or None)
    mailbox.put(fail)
    mailbox.put(lambda _protocol, _now_ms: seen.append("last"))
    begun.set()
    eventually(lambda: "last" in seen)
    assert seen == ["first", "last"]
    assert "nobody foresaw this" in caplog.text


def test_the_threads_of_a_member_that_left_end(runtime: DistroRuntime) -> None:
    runtime.replace_members((SELF, B, C))
    eventually(lambda: threads_of(B) and threads_of(C))
    runtime.replace_members((SELF, C))
    eventually(lambda: not threads_of(B))
    assert threads_of(C)
    runtime.replace_members((SELF, B, C))
    eventually(lambda: threads_of(B))


def test_the_engine_has_a_thread_of_its_own_for_which_the_process_waits(
    mailbox: Mailbox, runtime: DistroRuntime
) -> None:
    seen: list[threading.Thread] = []
    mailbox.put(lambda _protocol, _now_ms: seen.append(threading.current_thread()))
    [thread] = eventually(lambda: seen)
    assert (thread.name, thread.daemon) == ("distro-timer", False)

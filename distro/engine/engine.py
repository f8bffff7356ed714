"""DistroEngine: the parts of one member's engine before its threads run."""

from collections.abc import Callable
from dataclasses import dataclass

from distro.engine.mailbox import Mailbox
from distro.engine.peer_call_runner import EngineParts
from distro.engine.runtime import DistroRuntime
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats
from distro.model.ports import NO_OBSERVER, Clock, Component, DistroObserver, MemberAgent
from distro.model.types import DistroKey
from distro.protocol.protocol import DistroProtocol
from distro.protocol.protocol_parts import ALL_RULES, ProtocolRules
from distro.receive.call_times import AppliedTimes
from distro.receive.receive import DistroReceiver
from distro.timing.clock import boot_s
from distro.verify.digest_answers import DigestAnswers


@dataclass(frozen=True, slots=True)
class EngineKinds:
    """The kinds of an engine's parts. The simulation gives others: turns and calls in virtual time, or a rule less."""

    rules: ProtocolRules = ALL_RULES
    observer: DistroObserver = NO_OBSERVER
    members: Callable[..., MemberList] = MemberList
    protocol: Callable[..., DistroProtocol] = DistroProtocol
    receiver: Callable[..., DistroReceiver] = DistroReceiver
    mailbox: Callable[[int, DistroStats, Callable[[], float]], Mailbox] = Mailbox
    runtime: Callable[..., DistroRuntime] = DistroRuntime


ENGINE = EngineKinds()


class DistroEngine:
    """One member's engine: ``reader`` and ``mailbox`` are for any thread; ``runtime`` makes its threads.

    The components are added, and the runtime is made, before the first thread starts.
    """

    def __init__(
        self,
        self_address: str,
        writer: str,
        config: DistroConfig,
        clock: Clock,
        *,
        standalone: bool = False,
        now_s: Callable[[], float] = boot_s,
        before_serving: Callable[[int], None] = lambda _now_ms: None,
        on_claimed: Callable[[list[DistroKey]], None] = lambda _keys: None,
        is_pushed: Callable[[DistroKey], bool] = lambda _key: False,
        kinds: EngineKinds = ENGINE,
    ) -> None:
        """``writer``: this run of this member, as versions name it.

        ``now_s``: the time in seconds, of the clock that the engine's ms are of. ``before_serving`` and ``on_claimed``:
        as of ``LocalActions`` and ``DistroProtocol``; ``is_pushed``: of ``AppliedTimes``.
        """
        self.stats = DistroStats()
        self.components: dict[str, Component] = {}
        """The resource types by name."""
        self.mailbox = kinds.mailbox(config.mailbox_events_max, self.stats, now_s)
        self._config, self._clock, self._now_s = config, clock, now_s
        self._before_serving, self._runtime = before_serving, kinds.runtime
        now_ms = clock.monotonic_ms()
        self._protocol = kinds.protocol(
            kinds.members(self_address, config, now_ms, standalone),
            writer,
            config,
            self.components,
            self.stats,
            now_ms,
            on_claimed,
            rules=kinds.rules,
            observer=kinds.observer,
        )
        reader = self.reader = self._protocol.reader
        self.times = self._protocol.times
        self.receiver = kinds.receiver(
            writer,
            self.components,
            reader,
            self.mailbox,
            self.stats,
            AppliedTimes(now_s, is_pushed),
            kinds.observer,
        )
        self.digests = DigestAnswers(self.components, self.receiver, reader, self.stats)

    def runtime(
        self, member_agent: MemberAgent, on_behind: Callable[[bool], None] = lambda _is_behind: None
    ) -> DistroRuntime:
        """Make the threads of this engine, once; ``member_agent`` reports to other members.

        ``on_behind``: called when this process stood still, and when it has caught up; under a lock.
        """
        parts = EngineParts(
            self.reader,
            self.receiver,
            self.mailbox,
            self.components,
            member_agent,
            self._clock,
            self._config,
            self.stats,
            self._now_s,
        )
        return self._runtime(self._protocol, parts, self._before_serving, on_behind)

"""The network between simulated processes: delay, loss, silence, late and repeated bytes. All chance is the world's."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from app.tools.simulation.member.sim_ports import NOTHING_SAID, About, Process, Reply, Scheduler
from app.tools.simulation.transcript.entry import What
from distro.model.types import Outcome


@dataclass(frozen=True, slots=True)
class Weather:
    """The treatment of messages. Shares are 0 to 1, of requests and of answers alike."""

    delay_ms_max: int = 3
    slow: float = 0.0
    """The share that takes up to ``slow_ms_max``, and so overtakes and is overtaken."""
    slow_ms_max: int = 0
    loss: float = 0.0
    duplicates: float = 0.0
    """The share of the engine's requests that arrive a second time, up to ``late_ms_max`` later."""
    late_ms_max: int = 0
    kept: float = 0.0
    """The share of lost requests between members that a kernel keeps, and delivers up to ``kept_ms_max`` later."""
    kept_ms_max: int = 0


class Network:
    """Carries calls. A cut is silence for all packets in one direction, a block for calls alone; callers get no
    notice."""

    def __init__(self, world: Scheduler, processes: dict[str, Process]) -> None:
        self._world = world
        self._processes = processes
        self._weathers: list[Weather] = [Weather()]
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._blocks: Counter[tuple[str, str]] = Counter()
        self._refusals: Counter[tuple[str, str]] = Counter()
        self.weather = Weather()

    # --- faults ----------------------------------------------------------------------------------

    def add(self, weather: Weather) -> None:
        self._weathers.append(weather)
        self._combine()

    def remove(self, weather: Weather) -> None:
        if weather in self._weathers[1:]:
            self._weathers.remove(weather)
            self._combine()

    def _combine(self) -> None:
        """Apply the worse of overlapping faults for each figure."""
        names = Weather.__slots__
        self.weather = Weather(**{name: max(getattr(one, name) for one in self._weathers) for name in names})

    def calm(self, **figures: Any) -> None:
        """Set the figures that apply without faults."""
        self._weathers[0] = replace(self._weathers[0], **figures)
        self._combine()

    def cut(self, source: str, target: str) -> None:
        """Let no packet through, neither calls nor the answers to calls of ``target``."""
        self._cuts[source, target] += 1

    def mend(self, source: str, target: str) -> None:
        _count_down(self._cuts, source, target)

    def block(self, source: str, target: str, *, refused: bool = False) -> None:
        """Let no call through, while answers to calls of ``target`` pass; ``refused``: the caller gets an error at
        once."""
        (self._refusals if refused else self._blocks)[source, target] += 1

    def unblock(self, source: str, target: str, *, refused: bool = False) -> None:
        _count_down(self._refusals if refused else self._blocks, source, target)

    def heal(self) -> None:
        """End all faults; messages that are already late stay late."""
        del self._weathers[1:]
        for faults in (self._cuts, self._blocks, self._refusals):
            faults.clear()
        self._combine()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def is_silent(self, source: str, target: str) -> bool:
        """Return whether a new connection cannot be made."""
        return self.is_cut(source, target) or self.is_cut(target, source) or (source, target) in self._blocks

    def is_reset(self, server: str, run: int, client: str) -> bool:
        """Return whether a connection to this run of a process is reset: the run ended, and its host can say so."""
        process = self._processes[server]
        return (process.run != run or not process.listening) and not self.is_cut(server, client)

    # --- calls -----------------------------------------------------------------------------------

    def call(
        self,
        source: Process,
        target: str,
        serve: Callable[[Any, Reply], None],
        timeout_ms: int,
        on_done: Reply,
        *,
        of_member: bool = True,
        repeats: bool = True,
        about: About = NOTHING_SAID,
    ) -> None:
        """Call ``serve(target process, reply)`` over there, and ``on_done`` here once, at the latest at the time-out.

        A time-out ends FAILED with None; the request may have had its effect, or may still have it.
        ``of_member``: a kernel may keep it; ``repeats``: it may arrive twice; ``about``: for a transcript.
        """
        run, ended = source.run, False

        def end(outcome: Outcome, answer: Any) -> None:
            def tell() -> None:
                nonlocal ended
                if not ended and source.run == run:
                    ended = True
                    on_done(outcome, answer)

            if not ended and source.run == run:
                source.post(tell)

        def reply(outcome: Outcome, answer: Any) -> None:
            if not self._lost(target, source.address, "answer"):
                self._world.after(self._delay_ms(), lambda: end(outcome, answer))
            else:
                self._tell(target, source.address, about, "the answer is lost")

        self._world.after(timeout_ms, lambda: end(Outcome.FAILED, None))
        if (source.address, target) in self._refusals:
            self._world.marks["call refused by a block"] += 1
            self._tell(source.address, target, about, "is refused")
            reply(Outcome.REFUSED, None)
        elif self._request_lost(source.address, target):
            self._tell(source.address, target, about, "is lost")
            self._keep(source.address, target, serve, of_member)
        else:
            self._world.after(self._delay_ms(), lambda: self._arrive(source.address, target, serve, reply, of_member))
        weather = self.weather
        if repeats and weather.duplicates and self._world.chance(weather.duplicates):
            self._world.marks["request repeated"] += 1
            late_ms = self._world.between(1, weather.late_ms_max)
            self._tell(source.address, target, about, f"arrives again, {late_ms} ms later")
            self._arrive_late(source.address, target, serve, late_ms)

    def _tell(self, source: str, target: str, about: About, fate: str) -> None:
        said, keys = about
        if said:
            self._world.trace(source, f"{said}: {fate}", What.LOST, peer=target, keys=keys)

    def _request_lost(self, source: str, target: str) -> bool:
        if (source, target) in self._blocks:
            self._world.marks["call lost by a block"] += 1
            return True
        return self._lost(source, target, "call")

    def _keep(self, source: str, target: str, serve: Callable[[Any, Reply], None], of_member: bool) -> None:
        weather = self.weather
        if of_member and weather.kept and self._world.chance(weather.kept):
            self._world.marks["request kept by a kernel"] += 1
            self._arrive_late(source, target, serve, self._world.between(1, weather.kept_ms_max))

    def _arrive_late(self, source: str, target: str, serve: Callable[[Any, Reply], None], late_ms: int) -> None:
        """Deliver a request late; its answer is lost."""
        self._world.after(late_ms, lambda: self._arrive(source, target, serve, lambda *_: None, of_member=True))

    def _arrive(
        self, source: str, target: str, serve: Callable[[Any, Reply], None], reply: Reply, of_member: bool
    ) -> None:
        if self.is_cut(source, target):
            self._world.marks["call lost by a cut"] += 1
            self._keep(source, target, serve, of_member)
            return
        process = self._processes[target]
        if process.listening:
            process.post(lambda: serve(process, reply))
        else:
            reply(Outcome.REFUSED, None)

    def _lost(self, source: str, target: str, what: str) -> bool:
        if self.is_cut(source, target):
            both = "cut" if self.is_cut(target, source) else "one-way cut"
            self._world.marks[f"{what} lost by a {both}"] += 1
            return True
        if self.weather.loss > 0 and self._world.chance(self.weather.loss):
            self._world.marks[f"{what} lost"] += 1
            return True
        return False

    def _delay_ms(self) -> int:
        weather = self.weather
        if weather.slow and self._world.chance(weather.slow):
            return self._world.between(0, weather.slow_ms_max)
        return self._world.between(0, weather.delay_ms_max)


def _count_down(faults: Counter[tuple[str, str]], source: str, target: str) -> None:
    faults[source, target] -= 1
    if faults[source, target] <= 0:
        del faults[source, target]

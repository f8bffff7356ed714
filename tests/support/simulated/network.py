"""The network between simulated processes: delay, loss, silence, late duplicates. All chance comes from the world."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from distro.types import Outcome

Reply = Callable[[Outcome, Any], None]
"""Gives the answer of a call; it travels back like the request came."""


class Process(Protocol):
    """What stands at an end of a call."""

    address: str
    run: int
    """Rises with every start; what was meant for an earlier run reaches nobody."""

    @property
    def listening(self) -> bool: ...

    def post(self, work: Callable[[], None]) -> None:
        """Do the work now, or when the process runs again."""
        ...


class Scheduler(Protocol):
    """What the network needs of the world."""

    def after(self, delay_ms: int, work: Callable[[], None]) -> None: ...

    def between(self, low: int, high: int) -> int: ...

    def chance(self, share: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to messages. Shares are 0 to 1, of requests and of answers alike."""

    delay_ms_max: int = 3
    slow: float = 0.0
    """The share that takes up to ``slow_ms_max``, and so overtakes and is overtaken."""
    slow_ms_max: int = 0
    loss: float = 0.0
    duplicates: float = 0.0
    """The share of requests that arrive a second time, up to ``late_ms_max`` later; that answer reaches nobody."""
    late_ms_max: int = 0


class Network:
    """Carries calls. A cut is silence in one direction; nobody is told."""

    def __init__(self, world: Scheduler, processes: dict[str, Process]) -> None:
        self._world = world
        self._processes = processes
        self._weathers: list[Weather] = [Weather()]
        self._cuts: dict[tuple[str, str], int] = {}
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
        """Of overlapping faults the worse holds, figure by figure."""
        names = Weather.__slots__
        self.weather = Weather(**{name: max(getattr(one, name) for one in self._weathers) for name in names})

    def calm(self, **figures: Any) -> None:
        """Set the figures that hold without faults."""
        self._weathers[0] = replace(self._weathers[0], **figures)
        self._combine()

    def cut(self, source: str, target: str) -> None:
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        if (left := self._cuts.get((source, target), 0) - 1) > 0:
            self._cuts[source, target] = left
        else:
            self._cuts.pop((source, target), None)

    def heal(self) -> None:
        """End all faults; what is under way late stays so."""
        del self._weathers[1:]
        self._cuts.clear()
        self._combine()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    # --- calls -----------------------------------------------------------------------------------

    def call(
        self,
        source: Process,
        target: str,
        serve: Callable[[Any, Reply], None],
        timeout_ms: int,
        on_done: Reply,
    ) -> None:
        """Call ``serve(target process, reply)`` over there, and ``on_done`` here once, at the latest at the time-out.

        A time-out ends FAILED with None; that the request had its effect, or will yet have it, is possible.
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
            if not self._lost(target, source.address):
                self._world.after(self._delay_ms(), lambda: end(outcome, answer))

        self._world.after(timeout_ms, lambda: end(Outcome.FAILED, None))
        if not self._lost(source.address, target):
            self._world.after(self._delay_ms(), lambda: self._arrive(source.address, target, serve, reply))
        weather = self.weather
        if weather.duplicates and self._world.chance(weather.duplicates):
            late_ms = self._world.between(1, weather.late_ms_max)
            self._world.after(late_ms, lambda: self._arrive(source.address, target, serve, lambda *_: None))

    def _arrive(self, source: str, target: str, serve: Callable[[Any, Reply], None], reply: Reply) -> None:
        if self.is_cut(source, target):
            return
        process = self._processes[target]
        if process.listening:
            process.post(lambda: serve(process, reply))
        else:
            reply(Outcome.REFUSED, None)

    def _lost(self, source: str, target: str) -> bool:
        return self.is_cut(source, target) or (self.weather.loss > 0 and self._world.chance(self.weather.loss))

    def _delay_ms(self) -> int:
        weather = self.weather
        if weather.slow and self._world.chance(weather.slow):
            return self._world.between(0, weather.slow_ms_max)
        return self._world.between(0, weather.delay_ms_max)

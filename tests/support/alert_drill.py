"""A drill of the alerts: one cause after the other, what fired of each, and when."""

import time
import urllib.parse
from collections.abc import Callable, Set
from dataclasses import dataclass

from tests.support.processes import eventually
from tests.support.prometheus import FOR_S_MAX, WINDOW_S, Prometheus

QUIET_S = WINDOW_S + FOR_S_MAX + 3
"""Every rule has seen the cause for longer than it waits."""
STEP_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Step:
    """A cause, and the seconds from it to each alert that fired."""

    cause: str
    fired: dict[str, float]
    over_s: float | None
    """Seconds until nothing fired any more; None if nothing fired."""
    wrong: str
    """The reason why this is not as expected; empty if it is."""


class Drill:
    """The steps of a drill over the rules of a Prometheus. Between two steps nothing fires."""

    def __init__(self, prometheus: Prometheus) -> None:
        self.prometheus = prometheus
        self.steps: list[Step] = []

    def fires(
        self,
        cause: str,
        act: Callable[[], object],
        undo: Callable[[], object],
        expected: Set[str],
        also: Set[str],
        *,
        is_kept_up: bool = False,
    ) -> None:
        """Expect all these alerts after ``act``, of others only ``also``, and none for long after ``undo``.

        ``is_kept_up``: ``act`` is repeated until then, as the members may mend what it did.
        """
        begun_s = time.time()

        def fired_all() -> bool:
            if is_kept_up:
                act()
            return self._all_fired(expected, begun_s)

        act()
        wrong = self._failure(fired_all)
        undo()
        wrong = wrong or self._failure(self._none_fires)
        over_s, fired = time.time() - begun_s, self._fired_since(begun_s)
        if others := fired.keys() - expected - also:
            wrong = wrong or f"{sorted(others)} fired"
        self.steps.append(Step(cause, fired, over_s, wrong))

    def stays_quiet(self, cause: str, *changes: Callable[[], object]) -> None:
        """Expect no alert for long after each of these changes, made in this order."""
        begun_s = time.time()
        for change in changes:
            change()
            self._wait_until(time.time() + QUIET_S)
        fired = self._fired_since(begun_s)
        self.steps.append(Step(cause, fired, None, f"{sorted(fired)} fired" if fired else ""))

    def assert_as_expected(self) -> None:
        """Raise an AssertionError with the report if any step was not as expected."""
        assert not any(step.wrong for step in self.steps), f"\n{self.report()}"

    def _failure(self, check: Callable[[], bool]) -> str:
        """Return why a check did not become true; empty if it did."""
        try:
            eventually(check, STEP_TIMEOUT_S)
        except AssertionError as error:
            return str(error)
        return ""

    def report(self) -> str:
        """A line for each alert that fired: the cause, the alert, and the seconds between them."""
        lines = [f"{'cause':<32} {'alert':<28} {'fired':>7} {'all over':>9}"]
        for step in self.steps:
            over = "" if step.over_s is None else f"{step.over_s:.0f} s"
            if not step.fired:
                lines.append(f"{step.cause:<32} {'none':<28}")
            for alert, after_s in sorted(step.fired.items(), key=lambda one: one[1]):
                lines.append(f"{step.cause:<32} {alert:<28} {after_s:>5.0f} s {over:>9}")
            if step.wrong:
                lines.append(f"{step.cause:<32} NOT AS EXPECTED: {step.wrong}")
        return "\n".join(lines)

    def _all_fired(self, expected: Set[str], begun_s: float) -> bool:
        fired = self._fired_since(begun_s)
        assert expected <= fired.keys(), f"of {sorted(expected)} fired {sorted(fired)}"
        return True

    def _none_fires(self) -> bool:
        firing = self._firing()
        assert not firing, f"still fire {sorted(firing)}"
        return True

    def _firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.prometheus.alerts()}

    def _wait_until(self, until_s: float) -> None:
        """Return when rules have been evaluated at that time."""
        asked = f"timestamp(rollcall_ready) > {until_s}"
        eventually(lambda: self.prometheus.query(asked), STEP_TIMEOUT_S)

    def _fired_since(self, begun_s: float) -> dict[str, float]:
        """The seconds from a time until each alert fired."""
        asked = {"query": 'ALERTS{alertstate="firing"}', "start": begun_s, "end": time.time(), "step": 1}
        found: dict[str, float] = {}
        for series in self.prometheus.ask(f"query_range?{urllib.parse.urlencode(asked)}")["result"]:
            name, after_s = series["metric"]["alertname"], series["values"][0][0] - begun_s
            found[name] = min(after_s, found.get(name, after_s))
        return found

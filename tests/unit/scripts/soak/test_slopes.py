"""The line through a soak's samples, and what the checks of lists find."""

import json
import os
import random

import pytest

from scripts.soak.checks import Checker
from scripts.soak.slopes import Sample, look, member_slopes, slope
from scripts.soak.soaked import GONE_AT, SERVICES, SILENT_KEY, TAKEN_OVER_MS, Access, beating, now_ms


def test_a_line_is_found_exactly() -> None:
    found = slope([(at_s, 100 + at_s / 3_600 * 8) for at_s in range(0, 7_200, 10)])
    assert found is not None
    assert (found.per_hour, found.error) == (pytest.approx(8), pytest.approx(0, abs=1e-6))
    assert found.mean == pytest.approx(108, abs=0.1)


def test_noise_is_an_error_and_no_rise() -> None:
    rand = random.Random(1)
    flat = slope([(at_s, 100 + rand.gauss(0, 2)) for at_s in range(0, 3_600, 10)])
    assert flat is not None
    assert flat.error == pytest.approx(0.37, rel=0.2), "2 MB of noise over sqrt(360) points of one hour"
    assert abs(flat.per_hour) < 3 * flat.error
    assert flat.surely < 0.5
    rising = slope([(at_s, 100 + at_s / 3_600 * 8 + rand.gauss(0, 2)) for at_s in range(0, 3_600, 10)])
    assert rising is not None
    assert rising.surely > 6


@pytest.mark.parametrize("points", [[], [(0, 1), (1, 2)], [(5, 1), (5, 2), (5, 3)]])
def test_too_few_points_have_no_line(points: list[tuple[float, float]]) -> None:
    assert slope(points) is None


def test_only_the_last_run_after_all_has_settled_counts() -> None:
    samples = [Sample(at_s, "a", 0, at_s, 10) for at_s in range(0, 100, 10)]
    samples += [Sample(at_s, "a", 1, 500 - at_s, 10) for at_s in range(100, 200, 10)]
    samples += [Sample(at_s, "a", 1, 300, 20) for at_s in range(200, 300, 10)]
    found = member_slopes(samples, 200)["a"]
    assert found["rss_mb"]["per_hour"] == 0
    assert (found["rss_mb"]["mean"], found["rss_mb"]["count"]) == (300, 10)
    assert found["descriptors"]["mean"] == 20


def test_a_process_is_looked_at_while_it_is_there() -> None:
    seen = look(1, "a", 0, os.getpid())
    assert seen is not None
    assert seen.rss_mb > 5
    assert seen.descriptors >= 3
    assert look(1, "a", 0, 1 << 30) is None


class TestLists:
    COUNT = SERVICES * 2

    def compare(self, checker: Checker, *more: tuple[str, dict[str, str]], lack: int = 0, sick: int = 0) -> None:
        """Show the checker the first service with what beats in it, and more."""
        own = [ip for service, ip in beating(self.COUNT) if service == "soak-0"]
        hosts = [
            {"ip": ip, "port": 8080, "healthy": number >= sick, "metadata": {}} for number, ip in enumerate(own[lack:])
        ]
        hosts += [{"ip": ip, "port": 1_024, "healthy": True, "metadata": metadata} for ip, metadata in more]
        checker._compare("1", "soak-0", {f"{ip}:8080" for ip in own}, json.dumps({"hosts": hosts}).encode())

    def test_whole_ones_are_whole(self) -> None:
        checker = Checker(Access((1,)), self.COUNT)
        self.compare(checker, ("10.200.0.1", {GONE_AT: str(now_ms() + 60_000), SILENT_KEY: "True"}))
        found = checker.found
        assert (found.lists, found.empty, found.absent.answers, found.unhealthy.answers) == (1, 0, 0, 0)
        assert not found.ghosts

    def test_what_lacks_is_sick_or_empty_is_found(self) -> None:
        checker = Checker(Access((1,)), self.COUNT)
        self.compare(checker, lack=1)
        self.compare(checker, sick=1)
        self.compare(checker, lack=2)
        found = checker.found
        assert (found.lists, found.empty, found.absent.answers, found.unhealthy.answers) == (3, 1, 2, 1)

    @pytest.mark.parametrize("silent", ["True", "False"])
    def test_what_had_to_be_gone_is_found(self, silent: str) -> None:
        checker = Checker(Access((1,)), self.COUNT)
        self.compare(checker, ("10.200.0.1", {GONE_AT: str(now_ms() - 1), SILENT_KEY: silent}))
        assert len(checker.found.ghosts) == 1

    def test_one_without_beats_lives_on_when_it_is_taken_over(self) -> None:
        checker = Checker(Access((1,)), self.COUNT)
        checker.disturbed()
        self.compare(checker, ("10.200.0.1", {GONE_AT: str(now_ms() - 1), SILENT_KEY: "True"}))
        assert not checker.found.ghosts
        checker._disturbed_ms -= TAKEN_OVER_MS + 10
        self.compare(checker, ("10.200.0.1", {GONE_AT: str(now_ms() - 1), SILENT_KEY: "True"}))
        assert checker.found.ghosts

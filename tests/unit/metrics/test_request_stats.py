"""Requests by route: what the loop and threads count, and what is read of both."""

import pytest

from app.metrics.instruments import NO_ROUTE, RequestStats
from distro.model.monitor import TIMING_BOUNDS_S, Timings


def test_both_ways_to_a_route_are_read_as_one() -> None:
    stats = RequestStats()
    on_loop = stats.of_loop("GET", "/a")
    on_loop.add(200, 0.000_06)
    on_loop.add(404, 100.0)
    stats.count("GET", "/a", 200, 0.000_06)
    (found,) = stats.read()
    assert (found.method, found.route, found.statuses) == ("GET", "/a", {200: 2, 404: 1})
    assert found.timings.counts == [0, 2] + [0] * (len(TIMING_BOUNDS_S) - 2) + [1]
    assert found.timings.sum_s == pytest.approx(100.000_12)


def test_a_route_without_requests_is_not_read() -> None:
    stats = RequestStats()
    stats.of_loop("GET", "/a")
    assert not list(stats.read())


def test_methods_that_callers_make_up_are_one() -> None:
    stats = RequestStats()
    for number in range(1_000):
        stats.count(f"M{number}", NO_ROUTE, 501, 0.0)
    (found,) = stats.read()
    assert (found.method, found.statuses) == ("other", {501: 1_000})


def test_a_duration_counts_within_the_bound_that_it_equals() -> None:
    timings = Timings((1.0, 2.0))
    for taken_s in (0.0, 1.0, 1.5, 2.0, 2.1):
        timings.add(taken_s)
    assert timings.counts == [2, 2, 1]
    assert timings.sum_s == 6.6

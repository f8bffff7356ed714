"""Charts of the last day at this member, and the metric of each."""

from collections.abc import Callable
from dataclasses import dataclass

from app.auth.access_rules import READ, admin
from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.curve import LARGE, Curve, PictureSize, curve_of
from app.http.console.page import ConsolePage, page_route
from app.languages.catalogues import N_
from app.metrics.day_history import DaySample

HOUR_MS = 3_600_000
SAMPLES_SHOWN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Chart:
    """One series: its name, its metrics, its unit, and its number in a sample."""

    name: str
    title: str
    unit: str
    metrics: tuple[str, ...]
    read: Callable[[DaySample], float | None]
    bad_above: float | None = None
    """A last number above it is shown as wrong."""


CHARTS = (
    Chart("unhealthy", N_("Unhealthy instances"), "", ("rollcall_unhealthy_instances",), lambda one: one.unhealthy, 0),
    Chart(
        "convergence",
        N_("Convergence, p99"),
        "ms",
        ("rollcall_peer_convergence_seconds",),
        lambda one: one.convergence_ms,
        1_000,
    ),
    Chart("lag", N_("Loop lag, p99"), "ms", ("rollcall_loop_lag_seconds",), lambda one: one.loop_lag_ms, 100),
    Chart("instances", N_("Instances"), "", ("rollcall_instances",), lambda one: one.instances),
    Chart(
        "requests",
        N_("Requests"),
        "/s",
        ("rollcall_http_requests", "rollcall_grpc_requests"),
        lambda one: one.requests,
    ),
    Chart("beats", N_("Beats over HTTP"), "/s", ("rollcall_http_requests",), lambda one: one.beats),
    Chart("pushes", N_("Pushes"), "/s", ("rollcall_udp_pushes", "rollcall_grpc_pushes_sent"), lambda one: one.pushes),
)
"""All charts, first the ones that tell of trouble."""


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart with its curve; None before the second sample."""

    chart: Chart
    curve: Curve | None
    title: str
    """The title of the chart in the language of the page."""
    last: float | None
    least: float | None
    most: float | None

    @property
    def is_bad(self) -> bool:
        """True if the last number is above the bound of the chart."""
        return self.chart.bad_above is not None and self.last is not None and self.last > self.chart.bad_above


def drawn_charts(
    page: ConsolePage, samples: list[DaySample], span_ms: int, size: PictureSize = LARGE
) -> list[DrawnChart]:
    """Return all charts of the last ``span_ms``; those whose last number is wrong come first."""
    shown = [one for one in samples if not samples or samples[-1].wall_ms - one.wall_ms <= span_ms]
    charts = []
    for chart in CHARTS:
        values = [value for one in shown if (value := chart.read(one)) is not None]
        curve = curve_of([(one.wall_ms, chart.read(one)) for one in shown], size)
        last = chart.read(shown[-1]) if shown else None
        title = page.gettext(chart.title)
        charts.append(DrawnChart(chart, curve, title, last, min(values, default=None), max(values, default=None)))
    return sorted(charts, key=lambda one: not one.is_bad)


@page_route("/console/charts")
def charts(page: ConsolePage) -> Reply:
    """Show the numbers of this member over the last day, or its last hours."""
    hours = page.number("hours", 24, 24)
    samples = page.services.instruments.day.samples()
    return page.show(
        "charts.html",
        page.gettext("Charts"),
        nav="charts",
        live=page.url("/console/events"),
        charts=drawn_charts(page, samples, hours * HOUR_MS),
        sampled_ms=samples[-1].wall_ms if samples else None,
        hours=hours,
        counts_requests=page.services.instruments.counts_requests,
    )


@page_route("/console/metric", access=admin(READ).in_console())
def metric(page: ConsolePage) -> Reply:
    """Show one metric of this member as it is now."""
    name = page.text("name")
    found = next((one for one in page.services.metrics.families() if one.name == name), None)
    if found is None:
        raise ApiRefusal(404, page.gettext("This member has no metric of that name, or no number of it yet."))
    samples = [one for one in found.samples if not one.name.endswith("_created")]
    return page.show(
        "metric.html",
        name,
        nav="charts",
        metric=found,
        samples=samples[:SAMPLES_SHOWN_MAX],
        count=len(samples),
        shown_max=SAMPLES_SHOWN_MAX,
    )

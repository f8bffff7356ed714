"""Events: what happened in the cluster, to a service or to an instance, as all members remember it."""

from datetime import UTC, datetime
from typing import Any

from app.auth.access_rules import READ, admin
from app.http.api.answers import filter_error
from app.http.api.call import Answer, Call, Reply, Services, route
from app.http.console.api_caller import ApiRefusal
from app.http.console.chart_pages import HOUR_MS
from app.http.console.page import HEADERS, ConsolePage, page_route
from app.http.v1.events import CSV, EVENTS_PATH, SAVED, followed
from app.languages.catalogues import ENGLISH, N_
from app.metrics.event_memory import ACCESS, CLUSTER, INSTANCES, KINDS, OPERATORS
from app.operator.event_queries import as_csv
from app.operator.event_words import place_of, sentence

PATH = "/console/history"
SIZE, CSV_SIZE = 100, 1_000
SPANS = (
    ("", N_("all that is remembered")),
    ("1", N_("the last hour")),
    ("6", N_("the last 6 hours")),
    ("24", N_("the last day")),
)
"""The hours to choose from, and their names."""
KIND_NAMES = {
    INSTANCES: N_("instances"),
    OPERATORS: N_("changes by operators"),
    CLUSTER: N_("members and ownership"),
    ACCESS: N_("logins and refusals"),
}
ADMIN = admin(READ).in_console()


@page_route(PATH, access=ADMIN)
def event_list(page: ConsolePage) -> Reply:
    """Show the latest events that pass the filters."""
    filters = _filters(page)
    try:
        told = page.api.get(EVENTS_PATH, **_asked(filters), before=page.text("before") or None, limit=SIZE)
        problem = ""
    except ApiRefusal as refusal:
        told, problem = {"events": [], "more": False, "next": "", "members": {}, "notAnswered": []}, refusal.text
    return page.show(
        "events.html",
        page.gettext("Events"),
        nav="events",
        live="" if page.text("before") else page.url("/console/events/history"),
        path=PATH,
        filters=filters,
        kinds=KIND_NAMES,
        spans=SPANS,
        days=_by_day(page, told["events"]),
        told=told,
        before=page.text("before"),
        since=_since(told["members"], [filters["kinds"]] if filters["kinds"] else list(KINDS)),
        problem=problem,
    )


@page_route(f"{PATH}/csv", access=ADMIN)
def event_csv(page: ConsolePage) -> Reply:
    """Save the latest events that pass the filters as CSV."""
    told = page.api.get(EVENTS_PATH, **_asked(_filters(page)), limit=CSV_SIZE)
    return Reply(200, as_csv(told["events"]), CSV, {**HEADERS, **SAVED})


@route("GET", "/console/events/history", access=ADMIN, hot=True)
def event_stream(call: Call, services: Services) -> Answer:
    """Stream a text that changes when any member has new events. Shape: rev."""
    if not services.settings.told.console:
        return filter_error(call.uri, 404, "No message available", services.wall_ms())
    return followed(services)


def _filters(page: ConsolePage) -> dict[str, str]:
    names = ("namespaceId", "serviceName", "ip", "port", "kinds", "text", "hours")
    return {name: page.text(name) for name in names}


def _asked(filters: dict[str, str]) -> dict[str, Any]:
    hours = filters["hours"]
    last_ms = int(hours) * HOUR_MS if hours in {one for one, _ in SPANS} and hours else None
    return {name: value or None for name, value in filters.items() if name != "hours"} | {"lastMs": last_ms}


def _by_day(page: ConsolePage, events: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the events in groups of a day in UTC, each with its time of the day as ``clock``."""
    days: list[tuple[str, list[dict[str, Any]]]] = []
    for one in events:
        at = datetime.fromtimestamp(min(max(one["atMs"], 0), _LATEST_MS) / 1_000, UTC)
        day = f"{at:%Y-%m-%d}"
        if not days or days[-1][0] != day:
            days.append((day, []))
        days[-1][1].append({**one, "clock": f"{at:%H:%M:%S}", "says": _says(page, one)})
    return days


def _says(page: ConsolePage, event: dict[str, Any]) -> str:
    """Return an event in words: in English those of the member that saw it, which may know more kinds."""
    if page.texts.language == ENGLISH:
        return str(event["says"])
    what, key, before, after = (event.get(name) for name in ("what", "key", "before", "after"))
    place, by_node = place_of(str(what), str(key), before, after), event.get("user") == "node"
    return sentence(str(what), str(key), place, before, after, by_node=by_node, texts=page.texts)


_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, the last that can be written."""


def _since(members: dict[str, Any], kinds: list[str]) -> list[dict[str, Any]]:
    """Return for each member from when its events of these kinds are all here, and the gaps."""
    found = []
    for address, memory in members.items():
        since = [one for kind in kinds if type(one := memory["sinceMs"].get(kind)) is int]
        found.append(
            {
                "address": address,
                "since_ms": min(max(since), _LATEST_MS) if since else None,
                "is_off": memory.get("audit") is False,
                "no_instances": INSTANCES in kinds and memory.get("auditInstances") is False,
                "lost": memory.get("lost") or 0,
            }
        )
    return found

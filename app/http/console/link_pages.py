"""The links to other clusters, each as each member has it."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from app.http.api.call import Reply
from app.http.console.page import ConsolePage, page_route
from app.http.console.service_pages import sort_of

LINKS = "/v1/ns/link/list"
STATE = "state"
REASONS_SHOWN = 20
"""The most texts on why links are silent or refuse services, below the table."""
Row = dict[str, Any]
"""A link as one member has it: the fields of docs/links.md, and ``member``."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The links of all members that answered. ``errors``: why members ignore their settings of links, by address."""

    rows: list[Row]
    errors: dict[str, str]
    silent: list[str]
    other_kinds: list[str]
    by_call: dict[str, dict[str, str]]
    """The fields that calls set, by link."""


def link_facts(page: ConsolePage) -> LinkFacts:
    """Ask all members for their links.

    Raises:
        ApiRefusal: the user may not know them, or this member does not serve.
    """
    answer = page.api.get(LINKS)
    rows = [{**one, "member": each["address"]} for each in answer["members"] for one in each["links"]]
    errors = {each["address"]: each["error"] for each in answer["members"] if each["error"]}
    by_call = {name: fields for each in answer["members"] for name, fields in each.get("byCall", {}).items()}
    return LinkFacts(rows, errors, answer["notAnswered"], answer["otherKinds"], dict(sorted(by_call.items())))


def trouble_of(one: Row) -> int:
    """Return the place of a link in the list: 0 for a silent one, then not heard yet, stale, refusing, and well."""
    signs = (one["silent"], not one["cluster"], one["staleInstances"], one["refused"])
    return next((number for number, sign in enumerate(signs) if sign), len(signs))


_KEYS: dict[str, Callable[[Row], Any]] = {
    STATE: lambda one: (trouble_of(one), one["name"]),
    "link": itemgetter("name"),
    "member": itemgetter("member"),
    "follows": lambda one: (one["cluster"], one["server"]),
    "heard": itemgetter("heardAgoMs"),
    **{one: itemgetter(one) for one in ("services", "instances", "staleInstances", "sentInstances")},
    **{one: itemgetter(one) for one in ("changes", "bytes", "refused")},
}
"""The keys that sort the table, by the names of its columns."""


@page_route("/console/links")
def links(page: ConsolePage) -> Reply:
    """List the links to other clusters, each as each member has it; troubles come first."""
    facts = link_facts(page)
    sort = sort_of(page, STATE)
    rows = sorted(facts.rows, key=lambda one: (one["name"], one["member"]))
    rows.sort(key=_KEYS.get(sort["orderBy"], _KEYS[STATE]), reverse=sort["descending"])
    return page.show(
        "links.html",
        page.gettext("Links"),
        nav="links",
        links=rows,
        reasons=[(one, one[name]) for one in rows for name in ("error", "refusal") if one[name]],
        shown_max=REASONS_SHOWN,
        facts=facts,
        sort=sort,
    )

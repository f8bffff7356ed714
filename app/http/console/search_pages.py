"""The search: instances and services of all namespaces, by the text in the field of the header."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, page_route
from app.http.console.service_pages import SEARCH, SIZES, STATES, page_of, pager, pick_of, sort_of


@page_route("/console/find")
def find(page: ConsolePage) -> Reply:
    """Show what the text finds: services by name, and a page of instances by address, metadata and state."""
    number, size = page_of(page)
    filters = {"text": page.text("text"), "state": page.text("state")}
    sort = sort_of(page, "service")
    found: dict[str, Any] = {"count": 0, "complete": True, "instances": [], "serviceCount": 0, "services": []}
    problem = ""
    if any(filters.values()):
        try:
            asked = {name: value or None for name, value in filters.items()}
            found = page.api.get(SEARCH, **asked, **sort, pageNo=number, pageSize=size)
        except ApiRefusal as refusal:
            problem = refusal.text
    for one in found["instances"]:
        one["pick"] = pick_of(one["ip"], one["port"], one["clusterName"])
    return page.show(
        "find.html",
        page.gettext("Search"),
        nav="services",
        find_text=filters["text"],
        filters=filters,
        states=STATES,
        sort=sort,
        found=found,
        pager=pager(found["count"], number, size),
        sizes=SIZES,
        problem=problem,
    )

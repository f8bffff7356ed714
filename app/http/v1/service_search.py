"""A page of services with their counts, filtered and sorted by any of these."""

from collections.abc import Callable
from typing import Any

from app.auth.access_rules import READ, Target, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.fields import Flag, PatternText
from app.http.input.schemas import DESCENDING, PAGE_NO, NamespaceSchema, load_parameters, order_by, page_size
from app.http.input.values import NamePattern, literal_pattern
from app.http.shapes.described import Described
from app.http.shapes.search_shapes import FOUND_SERVICES
from app.http.v1.catalog import counted_service
from app.http.v1.search import PAGE_SIZE, PAGE_SIZE_MAX, healthy_in, unhealthy_in
from app.http.v1.service import is_found
from app.naming.model.keys import GROUP_SPLITTER, group_of, short_name_of
from app.naming.model.model import ServiceView
from app.naming.wire.service_info import shows_all_healthy
from distro.timing.sliced import paced

PATH = "/v1/ns/service/search"
STEP_VIEWS = 2_500
"""Services between two pauses: a millisecond of work, as a view has its instances."""

ORDERS: dict[str, Callable[[ServiceView], Any]] = {
    "name": lambda view: short_name_of(view.full_name),
    "group": lambda view: group_of(view.full_name),
    "clusters": lambda view: len(view.clusters),
    "instances": lambda view: len(view.instances),
    "healthy": healthy_in,
    "unhealthy": unhealthy_in,
    "protection": lambda view: shows_all_healthy(healthy_in(view), len(view.instances), view.protect_threshold),
}
"""The columns that can sort a page. Of equal ones the order is that of group and name."""


class ServiceSearchSchema(NamespaceSchema):
    name = PatternText("name", "The pattern of the wanted names: `.` is any character, `.*` any number.", NamePattern())
    group = PatternText(
        "group", "The pattern of the wanted groups: `.` is any character, `.*` any number.", NamePattern()
    )
    filled = Flag("hasInstances", "Only services with instances.", False)
    unhealthy = Flag("hasUnhealthy", "Only services with unhealthy instances; disabled ones do not count.", False)
    order, descending = order_by(ORDERS, "name"), DESCENDING
    page, size = PAGE_NO, page_size(PAGE_SIZE, PAGE_SIZE_MAX)


@route(
    "GET",
    PATH,
    access=naming(READ, Target.NAMESPACE),
    described=Described(FOUND_SERVICES, takes=(ServiceSearchSchema,)),
)
def search_services(call: Call, services: Services) -> Answer:
    """A page of a namespace's services that pass the filters, with their counts. Nacos has no such call.

    Shape: count of all pages, serviceList.
    """
    values = load_parameters(ServiceSearchSchema, call.parameters)
    views = _views(services, values)
    if values["filled"]:
        views = [view for view in views if view.instances]
    if values["unhealthy"]:
        views = [view for view in paced(views, STEP_VIEWS) if unhealthy_in(view)]
    key = ORDERS[values["order"]]
    keys = {view.full_name: key(view) for view in paced(views, STEP_VIEWS)}
    views.sort(key=lambda view: keys[view.full_name], reverse=values["descending"])
    first = (values["page"] - 1) * values["size"]
    page = views[first : first + values["size"]]
    listed = [{**counted_service(view), "unhealthyInstanceCount": unhealthy_in(view)} for view in page]
    return json_reply({"serviceList": listed, "count": len(views)})


def _views(services: Services, values: dict[str, Any]) -> list[ServiceView]:
    namespace = values["namespace"]
    names = services.naming.list_services(namespace, None)
    if values["name"].pieces or values["group"].pieces:
        pattern = values["group"] + literal_pattern(GROUP_SPLITTER) + values["name"]
        names = [name for name in names if is_found(name, pattern)]
    found = (services.naming.service_view(namespace, name) for name in names)
    return [view for view in found if view is not None]

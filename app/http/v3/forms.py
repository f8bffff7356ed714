"""The parameters and parts of answers that several endpoints of v3 share: pages, instances, names of paths."""

from collections.abc import Callable, Sequence
from typing import Any

from marshmallow import ValidationError, validate

from app.http.api.call import Answer, Call, Services
from app.http.api.pages import PAGE_V2_MAX
from app.http.input.fields import Number, Whole, invalid
from app.http.input.schemas import PAGE_NO_TEXT, PAGE_SIZE_TEXT, CallSchema
from app.http.v2.envelope import ResultCode, ResultError, called_service, result
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import ServiceView
from app.naming.model.nacos_errors import NacosError

CLIENT, ADMIN, CONSOLE = "/v3/client/ns", "/v3/admin/ns", "/v3/console/ns"
ADMIN_CORE, CONSOLE_CORE = "/v3/admin/core", "/v3/console/core"
PAGE_SIZE = 100
_POSITIVE, _BOUNDED = "it should be a positive integer", f"it should be an integer from 1 to {PAGE_V2_MAX}"


def _check_positive(name: str) -> Callable[[int], None]:
    """Return a check of a number, with the text of Nacos 3.0.3 PageForm."""

    def check(value: int) -> None:
        if value < 1:
            raise ValidationError(Whole(f"Required parameter '{name}' should be positive integer, current is {value}"))

    return check


class PageSchema(CallSchema):
    """The page of a list; Nacos calls it ``pageNo`` in calls, and ``pageNumber`` in answers."""

    page = Number(
        "pageNo",
        PAGE_NO_TEXT,
        1,
        validate=_check_positive("pageNo"),
        error_messages=invalid(_POSITIVE),
    )
    size = Number(
        "pageSize",
        PAGE_SIZE_TEXT,
        PAGE_SIZE,
        validate=validate.And(_check_positive("pageSize"), validate.Range(max=PAGE_V2_MAX, error=_BOUNDED)),
        error_messages=invalid(_BOUNDED),
    )


def part_of(found: Sequence[Any], asked: dict[str, Any]) -> Sequence[Any]:
    """Return the entries of the page that a call asks for. ``asked``: the values of ``PageSchema``."""
    first = (asked["page"] - 1) * asked["size"]
    return found[first : first + asked["size"]]


def page_result(total: int, asked: dict[str, Any], items: Sequence[Any]) -> Answer:
    """Return the answer with one page. Shape of data: totalCount, pageNumber, pagesAvailable, pageItems.

    Source: Nacos 3.0.3 PageUtil, whose number of pages is one too high where the last page is full.
    """
    return result(
        {
            "totalCount": total,
            "pageNumber": asked["page"],
            "pagesAvailable": -(-total // asked["size"]),
            "pageItems": items,
        }
    )


def found_service(call: Call, services: Services) -> ServiceView | None:
    """Return the service that a call names; None if there is none.

    Raises:
        NacosError: as ``called_service``.
    """
    return services.naming.service_view(*called_service(call, services))


def names_of(view: ServiceView) -> dict[str, str]:
    """Return the names of a service, as all objects of v3 have them."""
    return {
        "namespaceId": view.namespace,
        "groupName": group_of(view.full_name),
        "serviceName": short_name_of(view.full_name),
    }


def server_error(status: int, error: NacosError | str) -> ResultError:
    """Return a refusal that Nacos gives without a separate code: ``server error``, with the HTTP status."""
    return ResultError(status, ResultCode.SERVER_ERROR, error if isinstance(error, str) else error.text)

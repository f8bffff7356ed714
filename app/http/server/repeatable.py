"""Which requests mean the same whenever they come, so that they need not be parsed again."""

from collections.abc import Mapping

from app.http.api.browsers import is_of_browser
from app.http.api.call import Route
from app.http.api.parse_memo import PASSWORD
from app.http.input.forms import MULTIPART
from app.http.server.pool_choice import LOOP_FORM_BYTES_MAX
from app.http.server.request import Request, RequestFacts
from app.metrics.request_stats import RouteStats


def is_slow(request: Request) -> bool:
    """Return whether the body of a call takes longer to read than the event loop has for it."""
    content_type = request.block.get("content-type") or ""
    return len(request.body) > LOOP_FORM_BYTES_MAX or content_type[: len(MULTIPART)].lower() == MULTIPART


def repeatable(request: Request, hot: Mapping[tuple[bytes, bytes], tuple[Route, RouteStats]]) -> Request | None:
    """A request with what is known of it, for when it comes again; None where more than its bytes decides.

    Those are calls of members and of browsers, and those whose headers say something about the connection. One with
    a password is not kept in memory; the thread may wait for the turn to compare it.
    """
    block = request.block
    if block.connection or block.chunked or block.expects or block.claims_member or not request.keep_alive:
        return None
    if block.deadline is not None or PASSWORD in request.target or PASSWORD in request.body:
        return None
    path, _, query = request.target.partition(b"?")
    route = hot.get((request.method, path))
    if route is None or route[0].for_members or is_of_browser(block.get) or (request.body and is_slow(request)):
        return None
    return request._replace(facts=RequestFacts(route, query))

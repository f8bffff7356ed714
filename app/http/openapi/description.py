"""The description of the API itself, as OpenAPI and as pages for people."""

from app.auth.access_rules import PUBLIC
from app.http.api.call import JSON, Answer, Call, Reply, Services, route
from app.http.openapi.api_page import PAGES, SOURCE, STYLE, document_of, index_page, tag_page
from app.http.openapi.document import document_json
from app.http.shapes.described import Content, Described
from app.http.shapes.json_shapes import facts, text
from app.naming.model.nacos_errors import NotFound

HTML_TYPE, CSS_TYPE = "text/html", "text/css"
HTML, CSS = f"{HTML_TYPE};charset=UTF-8", f"{CSS_TYPE};charset=UTF-8"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_PAGE = Content(HTML_TYPE, text("<!doctype html>"))


@route(
    "GET",
    SOURCE,
    access=PUBLIC,
    described=Described(Content("application/json", facts("OpenAPI 3.1.", openapi="3.1.0"))),
)
def openapi(call: Call, services: Services) -> Answer:
    """This description of the API, as OpenAPI 3.1."""
    return Reply(200, _document(services), JSON, {"Cache-Control": "no-cache"})


def _document(services: Services) -> bytes:
    settings = services.settings
    return document_json(
        settings.context_path, users=services.access.enabled, identity=services.callers.identity is not None
    )


@route("GET", PAGES, access=PUBLIC, described=Described(_PAGE))
def index(call: Call, services: Services) -> Answer:
    """All calls, by part of the API."""
    document = document_of(_document(services))
    return _html(index_page(document, services.settings.context_path, console=services.settings.told.console))


@route("GET", f"{PAGES}/<tag>", access=PUBLIC, described=Described(_PAGE, refusals=(404,)))
def one_tag(call: Call, services: Services) -> Answer:
    """The calls of one part of the API in full."""
    document = document_of(_document(services))
    settings = services.settings
    page = tag_page(document, settings.context_path, call.path_values["tag"], console=settings.told.console)
    if page is None:
        raise NotFound("the API has no such part")
    return _html(page)


@route("GET", f"{PAGES}/style.css", access=PUBLIC, described=Described(Content(CSS_TYPE, text("body {}"))))
def style(call: Call, services: Services) -> Answer:
    """The style sheet of these pages."""
    return Reply(200, STYLE, CSS, HEADERS)


def _html(page: str) -> Reply:
    return Reply(200, page.encode(), HTML, HEADERS)

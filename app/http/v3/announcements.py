"""Texts for the console of Nacos 3: announcements and a guide, which this node does not have."""

from app.auth.access_rules import PUBLIC
from app.http.api.call import Answer, Call, Services
from app.http.input.fields import Trimmed
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.v3_shapes import NO_TEXT
from app.http.v2.envelope import result, result_route
from app.naming.model.nacos_errors import InvalidParam

ANNOUNCEMENT, GUIDE = "/v3/console/server/announcement", "/v3/console/server/guide"
LANGUAGES = ("zh-CN", "en-US")


class LanguageSchema(CallSchema):
    language = Trimmed("language", "The language of the text.", LANGUAGES[0])


@result_route(
    "GET", ANNOUNCEMENT, access=PUBLIC, at_root=(ANNOUNCEMENT,), described=Described(NO_TEXT, takes=(LanguageSchema,))
)
def announcement(call: Call, services: Services) -> Answer:
    """The text that a console shows on top: none."""
    language = load_parameters(LanguageSchema, call.parameters)["language"]
    if language not in LANGUAGES:
        raise InvalidParam(f"Unsupported language: {language[:100]}")
    return result("")


@result_route("GET", GUIDE, access=PUBLIC, at_root=(GUIDE,), described=Described(NO_TEXT))
def guide(call: Call, services: Services) -> Answer:
    """The text that a console shows in place of its pages: none."""
    return result("")

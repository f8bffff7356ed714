"""The description has each route of the application, and nothing else; it is OpenAPI 3.1."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest
from flask import Blueprint
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.auth.access_rules import PUBLIC
from app.http.api.call import Route
from app.http.factory import create_app
from app.http.openapi.description import index
from app.http.openapi.document import make_document
from app.http.openapi.route_operation import template_of
from app.http.shapes.described import Described, json_of
from app.http.shapes.json_shapes import record, text
from scripts.docs.openapi_report import HTML_BLUEPRINTS, difference
from tests.support.auth import AUTH_ON
from tests.support.fake_node import FakeNode, make_settings


def described(**settings: str) -> dict[str, Any]:
    node = FakeNode(settings=make_settings(**settings))
    app = create_app(node)  # type: ignore[arg-type]
    found: dict[str, Any] = app.test_client().get(f"{node.settings.context_path}/openapi.json").get_json()
    return found


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return described()


def test_it_has_the_routes_of_the_application_and_no_others(document: dict[str, Any]) -> None:
    assert difference(create_app(FakeNode()), document) == []  # type: ignore[arg-type]


def test_a_route_that_is_not_described_is_a_difference(document: dict[str, Any]) -> None:
    paths = {path: one for path, one in document["paths"].items() if path != "/nacos/v1/ns/instance/list"}
    complaints = difference(create_app(FakeNode()), {**document, "paths": {**paths, "/nacos/none": {"get": {}}}})  # type: ignore[arg-type]
    assert complaints == ["not described: GET /nacos/v1/ns/instance/list", "no such route: GET /nacos/none"]


def test_pages_of_people_are_left_out_by_blueprint(document: dict[str, Any]) -> None:
    app = create_app(FakeNode())  # type: ignore[arg-type]
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/nacos/page", view_func=lambda: "")
    app.register_blueprint(pages, url_prefix="")
    assert difference(app, document) == ["not described: GET /nacos/page"]
    assert difference(app, document, {*HTML_BLUEPRINTS, "pages"}) == []
    assert all(len(reason) > len("pages") for reason in HTML_BLUEPRINTS.values())


def test_it_is_openapi(document: dict[str, Any]) -> None:
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_it_is_openapi_with_users_and_identity() -> None:
    document = described(**AUTH_ON)
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    register = document["paths"]["/nacos/v1/ns/instance"]["post"]
    assert {name for one in register["security"] for name in one} == {"accessToken", "accessTokenHeader", "bearer"}
    assert document["paths"]["/nacos/v1/console/health/liveness"]["get"]["security"] == []
    assert document["components"]["securitySchemes"].keys() >= {"accessToken", "bearer"}


def test_an_empty_context_path_has_each_path_once() -> None:
    document = described(server_servlet_contextPath="/")
    assert "/v1/ns/instance" in document["paths"]
    assert "/metrics" in document["paths"]


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def test_each_operation_has_a_name_of_its_own_and_says_what_it_does(document: dict[str, Any]) -> None:
    found = list(operations(document))
    assert len({one["operationId"] for one in found}) == len(found)
    assert all(one["summary"] and one["description"] for one in found)
    tags = {one["name"] for one in document["tags"]}
    assert {tag for one in found for tag in one["tags"]} == tags
    assert all(one["description"] for one in document["tags"])


def test_each_parameter_says_what_it_means_and_each_default_fits(document: dict[str, Any]) -> None:
    for operation in operations(document):
        for one in operation["parameters"]:
            assert one["description"]
            shape = one["schema"]
            for value in [*([shape["default"]] if "default" in shape else []), *shape.get("examples", [])]:
                assert Draft202012Validator(shape).is_valid(value), (operation["operationId"], one["name"], value)


def test_each_example_of_an_answer_fits_its_schema(document: dict[str, Any]) -> None:
    shared = document["components"]["responses"].values()
    answers = [one for operation in operations(document) for one in operation["responses"].values()]
    contents = [one for answer in [*answers, *shared] for one in answer.get("content", {}).values()]
    assert len(contents) > 100
    for one in contents:
        check = Draft202012Validator({**one["schema"], "components": document["components"]})
        assert [error.message for error in check.iter_errors(one["example"])] == []


def test_two_shapes_of_one_title_are_refused() -> None:
    rows = [
        Route("GET", f"/v1/{name}", index, PUBLIC, described=Described(json_of(record("Same", {name: text("a")}))))
        for name in ("one", "other")
    ]
    with pytest.raises(ValueError, match="Same"):
        make_document(rows, "/nacos", users=False, identity=False)


def test_the_variable_parts_of_a_path() -> None:
    assert template_of("/a/<one>/b/<two>") == "/a/{one}/b/{two}"


def test_a_parameter_has_type_default_and_limits(document: dict[str, Any]) -> None:
    parameters: Mapping[str, Any] = {
        one["name"]: one for one in document["paths"]["/nacos/v1/ns/instance"]["post"]["parameters"]
    }
    assert parameters["serviceName"]["required"]
    assert parameters["port"]["schema"] | {"examples": []} == {
        "type": "integer", "format": "int32", "minimum": 0, "maximum": 65_535, "examples": []
    }  # fmt: skip
    assert parameters["namespaceId"]["schema"]["default"] == "public"
    assert parameters["dom"]["deprecated"]
    form = document["paths"]["/nacos/v1/ns/instance"]["post"]["requestBody"]["content"]
    assert form["application/x-www-form-urlencoded"]["schema"]["properties"].keys() == parameters.keys()


def test_the_description_is_made_once(client: FlaskClient) -> None:
    first, second = client.get("/nacos/openapi.json"), client.get("/nacos/openapi.json")
    assert first.data == second.data
    assert orjson.loads(first.data)["openapi"].startswith("3.1")

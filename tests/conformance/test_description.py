"""The recorded answers of a real Nacos 1.4.1 fit the description of the API: statuses, media types and schemas."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.http.api.call import ROUTES
from app.http.blueprints import MODULES
from app.http.openapi.document import make_document
from app.http.shapes.described import JSON_TYPE
from tests.conformance.compare import ANY_ORDER
from tests.conformance.replay import Step, load
from tests.conformance.test_conformance import reasons
from tests.support.described import Description

assert MODULES, "their import fills the table of routes"
CONTEXT = "/nacos"
ANSWERS_MIN = 1_000
"""So many steps are held against the description: fewer would mean that their paths are not found any more."""
SAMPLES: dict[str, Any] = {"int": 7, "number": 0.5, "ms": int(time.time() * 1000), "port": 8848, "any": {}}
OTHER_SAMPLE = "sample"
_TOKEN = re.compile(r"<<(\w+)>>")


def sampled(value: Any) -> Any:
    """A recorded body with values in place of what stands for one."""
    match value:
        case dict() if ANY_ORDER in value:
            return sampled(value[ANY_ORDER])
        case dict():
            return {name: sampled(one) for name, one in value.items()}
        case list():
            return [sampled(one) for one in value]
        case str() if found := _TOKEN.fullmatch(value):
            return SAMPLES.get(found[1], OTHER_SAMPLE)
    return value


def answers() -> Iterator[tuple[str, Step]]:
    """The recorded answers of our paths, without those that real Nacos alone gives."""
    differs = reasons("differs")
    for scenario in load():
        name = f"{scenario.area}/{scenario.name}"
        if name in differs:
            continue
        for step in scenario.steps:
            if "accept" not in step and step["expect"].get("content_type"):
                yield name, step


@pytest.fixture(scope="module")
def description() -> Description:
    return Description(make_document(ROUTES, CONTEXT, users=False, identity=False), strict=True)


def test_recorded_answers_fit_the_description(description: Description) -> None:
    complaints, count = [], 0
    for name, step in answers():
        operation = description.operation(step["method"], CONTEXT + step["path"])
        if operation is None:
            continue
        expect = step["expect"]
        count += 1
        media_type, body = expect["content_type"], sampled(expect["body"])
        if media_type != JSON_TYPE and not isinstance(body, str):
            body = json.dumps(body)
        found = description.complaints(operation, expect["status"], media_type, body)
        complaints += [f"{name}: {step['method']} {step['path']}: {one}" for one in found]
    assert not complaints, "\n".join(complaints)
    assert count >= ANSWERS_MIN


def test_the_strict_description_refuses_a_field_that_it_does_not_know(description: Description) -> None:
    operation = description.operation("PUT", f"{CONTEXT}/v1/ns/instance/beat")
    assert operation is not None
    beat = {"clientBeatInterval": 5_000, "code": 10_200, "lightBeatEnabled": True}
    assert description.complaints(operation, 200, "application/json", beat) == []
    assert description.complaints(operation, 200, "application/json", {**beat, "more": 1}) != []
    assert description.complaints(operation, 200, "application/json", {"code": 10_200}) != []
    assert description.complaints(operation, 299, "application/json", beat) == ["status 299 is not described"]
    assert description.complaints(operation, 200, "text/html", beat) != []

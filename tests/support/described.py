"""Holds an answer against the description of the API."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

Document = Mapping[str, Any]


class Description:
    """The description of one node, for tests. ``strict``: a field that is not described is a complaint."""

    def __init__(self, document: Document, *, strict: bool = False) -> None:
        self.document = document
        self._strict = strict

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The operation of a path, variable parts left out; None where there is none."""
        found: Mapping[str, Any] | None = self.document["paths"].get(path, {}).get(method.lower())
        return found

    def complaints(self, operation: Mapping[str, Any], status: int, media_type: str | None, body: Any) -> list[str]:
        """What does not fit of an answer; ``body``: JSON, or a text."""
        answer = operation["responses"].get(str(status))
        if answer is None:
            return [f"status {status} is not described"]
        if "$ref" in answer:
            answer = self.document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        content = answer["content"].get(media_type)
        if content is None:
            return [f"{status}: the media type {media_type} is not described"]
        shape = {**content["schema"], "components": self._components}
        return [f"{status}: {one.json_path}: {one.message}" for one in Draft202012Validator(shape).iter_errors(body)]

    @cached_property
    def _components(self) -> Any:
        components = deepcopy(self.document["components"])
        if self._strict:
            for shape in components["schemas"].values():
                if "properties" in shape:
                    shape.setdefault("additionalProperties", False)
        return components

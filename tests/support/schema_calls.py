"""Calls that schemathesis makes up from the description of a node, sent to that node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

DELIBERATE = {501, 503}
"""Statuses that a call may be refused with where its description says so."""
CALL_S = 60.0
"""A bound for what hangs."""
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


class SchemaCalls:
    """Makes calls up, the same ones in each run, and keeps what did not fit the description."""

    def __init__(self, address: str, document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._base = f"http://{address}"
        self._document = document
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(headers or {})
        self.complaints: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.by_operation: dict[str, Counter[int]] = {}

    def close(self) -> None:
        self._session.close()

    def run(self, examples: int, *, leave_out: frozenset[str]) -> None:
        """Call each operation with values that fit its schemas, and with values that do not: ``examples`` of each."""
        for operation in self._operations():
            if operation.label not in leave_out:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    self._call(operation, mode, examples)

    def _operations(self) -> Iterator[Any]:
        for found in schemathesis.openapi.from_dict(dict(self._document)).get_all_operations():
            yield found.ok()

    def _call(self, operation: Any, mode: GenerationMode, examples: int) -> None:
        @settings(
            max_examples=examples,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            answer = case.call(base_url=self._base, session=self._session, timeout=CALL_S)
            self.statuses[answer.status_code] += 1
            self.by_operation.setdefault(operation.label, Counter())[answer.status_code] += 1
            described = self._document["paths"][operation.path][operation.method]["responses"]
            meant = answer.status_code in DELIBERATE and str(answer.status_code) in described
            try:
                case.validate_response(answer, checks=CHECKS if meant else [not_a_server_error, *CHECKS])
            except (Failure, FailureGroup) as failure:
                whole = [str(one) for one in getattr(failure, "exceptions", [failure])]
                self.complaints.append(
                    f"{case.as_curl_command()}\n  {answer.status_code} {answer.content[:200]!r} {whole}"
                )

        try:
            send()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, (
                operation.label
            )  # a call that takes nothing can be given nothing wrong

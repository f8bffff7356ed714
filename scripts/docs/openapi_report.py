"""Compares the API description with the routes of the application.

``python -m scripts.docs.openapi_report`` prints the figures of the description and its differences from the routes, and
fails if there are any; ``--json`` prints the description.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson
from flask import Flask

from app.http.api.call import ROUTES
from app.http.blueprints import MODULES, make_blueprints
from app.http.openapi.document import make_document
from app.http.openapi.route_operation import template_of

CONTEXT_PATH = "/nacos"
HTML_BLUEPRINTS: Mapping[str, str] = {
    module.__name__.removeprefix("app.http.").replace(".", "_"): "pages of the console"
    for module in MODULES
    if module.__name__.startswith("app.http.console.")
}
"""Names of blueprints without a description, with the reason: pages for users are not part of the API."""
ADDED_BY_FLASK = {"HEAD", "OPTIONS"}


def difference(
    app: Flask, document: Mapping[str, Any], left_out: Collection[str] = frozenset(HTML_BLUEPRINTS)
) -> list[str]:
    """Return a line for each undescribed route and each described non-route; ``left_out`` names blueprints."""
    routes = set(_routes(app, left_out))
    told = {(method.upper(), path) for path, one in document["paths"].items() for method in one}
    complaints = [f"not described: {method} {path}" for method, path in sorted(routes - told)]
    return complaints + [f"no such route: {method} {path}" for method, path in sorted(told - routes)]


def _routes(app: Flask, left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        blueprint = rule.endpoint.partition(".")[0]
        if blueprint not in left_out:
            for method in (rule.methods or set()) - ADDED_BY_FLASK:
                yield method, template_of(rule.rule)


def bare_app() -> Flask:
    """An application that has the routes, but no services behind them."""
    app = Flask(__name__, static_folder=None)
    for one in make_blueprints(CONTEXT_PATH, lambda row: lambda **_: app.response_class()):
        app.register_blueprint(one)
    return app


def report(document: Mapping[str, Any], complaints: list[str]) -> str:
    """Print the figures of a description and its differences from the routes."""
    operations = [one for path in document["paths"].values() for one in path.values()]
    by_tag = Counter(one["tags"][0] for one in operations)
    lines = [
        f"{len(operations)} operations at {len(document['paths'])} paths,",
        f"{sum(len(one['parameters']) for one in operations)} parameters,",
        f"{sum(len(one['responses']) for one in operations)} answers,",
        f"{len(document['components']['schemas'])} schemas, {len(orjson.dumps(document))} bytes",
        *(f"  {count:>4}  {tag}" for tag, count in sorted(by_tag.items())),
        *(f"left out: blueprint {name}: {reason}" for name, reason in HTML_BLUEPRINTS.items()),
        *(complaints or ["the routes and the description are the same"]),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the description")
    wanted = parser.parse_args()
    document = make_document(ROUTES, CONTEXT_PATH, users=True, identity=True)
    if wanted.json:
        sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
        return 0
    complaints = difference(bare_app(), document)
    print(report(document, complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

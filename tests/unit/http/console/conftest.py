"""A browser's session with the console of a node, as far as it can be had without a browser."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.auth import ADMIN, ADMIN_PASSWORD
from tests.support.fake_node import FakeNode

FORM = re.compile(r'name="form" value="([0-9a-f]{64})"')


@dataclass
class Browser:
    """Asks for pages, keeps the cookie, and sends forms as pages have them."""

    client: FlaskClient

    def get(self, path: str, **query: str) -> Any:
        return self.client.get(f"/nacos{path}", query_string=query or None)

    def token(self, path: str = "/console/namespaces") -> str:
        """The token of the forms of a page."""
        found = FORM.search(self.get(path).text)
        assert found is not None, "the page has no form"
        return found[1]

    def send(self, path: str, page: str = "/console/namespaces", **fields: str) -> Any:
        """Send a form to ``path``, that stands on ``page``."""
        return self.client.post(f"/nacos{path}", data={"form": self.token(page), **fields})

    def log_in(self, name: str = ADMIN, password: str = ADMIN_PASSWORD, **fields: str) -> Any:
        return self.send("/console/login", "/console/login", username=name, password=password, **fields)


@pytest.fixture
def browser(client: FlaskClient, node: FakeNode) -> Browser:
    return Browser(client)

"""An HTTP frontend with its test client."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from tests.support.fake_node import FakeNode
from tests.support.shared_apps import app_for


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def client(node: FakeNode) -> Iterator[FlaskClient]:
    with app_for(node) as app:
        yield app.test_client()

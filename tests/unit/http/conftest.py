"""A door with its test client."""

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from tests.support.door import Door


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def client(door: Door) -> FlaskClient:
    return create_app(door).test_client()

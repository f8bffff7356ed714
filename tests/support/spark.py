"""One Spark session for all tests of the check, as to start one takes seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A session of this process, for few rows; without PySpark or Java the test is skipped."""
    pytest.importorskip("pyspark")
    from app.tools.audit.check.session import NoSpark, open_session

    try:
        session = open_session("local[2]", "tests", shuffle_partitions=4, driver_memory="1g", rows=0)
    except NoSpark as error:
        pytest.skip(str(error))
    yield session
    session.stop()

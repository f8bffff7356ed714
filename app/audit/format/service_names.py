"""Names of services in Spark's expressions."""

from pyspark.sql import Column
from pyspark.sql import functions as F

GROUP_SPLITTER = "@@"


def short_name(full_name: Column) -> Column:
    """The name without its group, and without a group that was put before it twice."""
    return F.substring_index(full_name, GROUP_SPLITTER, -1)

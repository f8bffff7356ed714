"""A registry for the tests of other projects: ``with Registry() as registry: ...``. See docs/testing.md."""

from app.tools.embedded.clock_ahead import ClockAhead as Clock
from app.tools.embedded.embedded_cluster import EmbeddedCluster as Cluster
from app.tools.embedded.embedded_node import EmbeddedNode as Member
from app.tools.embedded.embedded_registry import EmbeddedRegistry as Registry
from app.tools.embedded.errors_of_use import CallRefused, UseError, WaitOver
from app.tools.embedded.naming_calls import SeenInstance as Instance

__all__ = ["CallRefused", "Clock", "Cluster", "Instance", "Member", "Registry", "UseError", "WaitOver"]

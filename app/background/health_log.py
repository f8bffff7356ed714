"""Log lines for changes by the beat check: one for each instance, and one for all further ones of a service."""

import logging

from app.naming.model.events import HealthChanged, HealthChecked

LOG = logging.getLogger(__name__)
LINES_MAX = 9
"""The most lines about instances of one service in one round."""


def log_health(event: HealthChanged) -> None:
    """Log one instance, unless the round has logged ``LINES_MAX`` of its service."""
    if event.number <= LINES_MAX:
        LOG.info("instance %s of %s is %s: no beat came in time", event.instance, event.key, event.what)


def log_health_check(event: HealthChecked) -> None:
    """Log the number of the instances that ``log_health`` left out."""
    if event.changes > LINES_MAX:
        LOG.info("%d more instances of %s are unhealthy or removed", event.changes - LINES_MAX, event.key)

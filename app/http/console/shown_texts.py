"""The texts of pages for numbers, times and completed changes."""

from datetime import UTC, datetime

DONE = {
    "instance-saved": "The instance was changed.",
    "instances-changed": "The selected instances were changed.",
    "instance-removed": "The instance was deregistered.",
    "service-saved": "The service was saved.",
    "service-removed": "The service was removed.",
    "service-healed": "The members exchange the service now. Look again in a moment.",
    "cluster-saved": "The health checks of the cluster were saved.",
    "switch-saved": "The switch was set, on all members.",
    "namespace-saved": "The namespace was saved.",
    "namespace-removed": "The namespace was removed; its services stay.",
    "user-saved": "The user was saved.",
    "user-removed": "The user was removed, and its tokens ended.",
    "role-saved": "The role was assigned.",
    "role-removed": "The role was removed.",
    "permission-saved": "The permission was granted.",
    "permission-removed": "The permission was removed.",
    "logged-out": "You are logged out.",
    "admin-made": "The administrator was created. Log in as this user.",
    "logged-out-here": "You are logged out at this member only. The other members accept the session until it expires.",
}
"""The first sentence of the page that follows a change."""
_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_FEW = 10
NONE = "\N{EN DASH}"


def age_text(age_ms: float | None) -> str:
    """Return a time span in one unit, such as ``12 s``; below ten units with one digit after the point."""
    if age_ms is None:
        return NONE
    for unit_ms, unit in _STEPS:
        if age_ms >= unit_ms:
            count = age_ms / unit_ms
            return f"{count:.1f} {unit}" if count < _FEW and unit == "s" else f"{count:.0f} {unit}"
    return f"{max(age_ms, 0):.0f} ms"


def number_text(value: float | None) -> str:
    """Return a number with separated thousands; a dash for none."""
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")


def time_text(wall_ms: int) -> str:
    """Return a time of the wall clock, to the second, in UTC."""
    return f"{datetime.fromtimestamp(wall_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"

"""The texts of pages for numbers, times and completed changes."""

from datetime import UTC, datetime

from app.languages.catalogues import N_, Texts

DONE = {
    "instance-saved": N_("The instance was changed."),
    "instances-changed": N_("The selected instances were changed."),
    "instance-removed": N_("The instance was deregistered."),
    "service-saved": N_("The service was saved."),
    "service-removed": N_("The service was removed."),
    "service-healed": N_("The members exchange the service now. Compare again in a moment."),
    "cluster-saved": N_("The health checks of the cluster were saved."),
    "switch-saved": N_("The switch was set, on all members."),
    "namespace-saved": N_("The namespace was saved."),
    "namespace-removed": N_("The namespace was removed; its services stay."),
    "user-saved": N_("The user was saved."),
    "user-removed": N_("The user was removed, and its tokens ended."),
    "role-saved": N_("The role was assigned."),
    "role-removed": N_("The role was removed."),
    "permission-saved": N_("The permission was granted."),
    "permission-removed": N_("The permission was removed."),
    "logged-out": N_("You are logged out."),
    "admin-made": N_("The administrator was created. Log in as this user."),
    "logged-out-here": N_(
        "You are logged out at this member only. The other members accept the session until it expires."
    ),
}
"""The first sentence of the page that follows a change."""
UNITS = N_("d h min s ms")
"""The units of ages, the largest first."""
ENGLISH_UNITS = tuple(UNITS.split())
_STEPS_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_FEW = 10
NONE = "\N{EN DASH}"


def units_of(texts: Texts) -> tuple[str, ...]:
    """Return the units of ages in a language, the largest first."""
    return tuple(texts.gettext(UNITS).split())


def age_text(age_ms: float | None, units: tuple[str, ...] = ENGLISH_UNITS) -> str:
    """Return a time span in one unit, such as ``12 s``; below ten units with one digit after the point."""
    if age_ms is None:
        return NONE
    for unit_ms, unit in zip(_STEPS_MS, units, strict=False):
        if age_ms >= unit_ms:
            count = age_ms / unit_ms
            return f"{count:.1f} {unit}" if count < _FEW and unit_ms == _STEPS_MS[-1] else f"{count:.0f} {unit}"
    return f"{max(age_ms, 0):.0f} {units[-1]}"


def number_text(value: float | None) -> str:
    """Return a number with separated thousands; a dash for none."""
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")


def time_text(wall_ms: int) -> str:
    """Return a time of the wall clock, to the second, in UTC."""
    return f"{datetime.fromtimestamp(wall_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"

"""The settings of the rules for service names in calls of clients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.config.settings_keys import FLAG, Key, one_of

LINE_1, LINE_2 = "1.4", "2.x"
V1_NAMES = Key(
    ("rollcall.names.v1",),
    one_of(LINE_1, LINE_2),
    LINE_1,
    "The rule for names of services that HTTP v1 creates: 1.4 allows letters, digits and -._:@ only; 2.x is the rule "
    "of HTTP v2, v3 and gRPC, for all calls of v1.",
)
CHECK_2 = Key(
    ("nacos.core.param.check.enabled",),
    FLAG,
    "true",
    "Check the names of services over gRPC, HTTP v2 and v3 as Nacos since 2.3 does: no Chinese and no blanks after the "
    "first character. With false every printable name is allowed, as in Nacos 2.0 to 2.2.",
)
NAME_KEYS: tuple[Key[Any], ...] = (V1_NAMES, CHECK_2)


@dataclass(frozen=True, slots=True)
class NameSettings:
    """The rules for service names in calls of clients."""

    v1_as_2: bool = False
    """True if HTTP v1 follows the rule of the 2.x line."""
    checks_2: bool = True
    """True if the rule of the 2.x line is that of Nacos 2.3; otherwise it allows every name that can be stored."""


def name_settings(get: Callable[[Key[Any]], Any]) -> NameSettings:
    """Return the settings, each read by ``get``."""
    return NameSettings(v1_as_2=get(V1_NAMES) == LINE_2, checks_2=get(CHECK_2))

"""Rules for service names: one for the names that members store, and one for the calls of each line of Nacos.

A full name is ``group@@service``. Nacos 1.4 checks its characters when a call creates a service. Nacos 2.3 and later
check group and service in each call; 2.0 to 2.2 check nothing. A member stores every name that any of them allows, so
that all members hold the same services, independent of the call that created them.
"""

import re
from enum import Enum

from app.naming.model.keys import GROUP_SPLITTER, check_service_chars, check_service_format
from app.naming.model.nacos_errors import InvalidParam

SERVICE_CHARS_MAX, GROUP_CHARS_MAX = 512, 128
"""Source of both: Nacos 2.3.1 ParamCheckRule."""
SHOWN_CHARS_MAX = 512

is_nacos_1_name = re.compile(r"[0-9a-zA-Z@.:_-]+").fullmatch
"""Matches the full names that Nacos 1.4 can hold. Source: Nacos 1.4.1 Service.validate."""
_NACOS_2_GROUP = re.compile(r"[a-zA-Z0-9_:.-]*")
_NACOS_2_SERVICE = re.compile(
    r"(?!@)[^\n\r\x85\u2028\u2029](?:(?!@@)[^\u4e00-\u9fa5 \t\n\x0b\f\r])*"
)  # The first character may be Chinese or a blank, as in Nacos.
"""Source of both: Nacos 2.3.1 ParamCheckRule, the same up to 3.1. Its blanks are those of ASCII."""
is_usual_name = re.compile(r"[a-zA-Z0-9_:.-]{1,128}@@[a-zA-Z0-9_:.-]{1,512}").fullmatch
"""Matches nearly all full names: every rule allows them. Hot calls look here first."""


class NameRule(Enum):
    """The names that a call may use."""

    NACOS_1 = "1.4"
    NACOS_2 = "2.3"
    STORED = "stored"
    """Every name that members can store, as in Nacos 2.0 to 2.2."""


def check_service_name(full_name: str, rule: NameRule) -> None:
    """Refuse the full name of a service that a call may not use.

    Raises:
        InvalidParam: the name has not two parts, or a part is too long or has other characters; with Nacos's text.
    """
    check_service_format(full_name)
    if rule is NameRule.NACOS_1 and not is_nacos_1_name(full_name):
        raise InvalidParam(
            f"dom name can only have these characters: 0-9a-zA-Z-._:, current: {full_name[:SHOWN_CHARS_MAX]}"
        )
    if rule is NameRule.NACOS_2:
        group, _, service = full_name.partition(GROUP_SPLITTER)
        check_part("serviceName", service, SERVICE_CHARS_MAX, _NACOS_2_SERVICE)
        check_part("group", group, GROUP_CHARS_MAX, _NACOS_2_GROUP)
    check_service_chars(full_name)


def check_part(name: str, text: str, chars_max: int, pattern: re.Pattern[str]) -> None:
    """Refuse a text that is too long, or has other characters than a pattern allows.

    Raises:
        InvalidParam: with the text of Nacos 2.3.1 and 3.0.3 DefaultParamChecker; ``name`` is the parameter's in it.
    """
    if len(text) > chars_max:
        raise InvalidParam(f"Param '{name}' is illegal, the param length should not exceed {chars_max}.")
    if not pattern.fullmatch(text):
        raise InvalidParam(f"Param '{name}' is illegal, illegal characters should not appear in the param.")

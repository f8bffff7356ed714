"""The check of the values that a call over HTTP v2 or v3 brings, before its endpoint reads them.

An endpoint's schemas say which parameters it has. Flags have the words of Spring, which the check replaces by ``true``
and ``false``: all parsers, and members of earlier releases, read these alike.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from marshmallow import Schema

from app.commands.name_rules import rule_of_nacos_2
from app.config.settings_keys import parse_flag
from app.http.api.agents import is_peer
from app.http.api.call import Call, Services
from app.http.input.fields import LenientFlag, StrictFlag
from app.http.input.forms import NAMESPACE_ID, SERVICE_NAME, Parameters
from app.http.input.json_text import parse_metadata
from app.http.input.schemas import keys_of
from app.naming.model.keys import PORT_MAX, TRIMMED
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.service_names import NameRule, check_part, check_service_name, is_usual_name

V3, NAMING, LIST = "/v3/", "/ns/", "/list"
METADATA_CHARS_MAX = 1_024
_PLAIN_WORDS = frozenset({"", "true", "false"})
_PORT_TEXT = f"Param 'port' is illegal, the value should be between 0 and {PORT_MAX}."


class _TextRule(NamedTuple):
    """A rule for a parameter: ``name`` as refusals have it, the length in characters, and a pattern."""

    key: str
    name: str
    chars_max: int
    allowed: re.Pattern[str]


_CLUSTER = re.compile(r"[0-9a-zA-Z_-]+")
_IP = re.compile(r"[^\u4e00-\u9fa5 \t\n\x0b\f\r]*")
_NAMESPACE = _TextRule(NAMESPACE_ID, "namespaceId/tenant", 64, re.compile(r"[0-9a-zA-Z_-]+"))
_RULES_V3 = (_TextRule("clusterName", "cluster", 64, _CLUSTER), _TextRule("ip", "ip", 128, _IP))
_RULES_V2 = (_TextRule("clusterName", "cluster", 10_000, _CLUSTER), _TextRule("ip", "ip", 128, _IP))
"""Source of all rules: Nacos 3.0.3 ParamCheckRule; clients of v1 and v2 may have longer names of clusters."""
_METADATA = "metadata"
_PORTS = "port", "checkPort"


def call_checker(paths: Sequence[str], schemas: Sequence[type[Schema]]) -> Callable[[Call, Services], None]:
    """Return the check of the calls of an endpoint with these paths and parameters.

    The check raises InvalidParam with the text of Nacos; it names the parameter.
    """
    keys = frozenset(key for schema in schemas for key in keys_of(schema))
    flags = tuple(dict.fromkeys(key for schema in schemas for key in keys_of(schema, LenientFlag, StrictFlag)))
    is_v3, is_list = any(path.startswith(V3) for path in paths), any(path.endswith(LIST) for path in paths)
    is_naming = any(NAMING in path for path in paths)
    rules = tuple(
        rule
        for rule in (_RULES_V3 if is_v3 else _RULES_V2)
        if rule.key in keys and not (is_list and rule.allowed is _CLUSTER)  # a list may name several clusters
    )
    ports = tuple(key for key in _PORTS if key in keys)
    is_named, has_metadata = SERVICE_NAME in keys, is_v3 and _METADATA in keys

    def check_names(parameters: Parameters) -> None:
        if is_v3 and NAMESPACE_ID in keys:
            _check_text(parameters, _NAMESPACE)
        name = parameters.service_name() if is_named else None
        if name and not (parameters.plain is not None and is_usual_name(name)):
            _check_service(name, parameters.get(SERVICE_NAME) or "")
        for rule in rules:
            _check_text(parameters, rule)
        for key in ports:
            _check_port(parameters.optional(key))
        if has_metadata:
            _check_metadata(parameters.optional(_METADATA))

    def check(call: Call, services: Services) -> None:
        is_checked_before = call.caller.is_member and is_peer(call.agent)
        if is_naming and not is_checked_before and rule_of_nacos_2(services.settings.names) is NameRule.NACOS_2:
            check_names(call.parameters)
            call.has_checked_name = is_named
        for key in flags:
            text = call.parameters.get(key)
            if text and text not in _PLAIN_WORDS:
                _read_flag(call, key, text)

    return check


def _check_service(name: str, sent: str) -> None:
    """Refuse a full name by the rule of Nacos 2.3. ``sent``: its text in the call, which may not end in a blank."""
    ending = sent[len(sent.rstrip(TRIMMED)) :]
    if not name.isspace():
        check_service_name(name + ending, NameRule.NACOS_2)


def _check_text(parameters: Parameters, rule: _TextRule) -> None:
    if text := parameters.optional(rule.key):
        check_part(rule.name, text, rule.chars_max, rule.allowed)


def _check_port(text: str) -> None:
    if text and not (re.fullmatch(r"[+-]?[0-9]{1,9}", text) and 0 <= int(text) <= PORT_MAX):
        raise InvalidParam(_PORT_TEXT)


def _check_metadata(text: str) -> None:
    if len(text) > METADATA_CHARS_MAX:  # a text has all that it means
        metadata = parse_metadata(text) or {}
        if sum(len(key) + len(value or "") for key, value in metadata.items()) > METADATA_CHARS_MAX:
            raise InvalidParam(f"Param 'Metadata' is illegal, the param length should not exceed {METADATA_CHARS_MAX}.")


def _read_flag(call: Call, key: str, text: str) -> None:
    """Replace a word for a flag by ``true`` or ``false``.

    Raises:
        InvalidParam: it is not a word of Spring's.
    """
    word = text.strip()
    if not word:
        return
    try:
        plain = "true" if parse_flag(word) else "false"
    except ValueError:
        raise InvalidParam(f"Param '{key}' is illegal, it should be true or false.") from None
    call.replace_value(key, plain)

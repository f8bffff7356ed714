"""Patterns of service names in fuzzy watches, and the names that they match.

Source: Nacos 3.0.3 FuzzyGroupKeyPattern and NamingUtils.getServiceKey.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.auth.user_rights import ANY, Resource, rule_namespace
from app.naming.model.keys import GROUP_SPLITTER
from app.naming.model.nacos_errors import InvalidParam

SPLITTER = ">>"
PARTS = 3
PATTERN_CHARS_MAX = 1_024

Match = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FuzzyPattern:
    """A pattern ``namespace>>group>>service``: one namespace, and texts in which stars stand for other texts."""

    text: str
    namespace: str
    group: str
    service: str
    _group_matches: Match
    _service_matches: Match

    @classmethod
    def of(cls, text: str) -> "FuzzyPattern":
        """Return the pattern of a request's ``groupKeyPattern``.

        Raises:
            InvalidParam: it does not have three parts, or one of them is blank.
        """
        parts = text.split(SPLITTER)
        if len(parts) != PARTS or not all(map(str.strip, parts)) or len(text) > PATTERN_CHARS_MAX:
            raise InvalidParam(
                "field 'groupKeyPattern' should be namespace>>group>>service, where * in the last two stands for any "
                f"text, with at most {PATTERN_CHARS_MAX} characters"
            )
        namespace, group, service = parts
        if ANY in namespace:
            raise InvalidParam("field 'groupKeyPattern' should name one namespace, without *")
        return cls(text, namespace, group, service, _match_of(group), _match_of(service))

    def matches(self, full_name: str) -> bool:
        """Return whether a service of the pattern's namespace matches, by its full name."""
        group, _, service = full_name.partition(GROUP_SPLITTER)
        return self._group_matches(group) and self._service_matches(service)

    @property
    def resource(self) -> Resource:
        """The resource that a user needs the right to read.

        Its group and service have the pattern's stars: a permission matches them only if it allows each service that
        the pattern matches.
        """
        return Resource(rule_namespace(self.namespace), self.group, self.service)


def service_key(namespace: str, full_name: str) -> str:
    """Return the name of a service in the messages of fuzzy watches: ``namespace@@group@@service``."""
    return f"{namespace}{GROUP_SPLITTER}{full_name}"


def _match_of(pattern: str) -> Match:
    """Return the check of one part of a name.

    Stars count at the ends alone, and clients match by the same rule: with one in the middle and none at an end,
    nothing matches; inner ones of other patterns are left out.
    """
    if ANY not in pattern:
        return pattern.__eq__
    if pattern == ANY:
        return lambda _name: True
    text = pattern.replace(ANY, "")
    if pattern.startswith(ANY):
        return (lambda name: text in name) if pattern.endswith(ANY) else (lambda name: name.endswith(text))
    return (lambda name: name.startswith(text)) if pattern.endswith(ANY) else (lambda _name: False)

"""The index of services by DNS name.

DNS ignores case and has few characters, so several of our names may look the same. Each part of a name, service, group
and namespace, is a label in one of two forms: as it is written, in any case and with a hyphen for each character that
is neither letter nor digit; or, exact and of a fixed length, as ``x--`` and the first 32 hex digits of its SHA-256. A
part that is too long for a label, or has no letter or digit of ASCII, is left out of the first form.
"""

import hashlib
from itertools import islice

from app.dns.dns_query import LABEL_BYTES_MAX
from app.naming.model.keys import DEFAULT_GROUP, DEFAULT_NAMESPACE, GROUP_SPLITTER

EXACT_PREFIX = b"x--"
EXACT_DIGITS = 32
CANDIDATES_MAX = 64
"""The most groups in which one name is looked up; a label that more groups share is ambiguous."""
_FOLDED = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else ord("-") for code in range(256))

ServiceName = tuple[str, str]
"""The namespace and full name of a service."""
Labels = dict[bytes, str | dict[str, None]]
"""The name or names behind each label: nearly always it is one name, and a text is smaller than a dict."""


class Ambiguous(Exception):
    """Several services have this DNS name."""


def fold(label: bytes) -> bytes:
    """Return a label as names are compared: in lower case, with a hyphen for each character but letters and digits."""
    return label.translate(_FOLDED)


def exact_label(part: str) -> bytes:
    """Return the label that stands for this very text."""
    return EXACT_PREFIX + hashlib.sha256(part.encode()).hexdigest()[:EXACT_DIGITS].encode()


def _labels(part: str) -> tuple[bytes, ...]:
    folded = fold(part.encode("utf-8", "replace"))
    # Hyphens alone would stand for all names of other scripts.
    is_written = len(folded) <= LABEL_BYTES_MAX and folded.strip(b"-") != b""
    return (folded, exact_label(part)) if is_written else (exact_label(part),)


def parts_of(full_name: str) -> tuple[str, str]:
    """Return group and service of a full name."""
    group, splitter, service = full_name.partition(GROUP_SPLITTER)
    return (group, service) if splitter else (DEFAULT_GROUP, full_name)


class NameIndex:
    """The services that readers see, by label. ``note`` is called by one thread at a time, everything else by any."""

    def __init__(self) -> None:
        self.revision = 0
        """The revision, which rises with each service that comes or goes."""
        self._namespaces: Labels = {}
        self._groups: dict[str, Labels] = {}
        self._services: dict[tuple[str, str], Labels] = {}
        self._exact_only: set[ServiceName] = set()

    @property
    def exact_only(self) -> int:
        """Return the number of services that no label stands for as they are written."""
        return len(self._exact_only)

    def note(self, namespace: str, full_name: str, listed: bool) -> None:
        """Add a service, or remove it."""
        group, service = parts_of(full_name)
        if not listed:
            self._exact_only.discard((namespace, full_name))
        elif len(_labels(service)) == 1:
            self._exact_only.add((namespace, full_name))
        if listed:
            if namespace not in self._groups:
                _add(self._namespaces, namespace, namespace)
            groups = self._groups.setdefault(namespace, {})
            if (namespace, group) not in self._services:
                _add(groups, group, group)
            _add(self._services.setdefault((namespace, group), {}), service, full_name)
        else:
            services = self._services.get((namespace, group), {})
            _remove(services, service, full_name)
            if not services:
                self._services.pop((namespace, group), None)
                groups = self._groups.get(namespace, {})
                _remove(groups, group, group)
                if not groups:
                    self._groups.pop(namespace, None)
                    _remove(self._namespaces, namespace, namespace)
        self.revision += 1

    def find(self, labels: list[bytes]) -> ServiceName | None:
        """Return the service of a name with one to three labels: service, group, namespace. Missing ones are defaults.

        Raises:
            Ambiguous: the name fits several services, or too many groups to look it up.
        """
        found: list[ServiceName] = []
        looks = 0
        for namespace in _names(self._namespaces, labels[2]) if len(labels) > 2 else (DEFAULT_NAMESPACE,):
            groups = self._groups.get(namespace, {})
            for group in _names(groups, labels[1]) if len(labels) > 1 else (DEFAULT_GROUP,):
                services = self._services.get((namespace, group), {})
                found += [(namespace, full_name) for full_name in _names(services, labels[0])]
                looks += 1
                if len(found) > 1 or looks > CANDIDATES_MAX:
                    raise Ambiguous
        return found[0] if found else None

    def is_above(self, labels: list[bytes]) -> bool:
        """Return whether services have names below this one: a namespace, or a group with or without its namespace."""
        if len(labels) == 1:
            label = fold(labels[0])
            return label in self._namespaces or label in self._groups.get(DEFAULT_NAMESPACE, {})
        if len(labels) == 2:
            group, namespaces = fold(labels[0]), _names(self._namespaces, labels[1])
            return any(group in self._groups.get(one, {}) for one in namespaces)
        return False

    def unique_labels(self, namespace: str, full_name: str, *, is_short: bool = True) -> list[bytes]:
        """Return the three labels of a service that no other service has.

        As they are written, if these are unique; all exact with ``is_short`` False, as such names have a bound.
        """
        group, service = parts_of(full_name)
        known = (self._services.get((namespace, group), {}), self._groups.get(namespace, {}), self._namespaces)
        parts = zip(known, (service, group, namespace), strict=True)
        return [_unique(labels, part) if is_short else exact_label(part) for labels, part in parts]


def _names(known: Labels, label: bytes) -> tuple[str, ...]:
    """Return the names behind a label; of very many the first."""
    found = known.get(fold(label), ())
    # One step for other threads, which may add to it.
    return (found,) if isinstance(found, str) else tuple(islice(found, CANDIDATES_MAX + 1))


def _unique(known: Labels, part: str) -> bytes:
    first = _labels(part)[0]
    return first if isinstance(known.get(first), str) else exact_label(part)


def _add(known: Labels, part: str, name: str) -> None:
    for label in _labels(part):
        found = known.setdefault(label, name)
        if isinstance(found, dict):
            found[name] = None
        elif found != name:
            known[label] = {found: None, name: None}


def _remove(known: Labels, part: str, name: str) -> None:
    for label in _labels(part):
        found = known.get(label)
        if isinstance(found, dict):
            found.pop(name, None)
            if len(found) == 1:
                known[label] = next(iter(found))
        elif found == name:
            del known[label]

"""The texts of a service, in which a search looks before it looks at the instances.

A view keeps them until its service changes, so the next search reads neither addresses nor metadata again. A beat does
not change a view.
"""

from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import orjson

from app.naming.model.model import Instance, ServiceView

INSTANCES_MAX = 64
TEXT_CHARS_MAX = 1_024
"""The most characters that a view keeps. Ten instances with the same metadata have some 350."""
metadata_of = attrgetter("metadata")


class SearchTexts(NamedTuple):
    """The addresses and the metadata of a service's instances, in lower case."""

    addresses: str
    """Each IP address, and each port after a tab, between line feeds."""
    metadata: str
    """The JSON of the metadata, once for those next to each other that are equal."""


_NONE = SearchTexts("", "")
"""The mark of a service without such texts. Those of a service without instances are not empty."""


def texts_of(view: ServiceView) -> SearchTexts | None:
    """Return the texts of a service; None for one with many instances or large metadata."""
    texts: SearchTexts | None = view.searched
    if texts is None:
        texts = _made(view.instances) if len(view.instances) <= INSTANCES_MAX else _NONE
        object.__setattr__(view, "searched", texts)  # the view is frozen, and what the texts say of it stays true
    return texts if texts is not _NONE else None


def lower_json(value: object) -> str:
    """Return JSON in lower case.

    Raises:
        TypeError: a text has half of a surrogate pair.
    """
    return orjson.dumps(value).decode().lower()


def _made(instances: tuple[Instance, ...]) -> SearchTexts:
    ports = [f"\t{port}" for port in {one.port for one in instances}]
    addresses = "\n".join(["", *[one.ip for one in instances], *ports, ""]).lower()
    try:
        metadata = lower_json([values for values, _ in groupby(instances, key=metadata_of)])
    except TypeError:  # half of a surrogate pair
        return _NONE
    return SearchTexts(addresses, metadata) if len(addresses) + len(metadata) <= TEXT_CHARS_MAX else _NONE

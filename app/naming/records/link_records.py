"""LinkRecords: the fields of links that calls set, a durable record for each link."""

from collections.abc import Callable, Mapping

from app.naming.model.nacos_errors import NotFound
from app.naming.records.override_service import PutAll
from app.naming.records.projection import Projection
from app.naming.records.record import Value
from app.naming.records.record_keys import link_key
from app.naming.records.record_values import check_link_record


class LinkRecords:
    """The fields of links that calls set. Thread-safe.

    Raises (every change): as ``DurableService``.
    """

    def __init__(self, projection: Projection, put_all: PutAll) -> None:
        self._projection, self._put_all = projection, put_all

    def fields(self, link: str) -> Mapping[str, str]:
        """Return the fields of a link that calls set."""
        return self._projection.links.get(link, {})

    def change(
        self, link: str, fields: Mapping[str, str], check: Callable[[Mapping[str, Mapping[str, str]]], None]
    ) -> None:
        """Set fields of a link; an empty text takes a field out. Other fields stay.

        ``check``: called with the fields of all links, as they would be; raises if they are not allowed.
        """
        check_link_record(link, fields)

        def changed(old: Value | None) -> Value | None:
            after = {name: text for name, text in {**(old or {}), **fields}.items() if text.strip()}
            if after:
                check({**self._projection.links, link: after})
            return after or None

        is_known = link in self._projection.links or any(text.strip() for text in fields.values())
        self._put_all({link_key(link): changed}, said=[link_key(link)] if is_known else ())

    def reset(self, link: str) -> None:
        """Remove all fields of a link that calls set.

        Raises:
            NotFound: there are none.
        """
        if link not in self._projection.links:
            raise NotFound(f"no call has set fields of link {link[:64]!r}")
        self._put_all({link_key(link): lambda _old: None}, said=[link_key(link)])

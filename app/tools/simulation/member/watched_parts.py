"""Parts of a member that the checks of its world watch: changed keys, durable records, and what its handlers raise."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from app.background.notify import NotifyCenter
from app.naming.records.record import Record, Value
from app.naming.records.records import Records
from distro.model.digest import ChangedKeys


class WatchedKeys(ChangedKeys):
    """The keys of lists whose version changed, with a second list of them for the checks of invariants."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[str, None] = {}
        note = self.note

        def noted(key: str) -> None:
            self.touched[key] = None
            note(key)

        self.note = noted


class WatchedRecords(Records):
    """Records that report each client's write."""

    def __init__(self, on_word: Callable[[Record], None], *parts: Any, **checks: Any) -> None:
        super().__init__(*parts, **checks)
        self._on_word = on_word

    def put_all(
        self,
        changes: Mapping[str, Callable[[Value | None], Value | None]],
        *,
        said: Collection[str] = (),
        force: bool = False,
        by_check: bool = False,
    ) -> list[str]:
        changed = super().put_all(changes, said=said, force=force, by_check=by_check)
        for key in changed if not by_check else ():
            self._on_word(self._records[key])
        return changed


class SimEvents(NotifyCenter):
    """The event bus of one run, where an exception of a handler ends the world."""

    def __init__(self) -> None:
        super().__init__()
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, event_type: type[Any], handler: Callable[[Any], None]) -> None:
        self._handlers.setdefault(event_type, []).append(handler)

    def publish(self, event: object) -> None:
        for handler in self._handlers.get(type(event), ()):
            handler(event)

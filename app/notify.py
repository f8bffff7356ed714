"""NotifyCenter: who wants which event. Typed and synchronous; handlers only enqueue."""

from collections.abc import Callable
from typing import Any, TypeVar

E = TypeVar("E")


class NotifyCenter:
    """Subscribe before the node starts, publish from any thread after."""

    def __init__(self) -> None:
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, event_type: type[E], handler: Callable[[E], None]) -> None:
        self._handlers.setdefault(event_type, []).append(handler)

    def publish(self, event: object) -> None:
        """Call the handlers of the event's type, in the order of their subscription."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)

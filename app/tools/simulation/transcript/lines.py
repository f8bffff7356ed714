"""The output of entries: as lines for people or of JSON, and the selection of the entries to write."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from app.tools.simulation.transcript.entry import Entry
from app.tools.simulation.transcript.short_names import letter_of, short

ENDS_WIDTH = 14
WHAT_WIDTH = 6


def line_of(entry: Entry) -> str:
    """Return ``00:12.340 decide B<-A  iplist web 3.7.A over 3.6.A: applied (R3: it is later, by the same writer)``."""
    arrow = ("<-" if entry.incoming else "->") + letter_of(entry.peer) if entry.peer else ""
    ends = f"{letter_of(entry.who)}{arrow}"
    text = short(entry.text)
    if entry.rule:
        text = f"{text} ({entry.rule})"
    return f"{clock_of(entry.at_ms)} {entry.what.value:{WHAT_WIDTH}} {ends:{ENDS_WIDTH}} {text}"


def clock_of(at_ms: int) -> str:
    """Return minutes, seconds and ms, as ``00:12.340``."""
    seconds, ms = divmod(at_ms, 1_000)
    return f"{seconds // 60:02}:{seconds % 60:02}.{ms:03}"


def json_of(entry: Entry) -> str:
    """Return the fields of an entry as one line of JSON, with whole names."""
    fields: dict[str, object] = {"at_ms": entry.at_ms, "what": entry.what.value, "who": entry.who}
    if entry.peer:
        fields |= {"peer": entry.peer, "incoming": entry.incoming}
    fields |= {"keys": entry.keys, "text": entry.text}
    if entry.rule:
        fields["rule"] = entry.rule
    return orjson.dumps(fields).decode()


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries to write; the defaults select all but minor ones."""

    from_ms: int = 0
    to_ms: int | None = None
    key: str = ""
    """A part of a key, in its whole or its short form."""
    member: str = ""
    """The address of a member or the name of a client, at either end."""
    minor: bool = False

    def takes(self, entry: Entry) -> bool:
        """Return whether the entry is selected; an event of the whole world is, whatever the key and the member."""
        if entry.at_ms < self.from_ms or (self.to_ms is not None and entry.at_ms > self.to_ms):
            return False
        if entry.minor and not self.minor:
            return False
        if self.member and self.member not in (entry.who, entry.peer) and entry.who not in ("network", "world"):
            return False
        return not self.key or any(self.key in key or self.key in short(key) for key in entry.keys)


Write = Callable[[str], object]


class Printer:
    """Writes the entries that a selection takes, each as a line."""

    def __init__(self, write: Write, selection: Selection, *, json: bool = False) -> None:
        self._write = write
        self._selection = selection
        self._form = json_of if json else line_of

    def __call__(self, entry: Entry) -> None:
        if self._selection.takes(entry):
            self._write(self._form(entry) + "\n")

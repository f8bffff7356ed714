"""The output of entries: as lines for people or of JSON, with short names, and the selection of the entries to write.

Members are letters; keys and versions lose the parts that all of them share.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from app.tools.simulation.transcript.entry import Entry

ENDS_WIDTH = 14
WHAT_WIDTH = 6
MEMBER = re.compile(r"\b10\.0\.0\.(\d+):8848(?:~(\d+))?")
DATUM = re.compile(r"com\.alibaba\.nacos\.naming\.iplist\.ephemeral\.\w+##")
INSTANCE_RECORD = re.compile(r"rollcall\.instance\.\w+##")
SERVICE_RECORD = re.compile(r"com\.alibaba\.nacos\.naming\.domains\.meta\.\w+##")
TYPES = {
    "com.alibaba.nacos.naming.iplist.": "instance lists",
    "rollcall.records": "records",
    "Nacos:Naming:v2:ClientData": "clients",
}
TYPE = re.compile("|".join(rf"{re.escape(name)}(?![\w.])" for name in TYPES))
CLUSTER = re.compile(r":unknown:DEFAULT\b")


def letter_of(address: str) -> str:
    """Return the letter of a member; any other name stays."""
    found = MEMBER.fullmatch(address)
    return _letter(found) if found else address


def address_of(letter: str) -> str:
    """Return the address of a letter; any other name stays."""
    return f"10.0.0.{ord(letter) - ord('A') + 1}:8848" if len(letter) == 1 and letter.isupper() else letter


def short(text: str) -> str:
    """Return the text with its members, keys and versions made short.

    ``3.7.A`` is epoch 3, counter 7, written by A in its first run; ``3.7.A2`` by A in its second.
    """
    text = DATUM.sub("iplist ", text)
    text = INSTANCE_RECORD.sub("record ", text)
    text = SERVICE_RECORD.sub("service ", text)
    text = TYPE.sub(lambda found: TYPES[found[0]], text)
    text = CLUSTER.sub("", text).replace("DEFAULT_GROUP@@", "").replace("##", " ")
    return MEMBER.sub(_letter, text)


def _letter(found: re.Match[str]) -> str:
    run = found[2]
    return chr(ord("A") + int(found[1]) - 1) + (run if run is not None and run != "1" else "")


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
        """Return whether the entry is selected; an event of the whole world always is."""
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

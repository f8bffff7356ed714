"""Names in a transcript: members are letters, keys and versions lose the parts that all of them share."""

import re

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

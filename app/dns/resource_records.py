"""Resource records as bytes (RFC 1035, 2782, 6891, 8482, 8914)."""

import ipaddress
from struct import Struct

from app.dns.dns_query import OPT, name_of
from app.naming.model.model import WEIGHT_MAX as INSTANCE_WEIGHT_MAX

A, NS, SOA, HINFO, AAAA, SRV, IXFR, AXFR, ANY = 1, 2, 6, 13, 28, 33, 251, 252, 255
IN = 1
EDNS_PAYLOAD_BYTES = 1_232
"""A size that fits any path without fragments, which are lost too often and forged too easily."""
QUESTION_POINTER = b"\xc0\x0c"
"""The pointer to the name of the question."""
EDE = 15
"""The option of EDNS with a reason for people."""
HOST_LABELS = b"\x02ns", b"\x0ahostmaster"
REFRESH_S, RETRY_S, EXPIRE_S = 3_600, 600, 86_400
"""Values for secondary servers, of which there are none."""
NO_ANY = b"\x07RFC8482\x00"
WEIGHT_SCALE, WEIGHT_MAX = 100.0, 65_535
_FIELDS = Struct("!HHIH")
_POINTER = Struct("!H")
_SOA = Struct("!IIIII")
_SRV = Struct("!HHH")
_OPT = Struct("!BHHBBHH")
_OPTION = Struct("!HHH")


def record(owner: bytes, kind: int, ttl_s: int, data: bytes) -> bytes:
    """Return one record. ``owner``: a name on the wire, or a pointer to one."""
    return owner + _FIELDS.pack(kind, IN, ttl_s, len(data)) + data


def pointer(at: int) -> bytes:
    """Return the pointer to the name that begins at this place in the message."""
    return _POINTER.pack(0xC000 | at)


def soa_data(apex: bytes, serial: int, ttl_s: int) -> bytes:
    """Return the data of the domain's SOA record. ``apex``: the domain's name, or a pointer to it."""
    name_server, mailbox = HOST_LABELS
    return name_server + apex + mailbox + apex + _SOA.pack(serial, REFRESH_S, RETRY_S, EXPIRE_S, ttl_s)


def srv_data(weight: int, port: int, target: bytes) -> bytes:
    """Return the data of an SRV record, all of which have one priority. The target is not compressed (RFC 2782)."""
    return _SRV.pack(0, weight, port) + target


def opt_record(flags: int, extended_code: int = 0, reason: tuple[int, bytes] | None = None) -> bytes:
    """Return the OPT record of an answer. ``reason``: code and text of an extended error."""
    option = b"" if reason is None else _OPTION.pack(EDE, 2 + len(reason[1]), reason[0]) + reason[1]
    return _OPT.pack(0, OPT, EDNS_PAYLOAD_BYTES, extended_code, 0, flags & 0x8000, len(option)) + option


def ip_of_label(label: bytes) -> str | None:
    """Return the address for which a label of hex digits stands, without a zone; None for any other label."""
    if len(label) not in (8, 32):
        return None
    try:
        return str(ipaddress.ip_address(bytes.fromhex(label.decode("ascii"))))
    except ValueError:
        return None


def host_name(text: str) -> bytes | None:
    """Return a host name on the wire; None for a text that cannot be one."""
    labels = text.rstrip(".").encode("utf-8", "replace").lower().split(b".")
    whole = b"".join(labels)
    if not whole.replace(b"-", b"").replace(b"_", b"").isalnum() or len(text) > 250:
        return None
    return None if any(not 0 < len(one) <= 63 for one in labels) else name_of(labels) + b"\0"


def srv_weights(weights: list[float]) -> list[int]:
    """Return whole numbers from 1 on in the proportions of instances' weights: hundredths, if these fit."""
    allowed = [min(weight, INSTANCE_WEIGHT_MAX) for weight in weights]  # another member may send any number
    scale = min(WEIGHT_SCALE, WEIGHT_MAX / max(allowed, default=1.0))
    return [max(1, round(weight * scale)) for weight in allowed]

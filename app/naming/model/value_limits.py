"""Bounds on the values of an instance and of a client's request that more than one module needs."""

PORT_MAX = 65_535
IP_CHARS_MAX = 128
"""Source of both: Nacos 2.3 parameter check."""
METADATA_CHARS_MAX = 65_536
"""The bound on all names and values of an instance: every member holds them, and every subscriber gets them."""
JSON_VALUES_MAX = 16_384
"""Commas and opening brackets in the JSON of a client's request: some 2 ms of parsing, whatever the values."""
INSTANCE_ID_CHARS_MAX = 1_024
CLIENT_TEXTS_CHARS_MAX = 2_048
"""The bound on all texts together by which a client describes itself."""
INT_MAX = (1 << 31) - 1
"""The largest number of Java's ``int``."""
WALL_MS_END = 1 << 53
"""Above all times of a wall clock: from here on a double does not hold every whole number."""
AGE_MARGIN_MS = 500
"""A beat that arrives so shortly after a removal may have been under way before it: it does not prove life."""
WORD_MARGIN_MS = 100
"""How far off a time may be that another member sent: two changes that differ by less have no order.

Times travel as ages. An age counts from the send by the sender's clock (R13). It is off by the time that the fastest
report was under way, by the drift since then, and by the time in which a large list is encoded: a few ms, on slow links
some tens of ms."""

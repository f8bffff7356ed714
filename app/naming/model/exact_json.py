"""JSON in bytes that take no more memory than they have, for texts that are kept or of which many are made at once."""

import orjson


def exact_json(value: object) -> bytes:
    """The JSON of a value, as ``orjson.dumps`` makes it, in an object of its size.

    orjson 3.13 keeps the buffer in which it wrote: 4 KB for 400 bytes, and up to ten times as much as a long text.
    """
    return b"%b" % orjson.dumps(value)

"""The wire of server-sent events. Source: WHATWG HTML, 9.2 Server-sent events."""

from app.http.api.call import Events, Reply

EVENT_STREAM_TYPE = "text/event-stream"
EVENT_STREAM = f"{EVENT_STREAM_TYPE}; charset=utf-8"
RETRY_MS = 3_000
"""After this a browser connects again to a stream that ended."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
STREAM_HEAD = "".join(
    [
        "HTTP/1.1 200 OK\r\n",
        f"Content-Type: {EVENT_STREAM}\r\n",
        *(f"{name}: {value}\r\n" for name, value in HEADERS.items()),
    ]
).encode()
"""Status line and headers of a stream, whose length is not known."""
FIRST_LINES = f"retry: {RETRY_MS}\n\n".encode()
STILL_HERE = b": no change\n\n"
"""A comment, which pages do not see: a stream without any byte for long is cut by proxies."""


def event(data: bytes) -> bytes:
    """One event, of data without line breaks."""
    assert b"\n" not in data, "a line break ends an event's data"
    return b"data: %b\n\n" % data


def single_event(answer: Events) -> Reply:
    """The reply that tells how things are, and ends: where no connection is at hand that could stay open."""
    return Reply(200, FIRST_LINES + event(answer.read()), EVENT_STREAM, HEADERS)

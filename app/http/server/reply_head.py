"""The head of a reply as bytes: status line and headers."""

from email.utils import formatdate
from http.client import responses

from app.http.api.call import JSON, Reply

_JSON_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: ".encode()


def status_line(status: int) -> str:
    """Return the status line with its line break."""
    return f"HTTP/1.1 {status} {responses.get(status, 'Unknown')}\r\n"


def head_of(reply: Reply) -> bytes:
    """Return the status line and headers of a reply, without ``Date`` and ``Connection``, which the connection adds."""
    if reply.status == 200 and reply.content_type is JSON and not reply.headers:
        return b"%b%d\r\n" % (_JSON_HEAD, len(reply.body))
    lines = [status_line(reply.status)]
    if reply.content_type is not None:
        lines.append(f"Content-Type: {reply.content_type}\r\n")
    lines.extend(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    if reply.status >= 200 and reply.status != 204 and reply.status != 304:
        lines.append(f"Content-Length: {len(reply.body)}\r\n")
    # The values of headers were checked where they were made; a line break in one would begin another header.
    head = "".join(lines)
    assert head.count("\n") == len(lines), "a header of a reply holds a line's end"
    return head.encode("latin-1", "replace")


def date_line(wall_s: float) -> bytes:
    """Return the ``Date`` header with its line break."""
    return f"Date: {formatdate(wall_s, usegmt=True)}\r\n".encode()


def closing_bytes(reply: Reply) -> bytes:
    """The whole of a reply to a connection that is closed with it, before any request; without a date."""
    return b"%bConnection: close\r\n\r\n%b" % (head_of(reply), reply.body)

"""Calls as members make them, one connection each. For ``hostile.py``."""

import gzip
import http.client
import json
from typing import Any

from distro.wire.codec import GZIP_MAGIC
from distro.wire.http_agent import MEMBER_HEADER
from scripts.chaos.hostile_corpus import Shot
from scripts.support.member_processes import CONTEXT_PATH

CALL_TIMEOUT_S = 60.0


def send(address: str, shot: Shot) -> str:
    """Make a call on a connection of its own; return the status, or the name of the failure."""
    try:
        return str(call(address, shot)[0])
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def fetch(address: str, path: str, sender: str) -> dict[str, Any]:
    """The JSON object that a member answers to another Rollcall member."""
    status, body = call(address, Shot("GET", path, b"", {MEMBER_HEADER: sender}))
    if status != 200:
        raise RuntimeError(f"{address} answers {path} with {status}")
    found: dict[str, Any] = json.loads(gzip.decompress(body) if body.startswith(GZIP_MAGIC) else body)
    return found


def call(address: str, shot: Shot) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
    try:
        connection.request(shot.method, CONTEXT_PATH + shot.path, shot.body, dict(shot.headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()

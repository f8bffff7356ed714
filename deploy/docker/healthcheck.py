"""Exit code 0 while the node of this container serves, else 1 with the reason on stderr. Only Python is needed."""

import http.client
import os
import ssl
import sys

TIMEOUT_S = 4.0
WILDCARDS = ("", "0.0.0.0", "::")


def connection() -> http.client.HTTPConnection:
    """A connection to the node, where the environment's settings say that it listens."""
    host = os.environ.get("SERVER_ADDRESS", "")
    host, port = "127.0.0.1" if host in WILDCARDS else host, int(os.environ.get("SERVER_PORT") or 8848)
    if os.environ.get("ROLLCALL_HTTP_TLS_ENABLED", "").lower() not in ("true", "yes", "on", "1"):
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    # Its certificate is for the name that clients use; who answers on this port in this container is not in question.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


def reason() -> str | None:
    """Return why the node does not serve; None while it does."""
    path = "/" + os.environ.get("SERVER_SERVLET_CONTEXTPATH", "nacos").strip("/")
    try:
        asked = connection()
        asked.request("GET", path.rstrip("/") + "/v1/console/health/readiness")
        answer = asked.getresponse()
        said = answer.read(1_000)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"the node does not answer: {error}"
    return None if answer.status == 200 else f"the node does not serve: {answer.status} {said!r}"


def main() -> int:
    if (text := reason()) is not None:
        print(text, file=sys.stderr)
    return int(text is not None)


if __name__ == "__main__":
    sys.exit(main())

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


def main() -> int:
    path = "/" + os.environ.get("SERVER_SERVLET_CONTEXTPATH", "nacos").strip("/")
    try:
        asked = connection()
        asked.request("GET", path.rstrip("/") + "/v1/console/health/readiness")
        answer = asked.getresponse()
        said = answer.read(1_000)
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"the node does not answer: {error}", file=sys.stderr)
        return 1
    if answer.status != 200:
        print(f"the node does not serve: {answer.status} {said!r}", file=sys.stderr)
    return int(answer.status != 200)


if __name__ == "__main__":
    sys.exit(main())

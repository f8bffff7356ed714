"""Access to the metrics by a secret of its own: Prometheus cannot log in again when a user's token expires."""

import hmac

BEARER = "bearer "


def brings_token(token: str, authorization: str | None) -> bool:
    """Return whether a header ``Authorization: Bearer ...`` has the scrape token. Compares in constant time."""
    if not token or authorization is None or authorization[: len(BEARER)].lower() != BEARER:
        return False
    given = authorization[len(BEARER) :].strip()
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))

"""Who may read the metrics: by a secret of its own, as Prometheus cannot log in again when a user's token ends."""

import hmac

BEARER = "bearer "


def brings_token(token: str, authorization: str | None) -> bool:
    """Whether a header ``Authorization: Bearer ...`` brings the scrape token; compared in constant time."""
    if not token or authorization is None or authorization[: len(BEARER)].lower() != BEARER:
        return False
    given = authorization[len(BEARER) :].strip()
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))

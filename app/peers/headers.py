"""Names and values of the headers with which members pass calls of clients on, and answer them."""

from distro.wire.call_trust import CLOCK_HEADER, DEADLINE_HEADER, RELAY_HEADER

TEXT = "text/plain;charset=UTF-8"
CLIENT_AGENT = "rollcall-client-agent"
"""Header of a forwarded call: the agent string of the client, as some answers depend on it."""
CLIENT_ADDRESS = "rollcall-client-address"
"""Header of a forwarded call: the address that the client called from, for the audit trail."""
DEADLINE = DEADLINE_HEADER.lower()
"""Header of a call of a Rollcall member: when it is too late to execute it (R13)."""
CLOCK = CLOCK_HEADER.lower()
"""Header of a call of a Rollcall member: when it was sent; the ages in its body count from then."""
RELAY = RELAY_HEADER.lower()
"""Header of a call of a Rollcall member: it is to be forwarded to the owner, once (R12)."""
WANTS_CHANGE = "rollcall-wants-change"
"""Header of a forwarded call: the answer is to carry the instance as the call left it."""
CHANGE = "rollcall-change"
"""Header of an answer that carries the instance as the call left it; see ``app.naming.changes``."""
NOT_RESPONSIBLE = "Rollcall-Not-Responsible"
"""Header of a refusal: nothing was executed, the sender should ask the responsible member."""
RETRY_AFTER = "Retry-After"
AUTHORIZATION, TOKEN_HEADER, BEARER = "authorization", "accesstoken", "Bearer "
"""Headers with the token of a call's user."""
BROWSER_SIGNS = ("origin", "referer", "sec-fetch-site", "accept-language")
"""Headers that browsers send and SDKs do not.

``Sec-Fetch-Site`` comes with requests to https and loopback addresses only, and a script may leave out or set others:
but each browser sends ``Accept-Language`` with each request, and a script can only change its value.
"""

"""Runs an endpoint on the event loop, and turns what it raises into the answer."""

import logging

from app.http.api.answers import INTERNAL_ERROR, error_reply, refuse_unless_up
from app.http.api.call import DECLINE, Answer, Call, Route, Services
from app.http.api.rights import check_access
from app.http.api.user_access import PasswordGiven
from app.naming.model.nacos_errors import NacosError
from distro.model.errors import CodecError, NotInitialized
from distro.model.types import MemberState

_UP = MemberState.UP
"""Python 3.11 needs ten times as long to look a member up in its class."""

log = logging.getLogger(__name__)


def run_hot(row: Route, call: Call, services: Services) -> Answer:
    """The answer of a row's endpoint to a call that the loop waits for."""
    try:
        cluster = services.cluster
        if cluster.state() is not _UP or services.durable.projection.limits_calls or cluster.is_behind:
            refusal = refuse_unless_up(call, services)
            if refusal is not None:
                return refusal
        if services.access.enabled or not row.asks_users_alone:
            check_access(row.access, call, services)
        return row.endpoint(call, services)
    except PasswordGiven:
        return DECLINE
    except (NacosError, CodecError, NotInitialized) as error:
        return error_reply(error)
    except Exception as error:
        log.error("%s %a failed", call.method, call.uri, exc_info=error)
        return INTERNAL_ERROR

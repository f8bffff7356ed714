"""Runs an endpoint on a thread that may block: here, or at the member that owns the call."""

from app.http.api.answers import is_refused_by_switch_alone, refuse_unless_up
from app.http.api.call import Call, Decline, Events, Forward, Later, Reply, Route, Services
from app.http.api.event_stream import single_event
from app.http.api.rights import check_access
from app.http.api.stream_answers import LINES_TYPE, Lines
from app.http.api.user_access import audit_operation
from app.members.membership import executing_until
from app.metrics.audit_trail import acting_as


def answer_call(row: Route, call: Call, services: Services, *, is_page_read: bool = False) -> Reply:
    """Return the reply of a row's endpoint, or of the member that it passes the call on to.

    ``is_page_read``: a page of the console reads for an operator, who must see the data while a switch turns clients
    away.

    Raises:
        NacosError, DistroError: the refusals that the server's error handler turns into replies.
    """
    if not (is_page_read and is_refused_by_switch_alone(services)) and (refusal := refuse_unless_up(call, services)):
        return refusal
    check_access(row.access, call, services)
    if row.is_client_write:
        call.count_write()

    def run() -> Reply | Forward:
        answer = row.endpoint(call, services)
        if isinstance(answer, Decline):
            raise AssertionError(f"{row.endpoint.__name__} declined a call that is not on the loop")
        if isinstance(answer, Events):
            return single_event(answer)
        if isinstance(answer, Lines):
            return Reply(200, answer.source.read(is_idle=True) or b"", LINES_TYPE)
        return answer.reply if isinstance(answer, Later) else answer

    deadline = call.deadline
    with (
        executing_until(lambda: deadline is not None and services.cluster.is_over(deadline)),
        acting_as(call.actor),
    ):
        answer = run()
        reply = services.forwarder.forward(call, answer, run) if isinstance(answer, Forward) else answer
        audit_operation(row, call, reply, services)
        return reply

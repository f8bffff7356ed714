"""From a call to its reply, whoever carries the bytes."""

from app.http.api.answers import refuse_unless_up
from app.http.api.call import Answer, Call, Decline, Endpoint, Reply, Services


def answer_call(endpoint: Endpoint, call: Call, services: Services) -> Reply:
    """Run an endpoint where it must run, and return its reply.

    Raises:
        NacosError, DistroError: the refusals that the carrier's error handler turns into replies.
    """
    if refusal := refuse_unless_up(call, services):
        return refusal

    def run() -> Answer:
        return endpoint(call, services)

    match run():
        case Reply() as reply:
            return reply
        case Decline():
            raise AssertionError(f"{endpoint.__name__} declined a call where nobody else could take it")
        case forward:
            return services.forwarder.forward(call, forward, run)

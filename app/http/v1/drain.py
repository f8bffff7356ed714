"""Leaving gracefully: an instance whose clients hear of it before it goes, and a node that hands all over."""

from functools import partial
from typing import Any

from marshmallow import validate

from app.auth.access_rules import MEMBERS, READ, WRITE, admin, naming
from app.http.api.answers import json_reply, text_reply
from app.http.api.call import JSON, Answer, Call, Reply, Services, route
from app.http.input.fields import FILLED, FLAG, INT, Needed, Parameter, invalid
from app.http.input.instance_schemas import InstanceSchema
from app.http.input.schemas import CallSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.instance_shapes import DRAIN_JOB, DRAIN_STEP
from app.http.shapes.operator_shapes import NODE_DRAIN_STATE
from app.http.v1.explain import asked_instance, instance_parameters
from app.naming.model.json_fields import exact_bool
from app.naming.model.nacos_errors import NotFound
from app.operator.drain_steps import ACTIONS, take_safely
from app.operator.instance_facts import AskedInstance
from app.peers.asked import ask_members

DRAIN = "/v1/ns/instance/drain"
STEP = "/v1/ns/instance/drain/step"
NODE_DRAIN = ("/v1/ns/operator/drain", "/v1/ns/ops/drain")
POLL_SLACK_MS = 500
STEP_S = 1.0
REMOVE_SLACK_S = 6.0
"""For the removal behind the time in which subscribers are waited for."""
RETRY_AFTER = {"Retry-After": "1"}
TIMEOUT_MS, TIMEOUT_MS_MAX = 15_000, 60_000
_TIME = f"it should be a number from 0 to {TIMEOUT_MS_MAX}"
_TIMES = validate.Range(0, TIMEOUT_MS_MAX, error=_TIME)


class Milliseconds(Parameter[int]):
    """A time of up to ``TIMEOUT_MS_MAX``, in digits."""

    shape = INT

    def read(self, text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 6:
            raise ValueError(_TIME)
        return int(text)


class ExactFlag(Parameter[bool]):
    """One of the words true and false."""

    shape = FLAG
    default_error_messages = invalid("it should be true or false")
    read = staticmethod(exact_bool)


class DrainSchema(CallSchema):
    timeout_ms = Milliseconds(
        "timeoutMs", "The instance is removed after so many milliseconds at the latest.", TIMEOUT_MS, validate=_TIMES
    )
    least_ms = Milliseconds(
        "minMs",
        "The instance stays hidden for at least so many milliseconds, for clients that poll.",
        None,
        validate=_TIMES,
    )


class DrainStepSchema(CallSchema):
    action = Needed(
        "action",
        "The step to take.",
        needs=FILLED,
        validate=validate.OneOf(ACTIONS, error=f"it should be one of {', '.join(ACTIONS)}"),
    )


class NodeDrainSchema(CallSchema):
    enabled = ExactFlag("enabled", "False takes the draining back.", True)


@route(
    "PUT",
    DRAIN,
    access=naming(WRITE),
    described=Described(DRAIN_JOB, takes=(InstanceSchema, DrainSchema), also={202: DRAIN_JOB}),
)
def drain_instance(call: Call, services: Services) -> Answer:
    """Hide an instance, wait until clients know, then remove it. Calls for one instance join; status 202: not over yet.

    ``timeoutMs``: it is removed after so long at the latest. ``minMs``: it stays hidden for so long, for clients that
    poll. Shape: state, isOver, tookMs, subscribers, behind, notAnswered.
    """
    asked, values = asked_instance(call.parameters, services), load_parameters(DrainSchema, call.parameters)
    timeout_ms, least_ms = values["timeout_ms"], values["least_ms"]
    if least_ms is None:
        least_ms = services.durable.switches.default_cache_millis + POLL_SLACK_MS
    services.writes.check_timely(call)
    job = services.drains.begin(asked, min(least_ms, timeout_ms), timeout_ms, partial(step_at_all, services))
    if job is None:
        busy = text_reply(503, "as many instances as this node takes at a time are being drained, please try again")
        return Reply(503, busy.body, busy.content_type, RETRY_AFTER)
    if services.drains.may_wait():
        try:
            job.wait(timeout_ms / 1_000 + REMOVE_SLACK_S)
        finally:
            services.drains.waited()
    return _told(job.told())


@route(
    "GET",
    DRAIN,
    access=naming(READ),
    described=Described(DRAIN_JOB, takes=(InstanceSchema,), refusals=(404,), also={202: DRAIN_JOB}),
)
def instance_drain(call: Call, services: Services) -> Answer:
    """How far this member is with the draining of an instance."""
    job = services.drains.find(asked_instance(call.parameters, services))
    if job is None:
        raise NotFound("this member has not drained that instance lately")
    return _told(job.told())


def _told(told: dict[str, Any]) -> Reply:
    body = json_reply(told).body
    return Reply(200 if told["isOver"] else 202, body, JSON, {} if told["isOver"] else RETRY_AFTER)


@route("POST", STEP, access=MEMBERS, described=Described(DRAIN_STEP, takes=(InstanceSchema, DrainStepSchema)))
def take_step(call: Call, services: Services) -> Answer:
    """Take this member's part in a step of another member's job. Shape: known, inLists, subscribers, behind."""
    action = load_parameters(DrainStepSchema, call.parameters)["action"]
    services.writes.check_timely(call)
    return json_reply(services.drain_steps.take(action, asked_instance(call.parameters, services)))


def step_at_all(services: Services, action: str, asked: AskedInstance) -> dict[str, dict[str, Any] | None]:
    """Have this member and all others of our kind take a step; None for one that did not answer. Blocks.

    The others first: what this member's own step changes is then under way to subscribers, and seen by the next look.
    """
    parameters = {**instance_parameters(asked), "action": action}
    answers, _ = ask_members(services, "POST", STEP, parameters, STEP_S)
    seen = {address: answer if is_seen(answer) else None for address, answer in answers.items()}
    return {**seen, services.cluster.self_address: take_safely(services.drain_steps, action, asked)}


def is_seen(answer: dict[str, Any] | None) -> bool:
    """Return whether an answer to a step has all its fields."""
    return (
        answer is not None
        and all(isinstance(answer.get(name), bool) for name in ("known", "inLists"))
        and all(isinstance(answer.get(name), int) for name in ("subscribers", "behind"))
    )


# --- a whole node ----------------------------------------------------------------------------------


@route("PUT", *NODE_DRAIN, access=admin(WRITE), described=Described(NODE_DRAIN_STATE, takes=(NodeDrainSchema,)))
def drain_node(call: Call, services: Services) -> Answer:
    """Hand this node's clients and keys over to the others, and take no more; ``enabled=false`` takes that back."""
    enabled = load_parameters(NodeDrainSchema, call.parameters)["enabled"]
    services.cluster.drain(enabled)
    for frontend in services.loop_frontends:
        frontend.drain(enabled)
    return node_drain(call, services)


@route("GET", *NODE_DRAIN, access=admin(READ), described=Described(NODE_DRAIN_STATE))
def node_drain(call: Call, services: Services) -> Answer:
    """How far this node is with its draining. Shape: draining, state, sdkConnections, unsentKeys, handedOver."""
    counters, cluster = services.counters(), services.cluster
    return json_reply(
        {
            "draining": cluster.draining,
            "state": cluster.state().value,
            "sdkConnections": counters.get("rpcSdkConnections", 0),
            "unsentKeys": cluster.unsent_keys(),
            "handedOver": cluster.draining and services.reports.is_handed_over(),
        }
    )

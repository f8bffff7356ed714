"""The payload of a UDP push: the answer to a list query of its subscriber."""

from app.naming.model.switches import SwitchDomain
from app.naming.push.udp_subscribers import Subscriber
from app.naming.service import NamingService
from app.naming.wire.service_info import Variant, echo_of, unknown_service


def payload_of(naming: NamingService, subscriber: Subscriber, switches: SwitchDomain, now_ms: int) -> bytes:
    """Return the JSON of the service's current list, in the subscriber's variant. Source: Nacos 1.4.1 PushService."""
    variant = Variant(
        clusters=subscriber.clusters,
        healthy_only=False,
        is_check=False,
        java_agent=subscriber.java,
        cache_ms=switches.default_push_cache_millis,
    )
    answer = naming.list_answer(subscriber.namespace, subscriber.service, variant)
    if answer is None:
        return unknown_service(subscriber.service, variant)
    return answer.plain(now_ms, echo_of(subscriber.clusters, ""))

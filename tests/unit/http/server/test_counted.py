"""What the server counts and logs of each request, whichever way it is answered."""

from app.metrics.instruments import NO_ROUTE
from tests.support.fake_node import FakeNode, make_settings
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import request

LIST = "/nacos/v1/ns/instance/list?serviceName=a&accessToken=geheim"
CLOSE = "Connection: close"


def counted(node: FakeNode) -> set[tuple[str, str, int, int]]:
    """Method, route, status and number of all requests that were counted."""
    found = node.instruments.http.read()
    return {(one.method, one.route, *pair) for one in found for pair in one.statuses.items()}


def ask(node: FakeNode, *requests: bytes, wants: int) -> None:
    async def main(_loop: SkippingLoop) -> None:
        with served(node) as one:
            for data in requests:
                await one.ask(data)
            await until(lambda: sum(count for *_, count in counted(node)) == wants)

    run_loop(main)


def test_requests_are_counted_by_route_and_status_whoever_answers() -> None:
    node = FakeNode()
    ask(
        node,
        request(LIST, "GET", b"", CLOSE),
        request("/nacos/v1/ns/instance?serviceName=a&ip=1.2.3.4&port=80", "GET", b"", CLOSE),
        request("/nacos/v1/console/health/liveness", "GET", b"", CLOSE),
        request("/nacos/v1/console/health/%6civeness", "GET", b"", CLOSE),
        request("/nacos/of/a/stranger/4711", "GET", b"", CLOSE),
        request("/nacos/of/a/stranger/4712", "PROPFIND", b"", CLOSE),
        wants=6,
    )
    assert counted(node) == {
        ("GET", "/v1/ns/instance/list", 200, 1),
        ("GET", "/v1/ns/instance", 404, 1),
        ("GET", "/v1/console/health/liveness", 200, 2),
        ("GET", NO_ROUTE, 404, 1),
        ("other", NO_ROUTE, 404, 1),
    }


def test_what_is_passed_on_counts_with_the_answer_of_the_owner() -> None:
    node = FakeNode()
    node.cluster.owner = "127.0.0.1:9"  # nobody listens there
    ask(node, request("/nacos/v1/ns/instance?serviceName=a&ip=1.2.3.4&port=80", "POST", b"", CLOSE), wants=1)
    assert counted(node) == {("POST", "/v1/ns/instance", 503, 1)}


def test_nothing_is_counted_with_the_metrics_off() -> None:
    node = FakeNode(make_settings(rollcall_metrics_enabled="false"))
    ask(
        node, request(LIST, "GET", b"", CLOSE), request("/nacos/v1/console/health/liveness", "GET", b"", CLOSE), wants=0
    )
    assert not counted(node)


class KeptLines:
    """An access log that keeps what it is given."""

    def __init__(self) -> None:
        self.on = True
        self.lines: list[tuple[str, bytes, bytes, int]] = []

    def add(
        self, remote_ip: str, method: bytes, target: bytes, status: int, count: int, taken_s: float, agent: str
    ) -> None:
        assert taken_s >= 0
        self.lines.append((remote_ip, method, target, status))


def test_the_access_log_has_each_request_once_while_it_is_on() -> None:
    node = FakeNode()
    log = KeptLines()
    object.__setattr__(node.instruments, "access_log", log)
    requests = [request(path, "GET", b"", CLOSE) for path in (LIST, "/nacos/v1/console/health/liveness")]
    ask(node, *requests, wants=2)
    log.on = False
    ask(node, requests[0], wants=3)
    assert log.lines == [
        ("127.0.0.1", b"GET", LIST.encode(), 200),
        ("127.0.0.1", b"GET", b"/nacos/v1/console/health/liveness", 200),
    ]

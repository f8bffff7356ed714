"""The worker as a process: how it ends, what it survives, and what it tells of itself."""

import resource
import signal
from contextlib import suppress
from urllib.parse import quote

import psutil
import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import HANG_S, Member, eventually, is_gone
from tests.support.raw import RawConnection
from tests.support.wire import request

LIST = request("/nacos/v1/ns/instance/list?serviceName=a")
DUMP = request("/nacos/v1/ns/operator/dump")
STORED = 3_000
"""Instances whose dump is more than what the system takes for a client that does not read."""
DUMPED_BYTES_MIN = 4_000_000
BEAT_TIMEOUT_MS = 6_000
"""Longer than the 5 s between two beats."""


@pytest.fixture
def node(make_cluster: StartCluster) -> Member:
    """A standalone node."""
    [member] = make_cluster(1, {"nacos.standalone": "true"})
    member.restart()
    return member


def fill(node: Member) -> None:
    """Register instances with a lot to tell, all over one connection."""
    metadata = quote('{"preserved.heart.beat.timeout":"999999999","k":"%s"}' % ("v" * 1_500))
    with RawConnection(node.address) as connection:
        for begin in range(0, STORED, 50):
            for number in range(begin, begin + 50):
                target = f"/nacos/v1/ns/instance?serviceName=stored&ip=10.0.{number // 250}.{number % 250}&port=80"
                connection.send(request(f"{target}&metadata={metadata}", "POST"))
            for _ in range(50):
                assert connection.read().status == 200


def counters(node: Member) -> dict[str, int]:
    return node.client.metrics()


class TestEnd:
    def test_idle_connections_end_at_once_and_nobody_else(self, node: Member) -> None:
        """Each of these was kept for two seconds once, and the stop with it."""
        fill(node)
        with (
            RawConnection(node.address, receive_bytes=4_096) as reading,
            RawConnection(node.address) as idle,
            RawConnection(node.address) as silent,
        ):
            assert idle.call(LIST).status == 200
            reading.send(DUMP)
            eventually(lambda: counters(node)["connections"] == 4)
            worker = node.worker
            node.master.terminate()
            assert idle.is_at_its_end()
            assert silent.is_at_its_end()
            with pytest.raises(ConnectionRefusedError):
                RawConnection(node.address)
            assert not is_gone(worker), "it waits for who reads"
            dump = reading.read()
            assert len(dump.body) > DUMPED_BYTES_MIN
            assert dump.body.splitlines()[-1] == b'{"kind":"end","services":1,"instances":%d}' % STORED
        assert node.wait_exit() == 0

    def test_what_is_under_way_is_answered(self, node: Member) -> None:
        sent = request("/nacos/v1/console/health/liveness", "GET", b"x" * 100)
        with RawConnection(node.address) as connection, RawConnection(node.address) as idle:
            connection.send(sent[:-50])
            assert idle.call(LIST).status == 200, "what came before it is read"
            node.master.terminate()
            assert idle.is_at_its_end()
            answer = connection.call(sent[-50:])
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert connection.is_at_its_end()
        assert node.wait_exit() == 0

    def test_who_does_not_read_does_not_hold_it_up_for_ever(self, node: Member) -> None:
        fill(node)
        worker = node.worker
        with RawConnection(node.address, receive_bytes=4_096) as reading:
            reading.send(DUMP)
            eventually(lambda: counters(node)["connections"] == 2)
            # Not the master, which would kill it.
            worker.terminate()
            eventually(lambda: is_gone(worker), HANG_S)
        node.wait_ready()
        node.stop()

    def test_more_signals_change_nothing(self, make_cluster: StartCluster) -> None:
        """A service manager signals every process, and the master signals its worker once more."""
        victim, other = cluster = make_cluster(2)
        cluster.start()
        service = cluster.service_of(victim, "signals")
        asked: list[int] = []
        other.pause()
        try:
            assert victim.client.register(service, "10.4.0.1").status == 200
            worker = victim.worker

            def ended_though_asked_again() -> bool:
                # Also when the loop has ended, while the node tries to send what the other has not taken.
                asked.append(worker.pid)
                with suppress(psutil.NoSuchProcess):  # it ended since the last look
                    worker.send_signal(signal.SIGTERM)
                return is_gone(worker)

            victim.master.terminate()
            eventually(ended_though_asked_again, HANG_S)
            assert len(asked) > 20
            assert victim.wait_exit() == 0
        finally:
            other.resume()
        assert "SIGTERM" not in victim.log_text(), "gunicorn tells of a worker that a signal has ended"

    def test_a_worker_without_its_master_ends(self, node: Member) -> None:
        worker = node.worker
        with RawConnection(node.address) as idle:
            assert idle.call(LIST).status == 200
            node.master.kill()
            assert idle.is_at_its_end()
        eventually(lambda: is_gone(worker))
        node.wait_exit()


class TestLife:
    def test_a_connection_is_kept_from_beat_to_beat(self, node: Member) -> None:
        metadata = f'{{"preserved.heart.beat.timeout":"{BEAT_TIMEOUT_MS}"}}'
        with RawConnection(node.address) as connection:
            beat = request("/nacos/v1/ns/instance/beat?serviceName=a&ip=10.4.1.1&port=8080", "PUT")
            assert node.client.register("a", "10.4.1.1", metadata=metadata).status == 200
            # Were it alone, all would be shown as healthy.
            assert node.client.register("a", "10.4.1.2").status == 200
            assert b"10200" in connection.call(beat).body
            eventually(lambda: node.client.hosts("a")["10.4.1.1:8080"]["healthy"] is False)
            assert b"10200" in connection.call(beat).body, "the same connection, after more than a period"
            eventually(lambda: node.client.hosts("a")["10.4.1.1:8080"]["healthy"] is True)

    def test_it_survives_that_no_descriptor_is_free(self, node: Member) -> None:
        worker = node.worker
        with RawConnection(node.address) as kept:
            assert kept.call(LIST).status == 200
            limit = worker.num_fds() + 10
            before = worker.rlimit(resource.RLIMIT_NOFILE)
            worker.rlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            crowd = [RawConnection(node.address) for _ in range(40)]
            for one in crowd:
                one.send(LIST)
            assert [one.is_at_its_end() for one in crowd].count(True) >= 30
            assert kept.call(LIST).status == 200
            for one in crowd:
                one.socket.close()
            eventually(lambda: counters(node)["connections"] == 2)
            worker.rlimit(resource.RLIMIT_NOFILE, before)
            assert kept.call(LIST).status == 200
        assert node.worker == worker
        node.stop()

    def test_it_tells_of_connections_and_of_the_loop(self, node: Member) -> None:
        before = counters(node)
        assert before.keys() >= {
            *("connections", "connectionsRefused", "requestsRefused", "pooled", "poolFull"),
            *("loopLagMaxMs", "loopLate"),
        }
        with RawConnection(node.address) as one, RawConnection(node.address) as other:
            assert one.call(LIST).status == 200
            assert other.call(b"garbage\r\n\r\n").status == 400
            after = counters(node)
            assert after["requestsRefused"] == before["requestsRefused"] + 1
            assert after["connections"] >= 2
            assert after["pooled"] == before["pooled"] + 1, "the metrics alone are not for the loop"
        eventually(lambda: counters(node)["connections"] == 1)
        eventually(lambda: counters(node)["loopLagMaxMs"] > 0)

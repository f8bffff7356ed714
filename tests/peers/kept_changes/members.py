"""Three members in networks of their own: real Nacos 2.3.1, or Rollcall."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.network import PORT, Network
from tests.peers.real_members import RealMember
from tests.support.client import Client
from tests.support.processes import eventually

COUNT = 3
SETTLED_TIMEOUT_S = 240.0


class Members:
    """Members that start and stop together. ``addresses``: in the order of the network's places."""

    addresses: Sequence[str]

    def __init__(self, network: Network) -> None:
        self.network = network
        self.addresses = [f"{place.ip}:{PORT}" for place in network.places]

    def start(self) -> None:
        """Start all, and return when each sees all others and accepts writes."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop all in order."""
        raise NotImplementedError

    def end(self) -> None:
        """End all that still runs, in whatever state it is."""
        raise NotImplementedError


class OfNacos(Members):
    """Real servers of 2.3.1."""

    def __init__(self, network: Network, folder: Path) -> None:
        super().__init__(network)
        self._reals = [
            RealMember("2", PORT, folder / f"real-{place.ip}", self.addresses, ip=place.ip, enter=place.enter())
            for place in network.places
        ]

    def start(self) -> None:
        for real in self._reals:
            real.begin()
        for real in self._reals:
            real.wait()
        eventually(lambda: all(_sees_three(one.client) for one in self._reals), SETTLED_TIMEOUT_S)

    def stop(self) -> None:
        for real in self._reals:
            real.stop()

    def end(self) -> None:
        self.stop()


class OfRollcall(Members):
    """Rollcall members with default settings."""

    def __init__(self, network: Network, folder: Path) -> None:
        super().__init__(network)
        self._cluster = Cluster(network, folder, COUNT)

    def start(self) -> None:
        self._cluster.start()
        eventually(lambda: all(_sees_three(Client(one)) for one in self.addresses), SETTLED_TIMEOUT_S)

    def stop(self) -> None:
        for member in self._cluster.listed:
            member.stop()

    def end(self) -> None:
        self._cluster.end()


def _sees_three(client: Client) -> bool:
    nodes = client.call("GET", "/v1/core/cluster/nodes").json()["data"]
    ready = client.call("GET", "/v1/ns/operator/metrics").json()["status"]
    return len(nodes) == COUNT and all(one["state"] == "UP" for one in nodes) and ready == "UP"


MEMBERS: dict[str, type[OfNacos] | type[OfRollcall]] = {"real": OfNacos, "ours": OfRollcall}


def fetch_real() -> bool:
    """Fetch the real server while there is a network; return False where it cannot be had."""
    script = Path(__file__).parents[1] / "nacos" / "nacos.sh"
    return subprocess.run([script, "fetch", "2"], check=False).returncode == 0

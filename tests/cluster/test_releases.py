"""The release before this one and this one in one cluster: under load, then rolled member by member."""

import itertools
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from io import BytesIO
from pathlib import Path

import pytest

from tests.cluster.conftest import StartCluster
from tests.support.processes import ClusterProcesses, Member, eventually

ROOT = Path(__file__).parents[2]
RELEASE_BEFORE = "6788b08"
"""The last commit whose members had no wire version, and sent whole lists only."""
RELEASE_WITHOUT_BATCHES = "3300b57"
"""The last commit whose members took each write that was passed on by itself."""
ADDRESSES, WRITERS = 20, 3
CROWD = 12
"""Writers at one member that write at one time."""
PAUSE_S = 0.02
KEYS_BACK_S = 90.0
"""A member that is back carries keys again after its rejoin delay."""
LONG = {"preserved.heart.beat.timeout": "600000", "preserved.ip.delete.timeout": "600000"}


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of the release before."""
    return modules_of(RELEASE_BEFORE, tmp_path_factory.mktemp("release-before"))


@pytest.fixture(scope="module")
def release_without_batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of the last release that passed each write on by itself."""
    return modules_of(RELEASE_WITHOUT_BATCHES, tmp_path_factory.mktemp("release-without-batches"))


def modules_of(commit: str, folder: Path) -> Path:
    """Unpack the modules of a commit into the folder, and return it."""
    command = ["git", "-C", str(ROOT), "archive", commit, "app", "distro"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history does not have {commit}: {archive.stderr.decode()[:200]}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as modules:
        modules.extractall(folder, filter="data")
    command_line = folder / "app" / "tools" / "cli.py"
    if not command_line.exists():  # the command that is installed here finds it by this name
        command_line.parent.mkdir(exist_ok=True)
        command_line.write_text("from app.cli import main as main\n")
    # Earlier releases were a package of this name, whose version they ask for.
    metadata = folder / "rollcall-0.1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: rollcall\nVersion: 0.1.0\n")
    return folder


class Load:
    """Writers that change instances through all members, one call after the other; each has instances of its own."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self._cluster = cluster
        self._services = [cluster.service_of(owner, "rolled") for owner in cluster]
        self._stopped = threading.Event()
        self.acknowledged: dict[tuple[str, str], str] = {}
        """The last word of each service and address that a member took."""
        self.unsure: dict[tuple[str, str], set[str]] = {}
        """Words since then of which nobody said whether they were taken."""
        self.counts = [0] * WRITERS
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for one in self._threads:
            one.start()

    def _write(self, writer: int) -> None:
        addresses = [f"10.8.{writer}.{number}" for number in range(ADDRESSES)]
        clients = itertools.cycle([member.client for member in self._cluster])
        for number in itertools.count():
            at = self._services[number % len(self._services)], addresses[number % ADDRESSES]
            word = f"{writer}-{number}"
            try:
                status = next(clients).register(*at, metadata=json.dumps(LONG | {"word": word})).status
            except (OSError, HTTPException):
                status = 0  # the member ends, or is not there yet
            if status == 200:
                self.acknowledged[at] = word
                self.unsure.pop(at, None)
                self.counts[writer] += 1
            else:
                self.unsure.setdefault(at, set()).add(word)
            if self._stopped.wait(PAUSE_S):
                return

    def go_on(self, writes: int) -> None:
        """Return when each writer had so many more words taken."""
        targets = [count + writes for count in self.counts]
        eventually(lambda: all(now >= then for now, then in zip(self.counts, targets, strict=True)))

    def stop(self) -> None:
        self._stopped.set()
        for one in self._threads:
            one.join()

    def is_everywhere(self) -> bool:
        """Whether every member lists all that was acknowledged, by its last word."""
        for service in {service for service, _ in self.acknowledged}:
            lists = [member.client.hosts(service) for member in self._cluster]
            assert lists[0] == lists[1] == lists[2]
            for (of, ip), word in self.acknowledged.items():
                if of == service:
                    assert lists[0][f"{ip}:8080"]["metadata"]["word"] in {word, *self.unsure.get((of, ip), ())}
        return True


@pytest.fixture
def load(make_cluster: StartCluster, release_before: Path) -> Iterator[tuple[ClusterProcesses, Load]]:
    """Three members of the release before, and writers."""
    cluster = make_cluster()
    for member in cluster:
        member.settings["PYTHONPATH"] = str(release_before)
    cluster.start()
    writers = Load(cluster)
    try:
        yield cluster, writers
    finally:
        writers.stop()


def renew(cluster: ClusterProcesses, member: Member) -> None:
    """Have a member end in order, and start in this release."""
    del member.settings["PYTHONPATH"]
    member.stop()
    member.restart()
    for one in cluster:
        eventually(lambda one=one: cluster.all_up(one))  # type: ignore[misc]


def count(member: Member, name: str) -> int:
    return int(member.client.metrics()[name])


def test_a_roll_loses_nothing_and_only_new_members_exchange_deltas(load: tuple[ClusterProcesses, Load]) -> None:
    cluster, writers = load
    first, second, third = cluster.members
    writers.go_on(30)
    assert "syncDeltas" not in third.client.metrics(), "that is the release before"

    renew(cluster, first)
    writers.go_on(100)
    eventually(lambda: count(first, "syncKeys") > 10, KEYS_BACK_S)
    assert count(first, "syncDeltas") == 0, "nobody else reads deltas"

    renew(cluster, second)
    for one in (first, second):
        eventually(lambda one=one: count(one, "syncDeltas") and count(one, "receivedDeltas"), KEYS_BACK_S)  # type: ignore[misc]
    assert count(third, "receivedFailed") == 0, "it would not read one"

    renew(cluster, third)
    writers.go_on(100)
    eventually(lambda: count(third, "receivedDeltas") > 0, KEYS_BACK_S)
    writers.stop()
    eventually(writers.is_everywhere)


def write_at_once(entry: Member, service: str, word: str) -> None:
    """Have many clients of one member register at one time; each reads its own write there."""

    def write(number: int) -> None:
        ip = f"10.7.0.{number}"
        assert entry.client.register(service, ip, metadata=json.dumps(LONG | {"word": word})).status == 200
        assert entry.client.hosts(service)[f"{ip}:8080"]["metadata"]["word"] == word

    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(write, range(CROWD)))


def test_writes_go_together_between_new_members_alone(
    make_cluster: StartCluster, release_without_batches: Path
) -> None:
    cluster = make_cluster()
    old, second, third = cluster.members
    old.settings["PYTHONPATH"] = str(release_without_batches)
    cluster.start()
    of_old, of_third = cluster.service_of(old, "old"), cluster.service_of(third, "new")
    words = map(str, itertools.count())

    for entry, service in ((second, of_old), (old, of_third)):
        for word in itertools.islice(words, 5):
            write_at_once(entry, service, word)
    assert count(second, "forwardBatches") == 0, "the owner would not read one"

    def went_together() -> bool:
        write_at_once(second, of_third, next(words))
        return count(second, "forwardBatches") > 0

    eventually(went_together)
    renew(cluster, old)
    assert eventually(
        lambda: second.client.hosts(of_third) == third.client.hosts(of_third) == old.client.hosts(of_third)
    )

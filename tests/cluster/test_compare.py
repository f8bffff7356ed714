"""Running members compared by the command."""

import json

from tests.cluster.conftest import StartCluster
from tests.support.processes import ClusterProcesses, clean_environ, eventually
from tests.support.ran_here import run_here


def compared(*arguments: str) -> tuple[int, str, str]:
    done = run_here("compare", *arguments, environ=clean_environ())
    return done.returncode, done.stdout, done.stderr


def test_members_of_a_cluster_are_the_same(three: ClusterProcesses) -> None:
    first, second, _ = three.members
    for number in range(20):
        assert first.client.register(f"compared-{number}", "10.7.0.1").status == 200
        eventually(lambda number=number: three.all_list(f"compared-{number}", {"10.7.0.1:8080"}))  # type: ignore[misc]
    code, text, errors = compared(first.address, second.address, "--service", "compared-3")
    assert (code, text) == (0, "no difference\n")
    assert errors.startswith("rollcall compare: not compared: RECORD, CLIENT and MEMBERSHIP: ")
    assert compared(first.address, second.address) == (0, "no difference\n", "")


def test_members_of_two_clusters_differ(make_cluster: StartCluster) -> None:
    clusters = [make_cluster(1) for _ in range(2)]
    for cluster in clusters:
        cluster.start()
    [one], [other] = (cluster.members for cluster in clusters)
    for member, weight in ((one, 1), (other, 3)):
        assert member.client.register("both", "10.7.0.1", weight=weight).status == 200
    assert one.client.register("mine", "10.7.0.2").status == 200
    code, text, errors = compared(one.address, other.address, "--gap", "100ms", "--json")
    assert (code, errors) == (1, "")
    found = [json.loads(line) for line in text.splitlines()]
    about = [
        (line["finding_class"], line["service"], line["a"]["value"], line["b"]["value"], line["lasting"])
        for line in found
    ]
    assert about == [
        ("MEMBERSHIP", "", f"{one.address} UP", f"{other.address} UP", True),
        ("OWNER", "DEFAULT_GROUP@@both", one.address, other.address, True),
        ("WEIGHT", "DEFAULT_GROUP@@both", "1.0", "3.0", True),
        ("MISSING", "DEFAULT_GROUP@@mine", "healthy weight 1.0", "absent", True),
    ]
    code, text, _ = compared(one.address, other.address, "--gap", "100ms")
    assert code == 1
    assert text.splitlines()[-1] == "4 differences in 2 services: MEMBERSHIP 1, MISSING 1, OWNER 1, WEIGHT 1"

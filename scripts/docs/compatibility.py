"""Writes docs/compatibility.md and compatibility-nacos.md from test results: what works with each library and Nacos.

python -m pytest tests/sdk --junitxml=build/results/sdk.xml
python -m pytest tests/conformance --junitxml=build/results/conformance.xml
python -m pytest tests/peers --junitxml=build/results/peers.xml
python -m scripts.docs.compatibility build/results/*.xml
"""

import argparse
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from app.config.version import __version__
from tests.sdk import environments
from tests.sdk.maintainer_calls import ROWS
from tests.sdk.maintainer_core_calls import NACOS_3, PART_METHODS, REFUSED, UNREADABLE

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "compatibility.md"
NACOS_TARGET = ROOT / "docs" / "compatibility-nacos.md"
GO = (ROOT / "tests" / "sdk" / "programs" / "go" / "go.mod").read_text(encoding="utf-8")
Results = Mapping[str, str]
"""The outcome of each test (``passed``, ``failed`` or ``skipped``), by ``folder/module.py::function[parameters]``."""

GO_1, GO_2, NODE = (
    re.findall(pattern, text)[0]
    for pattern, text in (
        (r"nacos-sdk-go v(\S+)", GO),
        (r"nacos-sdk-go/v2 v(\S+)", GO),
        (r"[0-9.]{5,}", environments.NODE_SDK),
    )
)
PYTHON, PYTHON_2, PYTHON_3 = (
    name.partition("==")[2] for name in (environments.PYTHON_SDK, environments.PYTHON_2_SDK, environments.PYTHON_3_SDK)
)
RUST = f"Rust over gRPC, nacos-sdk-rust as {environments.RUST_SDK.replace('==', ' ')} of Python"
RUST_TEST = "sdk/test_rust_sdk.py::test"
DUBBO = f"Dubbo 3.3 with nacos-client {environments.JAVA_2_SDK}"
JAVA_3, FUZZY = f"Java, nacos-client {environments.JAVA_3_SDK}", "sdk/test_fuzzy_watch.py::test"
HTTP_LIBRARIES = {
    "java": f"Java, nacos-client {environments.JAVA_SDK}",
    "go": f"Go, nacos-sdk-go {GO_1}",
    "python": f"Python, nacos-sdk-python {PYTHON}",
    "node": f"Node.js, nacos {NODE}",
}
GRPC_LIBRARIES = {
    "java": f"Java, nacos-client {environments.JAVA_2_SDK}",
    "java-3": JAVA_3,
    "go": f"Go, nacos-sdk-go {GO_2}",
    "python-2": f"Python, nacos-sdk-python {PYTHON_2}",
    "python-3": f"Python, nacos-sdk-python {PYTHON_3}",
}
QUICK_START = {
    ("http", "java"): "java-1", ("http", "go"): "go-1", ("http", "python"): "python-1", ("http", "node"): "node",
    ("grpc", "java"): "java-2", ("grpc", "java-3"): "java-3", ("grpc", "go"): "go-2",
    ("grpc", "python-2"): "python-2", ("grpc", "python-3"): "python-3",
}  # fmt: skip
"""The program of the quick start of each library."""
EVERY = {
    "quick start": "sdk/test_quick_start.py::test_it_prints_what_the_page_says[{program}]",
    "with users": "sdk/test_users.py::test_a_library_with_a_right_works_and_without_is_refused[{name} over {kind}]",
    "a user at members without users": "sdk/test_users.py::test_a_library_with_a_user_works_where_none_is_asked_for"
    "[{name} over {kind}]",
}
"""The features tested with every library, and the test of each."""
HTTP_FEATURES = {
    "registers, beats, lists, gets changes, deregisters": "sdk/test_sdks.py::test_a_library_gets_through[life-{name}]",
    "several instances of a service": "sdk/test_sdks.py::test_a_library_gets_through[two instances-{name}]",
    "namespaces": "sdk/test_sdks.py::test_a_library_gets_through[namespaces-{name}]",
    "gets UDP pushes": "sdk/test_sdks.py::test_listeners_are_told_by_push[{name}]",
    "a member is killed; all restart": "sdk/test_sdks.py::test_a_killed_member_and_a_restart_of_all_are_survived"
    "[{name}]",
    "HTTPS": "sdk/test_https.py::test_it_registers_and_lists[{name}]",
    "refuses a certificate of another authority": "sdk/test_https.py::"
    "test_it_sends_nothing_to_a_node_of_another_authority[{name}]",
}
GRPC_CHAPTERS = {
    "registers, lists, gets changes, deregisters": "life",
    "several instances of a service": "two instances",
    "batches": "batch",
    "namespaces": "namespaces",
    "reports a refusal": "refusal",
    "moves to another member": "failover",
    "registers again at a member that lost its data": "redo",
    "its end removes its instances": "end",
}
GRPC_FEATURES = {
    title: f"sdk/test_grpc_sdks.py::test_a_library_gets_through[{chapter}-{{name}}]"
    for title, chapter in GRPC_CHAPTERS.items()
}
TOGETHER = {
    "sdk/test_mixed_view.py::test_all_see_the_same_at_every_quiet_point": "libraries over HTTP and gRPC on one "
    "service, at three members, see the same while nothing changes",
    "sdk/test_grpc_sdks.py::test_a_frozen_publisher_is_gone_and_comes_back": "a machine that freezes with an open "
    "connection: its instance is removed, and comes back with it",
    f"{RUST_TEST}_a_subscription_hears_of_what_others_register_over_http": f"{RUST}: gets changes by push",
    f"{RUST_TEST}_its_instance_is_listed_and_pushed_until_it_deregisters": f"{RUST}: registers, lists, deregisters",
    f"{RUST_TEST}_a_batch_is_one_registration": f"{RUST}: batches",
    f"{RUST_TEST}_it_selects_healthy_instances": f"{RUST}: selects healthy instances",
    f"{RUST_TEST}_an_operators_change_reaches_it": f"{RUST}: an operator's change is pushed to it, and outlives its "
    "next registration",
    f"{RUST_TEST}_it_moves_to_another_member": f"{RUST}: moves to another member",
    "sdk/test_dubbo.py::test_an_inner_interface_is_listed_everywhere_and_called_while_a_member_dies": f"{DUBBO}: lists "
    "and calls an interface inside a class while a member dies",
    "sdk/test_dubbo.py::test_a_consumer_of_every_group_finds_the_provider_by_the_list_of_services": f"{DUBBO}: a "
    "consumer of every group finds its provider",
    "sdk/test_dubbo.py::test_the_client_of_dubbo_registers_names_with_a_dollar_sign": f"{DUBBO}: names with a dollar "
    "sign",
    f"{FUZZY}_it_lists_what_matches_and_hears_of_what_comes_and_goes": f"{JAVA_3}: watches services by a pattern",
    f"{FUZZY}_what_another_client_publishes_is_heard_of_until_it_ends": f"{JAVA_3}: its watch shows the services of "
    "another client, until that client ends",
    f"{FUZZY}_an_ended_watch_hears_nothing": f"{JAVA_3}: ends a watch",
    f"{FUZZY}_a_client_that_was_away_hears_of_what_it_missed": f"{JAVA_3}: its watch shows changes that it missed "
    "while it was away",
    f"{FUZZY}_it_learns_of_the_limits": f"{JAVA_3}: learns of the limits of watches",
}
"""Tests of several libraries at once, or of only one, and their features."""
MAINTAINER = "sdk/test_maintainer.py::test"
MAINTAINER_LIMITS = {
    f"{MAINTAINER}_a_user_without_a_right_is_refused": f"Java, nacos-maintainer-client "
    f"{environments.MAINTAINER_JAVA}: a user without a right is refused",
    "sdk/test_maintainer_python.py::test_every_call_logs_in_and_is_refused": "Python, nacos-maintainer-sdk-python "
    f"{environments.MAINTAINER_PYTHON.partition('==')[2]}: logs in; its 13 methods are all about AI, and all refused "
    "with 501, code 40001",
}
"""Tests of operators' clients, beside those of the methods one by one."""
NOT_SHOWN = re.compile(
    r"sdk/test_maintainer\.py::test_each_method_is_in_one_table"
    r"|sdk/test_quick_start\.py::test_each_library_has_its_program"
    r"|conformance/test_conformance(_v2)?\.py::test_(the_list_names|each_list|all_conversations|what_passes)"
    r"|conformance/test_(both_ways|conformance_v3(_users)?|conformance_clients)\.py"
    r"|peers/test_(audit|dump|operator_changes|prometheus)\.py"
)
"""Tests of the tests themselves, of a single server, and of the audit and metrics."""
RECORDED = {"test_conformance": "Nacos 1.4.1", "test_conformance_v2": "Nacos 2.3.1 over HTTP v2"}
"""The tests of recorded conversations."""
AREA = re.compile(r"conformance/(\w+)\.py::test_(node|member)_answers_as_recorded\[(.*)\]")
PEERS = {
    "peers/test_real_nacos.py": "Nacos 1.4.1",
    "peers/test_real_nacos_2.py": "Nacos 2.3.1",
    "peers/test_real_nacos_3.py": "Nacos 3.0.3",
    "peers/test_rolling_change.py": "Nacos 3.0.3",
    "peers/test_sdk_programs.py": "Nacos 2.3.1 and 3.0.3",
}
SHOWN_AS = {"passed": "yes", "failed": "**no**", "skipped": "not run", "": ""}

HEAD = """\
# Compatibility

This page has the results of tests with the published libraries: release {version}, {made}.
[Compatibility with real Nacos](compatibility-nacos.md) has those of recorded conversations and of clusters with real
Nacos servers. *yes* means that the test passed. *not run* means that its library or server was missing. A cell is empty
if the library lacks the feature. [Differences](differences.md) lists the intended differences, and
[scenarios-2x](scenarios-2x.md) the cases of gRPC.

`python -m scripts.docs.compatibility` makes both pages from test results. A test compares their tables with the
existing tests."""
NACOS_HEAD = """\
# Compatibility with real Nacos

This page has the results of tests with real Nacos servers: release {version}, {made}.
[Compatibility](compatibility.md) explains the results, and has those of the libraries."""
RECORDED_HEAD = """
## Conversations recorded from {server}

The tests replay the conversations at a single node, and through one member of three. The text of each answer must be
equal.

| area | single node | through a member |
|---|---|---|"""
MAINTAINER_HEAD = """
## Operators' clients over HTTP v3

These tests ran at three members with users. `NamingMaintainerService` of Java's nacos-maintainer-client {version} has
{whole} methods that call a server, overloads included. {passed} of them do their work. Rollcall refuses {refused},
because it has no plug-ins and no Raft. {unreadable} fail inside the library, with Nacos 3.0.3 too: it expects an answer
without the envelope. Its {parts} methods for configurations and AI are all refused with 501.

*yes* in the third column means that the test of the row passed. The last column has the result of the same calls at a
single Nacos 3.0.3.

| method | overloads | Rollcall | Nacos 3.0.3 |
|---|---|---|---|"""
RECORDED_V3 = """
## Conversations recorded from Nacos 3.0.3 over HTTP v3

`tests/conformance/test_conformance_v3.py` replays these conversations in the same way."""
PEERS_HEAD = """
## Real Nacos in one cluster with Rollcall

The clusters had two real members and one Rollcall member, and for Nacos 3.0.3 also one real member and two Rollcall
members (one-real).
The libraries over gRPC ran in a cluster of a real 2.3.1, a real 3.0.3 and one Rollcall member.

| case | with | |
|---|---|---|"""


def read_results(files: Iterable[Path]) -> Results:
    """Read the outcome of each test from files that pytest wrote (``--junitxml``)."""
    found: dict[str, str] = {}
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            path = case.attrib["classname"].removeprefix("tests.").replace(".", "/") + ".py"
            kinds = {child.tag for child in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[f"{path}::{case.attrib['name']}"] = outcome
    return found


def documents(results: Results, made: str) -> dict[Path, str]:
    """Return the text of each page.

    Raises:
        LookupError: a test that ran is in no table; name it in a table above, or in the list of ignored tests.
    """
    left = dict(results)
    http = _libraries("http", HTTP_LIBRARIES, HTTP_FEATURES | EVERY, left)
    grpc = _libraries("grpc", GRPC_LIBRARIES, GRPC_FEATURES | EVERY, left)
    together = [f"| {text} | {SHOWN_AS[left.pop(test, '')]} |" for test, text in TOGETHER.items()]
    maintainer = _maintainer(left)
    recorded = [
        line
        for file, server in RECORDED.items()
        for line in (RECORDED_HEAD.format(server=server), *_recorded(left, file))
    ]
    peers = _peers(left)
    if unknown := [name for name in left if not NOT_SHOWN.match(name)]:
        raise LookupError(f"no table of docs/compatibility.md has {unknown}")
    libraries = (
        HEAD.format(version=__version__, made=made),
        "\n## Libraries over HTTP\n\nThese tests ran at three members with default settings.\n",
        *http,
        "\n## Libraries over gRPC\n\nThese tests ran at three members with default settings, too.\n",
        *grpc,
        "\n## Libraries together\n\n| case | |\n|---|---|",
        *together,
        *maintainer,
    )
    nacos = (NACOS_HEAD.format(version=__version__, made=made), *recorded, RECORDED_V3, PEERS_HEAD, *peers)
    return {TARGET: "\n".join(libraries) + "\n", NACOS_TARGET: "\n".join(nacos) + "\n"}


def _libraries(kind: str, libraries: Mapping[str, str], features: Mapping[str, str], left: dict[str, str]) -> list[str]:
    """Yield a column for each library and a row for each feature; the shown tests are removed from ``left``."""
    rows = [f"| | {' | '.join(libraries.values())} |", "|---" * (len(libraries) + 1) + "|"]
    for title, test in features.items():
        names = (test.format(name=name, kind=kind, program=QUICK_START[kind, name]) for name in libraries)
        rows.append(f"| {title} | {' | '.join(SHOWN_AS[left.pop(name, '')] for name in names)} |")
    return rows


def _maintainer(left: dict[str, str]) -> list[str]:
    """Return the methods of operators' clients, each with its outcome; the shown tests are removed from ``left``."""
    passed = {name: one.overloads for name, one in ROWS.items()}
    refused = {name: overloads for name, (overloads, _) in REFUSED.items()}
    parts = dict(PART_METHODS.values())
    counts = {"passed": passed, "refused": refused, "unreadable": UNREADABLE, "parts": parts}
    numbers = {name: sum(one.values()) for name, one in counts.items()}
    whole = numbers["passed"] + numbers["refused"] + numbers["unreadable"]
    rows = [MAINTAINER_HEAD.format(version=environments.MAINTAINER_JAVA, whole=whole, **numbers)]
    tests: list[tuple[str, int, str, str]] = [
        *((name, number, "does_its_work", "") for name, number in sorted(passed.items())),
        *((name, number, "is_refused", ", refused") for name, number in sorted(refused.items())),
    ]
    for name, number, test, text in tests:
        outcome = SHOWN_AS[left.pop(f"{MAINTAINER}_a_method_{test}[{name}]", "")]
        rows.append(f"| `{name}`{text} | {number} | {outcome} | {NACOS_3.get(name, SHOWN_AS['passed'])} |")
    for name, number in sorted(UNREADABLE.items()):
        test = f"{MAINTAINER}_the_library_cannot_read_an_answer_in_its_envelope[{name}]"
        rows.append(f"| `{name}`, fails in the library | {number} | {SHOWN_AS[left.pop(test, '')]} | the same |")
    for part, (name, number) in PART_METHODS.items():
        outcome = SHOWN_AS[left.pop(f"{MAINTAINER}_a_part_is_refused[{part}]", "")]
        rows.append(f"| all of `{name}`, refused | {number} | {outcome} | not tried |")
    return [
        *rows,
        "\n| case | |\n|---|---|",
        *(f"| {text} | {SHOWN_AS[left.pop(test, '')]} |" for test, text in MAINTAINER_LIMITS.items()),
    ]


def _recorded(left: dict[str, str], file: str) -> list[str]:
    areas: dict[str, dict[str, str]] = {}
    for name in [*left]:
        if (found := AREA.fullmatch(name)) and found[1] == file:
            areas.setdefault(found[3], {})[found[2]] = left.pop(name)
    return [
        f"| {area} | {SHOWN_AS[one.get('node', '')]} | {SHOWN_AS[one.get('member', '')]} |"
        for area, one in sorted(areas.items())
    ]


def _peers(left: dict[str, str]) -> list[str]:
    rows = []
    for name in [*left]:
        path, _, test = name.partition("::")
        if path in PEERS:
            text = re.sub(r"\[(.*)\]", r" (\1)", test.removeprefix("test_")).replace("_", " ")
            rows.append(f"| {text} | {PEERS[path]} | {SHOWN_AS[left.pop(name)]} |")
    return sorted(rows)


def main() -> int:
    """Write the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="files written by pytest --junitxml")
    parser.add_argument("--date", default=date.today().isoformat(), help="of the results; today")
    arguments = parser.parse_args()
    for page, text in documents(read_results(arguments.files), arguments.date).items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

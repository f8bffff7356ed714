import pytest

from app.members.own_entry import OwnEntry

ELSEWHERE = "192.0.2.7:8848"
"""Of a network for documentation: no machine has it."""


def resolve(host: str) -> frozenset[str]:
    if host not in ("here", "there"):
        raise OSError("not known")
    return frozenset({"10.1.1.1" if host == "here" else "10.1.1.2"})


def put(own: str, host: str, *found: str) -> tuple[tuple[str, ...], bool]:
    return OwnEntry(own, host, resolve).put_into(found)


def test_it_is_there_as_it_is() -> None:
    assert put("10.1.1.1:8848", "10.1.1.1", ELSEWHERE, "10.1.1.1:8848") == ((ELSEWHERE, "10.1.1.1:8848"), True)


def test_it_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    entry = OwnEntry("10.1.1.1:8848", "10.1.1.1", resolve)
    for _ in range(2):
        assert entry.put_into((ELSEWHERE,)) == ((ELSEWHERE, "10.1.1.1:8848"), False)
    assert caplog.text.count("is not in the member list") == 1


@pytest.mark.parametrize(
    ("own", "host", "listed"),
    [
        ("[fd00::1]:8848", "fd00::1", "[fd00:0:0:0:0:0:0:1]:8848"),
        ("Here:8848", "10.1.1.1", "here:8848"),
        ("10.1.1.1:8848", "10.1.1.1", "here:8848"),
        ("here:8848", "10.1.1.1", "10.1.1.1:8848"),
        ("10.9.9.9:8848", "0.0.0.0", "127.0.0.1:8848"),
    ],
)
def test_another_spelling_is_this_node_and_nobody_else(
    own: str, host: str, listed: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert put(own, host, ELSEWHERE, listed) == ((ELSEWHERE, own), True)
    assert f"has this node, {own}, as {listed}" in caplog.text


def test_twice_in_the_list_it_is_there_once(caplog: pytest.LogCaptureFixture) -> None:
    own = "[fd00::1]:8848"
    assert put(own, "fd00::1", "[fd00:0::1]:8848", ELSEWHERE, own) == ((own, ELSEWHERE), True)
    assert not caplog.records


@pytest.mark.parametrize("other", ["10.1.1.1:8849", "10.1.1.2:8848", "there:8848", "unknown:8848"])
def test_another_port_or_host_is_another_member(other: str) -> None:
    assert put("10.1.1.1:8848", "10.1.1.1", other) == ((other, "10.1.1.1:8848"), False)

"""Agent strings."""

import pytest

from app.http.api.agents import ClientType, is_peer, is_redirect, parse_agent


@pytest.mark.parametrize(
    ("agent", "kind", "version"),
    [
        ("Nacos-Java-Client:v1.4.8", ClientType.JAVA, (1, 4, 8)),
        ("Nacos-Java-Client:v2.0.0-BETA", ClientType.JAVA, (2, 0, 0)),
        ("Nacos-Java-Client:v1", ClientType.JAVA, (1, 0, 0)),
        ("Nacos-Java-Client", ClientType.JAVA, (0, 0, 0)),
        ("Nacos-Go-Client:v1.1.6", ClientType.GO, (1, 1, 6)),
        ("Nacos-CSharp-Client:v0.9x.0", ClientType.CSHARP, (0, 9, 0)),
        ("Nacos-SDK-Java:v1.0.0", ClientType.JAVA_SDK, (1, 0, 0)),
        ("Nacos-Server:1.4.8", ClientType.NACOS_SERVER, (0, 0, 1)),
        ("Nacos-Python-Client:v0.1.17", ClientType.UNKNOWN, (0, 0, 0)),
        ("", ClientType.UNKNOWN, (0, 0, 0)),
    ],
)
def test_kind_and_version(agent: str, kind: ClientType, version: tuple[int, int, int]) -> None:
    parsed = parse_agent(agent)
    assert parsed.type is kind
    if kind is not ClientType.NACOS_SERVER:
        assert parsed.version == version


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("Nacos-Java-Client:v1.0.0", True),
        ("Nacos-Java-Client:v1", True),
        ("Nacos-Java-Client:v0.9.0", False),
        ("Nacos-Java-Client", False),
        ("Nacos-SDK-Java:v1.0.0", False),
        ("Nacos-Java-Client:v" + "9" * 100_000, True),
    ],
)
def test_java_sdk_since_1_0(agent: str, expected: bool) -> None:
    assert parse_agent(agent).java_since_1_0 is expected


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("Nacos-Java-Client:v2.10.0", False),
        ("Nacos-Java-Client:v1.4.8", True),
        ("Nacos-C-Client:v1.0.21", True),
        ("Nacos-Go-Client:v2.3.2", True),
    ],
)
def test_nginx_reads_no_gzip(agent: str, expected: bool) -> None:
    assert parse_agent(agent).reads_gzip is expected


def test_a_redirect_contains_what_a_peer_starts_with() -> None:
    assert is_peer("Nacos-Server:1.4.8")
    assert not is_peer("my Nacos-Server clone")
    assert is_redirect("my Nacos-Server clone")
    assert not is_redirect("curl/8")

"""What a health check over HTTP may send."""

import pytest

from app.naming.health.check_headers import HEADERS_MAX, check_request, headers_of, is_allowed
from app.naming.model.nacos_errors import InvalidParam


@pytest.mark.parametrize("name", ["Accept", "accept-language", "User-Agent", "X-Env", "x-b3-traceid", "X-Health-Check"])
def test_harmless_names(name: str) -> None:
    assert is_allowed(name)
    check_request("/", f"{name}:1")
    assert headers_of(f"{name}: 1") == {name: "1"}


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "host", "Authorization", "Proxy-Authorization", "Cookie", "Content-Length", "Transfer-Encoding"),
        *("Metadata", "Metadata-Flavor", "X-Google-Metadata-Request", "X-aws-ec2-metadata-token", "X-Vault-Token"),
        *("Connection", "Upgrade", "Expect", "TE", "Trailer", "Proxy-Connection", "Forwarded", "Via", "Range"),
        *("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "X-HTTP-Method-Override", "X-Original-URL"),
        *("rollcall-client-agent", "Content-Type", "Origin", "X_Forwarded_For", "accessToken"),
    ],
)
def test_names_that_other_services_act_upon(name: str) -> None:
    assert not is_allowed(name)
    assert headers_of(f"{name}: 1") == {}
    with pytest.raises(InvalidParam, match="does not send"):
        check_request("/", f"X-A:1|{name}: 1")


@pytest.mark.parametrize("name", ["a", "Pragma", "If-Match", "X_Env", "X Y", "X-" + "a" * 80])
def test_other_names_are_taken_and_not_sent(name: str) -> None:
    check_request("/", f"{name}: 1")
    assert headers_of(f"{name}: 1|X-A: 1") == {"X-A": "1"}


@pytest.mark.parametrize("text", ["\0", "\r\n", "\n", "\t", "\x7f", "\x1b["])
def test_control_characters(text: str) -> None:
    for path, headers in (("/a" + text, ""), ("/", f"X-A:a{text}b")):
        with pytest.raises(InvalidParam, match="control characters"):
            check_request(path, headers)
    assert headers_of(f"X-A:a{text}b") == {}


def test_there_are_not_endlessly_many() -> None:
    assert len(headers_of("|".join(f"X-{number}:1" for number in range(100)))) == HEADERS_MAX

"""The options by which commands call members by HTTPS."""

import argparse
from pathlib import Path

import pytest

from app.tools.audit.client.access import AccessError, add_access_options, add_member_options, members_of
from tests.support.certificates import Authority


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_member_options(parser)
    add_access_options(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("members", "scheme"),
    [
        ("10.0.0.1:8848,10.0.0.2", "http"),
        ("https://10.0.0.1:8848,https://10.0.0.2:8848", "https"),
        ("https://10.0.0.1:8848, 10.0.0.2", "https"),
    ],
)
def test_members_may_be_named_with_https(members: str, scheme: str) -> None:
    access, addresses, _ = members_of(parse("--members", members))
    assert (access.scheme, access.ca) == (scheme, "")
    assert addresses == ("10.0.0.1:8848", "10.0.0.2:8848")


def test_one_member_in_plain_text_beside_others_is_not_asked_by_https_unnoticed() -> None:
    with pytest.raises(AccessError, match="is not a member address"):
        members_of(parse("--members", "10.0.0.1:8848,https://10.0.0.2:8848"))


def test_certificates_mean_https(tmp_path: Path) -> None:
    file = str(Authority(tmp_path).file)
    for where in (("--members", "10.0.0.1"), ("--from-cluster", "10.0.0.1:8848")):
        access, *_ = members_of(parse(*where, "--ca", file))
        assert (access.scheme, access.ca) == ("https", file)


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    for content in (None, b"broken"):
        if content is not None:
            broken.write_bytes(content)
        with pytest.raises(AccessError, match=r"--ca .*broken\.pem has no readable certificates"):
            members_of(parse("--members", "10.0.0.1", "--ca", str(broken)))

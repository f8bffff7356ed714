"""A standalone node with HTTPS."""

from collections.abc import Iterator
from pathlib import Path

from tests.support.certificates import Authority, https_settings
from tests.support.processes import Member, free_ports


class HttpsNode:
    """A standalone node with HTTPS, and what its certificate is made by."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.chain, self.private_key = folder / "chain.pem", folder / "key.pem"
        self.serial = self.authority.issue(self.chain, self.private_key)
        [self.port] = free_ports(1)
        settings = https_settings(self.chain, self.private_key, self.authority.file)
        self.member = Member(self.port, folder / "node", {"rollcall.announce": "false", **settings})


def running_https_node(folder: Path) -> Iterator[HttpsNode]:
    """Yield a node that runs, and end it; no traceback may be in its log."""
    made = HttpsNode(folder)
    try:
        made.member.start()
        made.member.wait_ready()
        yield made
        made.member.stop()
    finally:
        made.member.end()
    assert "Traceback" not in made.member.log_text(), made.member.log_text()[-6_000:]

import os
from pathlib import Path

import pytest

from app.config.lookup_settings import LookupSettings
from app.members import member_sources
from app.members.member_sources import (
    ANSWER_BYTES_MAX,
    FILE_BYTES_MAX,
    AddressServer,
    DnsName,
    MemberFile,
    NoListError,
    source_maker,
)
from tests.support.tiny_server import Given, refusing_address, tiny_server

ONE, TWO = "10.0.0.1:8848", "10.0.0.2:8848"
SELF = "127.0.0.1:8848"


class TestFile:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "cluster.conf"
        path.write_text(f"{ONE}\n{TWO}\n")
        return path

    def test_a_change_counts_when_the_next_look_finds_the_same(self, path: Path) -> None:
        source = MemberFile(path, ())
        assert source.read() == (ONE, TWO)
        path.write_text("10.0.0.1:88")  # it is being written
        assert source.read() is None
        path.write_text(f"{ONE}\n")
        assert source.read() is None
        assert source.read() == (ONE,)

    def test_another_file_in_its_place(self, path: Path) -> None:
        """Of the same size and time: what replaces files keeps times, and addresses have the same length."""
        source = MemberFile(path, ())
        assert source.read() == (ONE, TWO)
        before = path.stat()
        new = path.with_name("new")
        new.write_text(f"{ONE}\n10.0.0.3:8848\n")
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        new.replace(path)
        assert path.stat().st_size == before.st_size
        assert source.read() is None
        assert source.read() == (ONE, "10.0.0.3:8848")

    def test_a_link_on_the_way_is_swapped(self, tmp_path: Path) -> None:
        """As Kubernetes does with a ConfigMap: the folder behind ``..data`` is another one."""
        for name, text in (("..1", ONE), ("..2", TWO)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "cluster.conf").write_text(text)
            os.utime(tmp_path / name / "cluster.conf", ns=(1, 1))
        (tmp_path / "..data").symlink_to("..1")
        (tmp_path / "cluster.conf").symlink_to("..data/cluster.conf")
        source = MemberFile(tmp_path / "cluster.conf", ())
        assert source.read() == (ONE,)
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        assert source.read() is None
        assert source.read() == (TWO,)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "names no member"),
            (b"# nobody\n\n", "names no member"),
            (b"10.0.0.1:88x", "is not a member address"),
            (b"\xff\xfe\x00", "is not UTF-8 text"),
            (b"<html><body>moved</body></html>", "is not a member address"),
            (b"#" * (FILE_BYTES_MAX + 1), "is over"),
            (b"\n".join(b"10.0.%d.%d" % (at // 250, at % 250) for at in range(1_001)), "names 1001 members"),
        ],
    )
    def test_what_is_no_list(self, path: Path, content: bytes, says: str) -> None:
        source = MemberFile(path, ())
        source.read()
        path.write_bytes(content)
        assert source.read() is None
        with pytest.raises(NoListError, match=says):
            source.read()

    def test_a_folder_in_its_place(self, path: Path) -> None:
        path.unlink()
        path.mkdir()
        with pytest.raises(NoListError, match=r"cannot be read"):
            MemberFile(path, ()).read()

    def test_one_that_is_gone_is_not_replaced_by_the_setting(self, path: Path) -> None:
        source = MemberFile(path, (SELF,))
        assert source.read() == (ONE, TWO)
        path.unlink()
        for _ in range(3):
            with pytest.raises(NoListError, match=r"cannot be found"):
                source.read()

    def test_the_setting_counts_until_there_is_a_file(self, path: Path) -> None:
        path.rename(path.with_name("later"))
        source = MemberFile(path, (SELF, ONE))
        assert source.read() == (SELF, ONE)
        path.with_name("later").rename(path)
        assert source.read() is None, "it may be half written"
        assert source.read() == (ONE, TWO)


class TestAddressServer:
    @pytest.mark.parametrize(
        "body",
        [
            b"10.0.0.1\n10.0.0.2:8848\n",
            b"10.0.0.1:8848,10.0.0.2:8848",
            b"\xef\xbb\xbf10.0.0.1\n# a comment\n\n10.0.0.2\n10.0.0.1:8848\n",
            b'{"code": 200, "message": null, "data": "10.0.0.1:8848\\n10.0.0.2:8848\\n"}',
            b'{"code": 0, "data": "10.0.0.1,10.0.0.2"}',
        ],
    )
    def test_a_list(self, body: bytes) -> None:
        with tiny_server(lambda _: Given(body=body)) as server:
            source = AddressServer(f"http://{server.address}/nacos/serverlist")
            assert source.read() == (ONE, TWO)
            source.close()
            [asked] = server.received
        assert (asked.method, asked.target) == ("GET", "/nacos/serverlist")

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            (Given(500, b"10.0.0.1"), "answers 500"),
            (Given(302, b"", {"Location": "http://127.0.0.1:1/"}), "answers 302"),
            (Given(body=b""), "names no member"),
            (Given(body=b"<html>10.0.0.1</html>"), "is not a member address"),
            (Given(body=b"10.0.0.1 10.0.0.2"), "is not a member address"),
            (Given(body=b"{"), "is not a member list"),
            (Given(body=b'{"code": 500, "data": "10.0.0.1"}'), "answers code 500"),
            (Given(body=b'{"code": 200, "data": null}'), "answers code 200"),
            (Given(body=b'{"code": 200, "data": ["10.0.0.1"]}'), "answers code 200"),
            (Given(body=b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}), "encoding"),
            (Given(body=b"10.0.0.1\n" * 10, cut_at=20), "does not answer"),
            (Given(hang_up=True), "does not answer"),
            (Given(body=b"1" * (10 * 1024 * 1024)), f"over {ANSWER_BYTES_MAX} bytes"),
        ],
        ids=lambda one: one if isinstance(one, str) else "",
    )
    def test_what_is_no_list(self, given: Given, says: str) -> None:
        with tiny_server(lambda _: given) as server:
            source = AddressServer(f"http://{server.address}/")
            with pytest.raises(NoListError, match=says):
                source.read()
            source.close()

    def test_bytes_that_come_slowly_end_with_the_whole_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(member_sources, "ANSWER_MS", 200)
        with tiny_server(lambda _: Given(body=b"10.0.0.1", drip_s=0.05)) as server:
            source = AddressServer(f"http://{server.address}/")
            with pytest.raises(NoListError, match="does not answer"):
                source.read()
            source.close()

    def test_nobody_listens(self) -> None:
        source = AddressServer(f"http://{refusing_address()}/")
        with pytest.raises(NoListError, match="does not answer"):
            source.read()
        source.close()


class TestName:
    def test_each_address_is_a_member(self) -> None:
        source = DnsName("members:8850", SELF, lambda host: frozenset({"10.0.0.2", "10.0.0.1"}))
        assert source.read() == ("10.0.0.1:8850", "10.0.0.2:8850")

    @pytest.mark.parametrize(
        ("own", "expected"),
        [
            ("10.0.0.1:8848", ("10.0.0.1:8848",)),
            ("[fd00::1]:8848", ("[fd00::1]:8848",)),
            ("name:8848", ("10.0.0.1:8848",)),
        ],
    )
    def test_a_member_with_an_address_of_each_family_is_one(self, own: str, expected: tuple[str, ...]) -> None:
        source = DnsName("members:8848", own, lambda host: frozenset({"10.0.0.1", "fd00:0::1"}))
        assert source.read() == expected

    def test_another_family_alone_is_taken(self) -> None:
        source = DnsName("members:8848", SELF, lambda host: frozenset({"fd00::1"}))
        assert source.read() == ("[fd00::1]:8848",)

    @pytest.mark.parametrize("answer", [set(), {"0.0.0.0"}, {"fe80::1%eth0"}, {"224.0.0.1"}, {"what"}])
    def test_no_address_of_a_member(self, answer: set[str]) -> None:
        with pytest.raises(NoListError, match="has 0 addresses"):
            DnsName("members:8848", SELF, lambda host: frozenset(answer)).read()

    def test_more_than_there_can_be(self) -> None:
        many = frozenset(f"10.0.{at // 250}.{at % 250}" for at in range(1_001))
        with pytest.raises(NoListError, match="has 1001 addresses"):
            DnsName("members:8848", SELF, lambda host: many).read()

    def test_a_name_service_that_fails(self) -> None:
        def fail(host: str) -> frozenset[str]:
            raise OSError("Name or service not known")

        with pytest.raises(NoListError, match="members cannot be looked up: Name or service"):
            DnsName("members:8848", SELF, fail).read()


def test_a_kind_without_its_settings(tmp_path: Path) -> None:
    make = source_maker(LookupSettings("file", (ONE,), "", "", ""), tmp_path / "cluster.conf", SELF)
    assert make("file").read() == (ONE,)
    for kind in ("address-server", "dns"):
        with pytest.raises(NoListError, match=f"no settings for a member list from {kind}"):
            make(kind)

from pathlib import Path

import pytest

from app.config.settings import SettingError, Settings, read_settings

FILE, SERVER, NAME = "10.0.0.1:8848", "address.server.domain=list.example", "rollcall.member.dns=members"
WITHOUT = "rollcall.cluster.withoutIdentity=true"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path


def read(conf: Path, *lines: str, **environ: str) -> Settings:
    (conf / "application.properties").write_text("\n".join((*lines, WITHOUT)))
    return read_settings({}, {"ROLLCALL_CONF_DIR": str(conf), **environ})


class TestOrder:
    """Nacos 1.4.1 LookupFactory.chooseLookup: what the setting says, else a file or a list, else elsewhere."""

    def test_a_file_comes_before_all_else(self, conf: Path) -> None:
        (conf / "cluster.conf").write_text(FILE)
        settings = read(conf, "nacos.member.list=10.0.0.2", NAME, SERVER)
        assert settings.lookup.kind == "file"
        assert settings.members[0] == FILE

    def test_then_the_list(self, conf: Path) -> None:
        settings = read(conf, "nacos.member.list=10.0.0.2", NAME, SERVER)
        assert (settings.lookup.kind, settings.lookup.listed) == ("file", ("10.0.0.2:8848",))
        assert settings.members[0] == "10.0.0.2:8848"

    def test_then_the_name_then_the_address_server(self, conf: Path) -> None:
        assert read(conf, NAME, SERVER).lookup.kind == "dns"
        assert read(conf, SERVER).lookup.kind == "address-server"

    def test_without_any_the_node_is_alone(self, conf: Path) -> None:
        """Nacos would ask a host of its makers."""
        assert (read(conf).standalone, read(conf).lookup.kind) == (True, "file")

    def test_the_setting_decides(self, conf: Path) -> None:
        (conf / "cluster.conf").write_text(FILE)
        settings = read(conf, "nacos.core.member.lookup.type=Address-Server", SERVER)
        assert settings.lookup.kind == "address-server"
        assert (settings.standalone, settings.members) == (False, ("127.0.0.1:8848",))

    @pytest.mark.parametrize(
        ("kind", "needed"), [("address-server", "address.server.domain"), ("dns", "rollcall.member.dns")]
    )
    def test_a_way_that_lacks_its_setting(self, conf: Path, kind: str, needed: str) -> None:
        with pytest.raises(SettingError, match=rf"lookup\.type={kind} \(.*\) needs {needed}"):
            read(conf, f"nacos.core.member.lookup.type={kind}")

    def test_alone_all_the_same(self, conf: Path) -> None:
        assert read(conf, NAME, "nacos.standalone=true").standalone
        assert not read(conf, NAME, "nacos.standalone=false").standalone


@pytest.mark.parametrize(
    ("lines", "url"),
    [
        ([SERVER], "http://list.example:8080/nacos/serverlist"),
        ([SERVER, "server.servlet.contextPath=/"], "http://list.example:8080/serverlist"),
        (["address.server.domain=::1", "address.server.port=9"], "http://[::1]:9/nacos/serverlist"),
        ([SERVER, "address.server.url=/a?b=c"], "http://list.example:8080/a?b=c"),
        ([], ""),
    ],
)
def test_the_url_of_the_address_server(conf: Path, lines: list[str], url: str) -> None:
    assert read(conf, *lines).lookup.server_url == url


def test_the_variables_of_nacos_come_before_its_file(conf: Path) -> None:
    environ = {"address_server_domain": "other", "address_server_port": "81", "address_server_url": "/x"}
    assert read(conf, SERVER, **environ).lookup.server_url == "http://other:81/x"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("members", "members:8850"), ("members:8848", "members:8848"), ("a.b.example:9", "a.b.example:9")],
)
def test_the_port_of_a_name(conf: Path, name: str, expected: str) -> None:
    assert read(conf, f"rollcall.member.dns={name}", "server.port=8850").lookup.dns == expected

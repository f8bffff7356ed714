"""Settings: the source of a value, refused values and their messages, and the settings of a cluster."""

from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

import pytest

from app.config.identity_settings import IdentitySettings, NamedNacos
from app.config.properties import parse_properties
from app.config.settings import ALL_KEYS as KEYS
from app.config.settings import SettingError, Settings, read_settings
from app.config.settings_keys import DISTRO, snake
from distro.model.config import DistroConfig

LIST = "127.0.0.1:8848,127.0.0.1:8858,127.0.0.1:8868"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path


SECRET = "the-secret-of-these-members"
IDENTITY = f"nacos.core.auth.server.identity.key=Cluster-Key\nnacos.core.auth.server.identity.value={SECRET}"


def read(conf: Path, properties: str = "", overrides: dict[str, str] | None = None, **environ: str) -> Settings:
    (conf / "application.properties").write_text(properties)
    return read_settings(overrides, {"rollcall.conf.dir": str(conf), **environ})


def test_defaults() -> None:
    settings = read_settings({}, {})
    assert (settings.host, settings.port, settings.context_path) == ("127.0.0.1", 8848, "/nacos")
    assert settings.standalone
    assert settings.members == ("127.0.0.1:8848",)
    assert settings.self_address == "127.0.0.1:8848"
    assert settings.data_dir == Path("data").absolute()
    assert settings.conf_dir == Path("conf").absolute()
    assert settings.cluster_conf == Path("conf/cluster.conf").absolute()
    assert (settings.log_level, settings.http_threads) == ("INFO", 48)
    assert settings.expire_instance
    assert settings.announce
    assert settings.distro == DistroConfig()
    assert settings.identity is None
    assert settings.warnings == ()


def test_the_nearer_source_wins(conf: Path) -> None:
    file = "server.port=1"
    assert read(conf, file).port == 1
    assert read(conf, file, SERVER_PORT="2").port == 2
    assert read(conf, file, SERVER_PORT="2", **{"server.port": "3"}).port == 3
    assert read(conf, file, {"server.port": "4"}, **{"server.port": "3"}).port == 4


def test_a_blank_value_is_none(conf: Path) -> None:
    assert read(conf, "server.port=7", SERVER_PORT=" ").port == 7
    assert read(conf, "server.port=").port == 8848


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_default_is_allowed_and_every_key_explained(key: object) -> None:
    assert key in KEYS
    key.kind.parse(key.default)  # type: ignore[attr-defined]
    assert key.purpose.endswith(".")  # type: ignore[attr-defined]


def test_no_name_means_two_things() -> None:
    names = [name for key in KEYS for name in {*key.names, *map(snake, key.names)}]
    assert len(names) == len(set(names))


def test_the_engine_can_be_tuned_whole() -> None:
    assert set(DISTRO) == {field.name for field in fields(DistroConfig)}


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("nacos.core.protocol.distro.data.sync.delayMs=7", "sync_delay_ms", 7),
        ("nacos.core.protocol.distro.data.sync_delay_ms=7", "sync_delay_ms", 7),
        ("nacos.core.protocol.distro.data.sync.timeoutMs=700", "sync_timeout_ms", 700),
        ("nacos.core.protocol.distro.data.sync.retryDelayMs=700", "retry_delay_ms_max", 700),
        ("nacos.core.protocol.distro.data.sync_retry_delay_ms=700", "retry_delay_ms_max", 700),
        ("nacos.core.protocol.distro.data.verify.intervalMs=700", "verify_interval_ms", 700),
        ("nacos.core.protocol.distro.data.verify_interval_ms=700", "verify_interval_ms", 700),
        ("nacos.core.protocol.distro.data.verify.timeoutMs=700", "verify_timeout_ms", 700),
        ("nacos.core.protocol.distro.data.load.retryDelayMs=700", "load_retry_delay_ms", 700),
        ("nacos.core.protocol.distro.data.load_retry_delay_ms=700", "load_retry_delay_ms", 700),
        ("nacos.core.protocol.distro.data.load.timeoutMs=700", "load_timeout_ms", 700),
        ("nacos.naming.distro.batchSyncKeyCount=7", "batch_keys_max", 7),
        ("nacos.core.member.fail-access-cnt=7", "fail_access_max", 7),
        ("rollcall.distro.report.intervalMs=700", "report_interval_ms", 700),
        ("rollcall.distro.steadyMs=0", "steady_ms", 0),
        ("rollcall.distro.bodyBytesMax=65536", "body_bytes_max", 65536),
    ],
)
def test_keys_of_the_engine(conf: Path, line: str, field: str, value: int) -> None:
    assert getattr(read(conf, line).distro, field) == value
    name, _, text = line.partition("=")
    assert getattr(read(conf, **{snake(name): text}).distro, field) == value


def test_nacos_one_wait_is_our_first_too_when_it_is_shorter(conf: Path) -> None:
    distro = read(conf, "nacos.core.protocol.distro.data.sync.retryDelayMs=100").distro
    assert (distro.retry_delay_ms, distro.retry_delay_ms_max) == (100, 100)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("server.port", "0", "a whole number from 1 to 65535"),
        ("server.port", "65536", "a whole number from 1 to 65535"),
        ("server.port", "8848.0", "a whole number from 1 to 65535"),
        ("server.port", "9" * 5000, "a whole number from 1 to 65535"),
        ("server.address", "10.0.0.1:8848", "an IP address or host name"),
        ("server.address", "10.0.0.256", "an IP address or host name"),
        ("server.servlet.contextPath", "/a b", "a path of letters"),
        ("server.servlet.contextPath", "/a//b", "a path of letters"),
        ("nacos.standalone", "maybe", "true or false"),
        ("nacos.naming.expireInstance", "2", "true or false"),
        ("nacos.core.member.lookup.type", "zookeeper", "file or address-server or dns"),
        ("address.server.port", "0", "a whole number from 1 to 65535"),
        ("address.server.domain", "a b", "an IP address or host name"),
        ("address.server.url", "nacos/serverlist", "a path that begins with /"),
        ("rollcall.member.dns", "members:http", "host or host:port"),
        ("nacos.server.ip", "a b", "an IP address or host name"),
        ("rollcall.log.level", "loud", "DEBUG or INFO or WARNING or ERROR"),
        ("rollcall.http.threads", "3", "a whole number from 4 to 512"),
        ("rollcall.http.threads", "513", "a whole number from 4 to 512"),
        ("nacos.core.protocol.distro.data.sync.delayMs", "-1", "a whole number from 0 to 60000"),
        ("rollcall.distro.silentDownMs", "2000", "more than rollcall.distro.report.intervalMs=2000"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(
    conf: Path, name: str, value: str, allowed: str
) -> None:
    for arguments, origin in (
        (("", {name: value}), "(command line)"),
        ((f"{name}={value}",), f"({conf / 'application.properties'})"),
    ):
        with pytest.raises(SettingError) as caught:
            read(conf, *arguments)  # type: ignore[arg-type]
        text = str(caught.value)
        assert text.startswith(f"{name}={value} {origin} is not allowed: ")
        assert allowed in text
    with pytest.raises(SettingError, match=f"environment variable {snake(name)}"):
        read(conf, **{snake(name): value})


@pytest.mark.parametrize(
    ("text", "path"), [("/", ""), ("nacos", "/nacos"), ("/nacos/", "/nacos"), ("/a/b-c.d", "/a/b-c.d")]
)
def test_context_path(conf: Path, text: str, path: str) -> None:
    assert read(conf, f"server.servlet.contextPath={text}").context_path == path
    assert read(conf, f"server.servlet.context-path={text}").context_path == path


def test_words_may_be_in_any_case(conf: Path) -> None:
    assert read(conf, "rollcall.log.level=debug").log_level == "DEBUG"
    assert not read(conf, "nacos.naming.expireInstance=FALSE").expire_instance


class TestMembers:
    def test_a_list_makes_a_cluster(self, conf: Path) -> None:
        for settings in (
            read(conf, f"nacos.member.list={LIST}"),
            read(conf, NACOS_MEMBER_LIST=LIST),
            read(conf, **{"nacos.member.list": LIST}),
        ):
            assert not settings.standalone
            assert settings.members == tuple(LIST.split(","))
            assert settings.self_address == "127.0.0.1:8848"
            assert settings.warnings == ()

    def test_our_port_says_which_of_them_we_are(self, conf: Path) -> None:
        assert read(conf, f"nacos.member.list={LIST}\nserver.port=8868").self_address == "127.0.0.1:8868"

    def test_cluster_conf_wins(self, conf: Path) -> None:
        (conf / "cluster.conf").write_text("# ours\n127.0.0.1:8848\n127.0.0.1:9000\n")
        assert read(conf, f"nacos.member.list={LIST}").members == ("127.0.0.1:8848", "127.0.0.1:9000")

    def test_a_wrong_line_of_cluster_conf_is_named(self, conf: Path) -> None:
        (conf / "cluster.conf").write_text("127.0.0.1:8848\n\n127.0.0.1:port\n")
        with pytest.raises(SettingError, match=r"cluster\.conf, line 3: '127\.0\.0\.1:port' is not a member address"):
            read(conf)

    def test_a_wrong_list_is_named_with_its_place(self, conf: Path) -> None:
        with pytest.raises(
            SettingError, match=r"^nacos\.member\.list \(environment variable NACOS_MEMBER_LIST\): 'a b'"
        ):
            read(conf, NACOS_MEMBER_LIST="a b")

    def test_standalone_leaves_a_list_alone(self, conf: Path) -> None:
        settings = read(conf, f"nacos.member.list={LIST}", NACOS_STANDALONE="true")
        assert settings.standalone
        assert settings.members == ("127.0.0.1:8848",)
        assert len(settings.warnings) == 1
        assert "nacos.standalone" in settings.warnings[0]

    def test_a_cluster_without_a_list_is_refused(self, conf: Path) -> None:
        with pytest.raises(SettingError, match=r"nacos\.standalone=false .* needs a member list"):
            read(conf, "nacos.standalone=false")

    def test_a_cluster_may_begin_with_an_empty_file(self, conf: Path) -> None:
        (conf / "cluster.conf").write_text("# to be filled\n")
        assert read(conf).standalone
        settings = read(conf, "nacos.standalone=false")
        assert not settings.standalone
        assert settings.members == ("127.0.0.1:8848",)

    def test_the_ip_decides_who_we_are(self, conf: Path) -> None:
        settings = read(conf, f"nacos.member.list=10.0.0.1,10.0.0.2\nnacos.server.ip=10.0.0.2\n{IDENTITY}")
        assert settings.self_address == "10.0.0.2:8848"
        assert settings.members == ("10.0.0.1:8848", "10.0.0.2:8848")
        assert read(conf, "nacos.server.ip=::1").self_address == "[::1]:8848"

    def test_not_listed_we_are_added_and_told(self, conf: Path) -> None:
        settings = read(conf, f"nacos.member.list={LIST}\nserver.port=9999")
        assert settings.members == (*LIST.split(","), "127.0.0.1:9999")
        assert len(settings.warnings) == 1
        assert "127.0.0.1:9999, is not among the listed members" in settings.warnings[0]


class TestFolders:
    def test_conf_under_nacos_home(self, tmp_path: Path) -> None:
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "application.properties").write_text("server.port=7")
        settings = read_settings({}, {"NACOS_HOME": str(tmp_path)})
        assert (settings.conf_dir, settings.port) == (tmp_path / "conf", 7)

    def test_a_conf_folder_that_was_named_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(SettingError, match=r"rollcall\.conf\.dir=.*none \(command line\) is not allowed"):
            read_settings({"rollcall.conf.dir": str(tmp_path / "none")}, {})

    def test_a_file_cannot_say_where_it_is(self, conf: Path) -> None:
        assert "no effect" in read(conf, "rollcall.conf.dir=elsewhere").warnings[0]

    def test_a_file_may_be_older_than_unicode(self, conf: Path) -> None:
        (conf / "application.properties").write_bytes("# größer\nserver.port=7".encode("latin-1"))
        assert read_settings({"rollcall.conf.dir": str(conf)}, {}).port == 7

    def test_an_unreadable_file_is_named(self, conf: Path) -> None:
        with pytest.raises(SettingError, match=r"application\.properties cannot be read: .*four hexadecimal digits"):
            read(conf, "a=\\u12")
        (conf / "application.properties").unlink()
        (conf / "application.properties").mkdir()
        with pytest.raises(SettingError, match=r"application\.properties cannot be read: Is a directory"):
            read_settings({"rollcall.conf.dir": str(conf)}, {})


class TestWarnings:
    def test_an_unknown_key_of_ours(self, conf: Path) -> None:
        settings = read(conf, "rollcall.log.levl=DEBUG\nnacos.whatever=1\nspring.x=2", ROLLCALL_HTTP_THREAD="9")
        end = "is not a setting of this version and is ignored; did you mean"
        assert settings.warnings == (
            f"ROLLCALL_HTTP_THREAD {end} ROLLCALL_HTTP_THREADS?",
            f"rollcall.log.levl {end} rollcall.log.level?",
        )

    @pytest.mark.parametrize(
        ("given", "meant"),
        [
            ("nacos.core.auth.enable", "nacos.core.auth.enabled"),
            ("nacos.core.auth.server.identity.keys", "nacos.core.auth.server.identity.key"),
            ("nacos.core.Auth.enabled", "nacos.core.auth.enabled"),
            ("nacos.member.lists", "nacos.member.list"),
            ("nacos.core.auth.plugin.nacos.token.secretkey", "nacos.core.auth.plugin.nacos.token.secret.key"),
        ],
    )
    def test_a_misspelt_key_of_nacos(self, conf: Path, given: str, meant: str) -> None:
        said = f"{given} is not a setting and is ignored; did you mean {meant}?"
        assert read(conf, f"{given}=x").warnings == (said,)
        assert (
            read(conf, **{snake(given): "x"} if given.islower() else {given: "x"})
            .warnings[0]
            .startswith(snake(given) if given.islower() else given)
        )

    def test_a_key_that_nacos_has_or_nothing_is_like_is_no_mistake(self, conf: Path) -> None:
        theirs = "nacos.core.auth.caching.enabled=true\nnacos.core.auth.admin.enabled=true\nnacos.acme.plugin.size=3\n"
        assert read(conf, theirs, NACOS_CORE_AUTH_ADMIN_ENABLED="true").warnings == ()
        (warning,) = read(conf, "nacos.core.auth.caching.enable=true").warnings
        assert warning.endswith(
            "nacos.core.auth.caching.enabled, which is a setting of Nacos that Rollcall also ignores?"
        )

    def test_variables_of_the_docker_image_of_nacos(self, conf: Path) -> None:
        (warning,) = read(conf, NACOS_AUTH_ENABLE="true", NACOS_SERVICE_HOST="10.0.0.1").warnings
        assert warning == "NACOS_AUTH_ENABLE of Nacos's Docker image is ignored; set nacos.core.auth.enabled"
        assert read(conf, NACOS_SERVER_PORT="tcp://10.0.0.1:8848").warnings == (), "Kubernetes sets it"

    def test_what_kubernetes_adds_is_no_setting(self, conf: Path) -> None:
        links = {"ROLLCALL_PORT_8848_TCP_ADDR": "1", "ROLLCALL_SERVICE_HOST": "2", "ROLLCALL_PORT": "3"}
        assert read(conf, **links).warnings == ()

    def test_open_to_others(self, conf: Path) -> None:
        for more in ("", IDENTITY):
            (warning,) = read(conf, f"server.address=0.0.0.0\n{more}").warnings
            assert "everyone who reaches this port can read and change" in warning, "the members' secret closes nothing"


BEYOND = "nacos.member.list=10.0.0.1,10.0.0.2\nnacos.server.ip=10.0.0.1\n"


class TestIdentity:
    def test_it_is_read_and_not_shown(self, conf: Path) -> None:
        previous = "rollcall.identity.previousValue=the-secret-they-had-before"
        exempt = "rollcall.identity.grpcExempt=10.0.0.2,10.0.0.3:1"
        nacos = "rollcall.identity.nacosMembers=10.0.0.4, 10.0.0.5:80,NACOS-0.nacos,10.1.0.0/16,[fe80::1]:80,fd00::2"
        settings = read(conf, f"{BEYOND}{IDENTITY}\n{previous}\n{exempt}\n{nacos}")
        exempted = frozenset({"10.0.0.2:8848", "10.0.0.3:1"})
        assert settings.identity == IdentitySettings(
            "Cluster-Key",
            SECRET,
            "the-secret-they-had-before",
            NamedNacos(
                exempted | {"10.0.0.5:80", "[fe80::1]:80"},
                frozenset({"10.0.0.4", "nacos-0.nacos", "fd00::2"}),
                (ip_network("10.1.0.0/16"),),
            ),
            exempted,
        )
        assert SECRET not in repr(settings)
        assert "had-before" not in repr(settings)
        assert settings.warnings == ("rollcall.identity.grpcExempt names 10.0.0.3:1, which is not in the member list",)

    @pytest.mark.parametrize("other", ["key=k", f"value={SECRET}"])
    def test_half_of_one_is_refused(self, conf: Path, other: str) -> None:
        with pytest.raises(SettingError, match="need each other"):
            read(conf, f"nacos.core.auth.server.identity.{other}")

    @pytest.mark.parametrize("entry", ["10.0.0.1/33", "10.0.0.1/8", "a b", "10.0.0.1:99999", "10.0.0.300", "a,b:c:d:"])
    def test_what_names_no_member_is_refused(self, conf: Path, entry: str) -> None:
        with pytest.raises(SettingError, match=r"rollcall\.identity\.nacosMembers: .* is not a host:port"):
            read(conf, f"{IDENTITY}\nrollcall.identity.nacosMembers={entry}")

    def test_a_previous_value_needs_one(self, conf: Path) -> None:
        with pytest.raises(SettingError, match="previousValue needs"):
            read(conf, "rollcall.identity.previousValue=the-secret-they-had-before")

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("security", "published"),
            ("SecretKey012345678901234567890123456789012345678901234567890123456789", "published"),
            ("Cluster-Key", "published"),
            ("only7ch", "8 to 256 characters"),
            ("x" * 257, "8 to 256 characters"),
            ("abababababababababab", "different characters"),
            ("seventeen letters", "without spaces"),
            ("sechzehn-zeichenü", "printable ASCII"),
        ],
    )
    @pytest.mark.parametrize("previous", [False, True])
    def test_a_value_that_can_be_guessed_or_not_be_sent_is_refused(
        self, conf: Path, value: str, problem: str, previous: bool
    ) -> None:
        given = {"nacos.core.auth.server.identity.key": "Cluster-Key"}
        given["nacos.core.auth.server.identity.value"] = SECRET if previous else value
        if previous:
            given["rollcall.identity.previousValue"] = value
        with pytest.raises(SettingError, match=problem) as raised:
            read(conf, **given)
        assert value == "Cluster-Key" or value not in str(raised.value)

    def test_a_short_value_is_taken_with_a_warning(self, conf: Path) -> None:
        given = (
            "nacos.core.auth.server.identity.key=Cluster-Key\nnacos.core.auth.server.identity.value=only15chars-123\n"
        )
        [warning] = read(conf, f"{BEYOND}{given}").warnings
        assert "fewer than 16 characters" in warning
        assert "only15chars-123" not in warning

    @pytest.mark.parametrize("name", ["Host", "authorization", "Rollcall-Relay", "a b", "a_b", "x" * 65])
    def test_a_header_that_means_something_else_is_refused(self, conf: Path, name: str) -> None:
        given = {"nacos.core.auth.server.identity.key": name, "nacos.core.auth.server.identity.value": SECRET}
        with pytest.raises(SettingError, match="use a header name"):
            read(conf, **given)

    def test_a_cluster_beyond_loopback_needs_one(self, conf: Path) -> None:
        with pytest.raises(SettingError, match=r"server\.identity\.key .*, or, .*withoutIdentity=true"):
            read(conf, BEYOND)
        with pytest.raises(SettingError, match="needs a secret"):
            read(conf, "server.address=0.0.0.0\nnacos.member.list=127.0.0.1:8848,127.0.0.1:8849")
        assert read(conf, f"{BEYOND}{IDENTITY}").warnings == ()
        assert read(conf, "nacos.member.list=127.0.0.1:8848,localhost:8849").warnings == ()

    def test_one_without_says_so_loudly(self, conf: Path) -> None:
        settings = read(conf, f"{BEYOND}rollcall.cluster.withoutIdentity=true")
        assert "THIS CLUSTER HAS NO IDENTITY" in settings.warnings[0]
        settings.check_members(("10.0.0.9:8848",))
        both = read(conf, f"{BEYOND}{IDENTITY}\nrollcall.cluster.withoutIdentity=true")
        assert both.warnings == ("rollcall.cluster.withoutIdentity has no effect, as there is an identity",)

    def test_a_list_that_reaches_beyond_loopback_later_is_refused(self, conf: Path) -> None:
        settings = read(conf, "nacos.member.list=127.0.0.1:8848,127.0.0.1:8849")
        settings.check_members(("127.0.0.1:8848", "127.0.0.1:1"))
        with pytest.raises(SettingError, match="needs a secret"):
            settings.check_members(("127.0.0.1:8848", "10.0.0.2:8848"))
        read(conf, f"{BEYOND}{IDENTITY}").check_members(("127.0.0.1:8848", "10.0.0.2:8848"))


def test_a_node_is_given_time_to_drain(conf: Path) -> None:
    assert read(conf, "rollcall.distro.drainMs=4500").stop_timeout_s == 2 + 3 + 5 + 5
    assert read(conf, "rollcall.leave.graceMs=4500").stop_timeout_s == 5 + 2 + 3 + 5 + 2


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a = 1 \n", {"a": "1 "}),
        ("# a=1\n! b=2\n  # c=3\n", {}),
        ("a=1\\\n   2\\\n3\nb=4", {"a": "123", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\u00e9\\ud83d\\ude00\\t\\q", {"a": "é😀\tq"}),
        ("# not continued \\\na=1", {"a": "1"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("alone\n=value\na==b", {"alone": "", "": "value", "a": "=b"}),
        ("a=1\ra=2\r\nb=3", {"a": "2", "b": "3"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_properties_as_java_reads_them(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


def test_exceptions_from_what_strangers_are_refused(tmp_path: Path) -> None:
    given = {"rollcall.http.hosts": "nacos.example.com, *", "rollcall.healthCheck.allow": "127.0.0.0/8,::1"}
    guards = read_settings(given | {"rollcall.push.udp.trustNat": "on"}, {}).guards
    assert guards.http_hosts == ("nacos.example.com", "*")
    assert [str(network) for network in guards.check_allowed] == ["127.0.0.0/8", "::1/128"]
    assert guards.push_trusts_nat
    usual = read_settings({}, {}).guards
    assert (usual.http_hosts, usual.check_allowed, usual.push_trusts_nat) == ((), (), False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rollcall.healthCheck.allow", "10.0.0.1/8"),
        ("rollcall.healthCheck.allow", "here"),
        ("rollcall.http.hosts", "http://x"),
        ("rollcall.http.hosts", "a b"),
        ("rollcall.push.udp.trustNat", "perhaps"),
    ],
)
def test_exceptions_that_are_none(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        read_settings({name: value}, {})

"""How commands are configured: what goes before what, and what is refused."""

from pathlib import Path

import pytest

from app.config.client_config import CLIENT_VARIABLES, ClientConfigError, config_file, read_client_config
from app.config.settings import effective_settings

FILE = """
server = "10.0.0.7:8848"
namespace = "dev"
user = "ann"
password = "secret of ann"

[profiles.prod]
server = "https://10.1.0.7:8848/nacos"
token = "prodtoken"
ca = "/etc/prod.pem"

[profiles.other-user]
token = "othertoken"
"""


def written(home: Path, text: str = FILE, mode: int = 0o600) -> dict[str, str]:
    """The environment of a home that has this file."""
    file = home / ".config" / "rollcall" / "cli.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return {"HOME": str(home)}


def test_nothing_is_configured_without_a_file(tmp_path: Path) -> None:
    config = read_client_config({"HOME": str(tmp_path)})
    assert (config.server, config.namespace, config.token, dict(config.sources)) == ("", "", "", {})
    assert config.file == tmp_path / ".config/rollcall/cli.toml"


def test_where_the_file_is(tmp_path: Path) -> None:
    assert config_file({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/rollcall/cli.toml")
    assert config_file({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/rollcall/cli.toml")
    assert config_file({"HOME": "/h", "ROLLCALL_CONFIG": "/y.toml"}) == Path("/y.toml")
    with pytest.raises(ClientConfigError, match=r"absent\.toml of --profile or .* does not exist"):
        read_client_config({"ROLLCALL_CONFIG": str(tmp_path / "absent.toml")})


def test_the_file_and_what_goes_before_it(tmp_path: Path) -> None:
    environ = written(tmp_path)
    config = read_client_config(environ)
    assert (config.server, config.namespace, config.user, config.password) == (
        "10.0.0.7:8848", "dev", "ann", "secret of ann",
    )  # fmt: skip
    assert config.sources["server"] == str(config.file)
    over = read_client_config({**environ, "ROLLCALL_NAMESPACE": "test", "ROLLCALL_PASSWORD": " kept as it is "})
    assert (over.namespace, over.user, over.password) == ("test", "ann", " kept as it is ")
    assert over.sources["namespace"] == "environment variable ROLLCALL_NAMESPACE"


def test_a_user_or_token_of_the_environment_comes_without_those_of_the_file(tmp_path: Path) -> None:
    environ = written(tmp_path)
    token = read_client_config({**environ, "ROLLCALL_TOKEN": "t"})
    assert (token.token, token.user, token.password) == ("t", "", "")
    user = read_client_config({**environ, "ROLLCALL_USER": "bob"})
    assert (user.user, user.password) == ("bob", "")


@pytest.mark.parametrize("by", ["option", "environment"])
def test_credentials_go_to_their_own_server_alone(tmp_path: Path, by: str) -> None:
    environ = written(tmp_path)
    same = read_client_config(environ, server="http://10.0.0.7:8848/")
    assert (same.user, same.note) == ("ann", "")
    if by == "option":
        other = read_client_config(environ, server="10.0.0.8:8848")
    else:
        other = read_client_config({**environ, "ROLLCALL_SERVER": "10.0.0.8:8848"})
    assert (other.user, other.password, other.namespace) == ("", "", "dev")
    assert "are those of 10.0.0.7:8848" in other.note


def test_a_profile_has_its_own_server_and_credentials(tmp_path: Path) -> None:
    environ = written(tmp_path)
    prod = read_client_config(environ, profile="prod")
    assert (prod.server, prod.namespace, prod.token, prod.ca) == (
        "https://10.1.0.7:8848/nacos", "dev", "prodtoken", "/etc/prod.pem",
    )  # fmt: skip
    assert (prod.user, prod.password) == ("", "")
    assert read_client_config({**environ, "ROLLCALL_PROFILE": "prod"}) == prod
    other = read_client_config(environ, profile="other-user")
    assert (other.server, other.token, other.user, other.password) == ("10.0.0.7:8848", "othertoken", "", "")
    with pytest.raises(ClientConfigError, match="no profile 'nosuch'; its profiles: other-user, prod"):
        read_client_config(environ, profile="nosuch")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    environ = written(tmp_path, mode=mode)
    with pytest.raises(ClientConfigError, match="others can read it: chmod 600"):
        read_client_config(environ)
    harmless = written(tmp_path, 'server = "a:1"\n', mode)
    assert read_client_config(harmless).server == "a:1"


def test_a_secret_of_a_profile_that_is_not_asked_for_counts_too(tmp_path: Path) -> None:
    environ = written(tmp_path, '[profiles.a]\ntoken = "x"\n', 0o644)
    with pytest.raises(ClientConfigError, match="chmod 600"):
        read_client_config(environ)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sever = 'a'", "'sever' is not a key of this file; did you mean server"),
        ("zzz = 'a'", "'zzz' is not a key of this file; it may have server"),
        ("server = 5", "server should be a text in one line"),
        ('token = "a\\u001bb"', "token should be a text in one line"),
        ("server = ", "is not TOML"),
        ("profiles = 5", "should be tables"),
        ("[profiles.a]\nnope = 'x'", r"\[profiles.a\]: 'nope' is not a key"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ClientConfigError, match=complaint):
        read_client_config(written(tmp_path, text))


def test_bytes_that_are_no_text_and_a_file_without_end(tmp_path: Path) -> None:
    environ = written(tmp_path)
    file = config_file(environ)
    file.write_bytes(b"server = '\xff'")
    with pytest.raises(ClientConfigError, match="is not UTF-8"):
        read_client_config(environ)
    file.write_bytes(b"#" * 300_000)
    with pytest.raises(ClientConfigError, match="is over"):
        read_client_config(environ)


def test_no_secret_is_in_its_text(tmp_path: Path) -> None:
    config = read_client_config(written(tmp_path))
    assert "secret of ann" not in repr(config)


def test_a_node_takes_none_of_these_variables_for_a_misspelt_setting() -> None:
    _, warnings = effective_settings({}, dict.fromkeys(CLIENT_VARIABLES, "x"))
    assert warnings == []
    _, warnings = effective_settings({}, {"ROLLCALL_SERVE": "x"})
    assert len(warnings) == 1

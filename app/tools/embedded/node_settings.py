"""The settings of an embedded node: those of a test over quiet defaults, without the machine's environment."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from app.config.link_settings import is_link_key
from app.config.lookup_settings import MEMBER_LIST
from app.config.settings import ALL_KEYS, SettingError, Settings, read_settings
from app.config.settings_keys import (
    ANNOUNCE,
    CONF_DIR,
    DATA_DIR,
    HOST_KEY,
    HTTP_TLS_ENABLED,
    NACOS_HOME,
    PORT,
    STANDALONE,
)
from app.tools.embedded.errors_of_use import UseError
from app.tools.embedded.free_ports import HOST

CHOSEN = {
    HOST_KEY.name: "it listens on loopback alone",
    PORT.name: "give port=... instead",
    DATA_DIR.name: "give data_dir=... instead",
    CONF_DIR.name: "no file is read; give the settings themselves",
    NACOS_HOME.name: "no file is read; give the settings themselves",
    MEMBER_LIST.name: "a cluster makes its member list",
    STANDALONE.name: "a registry is alone, and a cluster is not",
    HTTP_TLS_ENABLED.name: "it serves plain HTTP; for HTTPS start a node as a process",
}
"""The settings that a test cannot set, each with the helper's own way to set it."""
DEFAULTS = {ANNOUNCE.name: "false", "rollcall.healthCheck.allow": "127.0.0.0/8"}
"""The defaults: no lines in a test's output, and health checks may reach persistent instances on loopback."""
VALUE = str | int | float | bool


def texts_of(settings: Mapping[str, VALUE] | None) -> dict[str, str]:
    """Return a test's settings as texts.

    Raises:
        UseError: one is not a setting of a node, or cannot be set by a test.
    """
    known = {name for key in ALL_KEYS for name in key.names}
    texts = {}
    for name, value in (settings or {}).items():
        if name in CHOSEN:
            raise UseError(f"settings[{name!r}] is chosen by the helper: {CHOSEN[name]}")
        if name not in known and not is_link_key(name):
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UseError(f"{name!r} is not a setting of a node{hint}")
        texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def node_settings(texts: Mapping[str, str], port: int, folder: Path, members: tuple[str, ...] = ()) -> Settings:
    """Return the settings of one node, of a cluster if there are ``members``; its data go below ``folder``.

    Raises:
        UseError: a value is not allowed.
    """
    alone = {STANDALONE.name: "true"} if not members else {MEMBER_LIST.name: ",".join(members)}
    own = {HOST_KEY.name: HOST, PORT.name: str(port), DATA_DIR.name: str(folder / "data"), NACOS_HOME.name: str(folder)}
    try:
        return read_settings({**DEFAULTS, **texts, **alone, **own}, environ={})
    except SettingError as error:
        raise UseError(str(error).replace(" (command line)", "")) from None

"""The options of commands about the node of this machine, the same as those of ``rollcall serve``."""

import argparse

from app.config import settings_keys as keys


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``overrides_of`` reads."""
    parser.add_argument("--port", metavar="PORT", help=f"HTTP port ({keys.PORT.default})")
    parser.add_argument("--host", metavar="ADDRESS", help=f"address to listen on ({keys.HOST_KEY.default})")
    parser.add_argument("--data", metavar="DIR", help=f"data folder ({keys.DATA_DIR.default})")
    parser.add_argument("--conf", metavar="DIR", help="folder of application.properties and cluster.conf (./conf)")


def overrides_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings that the options give, by key."""
    given = (
        (keys.PORT, options.port),
        (keys.HOST_KEY, options.host),
        (keys.DATA_DIR, options.data),
        (keys.CONF_DIR, options.conf),
    )
    return {key.name: str(value) for key, value in given if value is not None}

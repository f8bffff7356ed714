"""``rollcall config``: the settings with which a node would start here, and where each comes from.

Exit codes: 0 all is well, 1 there are warnings, 2 a node would not start with them.
"""

import argparse
import re
import sys
from collections.abc import Iterator

from app.config.client_config import (
    CREDENTIAL_KEYS,
    PLAIN_KEYS,
    SECRET_KEYS,
    ClientConfigError,
    read_client_config,
)
from app.config.settings import SettingError, effective_settings, ignored_settings, read_settings
from app.languages.command_texts import gettext
from app.languages.phrases import reason_of, shown
from app.tools.command.asking.output import add_output_options, is_data, print_data
from app.tools.command.node_options import add_node_options, overrides_of
from app.tools.printable import printable

MASKED = "******"
_SECRET = re.compile(r"secret|password|passwd|token(?!.*expire)|identity\.(value|previousvalue)", re.IGNORECASE)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "config",
        help="print the settings in effect, and where each comes from",
        description="Print each setting with which a node would start here: its value, and whether it comes from the "
        "command line, the environment, a file or is the default. Secrets are masked. Settings of Nacos that Rollcall "
        "does not have are listed. Exit code 1: there are warnings, as of a misspelt key; 2: a node would not start. "
        "With --client, print how commands reach a cluster instead: server, namespace and credentials of the "
        "environment and of cli.toml.",
    )
    add_node_options(parser)
    parser.add_argument("--changed", action="store_true", help="leave out settings with their default")
    parser.add_argument("--client", action="store_true", help="print the configuration of commands, not of a node")
    parser.add_argument("--profile", metavar="NAME", help="with --client: a profile of cli.toml")
    add_output_options(parser)
    parser.set_defaults(run=run)


def is_secret(name: str) -> bool:
    """Return whether the value of a setting of this name must not be shown."""
    return bool(_SECRET.search(name))


def run(options: argparse.Namespace) -> int:
    """Print the settings, and return the exit code."""
    if options.client:
        return _run_client(options)
    overrides, error, seen = overrides_of(options), "", ""
    try:
        rows, warnings = effective_settings(overrides)
        ignored = ignored_settings(overrides)
    except SettingError as refused:
        _note(reason_of(refused))
        return 2
    try:
        warnings = list(read_settings(overrides).warnings)
    except SettingError as refused:
        error, seen = (_without_secrets(text, rows) for text in (str(refused), reason_of(refused)))
    masked = [
        (name, MASKED if value and is_secret(name) else value, source)
        for name, value, source in rows
        if not options.changed or source != "default"
    ]
    if is_data(options):
        settings = [{"key": name, "value": value, "source": str(source)} for name, value, source in masked]
        told = {
            "settings": settings,
            "ignored": [{"key": name, "source": str(source)} for name, source in ignored],
            "warnings": warnings,
            "error": error or None,
        }
        print_data(options, told)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(masked))
        for name, source in ignored:
            _note(
                gettext(
                    "%(name)s (%(source)s) is a setting of Nacos that Rollcall does not have",
                    name=name,
                    source=shown(source),
                )
            )
        for warning in warnings:
            _note(gettext("warning: %(text)s", text=shown(warning)))
        if error:
            _note(seen)
    return 2 if error else 1 if warnings else 0


def _run_client(options: argparse.Namespace) -> int:
    """Print how commands reach a cluster, and return the exit code."""
    try:
        config = read_client_config(profile=options.profile)
    except ClientConfigError as error:
        _note(printable(reason_of(error)))
        return 2
    masked = []
    for key in (*PLAIN_KEYS, *CREDENTIAL_KEYS):
        value, source = getattr(config, key.replace("-", "_")), config.sources.get(key, "default")
        if value or not options.changed:
            masked.append((key, MASKED if value and key in SECRET_KEYS else value, source))
    if is_data(options):
        values = [{"key": name, "value": value, "source": str(source)} for name, value, source in masked]
        print_data(options, {"file": str(config.file), "values": values, "note": config.note or None})
        return 0
    sys.stdout.writelines(f"{line}\n" for line in _lines(masked))
    if config.note:
        _note(printable(shown(config.note)))
    if not config.sources:
        _note(gettext("nothing is configured; the file would be %(file)s", file=printable(str(config.file))))
    return 0


def _lines(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    for name, value, source in rows:
        yield f"{name}={printable(value)}  ({printable(shown(source))})"


def _note(text: str) -> None:
    sys.stderr.write(f"rollcall config: {text}\n")


def _without_secrets(text: str, rows: list[tuple[str, str, str]]) -> str:
    """Return an error's text, which quotes the invalid value, without the secret values."""
    for name, value, _ in rows:
        if value and is_secret(name):
            text = text.replace(value, MASKED)
    return text

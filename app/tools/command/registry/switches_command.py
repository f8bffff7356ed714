"""``rollcall switches``: the switches in force at a member."""

import argparse
import json
from typing import Any

from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, print_list
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import finish
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.command.suggesting_parser import did_you_mean

SWITCHES = "/v1/ns/operator/switches"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "switches",
        help="list the switches in force at a member",
        description="List the switches in force at the server, or one of them. The console changes them.",
    )
    parser.add_argument("name", metavar="SWITCH", nargs="?", help="only this switch, such as overriddenServerStatus")
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    found = client.get(SWITCHES)
    if not isinstance(found, dict):
        raise client.unusable(SWITCHES)
    if options.name is not None:
        if options.name not in found:
            text = f"there is no switch {options.name}{did_you_mean(options.name, found)}"
            raise CommandError(ExitCode.NOT_FOUND, text)
        found = {options.name: found[options.name]}
    print_list(
        options,
        lambda: found,
        lambda: found,
        (Column("switch"), Column("value", least=16)),
        ((Cell(name, Tone.NAME), _text(value)) for name, value in found.items()),
    )
    return ExitCode.DONE


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""``rollcall switches``: the switches in force at a member, and the change of one at all members."""

import argparse
import json
from typing import Any

from app.languages.command_texts import command_texts, gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, is_data, print_data, print_list
from app.tools.command.asking.question import ask
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import finish
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.command.suggesting_parser import did_you_mean
from app.tools.printable import printable, write_line

SWITCHES, COUNTS = "/v1/ns/operator/switches", "/v3/admin/ns/ops/metrics"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "switches",
        help="list the switches, or set one at all members",
        description="List the switches in force at the server, or one of them; with VALUE, set it at all members. A "
        "switch that turns clients away or hides faults is set after a question, or with --yes.",
    )
    parser.add_argument("name", metavar="SWITCH", nargs="?", help="only this switch, such as overriddenServerStatus")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="the new value: a text, or JSON such as false or {}")
    parser.add_argument("--yes", action="store_true", help="set it without a question")
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    found = _read(client)
    if options.name is not None:
        if options.name not in found:
            text = gettext(
                "there is no switch %(name)s%(found)s",
                name=printable(options.name),
                found=did_you_mean(options.name, found),
            )
            raise CommandError(ExitCode.NOT_FOUND, text)
        if options.value is not None:
            return _set(options, client, options.name, _value(options.value))
        found = {options.name: found[options.name]}
    print_list(
        options,
        lambda: found,
        lambda: found,
        (Column("switch"), Column("value", least=16)),
        ((Cell(name, Tone.NAME), _text(value)) for name, value in found.items()),
    )
    return ExitCode.DONE


def _read(client: RegistryClient) -> dict[str, Any]:
    found = client.get(SWITCHES)
    if not isinstance(found, dict):
        raise client.unusable(SWITCHES)
    return found


def _set(options: argparse.Namespace, client: RegistryClient, name: str, value: Any) -> int:
    from app.operator.switch_effects import effect_of, warning_of

    if effect := effect_of(name, value, command_texts()):
        ask(options, client, warning_of(name, effect, *_clients(client), command_texts()))
    client.change("PUT", SWITCHES, {"entry": "batch", "value": json.dumps({name: value})})
    if (now := _read(client).get(name)) != value and _text(now) != _text(value):
        text = gettext(
            "%(server)s did not take the value: %(name)s is %(now)s, which Rollcall does not let you change",
            server=client.server,
            name=name,
            now=_text(now),
        )
        raise CommandError(ExitCode.FAILED, text)
    if is_data(options):
        print_data(options, {name: now})
    else:
        write_line(printable(gettext("set %(name)s to %(value)s at all members", name=name, value=_text(now))))
    return ExitCode.DONE


def _clients(client: RegistryClient) -> tuple[int, int]:
    """Return how many clients the server knows: over gRPC, and those that registered over HTTP."""
    counts = client.get(COUNTS, {"onlyStatus": "false"})
    numbers = [counts.get(name) for name in ("connectionBasedClientCount", "clientCount")]
    if not isinstance(counts, dict) or not all(isinstance(one, int) for one in numbers):
        raise client.unusable(COUNTS)
    return numbers[0], numbers[1] - numbers[0]


def _value(text: str) -> Any:
    """Return the value in an argument: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

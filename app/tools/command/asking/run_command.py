"""The run of a command about a cluster: its common options, and its failures as one line and an exit code."""

import argparse
from collections.abc import Callable, Sequence

from app.languages.command_texts import gettext
from app.tools.audit.client.access import (
    AccessError,
    access_of,
    add_call_options,
    add_server_options,
    client_config,
    namespace_of,
    parse_url,
    server_of,
)
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import DATA, OutputFormat, add_output_options
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.printable import printable, write_note

TIMEOUT_S = 5.0
Run = Callable[[argparse.Namespace, RegistryClient], int]


def finish(parser: argparse.ArgumentParser, run: Run, formats: Sequence[OutputFormat] = DATA) -> None:
    """Add the options that all these commands share, and set the function of the command."""
    add_output_options(parser, formats)
    add_server_options(parser)
    add_call_options(parser, TIMEOUT_S)
    parser.set_defaults(run=lambda options: run_asking(options, run), command=parser.prog)


def add_all_namespaces(parser: argparse.ArgumentParser) -> None:
    """Add ``-A``, which ``namespaces_of`` reads."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")


def namespaces_of(options: argparse.Namespace, client: RegistryClient) -> list[str]:
    """Return the namespaces that the options name: one, or with ``-A`` all that the caller may see."""
    return client.all_namespaces() if options.all_namespaces else [client.namespace]


def count_argument(text: str) -> int:
    """Return a whole number of 1 or more; for argparse."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(gettext("%(text)s is not a number of 1 or more", text=repr(text)))
    return int(text)


def run_asking(options: argparse.Namespace, run: Run) -> int:
    """Run a command with its server, and return the exit code; a failure is one line on standard error."""
    try:
        client = client_of(options)
        try:
            return run(options, client)
        finally:
            client.close()
    except CommandError as error:
        return fail(options, error.code, str(error))
    except AccessError as error:
        return fail(options, ExitCode.WRONG_OPTIONS, str(error))


def client_of(options: argparse.Namespace) -> RegistryClient:
    """Return the client of the server that options, environment and file name.

    Raises:
        AccessError: one of these cannot be used.
    """
    server = server_of(options)
    scheme, _, path = parse_url(server)
    config = client_config(options)
    if config.note:
        say(options, config.note)
    access = access_of(options, scheme, path)
    if options.ca and not server.startswith("https://"):
        server = f"https://{server.removeprefix('http://')}"
    return RegistryClient(server, namespace_of(options), access, str(config.file))


def fail(options: argparse.Namespace, code: ExitCode, text: str) -> int:
    """Say in one line why a command ended, and return its exit code."""
    say(options, text)
    return code


def say(options: argparse.Namespace, text: str) -> None:
    """Print a line for the user on standard error."""
    write_note(f"{options.command}: {printable(' '.join(text.split()))}")

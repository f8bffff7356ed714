"""The question before a change that may harm clients, asked at a terminal or answered by ``--yes``."""

import argparse
import sys

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import say

YES = ("y", "yes")


def ask(options: argparse.Namespace, client: RegistryClient, warning: str) -> None:
    """Ask a person at a terminal, unless the options have ``yes``.

    Raises:
        CommandError: the answer is not yes, or there is no terminal to ask at.
    """
    say(options, warning)
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("nothing was changed: give --yes to set it"))
    sys.stderr.write(gettext("Set it at all members of %(server)s? [y/N] ", server=client.server))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in YES:
        raise CommandError(ExitCode.FAILED, gettext("nothing was changed"))

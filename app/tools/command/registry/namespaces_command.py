"""``rollcall namespaces``: the namespaces that were created or are in use, and how to create or remove one."""

import argparse
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, is_data, print_data, print_list
from app.tools.command.asking.registry_client import CATALOG_SERVICES, NAMESPACES, PUBLIC, RegistryClient
from app.tools.command.asking.run_command import finish
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.printable import printable, write_line

_COLUMNS = Column("namespace"), Column("name", drop=1, least=16), Column("services"), Column("created", drop=2)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "namespaces",
        help="list namespaces, create or remove one",
        description="List the namespaces that you may see, with the number of services in each. A namespace that is in "
        "use was not always created: clients may register in any. An administrator creates and removes namespaces; "
        "only an empty one is removed.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--create", metavar="ID", help="create a namespace with this id")
    which.add_argument("--remove", metavar="ID", help="remove the namespace with this id, if it has no services")
    parser.add_argument("--name", metavar="TEXT", help="with --create: the name that lists show (the id)")
    parser.add_argument("--description", metavar="TEXT", default="", help="with --create: its purpose")
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.create is not None:
        return _create(options, client)
    if options.name or options.description:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("--name and --description go with --create"))
    if options.remove is not None:
        return _remove(options, client)
    created = {str(one.get("namespace") or PUBLIC): one for one in client.namespaces()}
    listed = [
        {
            "namespaceId": name,
            "name": text_of(created.get(name, {}), "namespaceShowName", ""),
            "created": name in created,
            "services": _service_count(client, name),
        }
        for name in client.all_namespaces()
    ]
    print_list(
        options,
        lambda: listed,
        lambda: (str(one["namespaceId"]) for one in listed),
        _COLUMNS,
        (
            (
                Cell(str(one["namespaceId"]), Tone.NAME),
                text_of(one, "name"),
                text_of(one, "services"),
                gettext("yes") if one["created"] else Cell(gettext("no"), Tone.ODD),
            )
            for one in listed
        ),
    )
    return ExitCode.DONE


def _create(options: argparse.Namespace, client: RegistryClient) -> int:
    name = options.name or options.create
    form = {"customNamespaceId": options.create, "namespaceName": name, "namespaceDesc": options.description}
    if client.change("POST", NAMESPACES, form).json() is not True:
        taken = any(one.get("namespace") == options.create for one in client.namespaces())
        why = gettext("it exists") if taken else gettext("the server does not allow this id")
        raise CommandError(
            ExitCode.FAILED, gettext("namespace %(create)s is not created: %(why)s", create=options.create, why=why)
        )
    return _done(options, "created namespace %(create)s", create=options.create)


def _remove(options: argparse.Namespace, client: RegistryClient) -> int:
    if all(one.get("namespace") != options.remove for one in client.namespaces()):
        text = gettext(
            "there is no namespace %(remove)s that was created; `rollcall namespaces` lists all", remove=options.remove
        )
        raise CommandError(ExitCode.NOT_FOUND, text)
    if count := _service_count(client, options.remove):
        text = gettext(
            "namespace %(remove)s still has services (%(count)s): deregister their instances first",
            remove=options.remove,
            count=count,
        )
        raise CommandError(ExitCode.FAILED, text)
    client.change("DELETE", NAMESPACES, {"namespaceId": options.remove})
    return _done(options, "removed namespace %(remove)s", remove=options.remove)


def _done(options: argparse.Namespace, message: str, **values: object) -> int:
    """Print a completed change; as data it is English."""
    if is_data(options):
        print_data(options, {"done": message % values})
    else:
        write_line(printable(gettext(message, **values)))
    return ExitCode.DONE


def _service_count(client: RegistryClient, namespace: str) -> int | None:
    """Return the number of services in a namespace; None if the caller may not read it."""
    try:
        answer: Any = client.get(CATALOG_SERVICES, {"namespaceId": namespace, "pageNo": 1, "pageSize": 1})
    except CommandError as error:
        if error.code is not ExitCode.REFUSED:
            raise
        return None
    count = answer.get("count") if isinstance(answer, dict) else None
    if not isinstance(count, int):
        raise client.unusable(CATALOG_SERVICES)
    return count

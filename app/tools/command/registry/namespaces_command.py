"""``rollcall namespaces``: the namespaces that were created or are in use, with the number of their services."""

import argparse
from typing import Any

from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, print_list
from app.tools.command.asking.registry_client import CATALOG_SERVICES, PUBLIC, RegistryClient
from app.tools.command.asking.run_command import finish
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

_COLUMNS = Column("namespace"), Column("name", drop=1, is_cut=True), Column("services"), Column("created", drop=2)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "namespaces",
        help="list namespaces",
        description="List the namespaces that you may see, with the number of services in each. A namespace that is in "
        "use was not always created: clients may register in any.",
    )
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
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
                "yes" if one["created"] else Cell("no", Tone.ODD),
            )
            for one in listed
        ),
    )
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

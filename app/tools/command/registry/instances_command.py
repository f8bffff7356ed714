"""``rollcall instances``: the instances of a service with their true health, without the protect threshold."""

import argparse
from collections.abc import Iterable

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, is_data, print_list
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import add_all_namespaces, finish, say
from app.tools.command.asking.shown_values import address_of, age_text, flag_cell, metadata_text, text_of, weight_text
from app.tools.command.asking.terminal_table import Cell, Column, Tone

_COLUMNS = (
    Column("instance"),
    Column("cluster", drop=3),
    Column("health"),
    Column("enabled", drop=1),
    Column("weight", drop=2),
    Column("kind", drop=6),
    Column("last beat", drop=5),
    Column("metadata", drop=4, least=16),
)

BEATS = "/v1/ns/service/beats"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "instances",
        help="list the instances of a service",
        description="List all instances of a service, even disabled ones, with their true health. `rollcall explain` "
        "explains the state of one.",
    )
    parser.add_argument("service", metavar="SERVICE", help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("--cluster", metavar="NAME", help="only those of this cluster of the service")
    parser.add_argument("--unhealthy", action="store_true", help="only those that are not healthy")
    add_all_namespaces(parser)
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    rows = _everywhere(options, client) if options.all_namespaces else client.instances(options.service)
    if options.cluster:
        clusters = sorted({text_of(one, "clusterName") for one in rows})
        rows = [one for one in rows if one.get("clusterName") == options.cluster]
        if not rows:
            raise CommandError(
                ExitCode.NOT_FOUND,
                gettext(
                    "%(service)s has no instances in a cluster %(cluster)s; it has some in: %(clusters)s",
                    service=options.service,
                    cluster=options.cluster,
                    clusters=", ".join(clusters) or gettext("none"),
                ),
            )
    if options.unhealthy:
        rows = [one for one in rows if one.get("healthy") is not True]
    if not rows and not is_data(options):
        if options.unhealthy:
            say(options, gettext("%(service)s has no unhealthy instances", service=options.service))
        else:
            say(options, gettext("%(service)s has no instances", service=options.service))
        return ExitCode.DONE
    shown = () if is_data(options) else rows
    beating = dict.fromkeys(one.get("namespaceId") for one in shown if one.get("ephemeral") is True)
    ages = _beat_ages(options, client, beating)
    before = (Column("namespace"),) if options.all_namespaces else ()
    print_list(
        options,
        lambda: rows,
        lambda: map(address_of, rows),
        (*before, *_COLUMNS),
        ((*(text_of(one, "namespaceId") for _ in before), *_cells(one, ages.get(_place(one)))) for one in rows),
    )
    return ExitCode.DONE


def _everywhere(options: argparse.Namespace, client: RegistryClient) -> list[Row]:
    """Return the instances of the service in all namespaces, each with its ``namespaceId``.

    Raises:
        CommandError: no namespace has the service.
    """
    found = {one: client.instances_in(one, options.service) for one in client.all_namespaces()}
    if all(rows is None for rows in found.values()):
        raise CommandError(
            ExitCode.NOT_FOUND, gettext("no namespace has a service %(service)s", service=options.service)
        )
    return [{**one, "namespaceId": namespace} for namespace, rows in found.items() for one in rows or ()]


def _place(row: Row) -> tuple[object, ...]:
    return row.get("namespaceId"), row.get("ip"), row.get("port"), row.get("clusterName")


def _beat_ages(
    options: argparse.Namespace, client: RegistryClient, namespaces: Iterable[str | None]
) -> dict[tuple[object, ...], object]:
    """Return the ages of the last beats as the owner counts them; a copy's age at another member says nothing.

    ``namespaces``: those of the rows; None is that of the command, which the rows do not name.
    """
    ages: dict[tuple[object, ...], object] = {}
    for namespace in namespaces:
        wanted = {"namespaceId": client.namespace if namespace is None else namespace, "serviceName": options.service}
        told = client.find(BEATS, wanted)
        if not isinstance(told, dict) or not isinstance(told.get("beats"), list):
            continue  # a real Nacos, which does not tell
        if told.get("answered") is not True:
            say(
                options,
                gettext(
                    "last beats are not known: %(member)s, which counts them, did not answer",
                    member=text_of(told, "member"),
                ),
            )
        for one in client.rows(BEATS, told["beats"]):
            ages[_place({**one, "namespaceId": namespace})] = one.get("ageMs")
    return ages


def _cells(row: Row, age_ms: object) -> tuple[str | Cell, ...]:
    is_ephemeral = row.get("ephemeral") is True
    return (
        Cell(address_of(row), Tone.NAME),
        text_of(row, "clusterName"),
        flag_cell(row.get("healthy"), gettext("healthy"), gettext("UNHEALTHY")),
        flag_cell(row.get("enabled"), gettext("yes"), gettext("no")),
        weight_text(row),
        gettext("ephemeral") if is_ephemeral else gettext("persistent"),
        gettext("%(age)s ago", age=age_text(age_ms)) if is_ephemeral and isinstance(age_ms, int) else "-",
        Cell(metadata_text(row.get("metadata")), Tone.FAINT),
    )

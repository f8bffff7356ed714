"""``rollcall instances``: the instances of a service with their true health, whatever the protect threshold."""

import argparse
import sys

from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import address_of, age_text, flag_cell, metadata_text, text_of, weight_text
from app.tools.command.asking.terminal_table import Cell, Tone, print_table
from app.tools.command.printable import json_text

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
    finish(parser, _run)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    rows = client.instances(options.service)
    if options.cluster:
        clusters = sorted({text_of(one, "clusterName") for one in rows})
        rows = [one for one in rows if one.get("clusterName") == options.cluster]
        if not rows:
            raise CommandError(
                ExitCode.NOT_FOUND,
                f"{options.service} has no instances in a cluster {options.cluster}; it has some in: "
                f"{', '.join(clusters) or 'none'}",
            )
    if options.unhealthy:
        rows = [one for one in rows if one.get("healthy") is not True]
    if options.json:
        sys.stdout.write(json_text(rows) + "\n")
        return ExitCode.DONE
    if not rows:
        say(options, f"{options.service} has no {'unhealthy ' if options.unhealthy else ''}instances")
        return ExitCode.DONE
    ages = _beat_ages(options, client) if any(one.get("ephemeral") is True for one in rows) else {}
    print_table(
        ("instance", "cluster", "health", "enabled", "weight", "kind", "last beat", "metadata"),
        (_cells(one, ages.get(_place(one))) for one in rows),
    )
    return ExitCode.DONE


def _place(row: Row) -> tuple[object, ...]:
    return row.get("ip"), row.get("port"), row.get("clusterName")


def _beat_ages(options: argparse.Namespace, client: RegistryClient) -> dict[tuple[object, ...], object]:
    """Return the ages of the last beats as the owner counts them; a copy's age at another member says nothing."""
    told = client.find(BEATS, {"namespaceId": client.namespace, "serviceName": options.service})
    if not isinstance(told, dict) or not isinstance(told.get("beats"), list):
        return {}  # a real Nacos, which does not tell
    if told.get("answered") is not True:
        say(options, f"last beats are not known: {text_of(told, 'member')}, which counts them, did not answer")
    return {_place(one): one.get("ageMs") for one in client.rows(BEATS, told["beats"])}


def _cells(row: Row, age_ms: object) -> tuple[str | Cell, ...]:
    is_ephemeral = row.get("ephemeral") is True
    return (
        Cell(address_of(row), Tone.NAME),
        text_of(row, "clusterName"),
        flag_cell(row.get("healthy"), "healthy", "UNHEALTHY"),
        flag_cell(row.get("enabled"), "yes", "no"),
        weight_text(row),
        "ephemeral" if is_ephemeral else "persistent",
        f"{age_text(age_ms)} ago" if is_ephemeral and isinstance(age_ms, int) else "-",
        Cell(metadata_text(row.get("metadata")), Tone.FAINT),
    )

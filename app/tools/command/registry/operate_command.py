"""``rollcall disable``, ``enable``, ``weight`` and ``metadata``: one change of one instance, however it is registered.

A change that takes an instance away from clients says how many healthy ones remain, and stops if these are too few.
"""

import argparse
import json
import sys
from collections.abc import Callable

from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.instance_argument import (
    address_argument,
    find_instance,
    parameters_of,
    shown_instance,
)
from app.tools.command.asking.output import is_data, print_data
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.registry.register_command import pair

PARTIAL, METADATA_BATCH = "/v3/admin/ns/instance/partial", "/v3/admin/ns/instance/metadata/batch"
SERVICE_DETAIL = "/v1/ns/catalog/service"
WEIGHT_MAX = 10_000
Change = Callable[[argparse.Namespace, RegistryClient], str]
"""Makes a change, and returns it in words."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to those of ``rollcall``."""
    kept = "The change outlives a new registration of the instance; it ends a minute after the instance is gone."
    stop = "It stops if the healthy instances that remain are none, or not more than the protect threshold."
    one = _add(subparsers, "disable", "take an instance out of service", f"{stop} {kept}", _disable)
    _add_force(one)
    _add(subparsers, "enable", "put an instance back into service", kept, _enable)
    one = _add(
        subparsers,
        "weight",
        "set an instance's share of the calls",
        f"A weight of 0 takes it out: {stop} {kept}",
        _weight,
    )
    one.add_argument("weight", metavar="N", type=_weight_argument, help=f"from 0 to {WEIGHT_MAX}; 1 is usual")
    _add_force(one)
    one = _add(subparsers, "metadata", "set or unset metadata of an instance", f"Other keys stay. {kept}", _metadata)
    one.add_argument("pairs", metavar="KEY=VALUE", nargs="*", type=pair, help="may be given several times")
    one.add_argument(
        "--unset",
        metavar="KEY",
        action="append",
        default=[],
        help="remove a key that this command or the console set; a key that the client registers stays",
    )


def _add(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, more: str, change: Change
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. {more}")
    parser.add_argument("instance", metavar="ADDRESS", type=address_argument, help="IP:PORT of the instance")
    parser.add_argument("--service", metavar="SERVICE", required=True, help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("--cluster", metavar="NAME", help="the cluster, if the address is in several of the service")
    finish(parser, lambda options, client: _run(options, client, change))
    return parser


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="do it however few healthy instances remain")


def _weight_argument(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= WEIGHT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a weight from 0 to {WEIGHT_MAX}")
    return weight


def _run(options: argparse.Namespace, client: RegistryClient, change: Change) -> int:
    done = change(options, client)
    if is_data(options):
        print_data(options, {"done": done, **parameters_of(options, client)})
    else:
        sys.stdout.write(f"{done} {shown_instance(options)} in namespace {client.namespace}\n")
    return ExitCode.DONE


def _disable(options: argparse.Namespace, client: RegistryClient) -> str:
    find_instance(options, client)
    _check_remaining(options, client)
    client.change("PUT", PARTIAL, {**parameters_of(options, client), "enabled": "false"})
    return "disabled"


def _enable(options: argparse.Namespace, client: RegistryClient) -> str:
    found = find_instance(options, client)
    client.change("PUT", PARTIAL, {**parameters_of(options, client), "enabled": "true"})
    if found.get("healthy") is not True:
        say(options, "it is unhealthy, so clients do not get it yet; `rollcall explain` says why")
    return "enabled"


def _weight(options: argparse.Namespace, client: RegistryClient) -> str:
    find_instance(options, client)
    if options.weight == 0:
        _check_remaining(options, client)
    client.change("PUT", PARTIAL, {**parameters_of(options, client), "weight": f"{options.weight:g}"})
    return f"set weight {options.weight:g} of"


def _metadata(options: argparse.Namespace, client: RegistryClient) -> str:
    if not options.pairs and not options.unset:
        raise CommandError(ExitCode.WRONG_OPTIONS, "nothing to change: give KEY=VALUE or --unset KEY")
    if twice := sorted({name for name, _ in options.pairs} & set(options.unset)):
        raise CommandError(ExitCode.WRONG_OPTIONS, f"{twice[0]} is both set and unset")
    found = find_instance(options, client)
    where = parameters_of(options, client)
    if options.pairs:
        client.change("PUT", PARTIAL, {**where, "metadata": json.dumps(dict(options.pairs))})
    if options.unset:
        named = {"ip": where["ip"], "port": where["port"], "clusterName": options.cluster}
        named["ephemeral"] = found.get("ephemeral") is not False
        keys = json.dumps(dict.fromkeys(options.unset, ""))
        batch = {"namespaceId": client.namespace, "serviceName": options.service, "instances": json.dumps([named])}
        client.change("DELETE", METADATA_BATCH, {**batch, "metadata": keys})
    said = [f"{name}={value}" for name, value in options.pairs] + [f"no {name}" for name in options.unset]
    return f"set metadata {', '.join(said)} of"


def _check_remaining(options: argparse.Namespace, client: RegistryClient) -> None:
    """Say how many healthy instances remain without this one.

    Raises:
        CommandError: they are none, or so few that the protect threshold shows clients unhealthy ones.
    """
    ip, port = options.instance
    rows = client.instances(options.service)
    serving = [one for one in rows if _serves(one)]
    remaining = [
        one
        for one in serving
        if (one.get("ip"), one.get("port"), one.get("clusterName")) != (ip, port, options.cluster)
    ]
    answer = client.get(SERVICE_DETAIL, {"namespaceId": client.namespace, "serviceName": options.service})
    described = answer.get("service") if isinstance(answer, dict) else None
    threshold = described.get("protectThreshold") if isinstance(described, dict) else None
    if not isinstance(threshold, int | float):
        raise client.unusable(SERVICE_DETAIL)
    text = f"{len(remaining)} of {len(serving)} healthy instances in service remain, protect threshold {threshold:g}"
    if (not remaining or len(remaining) / len(rows) <= threshold) and not options.force:
        why = "clients would get unhealthy ones, too" if remaining else "clients would find none"
        raise CommandError(ExitCode.FAILED, f"{text}: {why}. --force does it all the same")
    say(options, text)


def _serves(row: Row) -> bool:
    weight = row.get("weight")
    return row.get("healthy") is True and row.get("enabled") is True and isinstance(weight, int | float) and weight > 0

"""``rollcall disable``, ``enable``, ``weight`` and ``metadata``: one change of one instance, however it is registered.

A change that takes an instance away from clients says how many healthy ones remain, and stops if these are too few.
"""

import argparse
import json
from collections.abc import Callable

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode, StoppedByServer
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
from app.tools.printable import write_line

PARTIAL_BATCH, METADATA_BATCH = "/v3/admin/ns/instance/partial/batch", "/v3/admin/ns/instance/metadata/batch"
WEIGHT_MAX = 10_000
Done = tuple[str, dict[str, str]]
"""The text about the result, with placeholders, and their values."""
Change = Callable[[argparse.Namespace, RegistryClient], Done]
"""Makes a change, and returns it in words."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to those of ``rollcall``."""
    kept = "The change outlives a new registration of the instance; it ends a minute after the instance is gone."
    stop = "It stops if no healthy instance would remain, or their share would not exceed the protect threshold."
    one = _add(subparsers, "disable", "take an instance out of service", f"{stop} {kept}", _disable)
    add_force(one)
    _add(subparsers, "enable", "put an instance back into service", kept, _enable)
    one = _add(
        subparsers,
        "weight",
        "set an instance's share of the calls",
        f"A weight of 0 takes it out: {stop} {kept}",
        _weight,
    )
    one.add_argument("weight", metavar="N", type=_weight_argument, help=f"from 0 to {WEIGHT_MAX}; 1 is usual")
    add_force(one)
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


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets too few instances remain."""
    parser.add_argument("--force", action="store_true", help="do it however few healthy instances remain")


def _weight_argument(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= WEIGHT_MAX:
        raise argparse.ArgumentTypeError(
            gettext("%(text)s is not a weight from 0 to %(most)s", text=repr(text), most=WEIGHT_MAX)
        )
    return weight


def _run(options: argparse.Namespace, client: RegistryClient, change: Change) -> int:
    message, values = change(options, client)
    if is_data(options):
        print_data(options, {"done": message % values, **parameters_of(options, client)})
    else:
        write_line(
            gettext(
                "%(done)s %(shown_instance)s in namespace %(namespace)s",
                done=gettext(message, **values),
                shown_instance=shown_instance(options),
                namespace=client.namespace,
            )
        )
    return ExitCode.DONE


def _disable(options: argparse.Namespace, client: RegistryClient) -> Done:
    find_instance(options, client)
    say_remaining(options, change_instance(options, client, enabled="false"))
    return N_("disabled"), {}


def _enable(options: argparse.Namespace, client: RegistryClient) -> Done:
    found = find_instance(options, client)
    change_instance(options, client, enabled="true")
    if found.get("healthy") is not True:
        say(options, gettext("it is unhealthy, so clients do not get it yet; `rollcall explain` says why"))
    return N_("enabled"), {}


def _weight(options: argparse.Namespace, client: RegistryClient) -> Done:
    find_instance(options, client)
    counts = change_instance(options, client, weight=f"{options.weight:g}")
    if options.weight == 0:
        say_remaining(options, counts)
    return N_("set weight %(weight)s of"), {"weight": f"{options.weight:g}"}


def _metadata(options: argparse.Namespace, client: RegistryClient) -> Done:
    if not options.pairs and not options.unset:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("nothing to change: give KEY=VALUE or --unset KEY"))
    if twice := sorted({name for name, _ in options.pairs} & set(options.unset)):
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("%(twice)s is both set and unset", twice=twice[0]))
    found = find_instance(options, client)
    where = parameters_of(options, client)
    if options.pairs:
        change_instance(options, client, metadata=json.dumps(dict(options.pairs)))
    if options.unset:
        named = {"ip": where["ip"], "port": where["port"], "clusterName": options.cluster}
        named["ephemeral"] = found.get("ephemeral") is not False
        keys = json.dumps(dict.fromkeys(options.unset, ""))
        batch = {"namespaceId": client.namespace, "serviceName": options.service, "instances": json.dumps([named])}
        client.change("DELETE", METADATA_BATCH, {**batch, "metadata": keys})
    said = [f"{name}={value}" for name, value in options.pairs] + [f"no {name}" for name in options.unset]
    return N_("set metadata %(metadata)s of"), {"metadata": ", ".join(said)}


def change_instance(options: argparse.Namespace, client: RegistryClient, **wanted: str) -> Row:
    """Have the owner of the service change the instance, and return how many instances of the service remain.

    Raises:
        CommandError: the owner stopped a change after which too few healthy instances would remain, or refused it.
    """
    ip, port = options.instance
    named = json.dumps([{"ip": ip, "port": port, "clusterName": options.cluster}])
    where: dict[str, str | int] = {"namespaceId": client.namespace, "serviceName": options.service, "instances": named}
    is_forced = getattr(options, "force", False)
    try:
        answer = client.changed("PUT", PARTIAL_BATCH, {**where, **wanted, "ifEnoughRemain": str(not is_forced).lower()})
    except StoppedByServer as error:
        raise CommandError(ExitCode.FAILED, gettext("%(error)s. --force does it all the same", error=error)) from None
    if not isinstance(answer, dict):
        raise client.unusable(PARTIAL_BATCH)
    return answer


def say_remaining(options: argparse.Namespace, counts: Row) -> None:
    """Say how many instances clients keep calling, as the owner counted them."""
    names = ("remaining", "serving", "threshold")
    remaining, serving, threshold = (counts.get(name, 0) for name in names)
    share = f"{threshold:g}"
    say(
        options,
        gettext(
            "%(remaining)s of %(serving)s healthy instances in service remain, protect threshold %(threshold)s",
            remaining=remaining,
            serving=serving,
            threshold=share,
        ),
    )

"""``rollcall update``: change the weight, the metadata or the state of an instance, however it is registered."""

import argparse
import json

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.instance_argument import (
    add_instance_arguments,
    find_instance,
    parameters_of,
    shown_instance,
)
from app.tools.command.asking.output import is_data, print_data
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import finish, say
from app.tools.command.registry.operate_command import add_force, change_instance, say_remaining
from app.tools.command.registry.register_command import pair
from app.tools.printable import write_line

METADATA = "/v2/ns/instance/metadata/batch"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "update",
        help="change an instance: its weight, its metadata, in or out of service",
        description="Change an instance, however it is registered: over HTTP, by a gRPC client, or persistent. The "
        "change is kept separately from the registration: it stays when the client registers or connects again, and "
        "ends a minute after the instance is gone. If clients would lose the instance, the command stops if no healthy "
        "instance would remain, or their share would not exceed the protect threshold.",
    )
    add_instance_arguments(parser)
    parser.add_argument("--weight", metavar="N", type=float, help="its share of the calls, from 0 to 10000")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--enable", action="store_true", help="put it into service")
    state.add_argument("--disable", action="store_true", help="take it out of service: clients do not see it")
    parser.add_argument(
        "--metadata", metavar="KEY=VALUE", action="append", default=[], type=pair, help="may be given several times"
    )
    parser.add_argument(
        "--unset", metavar="KEY", action="append", default=[], help="remove a key that --metadata or the console set"
    )
    add_force(parser)
    finish(parser, _run)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    attributes: dict[str, str] = {}
    if options.weight is not None:
        attributes["weight"] = f"{options.weight:g}"
    if options.enable or options.disable:
        attributes["enabled"] = "true" if options.enable else "false"
    if options.metadata:
        attributes["metadata"] = json.dumps(dict(options.metadata))
    if not attributes and not options.unset:
        text = "nothing to change: give --weight, --enable, --disable, --metadata or --unset"
        raise CommandError(ExitCode.WRONG_OPTIONS, text)
    is_ephemeral = find_instance(options, client).get("ephemeral") is not False
    where = parameters_of(options, client)
    if attributes:
        counts = change_instance(options, client, **attributes)
        if options.disable or options.weight == 0:
            say_remaining(options, counts)
    named = {"ip": where["ip"], "port": where["port"], "clusterName": options.cluster, "ephemeral": is_ephemeral}
    batch = {"namespaceId": client.namespace, "serviceName": options.service, "instances": json.dumps([named])}
    if options.unset:
        client.change("DELETE", METADATA, batch | {"metadata": json.dumps(dict.fromkeys(options.unset, ""))})
    if is_data(options):
        print_data(options, {"done": "updated", **where})
    else:
        write_line(
            gettext(
                "updated %(shown_instance)s in namespace %(namespace)s",
                shown_instance=shown_instance(options),
                namespace=client.namespace,
            )
        )
    say(options, gettext("the change outlives a new registration; `rollcall explain` shows it"))
    return ExitCode.DONE

"""``rollcall register`` and ``rollcall deregister``: add an instance, and remove one."""

import argparse
import json
import sys
import time

from app.languages.catalogues import N_
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
from app.tools.printable import write_line

INSTANCE, BEAT = "/v1/ns/instance", "/v1/ns/instance/beat"
BEAT_MS = 5_000
BEAT_MS_MIN, BEAT_MS_MAX = 200, 60_000
UNKNOWN = 20_404
"""The code of the answer to a beat whose instance is not registered."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both commands to those of ``rollcall``."""
    put = subparsers.add_parser(
        "register",
        help="register an instance",
        description="Register an instance, or replace it. An ephemeral one is removed after 30 s without a beat: "
        "--keep beats for it until Ctrl-C, and then deregisters it; --persistent registers one that needs no beats.",
    )
    add_instance_arguments(put)
    put.add_argument("--weight", metavar="N", type=float, default=1.0, help="its share of the calls (1)")
    put.add_argument(
        "--metadata", metavar="KEY=VALUE", action="append", default=[], type=pair, help="may be given several times"
    )
    put.add_argument("--disabled", action="store_true", help="register it out of service")
    kind = put.add_mutually_exclusive_group()
    kind.add_argument("--persistent", action="store_true", help="it stays without beats")
    kind.add_argument("--keep", action="store_true", help="beat until Ctrl-C, then deregister it")
    finish(put, _register)
    take = subparsers.add_parser(
        "deregister",
        help="remove an instance at once",
        description="Remove an instance at once. `rollcall drain` removes it once its clients know. An instance whose "
        "client keeps sending beats comes back.",
    )
    add_instance_arguments(take)
    finish(take, _deregister)


def pair(text: str) -> tuple[str, str]:
    """Return name and value of ``KEY=VALUE``; for argparse."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(gettext("%(text)s is not KEY=VALUE", text=repr(text)))
    return name, value


def _register(options: argparse.Namespace, client: RegistryClient) -> int:
    is_ephemeral = not options.persistent
    values: dict[str, str | int] = {
        **parameters_of(options, client),
        "weight": f"{options.weight:g}",
        "enabled": "false" if options.disabled else "true",
        "ephemeral": "true" if is_ephemeral else "false",
        "metadata": json.dumps(dict(options.metadata)),
    }
    client.change("POST", INSTANCE, values)
    _told(options, client, N_("registered"))
    if options.keep:
        return _keep(options, client)
    if is_ephemeral:
        say(
            options,
            gettext(
                "without beats it is unhealthy in 15 s and gone in 30 s; --keep sends beats, --persistent works without"
            ),
        )
    return ExitCode.DONE


def _keep(options: argparse.Namespace, client: RegistryClient) -> int:
    """Send beats until Ctrl-C, then deregister."""
    where = parameters_of(options, client)
    beat = {
        "serviceName": options.service,
        "cluster": options.cluster,
        "ip": where["ip"],
        "port": where["port"],
        "weight": options.weight,
        "metadata": dict(options.metadata),
        "scheduled": False,
    }
    say(options, gettext("beating for it until Ctrl-C"))
    pause_ms = BEAT_MS
    try:
        while True:
            time.sleep(pause_ms / 1_000)
            try:
                answer = client.change("PUT", BEAT, {**where, "beat": json.dumps(beat)}).json()
            except CommandError as error:
                if error.code is not ExitCode.NO_SERVER:
                    raise
                say(options, str(error))  # it comes back, and the next beat registers the instance again
                continue
            told_ms = answer.get("clientBeatInterval") if isinstance(answer, dict) else None
            pause_ms = min(max(told_ms, BEAT_MS_MIN), BEAT_MS_MAX) if isinstance(told_ms, int) else BEAT_MS
    except KeyboardInterrupt:
        client.change("DELETE", INSTANCE, {**where, "ephemeral": "true"})
        _told(options, client, N_("deregistered"))
        return ExitCode.DONE


def _deregister(options: argparse.Namespace, client: RegistryClient) -> int:
    found = find_instance(options, client)
    is_ephemeral = found.get("ephemeral") is not False
    where = {**parameters_of(options, client), "ephemeral": "true" if is_ephemeral else "false"}
    client.change("DELETE", INSTANCE, where)
    _told(options, client, N_("deregistered"))
    return ExitCode.DONE


def _told(options: argparse.Namespace, client: RegistryClient, done: str) -> None:
    if is_data(options):
        print_data(options, {"done": done, **parameters_of(options, client)})
    else:
        write_line(
            gettext(
                "%(done)s %(shown_instance)s in namespace %(namespace)s",
                done=gettext(done),
                shown_instance=shown_instance(options),
                namespace=client.namespace,
            )
        )
    sys.stdout.flush()

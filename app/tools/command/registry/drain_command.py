"""``rollcall drain``: take an instance out of service once its clients know, or drain a whole member."""

import argparse
import time

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.tools.audit.client.access import positive_duration_s
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.instance_argument import (
    DEFAULT_CLUSTER,
    address_argument,
    find_instance,
    parameters_of,
    shown_instance,
)
from app.tools.command.asking.output import is_data, print_data
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import print_fields

INSTANCE_DRAIN, NODE_DRAIN = "/v1/ns/instance/drain", "/v1/ns/operator/drain"
TIMEOUT_S, TIMEOUT_S_MAX = 15.0, 60.0
SLACK_S = 15.0
"""The extra time for the removal after the wait for subscribers."""
POLL_S = 0.5


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "drain",
        help="remove an instance gracefully, or drain a member before you stop it",
        description="Hide an instance, wait until its subscribers know, then remove it: exit code 1 when some did not "
        "in time. With --node, have the server itself send its clients to other members and hand its keys over, until "
        "it is stopped or --undo.",
    )
    parser.add_argument("service", metavar="SERVICE", nargs="?", help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("instance", metavar="IP:PORT", nargs="?", type=address_argument, help="the instance's address")
    parser.add_argument("--cluster", metavar="NAME", default=DEFAULT_CLUSTER, help=f"of it ({DEFAULT_CLUSTER})")
    parser.add_argument(
        "--within", metavar="TIME", type=_within_s, default=TIMEOUT_S, help="remove it after this time anyway (15s)"
    )
    parser.add_argument("--node", action="store_true", help="drain the server itself, not an instance")
    parser.add_argument("--undo", action="store_true", help="with --node: let it take clients and keys again")
    parser.add_argument("--status", action="store_true", help="with --node: only show the progress")
    finish(parser, _run)


def _within_s(text: str) -> float:
    if (seconds := positive_duration_s(text)) > TIMEOUT_S_MAX:
        raise argparse.ArgumentTypeError(gettext("at most %(seconds)s s", seconds=f"{TIMEOUT_S_MAX:g}"))
    return seconds


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.node:
        if options.service is not None:
            raise CommandError(
                ExitCode.WRONG_OPTIONS, gettext("--node drains the server itself: leave SERVICE and IP:PORT out")
            )
        return _node(options, client)
    if options.undo or options.status:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("--undo and --status go with --node"))
    if options.service is None or options.instance is None:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("name an instance, SERVICE IP:PORT, or give --node"))
    return _instance(options, client)


def _instance(options: argparse.Namespace, client: RegistryClient) -> int:
    find_instance(options, client)
    where = parameters_of(options, client)
    wanted = {**where, "timeoutMs": round(options.within * 1_000)}
    answer = client.change("PUT", INSTANCE_DRAIN, wanted, timeout_s=options.within + SLACK_S).json()
    deadline_s = time.monotonic() + options.within + SLACK_S
    while isinstance(answer, dict) and answer.get("isOver") is False and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        answer = client.get(INSTANCE_DRAIN, where)
    if not isinstance(answer, dict) or not isinstance(answer.get("isOver"), bool):
        raise client.unusable(INSTANCE_DRAIN)
    if is_data(options):
        print_data(options, answer)
    else:
        print_fields(
            (
                (N_("instance"), shown_instance(options)),
                (N_("state"), text_of(answer, "state")),
                (N_("took"), f"{text_of(answer, 'tookMs')} ms"),
                (N_("subscribers"), text_of(answer, "subscribers", "0")),
                (N_("still behind"), text_of(answer, "behind", "0")),
            )
        )
    return _code(options, answer)


def _code(options: argparse.Namespace, answer: Row) -> int:
    late = answer.get("notAnswered")
    for address in late if isinstance(late, list) else ():
        say(options, gettext("%(address)s did not answer: its subscribers may not know yet", address=address))
    if not answer["isOver"]:
        say(options, gettext("it is still under way; the same command follows it"))
        return ExitCode.NOT_ALL
    return ExitCode.NOT_ALL if late or answer.get("behind") else ExitCode.DONE


def _node(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.status:
        answer = client.get(NODE_DRAIN)
    else:
        answer = client.change("PUT", NODE_DRAIN, {"enabled": "false" if options.undo else "true"}).json()
    if not isinstance(answer, dict) or not isinstance(answer.get("draining"), bool):
        raise client.unusable(NODE_DRAIN)
    if is_data(options):
        print_data(options, answer)
        return ExitCode.DONE
    is_draining = answer["draining"]
    print_fields(
        (
            (N_("server"), client.server),
            (N_("draining"), gettext("yes") if is_draining else gettext("no")),
            (N_("state"), text_of(answer, "state")),
            (N_("connected clients"), text_of(answer, "sdkConnections")),
            (N_("unsent keys"), text_of(answer, "unsentKeys")),
            (N_("handed over"), gettext("yes") if answer.get("handedOver") is True else gettext("no")),
        )
    )
    if is_draining and answer.get("handedOver") is not True:
        say(options, gettext("`rollcall drain --node --status` shows when everything is handed over"))
    return ExitCode.DONE

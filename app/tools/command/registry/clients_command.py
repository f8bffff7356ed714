"""``rollcall clients``: publishers and subscribers: all clients of a member, one of them, or those of a service."""

import argparse
from collections.abc import Mapping
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, OutputFormat, is_data, print_list
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import count_argument, finish, say
from app.tools.command.asking.shown_values import address_of, short_service, text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

CLIENTS = "/v2/ns/client"
CONNECTIONS = "/v2/core/loader/current"
SUBSCRIBERS = "/v1/ns/service/subscribers"
CLUSTER_CLIENTS, CLUSTER_CLIENT = "/v1/ns/operator/clients", "/v1/ns/operator/client"
CLUSTER_SUBSCRIBERS = "/v1/ns/service/subscribers/all"
"""Rollcall's own calls, about all members."""
ROWS_MAX = 1_000
CLUSTER_PAGES_MAX = 10
_COLUMNS = (
    Column("client"),
    Column("over", drop=1),
    Column("address", drop=2),
    Column("application", drop=4),
    Column("sdk", drop=5),
    Column("at", drop=3),
)
EPHEMERAL, PERSISTENT = "#true", "#false"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "clients",
        help="list clients, and who publishes or subscribes to a service",
        description="List the clients of all members: connections over gRPC, and addresses over HTTP. With "
        "CLIENT, what it publishes and subscribes to; with --service, the publishers and subscribers of one service.",
    )
    parser.add_argument("client", metavar="CLIENT", nargs="?", help="a client's id")
    parser.add_argument("--service", metavar="SERVICE", help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"rows of the table ({ROWS_MAX})"
    )
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.client and options.service:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("CLIENT and --service exclude each other: give one"))
    if options.client:
        return _one(options, client)
    return _of_service(options, client) if options.service else _all(options, client)


def _all(options: argparse.Namespace, client: RegistryClient) -> int:
    told = _of_cluster(options, client)
    if not told and not is_data(options):
        say(options, gettext("no clients publish an instance or are connected"))
        return ExitCode.DONE
    print_list(
        options,
        lambda: told,
        lambda: (one["client"] for one in told),
        _COLUMNS,
        (
            (Cell(one["client"], Tone.NAME), one["over"], one["address"], one["application"], one["sdk"], one["at"])
            for one in told[: options.limit]
        ),
    )
    if len(told) > options.limit and options.output in (OutputFormat.TABLE, OutputFormat.WIDE):
        say(
            options,
            gettext(
                "%(limit)s of %(count)s clients; --limit %(count)s shows all", limit=options.limit, count=len(told)
            ),
        )
    return ExitCode.DONE


def _of_cluster(options: argparse.Namespace, client: RegistryClient) -> list[dict[str, str]]:
    """Return the clients of all members, as many as are shown; of a real Nacos those that one member knows."""
    if client.find(CLUSTER_CLIENTS, {"pageNo": 1, "pageSize": 1}) is None:
        return _of_server(client)
    listed: list[dict[str, str]] = []
    silent: set[str] = set()
    for page in range(1, CLUSTER_PAGES_MAX + 1):
        answer = client.get(CLUSTER_CLIENTS, {"pageNo": page, "pageSize": ROWS_MAX})
        rows = client.rows(CLUSTER_CLIENTS, answer.get("clients") if isinstance(answer, dict) else None)
        silent.update(answer.get("notAnswered") or ())
        listed += [_at_member(one) for one in rows]
        if len(rows) < ROWS_MAX:
            break
    else:
        say(options, gettext("only the first %(count)s clients are listed", count=len(listed)))
    if silent:
        say(
            options,
            gettext(
                "no answer from %(silent)s: of its clients only those that publish are listed",
                silent=", ".join(sorted(silent)),
            ),
        )
    return listed


def _at_member(row: Row) -> dict[str, str]:
    """Return a client that a member reports in words."""
    told = _told(_id(row), {})
    if "ip" not in row:
        return told
    return {
        **told,
        "address": address_of(row),
        "application": text_of(row, "app"),
        "sdk": text_of(row, "agent"),
        "at": text_of(row, "member"),
    }


def _of_server(client: RegistryClient) -> list[dict[str, str]]:
    path = f"{CLIENTS}/list"
    ids = client.get(path)
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise client.unusable(path)
    connections = client.get(CONNECTIONS)
    return [_told(one, connections if isinstance(connections, dict) else {}) for one in ids]


def _told(client_id: str, connections: Mapping[str, Any]) -> dict[str, str]:
    """Return a client in words; of a connection at another member only its id is known here."""
    told = {"client": client_id, "over": "gRPC", "address": "-", "application": "-", "sdk": "-", "at": "-"}
    if client_id.endswith((EPHEMERAL, PERSISTENT)):
        kind = "HTTP" if client_id.endswith(EPHEMERAL) else "HTTP, persistent"
        ip, _, port = client_id.rpartition("#")[0].rpartition(":")
        return {**told, "over": kind, "address": address_of({"ip": ip, "port": port})}
    found = connections.get(client_id)
    meta = found.get("metaInfo") if isinstance(found, dict) else None
    if not isinstance(meta, dict):
        return {**told, "at": "another member"}
    address = address_of({"ip": meta.get("clientIp"), "port": meta.get("remotePort")})
    return {
        **told,
        "address": address,
        "application": text_of(meta, "appName"),
        "sdk": text_of(meta, "version"),
        "at": "this member",
    }


def _one(options: argparse.Namespace, client: RegistryClient) -> int:
    wanted = {"clientId": options.client}
    published = client.find(f"{CLIENTS}/publish/list", wanted)
    connected = client.find(CLUSTER_CLIENT, wanted)
    member = connected.get("client") if isinstance(connected, dict) else None
    if published is None and member is None:
        raise CommandError(
            ExitCode.NOT_FOUND,
            gettext("there is no client %(value)s; `rollcall clients` lists all", value=options.client),
        )
    if isinstance(connected, dict):
        subscribed = [_subscription(one) for one in client.rows(CLUSTER_CLIENT, connected.get("subscribed"))]
        if member is None and not options.client.endswith((EPHEMERAL, PERSISTENT)):
            say(options, gettext("its subscriptions are not known: the member that it is connected to did not answer"))
    else:
        # An address over HTTP has no connection that could be subscribed.
        subscribed = client.rows(CLIENTS, client.find(f"{CLIENTS}/subscribe/list", wanted) or [])
    rows = client.rows(CLIENTS, published or []), subscribed
    listed = [("publishes", one) for one in rows[0]] + [("subscribes to", one) for one in rows[1]]
    print_list(
        options,
        lambda: {"client": options.client, "publishes": rows[0], "subscribesTo": rows[1]},
        lambda: dict.fromkeys(_service(one) for _, one in listed),
        (Column("what"), Column("namespace", drop=1), Column("service"), Column("instance", drop=2)),
        (
            (what, text_of(one, "namespace"), Cell(_service(one), Tone.NAME), _place(one.get("registeredInstance")))
            for what, one in listed
        ),
    )
    return ExitCode.DONE


def _subscription(row: Row) -> Row:
    """Return a subscription with the names that Nacos has for its parts."""
    group, _, name = text_of(row, "serviceName").partition("@@")
    return {"namespace": text_of(row, "namespaceId"), "group": group, "serviceName": name}


def _service(row: Row) -> str:
    return short_service(text_of(row, "group", ""), text_of(row, "serviceName"))


def _place(instance: object) -> str:
    if not isinstance(instance, dict):
        return "-"
    return f"{address_of(instance)} ({text_of(instance, 'cluster')})"


def _of_service(options: argparse.Namespace, client: RegistryClient) -> int:
    wanted: dict[str, str | int] = {"namespaceId": client.namespace, "serviceName": options.service}
    if not client.instances(options.service):
        say(options, gettext("%(service)s has no instances", service=options.service))
    path = f"{CLIENTS}/service"
    publishers = client.rows(path, client.get(f"{path}/publisher/list", wanted))
    found = client.find(CLUSTER_SUBSCRIBERS, wanted)
    if isinstance(found, dict):
        everyone = client.rows(CLUSTER_SUBSCRIBERS, found.get("subscribers"))
        connected = [one for one in everyone if one.get("over") == "gRPC"]
        over_udp: list[Row] = [{**one, "addrStr": address_of(one)} for one in everyone if one.get("over") == "UDP"]
        if silent := found.get("notAnswered"):
            say(
                options,
                gettext("subscribers at %(silent)s are left out: no answer", silent=", ".join(map(str, silent))),
            )
        if len(everyone) < int(found.get("count") or 0):
            say(
                options,
                gettext("%(count)s of %(total)s subscribers are listed", count=len(everyone), total=found["count"]),
            )
    else:  # a real Nacos
        connected = client.rows(path, client.get(f"{path}/subscriber/list", wanted))
        over_udp = _over_udp(options, client)
    rows = [("publishes", _id(one), address_of(one)) for one in publishers]
    rows += [("subscribes", _id(one), address_of(one)) for one in connected]
    rows += [("subscribes over UDP", text_of(one, "agent"), text_of(one, "addrStr")) for one in over_udp]
    print_list(
        options,
        lambda: {"publishers": publishers, "subscribers": connected, "subscribersOverUdp": over_udp},
        lambda: dict.fromkeys(who for _, who, _ in rows),
        (Column("what"), Column("client"), Column("address", drop=1)),
        ((what, Cell(who, Tone.NAME), where) for what, who, where in rows),
    )
    return ExitCode.DONE


def _id(row: Row) -> str:
    return text_of(row, "clientId")


def _over_udp(options: argparse.Namespace, client: RegistryClient) -> list[Row]:
    """Return the subscribers over UDP at all members; none for a user who may not read the whole namespace."""
    group, at, name = options.service.rpartition("@@")
    full = (group if at else "DEFAULT_GROUP", name)
    wanted = {"namespaceId": client.namespace, "serviceName": options.service}
    try:
        found = list(client.pages(SUBSCRIBERS, wanted, "subscribers", ROWS_MAX))
    except CommandError as error:
        if error.code is not ExitCode.REFUSED:
            raise
        say(options, gettext("subscribers over UDP are left out: %(error)s", error=error))
        return []
    # The server looks for services whose names contain the text.
    return [one for one in found if text_of(one, "serviceName") == "@@".join(full)]

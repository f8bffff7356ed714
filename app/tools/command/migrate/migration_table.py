"""The state of a move as tables for people, and as JSON, YAML or names for scripts."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.languages.catalogues import N_
from app.languages.command_texts import command_texts, gettext
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import split_name
from app.tools.command.asking.output import OutputFormat, is_data, print_data
from app.tools.command.asking.shown_values import short_service
from app.tools.command.asking.terminal_table import Cell, Column, Tone, print_fields, print_table
from app.tools.command.help_texts import lines_of
from app.tools.command.migrate.member_view import LinkAtMember, MemberView
from app.tools.command.migrate.migration import (
    ClientStanding,
    LinkDeparture,
    Migration,
    MoveStep,
    Obstacle,
    ServiceStanding,
    StandsInTheWay,
)
from app.tools.command.migrate.nacos_view import NacosView
from app.tools.printable import printable, write_note

WIDTH = 80
DETAILS_MAX = 5
STEPS = {
    MoveStep.LINK: N_("link both clusters"),
    MoveStep.AGREE: N_("wait until both sides agree"),
    MoveStep.MOVE: N_("move the clients"),
    MoveStep.SWITCH_OFF: N_("remove the link, switch the Nacos off"),
    MoveStep.DONE: N_("switch the Nacos off"),
}
TO_DO = {
    MoveStep.LINK: N_(
        "`rollcall migrate plan` prints the settings of the link: add them to application.properties of every member."
    ),
    MoveStep.AGREE: N_(
        "ask again in a few seconds. `rollcall links` says why a link is silent, or which services a Nacos refused."
    ),
    MoveStep.MOVE: N_("give one client after another the addresses of this cluster, in any order."),
    MoveStep.SWITCH_OFF: N_("remove the settings of the link from every member, then switch the Nacos off."),
    MoveStep.DONE: N_("switch the Nacos off."),
}
TO_GO_BACK = {
    MoveStep.LINK: N_("nothing was moved by a link yet."),
    MoveStep.AGREE: N_("remove the settings of the link: each side then lists its own instances alone."),
    MoveStep.MOVE: N_("give the moved clients their old addresses. When all are back, remove the link."),
    MoveStep.SWITCH_OFF: N_("give the clients their old addresses, as long as the Nacos runs and the link is set."),
    MoveStep.DONE: N_("set the link again, then give the clients their old addresses, as long as the Nacos runs."),
}
REASONS = {
    Obstacle.NO_LINK: N_("there is no link to the Nacos"),
    Obstacle.ONE_WAY: N_("the link has one direction: %(details)s. Set direction=both"),
    Obstacle.LINK_ABSENT: N_("members without the link: %(details)s"),
    Obstacle.SILENT: N_("the link is silent: %(details)s"),
    Obstacle.UNKNOWN: N_("not known: %(details)s"),
}
_NAMESPACE = (Column("namespace", drop=2),)
_COLUMNS = (
    Column("service", least=16),
    Column("at nacos"),
    Column("here"),
    Column("brought", drop=1),
    Column("sent", drop=1),
    Column("subscribers"),
    Column("state"),
)
_CLIENTS = (
    Column("client"),
    Column("services"),
    Column("subscriptions"),
    Column("sdk", drop=1),
    Column("application", drop=2),
)


def show(options: argparse.Namespace, nacos: NacosView, here: MemberView, migration: Migration) -> None:
    """Print the state of the move in the chosen format."""
    if is_data(options):
        print_data(options, _data(nacos, here, migration))
    elif options.output == OutputFormat.NAME:
        names = (_name(one) for one in migration.services if one.is_at_nacos)
        sys.stdout.writelines(f"{printable(one)}\n" for one in dict.fromkeys(names))
    else:
        _show_tables(options, nacos, here, migration)


def _show_tables(options: argparse.Namespace, nacos: NacosView, here: MemberView, migration: Migration) -> None:
    print_fields(_fields(nacos, here, migration))
    services = [one for one in migration.services if options.all or not one.is_moved]
    if services:
        sys.stdout.write("\n")
        with_namespace = len({one.name[0] for one in migration.services}) > 1
        columns = (*_COLUMNS[:1], *_NAMESPACE, *_COLUMNS[1:]) if with_namespace else _COLUMNS
        rows = (_service_cells(one, with_namespace=with_namespace) for one in services[: options.limit])
        _table(options, columns, rows, len(services))
    if migration.clients:
        sys.stdout.write("\n")
        _table(options, _CLIENTS, map(_client_cells, migration.clients[: options.limit]), len(migration.clients))
    sys.stdout.write("\n")
    sys.stdout.writelines(f"{line}\n" for line in _verdict(here, migration))


def _table(
    options: argparse.Namespace, columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], count: int
) -> None:
    printed = print_table(columns, rows, wide=options.output == OutputFormat.WIDE)
    sys.stdout.flush()
    if count > printed.rows:
        write_note(
            gettext(
                "%(command)s: %(shown)s of %(count)s rows; --limit %(count)s shows all",
                command=options.command,
                shown=printed.rows,
                count=count,
            )
        )


def _fields(nacos: NacosView, here: MemberView, migration: Migration) -> Iterator[tuple[str, str]]:
    yield "Nacos", f"{nacos.address} ({nacos.version or '-'})"
    if here.at_members:
        first = here.at_members[0]
        heard = sum(not one.problem for one in here.at_members)
        total = len(here.links.members) + len(here.links.absent)
        yield (
            N_("link"),
            gettext(
                "%(name)s, direction %(direction)s, heard by %(heard)s of %(total)s members",
                name=first.name,
                direction=first.direction,
                heard=heard,
                total=total,
            ),
        )
    else:
        known = ", ".join(sorted({one.name for one in here.links.links}))
        yield N_("link"), gettext("none; links to other Nacos: %(known)s", known=known) if known else gettext("none")
    step, last = int(migration.step), int(MoveStep.DONE)
    what = gettext(STEPS[migration.step])
    yield N_("step"), gettext("%(step)s of %(last)s: %(what)s", step=step, last=last, what=what)


def _name(one: ServiceStanding) -> str:
    return short_service(*split_name(one.name[1]))


def _service_cells(one: ServiceStanding, *, with_namespace: bool) -> tuple[str | Cell, ...]:
    counts = (one.registered + one.of_others, one.here, one.brought, one.sent, one.subscribers)
    name: tuple[str | Cell, ...] = (Cell(_name(one), Tone.NAME),)
    return (*name, *((one.name[0],) if with_namespace else ()), *map(str, counts), _state(one))


def _state(one: ServiceStanding) -> Cell:
    if one.departures:
        return Cell(gettext("differs"), Tone.BAD)
    if not one.is_at_nacos:
        return Cell(gettext("moved"), Tone.GOOD)
    return Cell(gettext("at the Nacos") if one.is_linked else gettext("not linked"), Tone.ODD)


def _client_cells(one: ClientStanding) -> tuple[str | Cell, ...]:
    return Cell(one.ip or "-", Tone.NAME), str(one.registers), str(one.subscribes), one.agent or "-", one.app or "-"


def _verdict(here: MemberView, migration: Migration) -> Iterator[str]:
    if migration.is_safe:
        yield gettext("Safe to switch off: no client registers or subscribes at the Nacos.")
    else:
        yield gettext("Not safe to switch off:")
        refusals = [f"{one.member}: {one.refusal}" for one in here.at_members if one.refusal]
        for obstacle in migration.obstacles:
            yield from _bullet(_reason(obstacle, migration.services))
            if obstacle.reason is Obstacle.MISSING_THERE and refusals:
                yield from _bullet(gettext("the Nacos refused: %(why)s", why="; ".join(refusals[:DETAILS_MAX])))
    yield from lines_of(gettext("To do: %(text)s", text=gettext(TO_DO[migration.step])), WIDTH)
    yield from lines_of(gettext("To go back: %(text)s", text=gettext(TO_GO_BACK[migration.step])), WIDTH)


def _bullet(text: str) -> Iterator[str]:
    for number, line in enumerate(lines_of(printable(text), WIDTH - 2)):
        yield f"{'  ' if number else '- '}{line}"


def _reason(obstacle: StandsInTheWay, services: Sequence[ServiceStanding]) -> str:
    """Return an obstacle as a sentence without its full stop."""
    if (text := REASONS.get(obstacle.reason)) is not None:
        return gettext(text, details="; ".join(obstacle.details[:DETAILS_MAX]))
    return _counted(obstacle) + _examples(obstacle.reason, services)


def _counted(obstacle: StandsInTheWay) -> str:
    texts, count = command_texts(), obstacle.instances
    match obstacle.reason:
        case Obstacle.MISSING_HERE:
            return texts.ngettext(
                "%(count)s instance of the Nacos is missing here",
                "%(count)s instances of the Nacos are missing here",
                count,
                count=count,
            )
        case Obstacle.MISSING_THERE:
            return texts.ngettext(
                "%(count)s instance of this cluster is missing at the Nacos",
                "%(count)s instances of this cluster are missing at the Nacos",
                count,
                count=count,
            )
        case Obstacle.GONE_THERE:
            return texts.ngettext(
                "%(count)s instance is gone at the Nacos, and still listed here",
                "%(count)s instances are gone at the Nacos, and still listed here",
                count,
                count=count,
            )
        case Obstacle.GONE_HERE:
            return texts.ngettext(
                "%(count)s instance is gone here, and still listed at the Nacos",
                "%(count)s instances are gone here, and still listed at the Nacos",
                count,
                count=count,
            )
        case Obstacle.OF_OTHERS:
            return texts.ngettext(
                "the link of another cluster registers %(count)s instance at the Nacos",
                "links of other clusters register %(count)s instances at the Nacos",
                count,
                count=count,
            )
        case Obstacle.REGISTERED:
            return texts.ngettext(
                "%(services)s of %(clients)s still registers at the Nacos",
                "%(services)s of %(clients)s still register at the Nacos",
                obstacle.services,
                services=_services(obstacle.services),
                clients=_clients(obstacle.clients),
            )
        case Obstacle.SUBSCRIBED:
            return texts.ngettext(
                "%(clients)s still subscribes at the Nacos, to %(services)s",
                "%(clients)s still subscribe at the Nacos, to %(services)s",
                obstacle.clients,
                services=_services(obstacle.services),
                clients=_clients(obstacle.clients),
            )
    return texts.ngettext(
        "%(clients)s is still connected to the Nacos, without a registration or a subscription",
        "%(clients)s are still connected to the Nacos, without a registration or a subscription",
        obstacle.clients,
        clients=_clients(obstacle.clients),
    )


def _services(count: int) -> str:
    return command_texts().ngettext("%(count)s service", "%(count)s services", count, count=count)


def _clients(count: int) -> str:
    return command_texts().ngettext("%(count)s client", "%(count)s clients", count, count=count)


def _examples(reason: Obstacle, services: Sequence[ServiceStanding]) -> str:
    """Return some of the instances that differ, as the end of a sentence."""
    found = [each for one in services for each in one.departures if each.kind.value == reason.value]
    if not found:
        return ""
    more = ", ..." if len(found) > DETAILS_MAX else ""
    return f": {', '.join(map(_instance, found[:DETAILS_MAX]))}{more}"


def _instance(one: LinkDeparture) -> str:
    return f"{short_service(*split_name(one.name[1]))} {host_port(one.address[0], one.address[1])}"


# --- for scripts ----------------------------------------------------------------------------------


def _data(nacos: NacosView, here: MemberView, migration: Migration) -> dict[str, Any]:
    """Return all as JSON. Shape: docs/migration/linked.md."""
    return {
        "nacos": {"server": nacos.address, "version": nacos.version, "members": list(nacos.members)},
        "cluster": here.cluster,
        "link": [_link_data(one) for one in here.at_members],
        "step": int(migration.step),
        "safe": migration.is_safe,
        "obstacles": [
            {
                "reason": one.reason.value,
                "services": one.services,
                "instances": one.instances,
                "clients": one.clients,
                "details": list(one.details),
            }
            for one in migration.obstacles
        ],
        "services": [_service_data(one) for one in migration.services],
        "clients": [
            {
                "ip": one.ip,
                "services": one.registers,
                "subscriptions": one.subscribes,
                "connected": one.is_connected,
                "agent": one.agent,
                "application": one.app,
            }
            for one in migration.clients
        ],
    }


def _link_data(one: LinkAtMember) -> dict[str, Any]:
    return {
        "name": one.name,
        "member": one.member,
        "direction": one.direction,
        "servers": list(one.servers),
        "problem": one.problem,
        "refusal": one.refusal,
    }


def _service_data(one: ServiceStanding) -> dict[str, Any]:
    group, name = split_name(one.name[1])
    return {
        "namespaceId": one.name[0],
        "groupName": group,
        "serviceName": name,
        "atNacos": one.registered,
        "ofOtherClusters": one.of_others,
        "here": one.here,
        "brought": one.brought,
        "sent": one.sent,
        "subscribers": one.subscribers,
        "linked": one.is_linked,
        "moved": one.is_moved,
        "differences": [
            {"kind": each.kind.value, "ip": each.address[0], "port": each.address[1], "clusterName": each.address[2]}
            for each in one.departures
        ],
    }

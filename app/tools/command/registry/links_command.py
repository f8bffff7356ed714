"""``rollcall links``: the links of a cluster to other clusters as each member has them, and a change of one."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.config.link_fields import OF_MEMBERS
from app.config.settings_keys import FALSE_WORDS
from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, is_data, print_data, print_list
from app.tools.command.asking.question import ask
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.command.registry.register_command import pair
from app.tools.printable import printable, write_line

LINKS, LINK = "/v1/ns/link/list", "/v1/ns/link"
SET, RESET = "set", "reset"
_COLUMNS = (
    Column("link"),
    Column("member"),
    Column("state"),
    Column("cluster"),
    Column("follows", drop=3),
    Column("part", drop=2),
    Column("services"),
    Column("instances"),
    Column("stale", drop=1),
    Column("sent", drop=2),
    Column("refused", drop=4),
)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "links",
        help="list the links to other clusters, set or reset one",
        description="List the links to other clusters, each as each member has it: whether the other cluster answers, "
        "and the services and instances that came. Exit code 1 if one is silent. `set` adds or changes a link at all "
        "members, without a restart: its fields count before those in the members' files. `reset` takes a link back "
        "to the files. Passwords stay in the files.",
    )
    parser.add_argument("action", metavar="ACTION", nargs="?", choices=(SET, RESET), help="set or reset")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the link to set or reset")
    parser.add_argument(
        "pairs",
        metavar="FIELD=VALUE",
        nargs="*",
        type=pair,
        help="with set: fields such as servers=10.1.0.1:8848 or enabled=false; without a value, the file's counts",
    )
    parser.add_argument("--yes", action="store_true", help="remove a link's instances without a question")
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.action is not None:
        return _change(options, client)
    answer, members = _asked(client)
    by_call = _by_call(members)
    told = [
        {**one, "member": text_of(each, "address"), "byCall": by_call.get(str(one.get("name")), {})}
        for each in members
        for one in client.rows(LINKS, each["links"])
    ]
    told.sort(key=lambda one: (str(one.get("name")), str(one["member"])))
    print_list(options, lambda: told, lambda: (str(one["name"]) for one in told), _COLUMNS, map(_cells, told))
    for name, fields in sorted(by_call.items()):
        say(options, gettext("link %(name)s, set by calls: %(fields)s", name=name, fields=_shown(fields)))
    for each in members:
        if error := text_of(each, "error", ""):
            say(options, f"{text_of(each, 'address')}: {error}")
    for one in told:
        for name in ("error", "refusal"):
            if why := text_of(one, name, ""):
                say(
                    options,
                    gettext(
                        "%(member)s, link %(name)s: %(why)s", member=one["member"], name=text_of(one, "name"), why=why
                    ),
                )
    if silent := answer.get("notAnswered"):
        say(options, gettext("links at %(silent)s are left out: no answer", silent=", ".join(map(str, silent))))
    return ExitCode.NOT_ALL if any(_is_silent(one) for one in told) else ExitCode.DONE


def _asked(client: RegistryClient) -> tuple[dict[str, Any], list[Row]]:
    """Return the answer about all links, and its members."""
    answer = client.get(LINKS)
    return answer, client.rows(LINKS, answer.get("members") if isinstance(answer, dict) else None)


def _by_call(members: Sequence[Row]) -> dict[str, Mapping[str, str]]:
    """Return the fields that calls set, by link. A member of an earlier release does not name them."""
    found: dict[str, Mapping[str, str]] = {}
    for each in members:
        told = each.get("byCall")
        found |= told if isinstance(told, dict) else {}
    return found


def _shown(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in fields.items())


def _change(options: argparse.Namespace, client: RegistryClient) -> int:
    name, fields = options.name, dict(options.pairs)
    if name is None:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("give the name of the link"))
    if (options.action == SET) != bool(fields):
        text = gettext("nothing to change: give FIELD=VALUE") if not fields else gettext("reset takes no fields")
        raise CommandError(ExitCode.WRONG_OPTIONS, text)
    if refused := sorted(fields.keys() & set(OF_MEMBERS)):
        text = N_("%(field)s is not kept by calls: set rollcall.link.%(name)s.%(field)s in the file of each member")
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext(text, field=refused[0], name=name))
    if options.action == RESET or fields.get("enabled", "").lower() in FALSE_WORDS:
        ask(options, client, _warning(client, name, options.action))
    if options.action == RESET:
        answer = client.changed("DELETE", LINK, {"name": name})
    else:
        answer = client.changed("PUT", LINK, {"name": name, "settings": json.dumps(fields)})
    by_call = answer.get("byCall") if isinstance(answer, dict) else None
    if not isinstance(by_call, dict):
        raise client.unusable(LINK)
    if is_data(options):
        print_data(options, answer)
    elif by_call:
        told = gettext("link %(name)s at all members, set by calls: %(fields)s", name=name, fields=_shown(by_call))
        write_line(printable(told))
    else:
        write_line(printable(gettext("link %(name)s is as in the file of each member", name=name)))
    return ExitCode.DONE


def _warning(client: RegistryClient, name: str, action: str) -> str:
    """Return the effect of a change that may end a link."""
    _, members = _asked(client)
    links = [one for each in members for one in client.rows(LINKS, each["links"]) if one.get("name") == name]
    count = max((one["instances"] for one in links if isinstance(one.get("instances"), int)), default=0)
    if action == SET:
        text = N_("link %(name)s will be off: clients lose its instances (%(count)s) after a minute")
        return gettext(text, name=name, count=count)
    text = N_(
        "link %(name)s will be as in the file of each member; without servers there it ends, and clients lose its "
        "instances (%(count)s) after a minute"
    )
    return gettext(text, name=name, count=count)


def _is_silent(one: Row) -> bool:
    return one.get("silent") is True


def _cells(one: dict[str, Any]) -> tuple[str | Cell, ...]:
    state = Cell(gettext("silent"), Tone.BAD) if _is_silent(one) else Cell(gettext("heard"), Tone.GOOD)
    if not one.get("cluster"):
        state = Cell(gettext("not heard yet"), Tone.ODD)
    names = ("cluster", "server", "part", "services", "instances", "staleInstances", "sentInstances", "refused")
    return Cell(text_of(one, "name"), Tone.NAME), text_of(one, "member"), state, *(text_of(one, name) for name in names)

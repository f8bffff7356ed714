"""``rollcall links``: the links of a cluster to other clusters, as each member has them."""

import argparse
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import ExitCode
from app.tools.command.asking.output import LISTS, print_list
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

LINKS = "/v1/ns/link/list"
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
        help="list the links to other clusters",
        description="List the links to other clusters, each as each member has it: whether the other cluster answers, "
        "and the services and instances that came. Exit code 1 if one is silent.",
    )
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    answer = client.get(LINKS)
    members = client.rows(LINKS, answer.get("members") if isinstance(answer, dict) else None)
    told = [
        {**one, "member": text_of(each, "address")} for each in members for one in client.rows(LINKS, each["links"])
    ]
    told.sort(key=lambda one: (str(one.get("name")), str(one["member"])))
    print_list(options, lambda: told, lambda: (str(one["name"]) for one in told), _COLUMNS, map(_cells, told))
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


def _is_silent(one: Row) -> bool:
    return one.get("silent") is True


def _cells(one: dict[str, Any]) -> tuple[str | Cell, ...]:
    state = Cell(gettext("silent"), Tone.BAD) if _is_silent(one) else Cell(gettext("heard"), Tone.GOOD)
    if not one.get("cluster"):
        state = Cell(gettext("not heard yet"), Tone.ODD)
    names = ("cluster", "server", "part", "services", "instances", "staleInstances", "sentInstances", "refused")
    return Cell(text_of(one, "name"), Tone.NAME), text_of(one, "member"), state, *(text_of(one, name) for name in names)

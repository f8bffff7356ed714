"""``rollcall migrate status``: asks the Nacos and this cluster, and shows the step of the move."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from threading import Event

from tqdm import tqdm

from app.config.link_settings import LinkFilter
from app.languages.command_texts import gettext
from app.tools.audit.client.access import Access, access_of, client_config, names_of, parse_url, server_of
from app.tools.audit.client.http_client import MemberClient, Patience
from app.tools.command.asking.exits import ExitCode
from app.tools.command.asking.output import OutputFormat, is_data
from app.tools.command.asking.run_command import say
from app.tools.command.migrate.asking_nacos import asked
from app.tools.command.migrate.member_view import MemberView, check_addresses, choose_link, read_links, read_rows
from app.tools.command.migrate.migration import Migration, departures, judge
from app.tools.command.migrate.migration_table import show
from app.tools.command.migrate.nacos_view import NacosReader


class _ServicesBar(tqdm):  # type: ignore[misc]  # tqdm comes without types
    monitor_interval = 0
    """A setting of tqdm: no thread runs next to the bar."""


def show_status(options: argparse.Namespace, addresses: Sequence[str], nacos_access: Access) -> int:
    """Show the state of the move, and return the exit code.

    Raises:
        CommandError: one side does not answer, or refuses a call.
        AccessError: an option cannot be used.
    """
    began_s, server = time.monotonic(), server_of(options)
    scheme, address, path = parse_url(server)
    if note := client_config(options).note:
        say(options, note)
    access = access_of(options, scheme, path)
    ask_nacos = partial(asked, ", ".join(addresses), "--nacos-user", nacos_access.user)
    ask_here = partial(asked, server, "--user", access.user)
    with (
        closing(NacosReader(addresses, nacos_access)) as nacos,
        closing(MemberClient(address, access, Patience(access.retries, Event()))) as member,
    ):
        links = ask_here(partial(read_links, member))
        check_addresses(links, addresses)
        view = ask_nacos(nacos.open)
        name = choose_link(links, options.link, {*addresses, *view.members})

        def look() -> MemberView:
            here = ask_here(partial(read_rows, member, links, name))
            ask_nacos(partial(nacos.read_services, _namespaces(options, here)))
            return here

        here = look()
        lasting = departures(view, here)
        if lasting and options.gap:
            # Each side is read at another moment: what changed between them differs only now.
            time.sleep(options.gap)
            here = look()
            lasting &= departures(view, here)
        is_shown = sys.stderr.isatty() if options.progress is None else options.progress
        calls = nacos.single_calls
        with _ServicesBar(total=calls, unit=" services", file=sys.stderr, disable=not is_shown or not calls) as bar:
            ask_nacos(partial(nacos.read_clients, bar.update))
    migration = judge(view, here, lasting)
    show(options, view, here, migration)
    if not (is_data(options) or options.output == OutputFormat.NAME):
        _tell_end(migration, time.monotonic() - began_s)
    return ExitCode.DONE if migration.is_safe else ExitCode.NOT_ALL


def _tell_end(migration: Migration, took_s: float) -> None:
    """Print the last line: the counts of the move, and how long it took to find them."""
    text = gettext(
        "services: %(services)s, at the Nacos: %(left)s, clients at the Nacos: %(clients)s; took %(seconds)s s",
        services=len(migration.services),
        left=sum(one.is_at_nacos for one in migration.services),
        clients=len(migration.clients),
        seconds=f"{took_s:.1f}",
    )
    sys.stdout.write(f"\n{text}\n")


def _namespaces(options: argparse.Namespace, here: MemberView) -> tuple[str, ...]:
    """Return the namespaces that the options and the link name."""
    linked = LinkFilter(tuple(here.link.namespaces)).exact_namespaces if here.link is not None else ()
    return tuple(dict.fromkeys([*names_of(options.namespaces), *linked]))

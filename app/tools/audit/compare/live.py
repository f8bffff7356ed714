"""The differences between two running members, which are asked at the same time, and once more if they differ."""

import contextlib
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from gzip import GzipFile
from itertools import chain
from threading import Event
from typing import IO, Any

from app.config.client_config import SERVER_VARIABLE
from app.languages.phrases import phrase
from app.rows.rows import encode_row
from app.tools.audit.client.access import Access, access_of, client_config, parse_url
from app.tools.audit.client.http_client import CallError, MemberClient, Patience
from app.tools.audit.compare.compare import Difference, Side, compare, lasting
from app.tools.audit.compare.input import CannotCompare, Reading, side_of_spool, spool_writer
from app.tools.audit.compare.linked_live import as_instance, linked_sides
from app.tools.audit.compare.services import Facts, scope_of
from app.tools.audit.dump.collect import listed_members
from app.tools.audit.dump.sources import Emit, take
from app.tools.audit.format.manifest import MemberDump


@dataclass(frozen=True, slots=True)
class Asked:
    """A member as the command line names it: its address, and how to call it."""

    address: str
    access: Access
    namespaces: tuple[str, ...]


def member_pairs(options: Namespace) -> list[tuple[str, str]]:
    """Return the two members that the options name; else the configured server and each other member of its cluster.

    Raises:
        AccessError: the configuration cannot be used.
        CannotCompare: only one member is named, no server is configured, or it has no other members.
    """
    if options.b is not None:
        return [(options.a, options.b)]
    if options.a is not None:
        raise CannotCompare(phrase("only one member is given; two are needed"))
    if not (server := client_config(options).server):
        raise CannotCompare(
            phrase(
                "name two members, or a server of a cluster in %(variable)s or in cli.toml",
                variable=SERVER_VARIABLE,
            )
        )
    scheme, address, path = parse_url(server)
    try:
        listed = listed_members(address, access_of(options, scheme, path))
    except CallError as error:
        raise CannotCompare(phrase("no member list of %(server)s: %(error)s", server=server, error=error)) from None
    if len(listed) < 2:
        raise CannotCompare(phrase("%(server)s has no other members to compare with", server=server))
    first = address if address in listed else listed[0]
    urls = {one: f"{scheme}://{one}{path or ''}" for one in listed}
    return [(urls[first], url) for one, url in urls.items() if one != first]


def live_differences(
    options: Namespace, reading: Reading, stack: contextlib.ExitStack
) -> tuple[str, str, Iterator[Difference]]:
    """Ask both members; return the addresses that they give themselves, and the differences.

    Their rows are in temporary files, which ``stack`` holds. Members that differ are asked again after the gap, and
    each difference is marked as lasting or late; with a gap of 0 they are not asked again.

    Raises:
        AccessError: an address or option cannot be used.
        CannotCompare: a member did not answer, or both addresses are one member.
    """
    asked = (_asked(options.a, options), _asked(options.b, options))
    first = _taken(asked, reading, stack, options.link)
    a, b = (side.address for side in first)
    if a == b:
        raise CannotCompare(phrase("both are %(member)s; two members are needed", member=a))
    scope = scope_of(*(side.facts for side in first), is_filtered=reading.is_filtered)
    reading.left_out.update(dict.fromkeys(scope.left_out))
    differences = compare(*first, is_filtered=reading.is_filtered)
    one = next(differences, None)
    if one is None:
        return a, b, differences
    if not options.gap:
        return a, b, chain([one], differences)
    time.sleep(options.gap)
    second = _taken(asked, reading, stack, options.link)
    return (
        a,
        b,
        lasting(compare(*first, is_filtered=reading.is_filtered), compare(*second, is_filtered=reading.is_filtered)),
    )


def _asked(text: str, options: Namespace) -> Asked:
    scheme, address, path = parse_url(text)
    return Asked(address, access_of(options, scheme, path), (options.namespace,) if options.namespace else ())


def _taken(
    asked: tuple[Asked, Asked], reading: Reading, stack: contextlib.ExitStack, link: str | None
) -> tuple[Side, Side]:
    stop = Event()
    with ThreadPoolExecutor(len(asked), thread_name_prefix="compare") as pool:
        futures = []
        for one in asked:
            spool = stack.enter_context(tempfile.TemporaryFile(prefix="rollcall-"))  # noqa: SIM115 (the stack closes it)
            futures.append((one, spool, pool.submit(take_rows, one, spool, stop, link if one is asked[0] else None)))
        try:
            # Other members name an owner by the address that it gives itself.
            a, b = (_side(one, spool, future.result(), reading) for one, spool, future in futures)
            if link:
                return linked_sides(a, b, futures[0][2].result().links, link)
        except BaseException:
            stop.set()
            raise
    return a, b


def _side(asked: Asked, spool: IO[bytes], taken: MemberDump, reading: Reading) -> Side:
    facts = Facts(taken.kind, frozenset(taken.tells), tuple(taken.members))
    return side_of_spool(taken.address or asked.address, spool, reading, facts)


def take_rows(
    asked: Asked, spool: IO[bytes], stop: Event, link: str | None, *, names_cluster: bool = False
) -> MemberDump:
    """Write the member's rows to the spool; return everything else of its dump, whose address is empty if it gives
    none.

    ``link``: write the instances of this link alone. ``names_cluster``: have the id of the cluster, too, which
    only a dump with links has.

    Raises:
        CannotCompare: the member did not answer, or its rows cannot be kept.
    """
    patience = Patience(asked.access.retries, stop)
    with contextlib.closing(MemberClient(asked.address, asked.access, patience)) as client:
        while True:
            try:
                with spool_writer(spool) as writer:
                    emit: Emit = partial(_keep_linked, writer, link) if link else partial(_keep, writer)
                    return take(client, asked.namespaces, emit, links=bool(link) or names_cluster)
            except CallError as error:
                if not patience.try_again(error):
                    raise CannotCompare(
                        phrase("%(address)s did not answer: %(error)s", address=asked.address, error=error)
                    ) from None
            except OSError as error:
                raise CannotCompare(
                    phrase("the rows of %(address)s cannot be kept: %(error)s", address=asked.address, error=error)
                ) from None


def _keep(writer: GzipFile, line: bytes, _row: Mapping[str, Any]) -> None:
    writer.write(line)


def _keep_linked(writer: GzipFile, link: str, _line: bytes, row: Mapping[str, Any]) -> None:
    if (kept := as_instance(row, link)) is not None:
        writer.write(encode_row(kept))

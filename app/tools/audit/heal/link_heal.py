"""``rollcall heal --link``: have a link fetch again what its members hold differently from the linked cluster.

The members take the data of the other cluster by the rules of links; this command only looks, and asks.
"""

import argparse
import contextlib
import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from threading import Event

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.languages.phrases import phrase
from app.naming.model.keys import DEFAULT_GROUP, compose_service_name
from app.tools.audit.client.access import Access, namespace_of
from app.tools.audit.client.http_client import CallError, MemberClient, Patience
from app.tools.audit.compare.input import CannotCompare
from app.tools.audit.compare.link_look import (
    FINDINGS_MAX,
    LinkEnd,
    LinkFinding,
    LinkLook,
    lasting_look,
    look_at_link,
    parse_link,
)
from app.tools.audit.compare.table import MORE_IN_JSON
from app.tools.audit.heal.heal_output import STAGES, print_end, print_lines, say
from app.tools.audit.heal.healing import ASK_AGAIN_S, LOOK_AGAIN_S, MEMBERS_MAX, CannotHeal, ask_all
from app.tools.printable import json_line, printable

AGREED, DIFFERENT = 0, 1
FETCH_PATH = "/v1/ns/link/fetch"
SERVICES_MAX = 1_000
"""The most services that one call names; those that still differ are named in the next one."""
LINES_MAX = 200
ServiceName = tuple[str, str]


@dataclass(slots=True)
class LinkCourse:
    """The record of a heal of one link."""

    before: LinkLook
    after: LinkLook | None = None
    left: tuple[LinkFinding, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    """The members that refused to fetch again, with the last reason."""


class LinkHealing:
    """The looks at a link, and the calls that have its members fetch again."""

    def __init__(
        self,
        end: LinkEnd,
        addresses: Sequence[str],
        access: Access,
        wanted: Collection[ServiceName],
        stop: Event,
    ) -> None:
        """``wanted``: only these services, by their names here; empty for all.

        Raises:
            CannotHeal: there are too many members, or none.
        """
        if not 1 <= len(addresses) <= MEMBERS_MAX:
            raise CannotHeal(
                phrase(
                    "a heal of a link needs 1 to %(most)s members; %(count)s given",
                    most=MEMBERS_MAX,
                    count=len(addresses),
                )
            )
        self._end, self._addresses, self._access = end, tuple(addresses), access
        self._wanted, self._stop = frozenset(wanted), stop

    def look(self) -> LinkLook:
        """Look at the link once.

        Raises:
            CannotHeal: the link cannot be compared.
        """
        try:
            look = look_at_link(self._end, self._addresses, self._access, self._stop)
        except CannotCompare as error:
            raise CannotHeal(*error.args) from None
        return look.of_services(self._wanted) if self._wanted else look

    def find(self, gap_s: float) -> LinkLook:
        """Look, and once more after the gap if something differs; return what lasts.

        Raises:
            CannotHeal: as ``look``.
        """
        look = self.look()
        if not look.findings or not gap_s or self._stop.wait(gap_s):
            return look
        return lasting_look(look, self.look())

    def heal(self, course: LinkCourse, within_s: float) -> None:
        """Have the members fetch again until nothing differs, for ``within_s`` at most; note how it ended.

        Raises:
            CannotHeal: as ``look``.
        """
        began_s = time.monotonic()
        asked_s, look, previous = -ASK_AGAIN_S, course.before, None
        while True:
            passed_s = time.monotonic() - began_s
            if passed_s - asked_s >= ASK_AGAIN_S:
                asked_s = passed_s
                course.refused = self._ask(look.services[:SERVICES_MAX])
            if self._stop.wait(LOOK_AGAIN_S):
                return
            look = course.after = self.look()
            if not look.findings:
                return
            if time.monotonic() - began_s >= within_s:
                course.left = (lasting_look(previous, look) if previous is not None else look).findings
                return
            previous = look

    def _ask(self, services: Sequence[ServiceName]) -> dict[str, str]:
        """Have each member fetch these services; return the refusals by address."""
        named: dict[str, list[str]] = {}
        for namespace, name in services:
            named.setdefault(namespace, []).append(name)
        parameters = {"name": self._end.name, "services": json.dumps(named)}

        def ask(address: str) -> str:
            patience = Patience(self._access.retries, self._stop)
            with contextlib.closing(MemberClient(address, self._access, patience)) as client:
                try:
                    client.post(FETCH_PATH, parameters)
                except CallError as error:
                    return str(error)
            return ""

        return {address: why for address, why in ask_all(self._addresses, ask, self._stop).items() if why}


def heal_link(options: argparse.Namespace, addresses: Sequence[str], access: Access, stop: Event) -> int:
    """Heal a link, print what was seen before and after, and return the exit code.

    Raises:
        AccessError: the URL of the other cluster cannot be used.
        CannotHeal: the link cannot be compared.
    """
    if options.results or options.night or options.classes:
        raise CannotHeal(phrase("--link compares now: it takes no findings of a night"))
    namespace = namespace_of(options)
    wanted = [(namespace, compose_service_name(one, DEFAULT_GROUP)) for one in options.service]
    healing = LinkHealing(parse_link(options.link, access), addresses, access, wanted, stop)
    look = healing.find(options.gap)
    count = len(look.findings)
    print_lines(_lines(options, "before", look.findings))
    if not count:
        return _end(options, look, _agreed(look), AGREED)
    if options.dry_run:
        text = phrase("differences: %(count)s; nothing was done (--dry-run)", count=count)
        return _end(options, look, text, DIFFERENT)
    course = LinkCourse(look)
    healing.heal(course, options.within)
    print_lines(_lines(options, "after", course.left))
    for address, reason in course.refused.items():
        say(phrase("%(address)s does not fetch again: %(reason)s", address=address, reason=reason))
    after = course.after or look
    if course.left:
        text = phrase(
            "differences that remain: %(count)s (before: %(before)s). `rollcall links` shows whether the link is "
            "silent or refuses services",
            count=len(course.left),
            before=count,
        )
        return _end(options, after, text, DIFFERENT)
    return _end(options, after, phrase("healed, differences: %(count)s", count=count), AGREED)


def _agreed(look: LinkLook) -> str:
    text = N_("the members agree with %(origin)s, instances: %(instances)s")
    return phrase(text, origin=look.origin, instances=look.instances)


def _lines(options: argparse.Namespace, stage: str, findings: Sequence[LinkFinding]) -> Iterator[str]:
    if options.json:
        for one in findings:
            yield json_line({"stage": stage, **asdict(one)})
        return
    for one in findings[:LINES_MAX]:
        host = f"[{one.ip}]" if ":" in one.ip else one.ip
        where = f"{one.namespace}/{one.service} {host}:{one.port}#{one.cluster} at {one.member}"
        values = {"stage": gettext(STAGES[stage]), "kind": one.kind, "where": where}
        text = N_("%(stage)s %(kind)s %(where)s: %(found)s, expected %(expected)s")
        yield printable(gettext(text, found=one.found, expected=one.expected, **values))
    if (more := len(findings) - LINES_MAX) > 0:
        yield gettext(MORE_IN_JSON, count=more)


def _end(options: argparse.Namespace, look: LinkLook, text: str, code: int) -> int:
    for address, reason in look.absent.items():
        say(phrase("%(address)s is not compared: %(reason)s", address=address, reason=reason))
    if look.is_cut:
        say(phrase("more than %(most)s instances differ; only so many were looked at", most=f"{FINDINGS_MAX:,}"))
    if look.absent and code == AGREED:
        code, text = DIFFERENT, phrase("among the members that were compared: %(text)s", text=text)
    print_end(options, text, code)
    return code

"""``rollcall heal`` of many services: those that are named, or those with findings of a night."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from threading import Event

from app.languages.command_texts import gettext, ngettext
from app.languages.phrases import phrase, shown
from app.naming.model.keys import DEFAULT_GROUP, compose_service_name
from app.tools.audit.client.access import Access, namespace_of
from app.tools.audit.compare.table import MORE_IN_JSON
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.found import NoFindings, committed_findings, default_results
from app.tools.audit.heal.heal_output import print_end, print_lines, say
from app.tools.audit.heal.healing import CannotHeal, ask_all
from app.tools.audit.heal.many import HealOutcome, ManyHealing
from app.tools.audit.heal.reading import Wanted, published_at
from app.tools.audit.report.shell import HEALABLE
from app.tools.printable import json_line, printable

AGREED, DIFFERENT = 0, 1
CLIENTS_MAX = 1_000
"""The most clients of one heal: each member is asked for each of them."""
LINES_MAX = 200
"""The most services that are listed one by one; JSON has all."""


def wanted_services(options: argparse.Namespace) -> tuple[list[Wanted], list[str]]:
    """Return the services to heal, each once: those named, else those with a lasting finding that a heal can mend.

    The second list has the ids of the gRPC clients whose services are to be healed: those of findings of class CLIENT.

    Raises:
        CannotHeal: neither a service nor a night is given, or the findings cannot be read.
    """
    named = options.service or []
    of_night = options.results or options.night or options.classes
    if bool(named) == bool(of_night):
        raise CannotHeal(
            phrase("name services with --service, or the findings of a night with --results, --night or --class")
        )
    if named:
        namespace = namespace_of(options)
        return list(dict.fromkeys(Wanted(namespace, compose_service_name(one, DEFAULT_GROUP)) for one in named)), []
    classes = options.classes or frozenset(HEALABLE)
    if other := sorted(classes - {*HEALABLE, FindingClass.CLIENT}):
        raise CannotHeal(
            phrase("a heal does not mend findings of %(names)s: see docs/audit-repair.md", names=", ".join(other))
        )
    try:
        found = committed_findings(options.results or default_results(), options.night)
        rows = [one for one in found.rows() if one.get("lasting") and one.get("finding_class") in classes]
    except NoFindings as error:
        raise CannotHeal(*error.args) from None
    services = dict.fromkeys(Wanted(str(one["namespace"]), str(one["service"])) for one in rows if one.get("service"))
    clients = dict.fromkeys(str(one["name"]) for one in rows if one["finding_class"] == FindingClass.CLIENT)
    return [one for one in services if options.namespace in (None, one.namespace)], list(clients)


def published_by(clients: Sequence[str], addresses: Sequence[str], access: Access, stop: Event) -> list[Wanted]:
    """Return the services that these gRPC clients publish at any member, each once.

    Raises:
        CannotHeal: there are too many clients.
    """
    if len(clients) > CLIENTS_MAX:
        raise CannotHeal(
            phrase(
                "a heal takes at most %(most)s clients; these are %(count)s",
                most=CLIENTS_MAX,
                count=f"{len(clients):,}",
            )
        )
    found = ask_all(addresses, lambda address: published_at(address, access, clients, stop), stop)
    return list(dict.fromkeys(one for services in found.values() for one in services))


def heal_many(
    options: argparse.Namespace,
    addresses: Sequence[str],
    access: Access,
    wanted: Sequence[Wanted],
    clients: Sequence[str],
    stop: Event,
) -> int:
    """Heal the services in one gap, print the outcome of each, and return the exit code.

    ``clients``: the ids of gRPC clients; the services that they publish are healed, too.

    Raises:
        CannotHeal: see ``ManyHealing`` and ``published_by``.
    """
    from tqdm import tqdm

    if clients:
        wanted = list(dict.fromkeys([*wanted, *published_by(clients, addresses, access, stop)]))
    if not wanted:
        return _end(options, phrase("no service has a finding that a heal can mend"), AGREED)
    healing = ManyHealing(addresses, access, stop, with_clients=bool(clients))
    many = healing.find(wanted, options.gap)
    outcomes = list(many.outcomes.values())
    differ = [one for one in outcomes if one.found]
    if not options.dry_run and differ:
        is_shown = sys.stderr.isatty() if options.progress is None else options.progress
        calls = len(differ) * len(addresses)
        title = ngettext("healing %(count)s service", "healing %(count)s services", len(differ), count=len(differ))
        with tqdm(total=calls, desc=title, unit=gettext(" calls"), file=sys.stderr, disable=not is_shown) as bar:
            healing.heal(options.within, bar.update)
    print_lines(_lines(options, outcomes))
    for address, reason in many.refused.items():
        say(phrase("%(address)s refused a call: %(reason)s", address=address, reason=reason))
    for address, reason in many.absent.items():
        say(
            phrase(
                "%(address)s did not answer, so it is unknown whether it agrees: %(reason)s",
                address=address,
                reason=reason,
            )
        )
    left = sum(not one.agrees for one in outcomes)
    verb = phrase("differ") if options.dry_run else phrase("still differ")
    healed = len([one for one in differ if one.agrees])
    text = phrase(
        "services: %(count)s, agreed before: %(agreed)s, healed: %(healed)s, %(verb)s: %(left)s",
        count=len(outcomes),
        agreed=len(outcomes) - len(differ),
        healed=healed,
        verb=verb,
        left=left,
    )
    return _end(options, text, DIFFERENT if left or many.absent else AGREED)


def _lines(options: argparse.Namespace, outcomes: Iterable[HealOutcome]) -> Iterable[str]:
    if options.json:
        return [
            json_line(
                {
                    "stage": "service",
                    "namespace": one.wanted.namespace,
                    "service": one.wanted.service,
                    "found": len(one.found),
                    "classes": sorted({departure.finding_class.value for departure in one.found}),
                    "left": len(one.left),
                    "text": _text(one, is_dry=options.dry_run),
                    "notes": list(one.notes),
                }
            )
            for one in outcomes
        ]
    told = [one for one in outcomes if not one.agrees or one.notes]
    lines = []
    for one in told[:LINES_MAX]:
        text = "; ".join(map(shown, [_text(one, is_dry=options.dry_run), *one.notes]))
        lines.append(printable(f"{one.wanted.namespace}/{one.wanted.service}: {text}"))
    return [*lines, gettext(MORE_IN_JSON, count=len(told) - LINES_MAX)] if len(told) > LINES_MAX else lines


def _text(one: HealOutcome, *, is_dry: bool) -> str:
    classes = ", ".join(sorted({departure.finding_class.value for departure in one.left}))
    if one.blocked:
        return phrase("not healed: %(reason)s", reason=one.blocked)
    if one.is_gone:
        return phrase("no member has it")
    if one.left:
        if is_dry:
            return phrase("differences: %(count)s (%(classes)s)", count=len(one.left), classes=classes)
        return phrase("differences that remain: %(count)s (%(classes)s)", count=len(one.left), classes=classes)
    return phrase("healed, differences: %(count)s", count=len(one.found)) if one.found else phrase("the members agree")


def _end(options: argparse.Namespace, text: str, code: int) -> int:
    print_end(options, text, code)
    return code

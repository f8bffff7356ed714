"""``rollcall explain``: the reasons for one instance's state, from all members side by side.

Exit codes: 0 all members answered and agree, 1 they differ or one did not answer, 2 it could not be asked.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from threading import Event
from typing import Any

from app.config.client_config import SERVER_VARIABLE, TOKEN_VARIABLE, USER_VARIABLE
from app.languages.catalogues import ENGLISH, N_
from app.languages.command_texts import command_texts, gettext
from app.tools.audit.client.access import (
    AccessError,
    access_of,
    add_access_options,
    add_server_options,
    namespace_of,
    parse_url,
    server_of,
)
from app.tools.command.asking.output import add_output_options, is_data, print_data
from app.tools.command.asking.shown_values import address_of
from app.tools.command.help_texts import lines_of as lines_in_cells
from app.tools.printable import printable

AGREED, DIFFERENT, NOT_ASKED = 0, 1, 2
WIDTH = 80
SUBSCRIBERS_SHOWN = 5
"""The most subscribers that are shown for each kind of push, those that are behind first."""
EXPLAIN = "/v1/ns/explain"


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "explain",
        help="explain the state of one instance at each member",
        description="Ask all Rollcall members of a cluster about one instance, and show who is responsible, who holds "
        "it, why it is healthy or not, what clients see, and where the members differ. Exit code 0: they agree; 1: "
        "they differ, or one did not answer; 2: it could not be asked.",
    )
    parser.add_argument("instance", metavar="IP:PORT", help="the instance's address")
    parser.add_argument(
        "--service",
        metavar="NAME",
        required=True,
        help="group@@name, or a name: of DEFAULT_GROUP, or of any other group",
    )
    parser.add_argument("--cluster", metavar="NAME", help="its cluster in the service (all are searched)")
    add_server_options(parser)
    add_output_options(parser)
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask, print, and return the exit code."""
    ip, colon, port = options.instance.rpartition(":")
    if not colon or not ip or not port.isascii() or not port.isdecimal():
        text = gettext("%(text)s is not an instance address, such as 10.0.0.7:8080", text=repr(options.instance))
        return _could_not(text)
    try:
        answer = _asked(options, ip.strip("[]"), port)
    except AccessError as error:
        return _could_not(str(error))
    if is_data(options):
        print_data(options, answer)
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines_of(answer))
    return DIFFERENT if answer["differences"] or answer["notAnswered"] else AGREED


def _asked(options: argparse.Namespace, ip: str, port: str) -> dict[str, Any]:
    """Return the answer of the server.

    Raises:
        AccessError: an option cannot be used, or the server gave no answer; the text has advice.
    """
    from app.tools.audit.client.http_client import CallError, MemberClient, Patience, Refused

    server = server_of(options)
    scheme, address, path = parse_url(server)
    access = access_of(options, scheme, path)
    wanted: dict[str, str | int] = {
        "namespaceId": namespace_of(options),
        "serviceName": options.service,
        "ip": ip,
        "port": port,
    }
    if options.cluster:
        wanted["clusterName"] = options.cluster
    try:
        with closing(MemberClient(address, access, Patience(access.retries, Event()))) as client:
            reply = client.get(EXPLAIN, wanted)
    except Refused as error:
        is_login_needed = error.status in (401, 403)
        names = {"user": USER_VARIABLE, "token": TOKEN_VARIABLE}
        hint = gettext(". Give --user NAME, %(user)s or %(token)s", **names) if is_login_needed else ""
        raise AccessError(
            gettext("%(server)s refuses it: %(error)s%(hint)s", server=server, error=error, hint=hint)
        ) from None
    except CallError as error:
        text = gettext(
            "%(server)s does not answer: %(error)s. Name a running server: --server URL, "
            "%(server_variable)s, or cli.toml",
            server=server,
            error=error,
            server_variable=SERVER_VARIABLE,
        )
        raise AccessError(text) from None
    with suppress(CallError):
        answer = reply.json()
        if isinstance(answer, dict) and isinstance(answer.get("members"), dict):
            return answer
    raise AccessError(gettext("%(server)s gave an answer that no Rollcall member gives", server=server))


def lines_of(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer, each of ``WIDTH`` characters at most if its words allow that."""
    one = answer["instance"]
    address, cluster = address_of(one), one["clusterName"]
    text = N_("%(address)s (%(cluster)s) of %(service)s, namespace %(namespace)s")
    names = {"cluster": cluster, "service": one["serviceName"], "namespace": one["namespaceId"]}
    yield from _wrapped(gettext(text, address=address, **names))
    yield ""
    verdict, differences = _in_language(answer)
    for text in verdict:
        yield from _wrapped(text, "* ")
    yield ""
    if differences:
        yield gettext("The members DIFFER:")
        for text in differences:
            yield from _wrapped(text, "! ")
    else:
        yield gettext("The members that answered agree.")
    for address in answer["notAnswered"]:
        yield from _wrapped(gettext("%(address)s did not answer", address=address), "? ")
    for address in answer["otherKinds"]:
        text = N_("%(address)s is not a Rollcall member, and cannot be asked")
        yield from _wrapped(gettext(text, address=address), "? ")
    yield ""
    for address, facts in sorted(answer["members"].items()):
        yield from _member_lines(address, facts)


def _in_language(answer: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the verdict and the differences: of English ones those of the server, else made again from the facts."""
    texts = command_texts()
    if texts.language == ENGLISH:
        return answer["verdict"], answer["differences"]
    from app.operator.verdict import compare, elsewhere_words

    verdict, differences = compare(answer["members"], answer["notAnswered"], texts)
    places = [(one["serviceName"], one["clusterName"]) for one in answer.get("elsewhere", ()) if one["held"]]
    return [*verdict, *elsewhere_words(places, texts)], differences


def _member_lines(address: str, facts: Mapping[str, Any]) -> Iterator[str]:
    owner = facts["responsible"]["member"]
    role = gettext("responsible")
    yield from _wrapped(f"{address}  {facts['state']}{f'  {role}' if owner == address else ''}")
    if listed := facts["listed"]:
        # Only the owner counts beats: a copy has the beat with which it arrived.
        beat = gettext("beat %(age)s ago", age=_span(listed["beatAgeMs"])) if owner == address else gettext("a copy")
        text = N_("listed: %(health)s, %(beat)s, changed %(age)s ago, version %(version)s")
        values = {"health": _health(listed), "age": _span(listed["changedAgeMs"]), "version": listed["version"]}
        yield from _wrapped(gettext(text, beat=beat, **values), "    ")
    for each in facts["published"]:
        if each["connectedHere"]:
            where = gettext("connected here")
        else:
            where = gettext("copy of %(member)s", member=each["member"] or gettext("an unknown member"))
        text = N_("published: %(health)s, %(where)s, client %(client)s")
        yield from _wrapped(gettext(text, health=_health(each), where=where, client=each["client"]), "    ")
    if persistent := facts["persistent"]:
        text = N_("persistent: %(health)s, version %(version)s")
        yield from _wrapped(gettext(text, health=_health(persistent), version=persistent["version"]), "    ")
        if last := persistent.get("lastCheck"):
            text = N_("last check: %(result)s, %(age)s ago")
            yield from _wrapped(gettext(text, result=last["result"], age=_span(last["ageMs"])), "    ")
    if override := facts.get("override"):
        text = N_("changed by an operator: %(changes)s, version %(version)s")
        yield from _wrapped(gettext(text, changes=_changed(override), version=override["version"]), "    ")
    if removed := facts["removed"]:
        text = N_("removed by %(member)s, last alive %(age)s ago")
        yield from _wrapped(gettext(text, member=removed["by"], age=_span(removed["ageMs"])), "    ")
    if shown := facts["shown"]:
        if shown["inLists"]:
            seen = gettext("healthy") if shown["shownHealthy"] else gettext("unhealthy")
        else:
            seen = gettext("not at all (disabled)")
        yield from _wrapped(gettext("clients see it: %(state)s", state=seen), "    ")
    for way, told in sorted(facts["subscribers"].items()):
        if told["count"]:
            text = N_("subscribers over %(way)s: %(count)s, behind: %(behind)s")
            yield from _wrapped(gettext(text, way=way, count=told["count"], behind=told["behind"]), "    ")
            for each in told["of"][:SUBSCRIBERS_SHOWN]:
                answered = each["acknowledgedAgeMs"]
                if answered is None:
                    said = gettext("nothing acknowledged")
                else:
                    said = gettext("acknowledged %(age)s ago", age=_span(answered))
                pushed = each["pushedAgeMs"]
                sent = gettext("nothing pushed") if pushed is None else gettext("pushed %(age)s ago", age=_span(pushed))
                yield from _wrapped(f"{each['who']}: {sent}, {said}", "      ")
    for each in facts["pending"]:
        text = N_("to %(peer)s: %(type)s %(state)s")
        yield from _wrapped(gettext(text, peer=each["peer"], type=each["what"], state=each["is"]), "    ")
    for each in facts["history"]:
        text = N_("%(age)s ago: %(event)s")
        yield from _wrapped(gettext(text, age=_span(each["ageMs"]), event=each["what"]), "    ")


def _changed(override: Mapping[str, Any]) -> str:
    """Return what an operator set."""
    said = [f"{key}={value}" for key, value in (override["metadata"] or {}).items()]
    if override["enabled"] is not None:
        said.insert(0, gettext("enabled") if override["enabled"] else gettext("disabled"))
    if override["weight"] is not None:
        weight = f"{override['weight']:g}"
        said.insert(0, gettext("weight %(weight)s", weight=weight))
    return ", ".join(said)


def _health(one: Mapping[str, Any]) -> str:
    said = gettext({True: N_("healthy"), False: N_("UNHEALTHY"), None: N_("unknown")}[one["healthy"]])
    return said if one.get("enabled", True) else gettext("%(health)s, disabled", health=said)


def _span(ms: int) -> str:
    return f"{ms} ms" if ms < 1_000 else f"{ms / 1_000:.1f} s" if ms < 120_000 else f"{ms // 60_000} min"


def _wrapped(text: str, begin: str = "") -> list[str]:
    if command_texts().language != ENGLISH:
        lines = lines_in_cells(text, WIDTH - len(begin))
        rest = " " * len(begin) or "  "
        return [f"{rest if number else begin}{line}" for number, line in enumerate(lines)]
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * len(begin) or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _could_not(text: str) -> int:
    sys.stderr.write(f"rollcall explain: {printable(text)}\n")
    return NOT_ASKED

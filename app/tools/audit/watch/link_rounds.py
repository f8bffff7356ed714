"""The links of a round of the watch: what each member has by them, against the clusters at their other ends."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

from app.rows.summary import Summary, Verdict
from app.tools.audit.client.access import Access
from app.tools.audit.compare.input import CannotCompare
from app.tools.audit.compare.link_look import FINDINGS_MAX, LinkEnd, LinkFinding, LinkLook, lasting_look, look_at_link
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.report.alert_bodies import EXAMPLES_MAX, one_line

LINKS_MAX = 32
"""The most links of one watch: as many as a member may have."""


def with_links(
    summary: Summary,
    links: Collection[LinkEnd],
    members: Sequence[str],
    access: Access,
    pause: Callable[[], None],
    stop: Event,
) -> Summary:
    """Return the summary of a round with the comparison of its links. ``members``: those that answered.

    A link that cannot be judged is a note; then members that agree have no verdict.
    """
    looks, notes = list[LinkLook](), list[str]()
    for end in links:
        try:
            looks.append(_look_twice(end, members, access, pause, stop))
        except CannotCompare as error:
            notes.append(f"link {end.name} is not judged: {one_line(str(error))}")
    for look in looks:
        notes += [f"link {look.link.name} of {one} is not judged: {why}" for one, why in sorted(look.absent.items())]
        notes += [f"link {look.link.name} has more than {FINDINGS_MAX:,} findings"] if look.is_cut else []
    count = sum(len(look.findings) for look in looks)
    examples = [*summary.examples]
    for look in looks:
        examples += [_example(one, look) for one in look.findings[: max(EXAMPLES_MAX - len(examples), 0)]]
    verdict = summary.verdict
    if count:
        verdict = Verdict.DIVERGENT
    elif notes and verdict is Verdict.AGREED:
        verdict = Verdict.UNJUDGED
    return replace(
        summary,
        verdict=verdict,
        line=f"could not judge: {notes[0]}" if verdict is Verdict.UNJUDGED else summary.line,
        findings=summary.findings | ({FindingClass.LINK.value: count} if count else {}),
        examples=examples,
        links=[look.carried() for look in looks],
        notes=[*summary.notes, *notes],
    )


def _look_twice(
    end: LinkEnd, members: Sequence[str], access: Access, pause: Callable[[], None], stop: Event
) -> LinkLook:
    look = look_at_link(end, members, access, stop)
    if not look.findings:
        return look
    pause()
    return lasting_look(look, look_at_link(end, members, access, stop))


def _example(one: LinkFinding, look: LinkLook) -> dict[str, Any]:
    """Return a finding as an example of a summary."""
    return {
        "finding_class": FindingClass.LINK.value,
        "lasting": True,
        "namespace": one.namespace,
        "service": one.service,
        "cluster": one.cluster,
        "ip": one.ip,
        "port": one.port,
        "ephemeral": one.ephemeral,
        "name": look.link.name,
        "member": one.member,
        "reference": look.origin,
        "found": one_line(one.found),
        "expected": one_line(one.expected),
        "detail": f"{one.kind}: link {look.link.name} from {look.origin}",
    }

"""The page of a night, read as a browser reads it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from app.rows.summary import (
    BY_MEMBER_MAX,
    EXAMPLES_MAX,
    GROUPS_LATE_MAX,
    GROUPS_MAX,
    NAME_CHARS_MAX,
    SAMPLES_MAX,
    SERVICES_MAX,
    VALUE_CHARS_MAX,
    Summary,
    Verdict,
    unjudged,
)
from app.tools.audit.format.findings import FINDING_FIELDS, FindingClass
from app.tools.audit.report.report import PAGE_BYTES_MAX, render
from app.tools.audit.report.wording import MEANINGS

NIGHT = date(2026, 11, 21)
HOSTILE = (
    '</title></svg><script>alert(1)</script>"\'><img src=x onerror=alert(1)> $a^{2$ {{ 7*7 }} &amp; \u202e\x1b id="x" _'
)
VOID = {"meta", "br", "img", "link", "input", "wbr"}


class Page(HTMLParser):
    """The elements of a page, its text, and whether each element that begins also ends."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(text for text in self.texts if text)

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.elements for key, value in attributes.items() if key == name]

    def drawings(self) -> list[str]:
        """The names of the plots, from their ids."""
        return [
            str(attributes["aria-labelledby"]).split()[0].removesuffix("-title")
            for tag, attributes in self.elements
            if tag == "svg"
        ]


def finding(**changed: Any) -> dict[str, Any]:
    one: dict[str, Any] = dict.fromkeys(FINDING_FIELDS) | {
        "finding_class": "WEIGHT",
        "lasting": True,
        "namespace": "public",
        "service": "DEFAULT_GROUP@@orders",
        "cluster": "DEFAULT",
        "ip": "10.1.2.3",
        "port": 8080,
        "member": "10.0.0.1:8848",
        "reference": "10.0.0.2:8848",
        "found": "1.0",
        "expected": "2.0",
        "found_version": "3.17~a",
        "expected_version": "4.17~b",
        "first_seen": "2026-11-12",
        "nights_open": 10,
    }
    return one | changed


GROUP = {
    "finding_class": "WEIGHT",
    "lasting": True,
    "namespace": "public",
    "service": "DEFAULT_GROUP@@orders",
    "member": "10.0.0.1:8848",
    "findings": 10,
    "new": 0,
    "instances": 40,
    "first_seen": "2026-11-12",
    "since": "2026-11-12T03:15:00.000Z",
    "nights_open": 10,
    "samples": [finding()],
}
LATE = GROUP | {"finding_class": "HEALTH", "lasting": False, "findings": 3, "new": 3, "nights_open": 1}
LOST = GROUP | {
    "finding_class": "MISSING",
    "service": "DEFAULT_GROUP@@stock",
    "findings": 2,
    "new": 2,
    "instances": 2,
    "first_seen": str(NIGHT),
    "nights_open": 1,
    "samples": [finding(finding_class="MISSING", ip="10.1.2.4", found="absent", expected="healthy=true")],
}


def class_of(*groups: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The row of ``by_class`` over groups of one class."""
    first = groups[0]
    names = ("finding_class", "lasting", "first_seen", "nights_open")
    counted = {"groups": len(groups), "services": len(groups), "members": 1}
    counts = {name: sum(one[name] for one in groups) for name in ("findings", "new")}
    return {name: first[name] for name in names} | counts | counted | changed


def of_member(finding_class: str, findings: int, member: str = "10.0.0.1:8848", **changed: Any) -> dict[str, Any]:
    one = {"member": member, "finding_class": finding_class, "findings": findings, "services": 1, "new": 0}
    return one | {"first_seen": "2026-11-12", "nights_open": 10} | changed


RICH = Summary(
    str(NIGHT),
    Verdict.DIVERGENT,
    "divergent: 12 lasting findings",
    checked_at="2026-11-21T03:20:11Z",
    took_s=2.0,
    run="run-7",
    taken_at=["20261121T031500.000Z", "20261121T031515.204Z"],
    members=[
        {"address": "10.0.0.1:8848", "state": "dumped", "kind": "rollcall", "version": "0.1.0", "instances": 4321},
        {"address": "10.0.0.2:8848", "state": "dumped", "kind": "rollcall", "version": "0.1.0", "instances": 4321},
        {"address": "10.0.0.3:8848", "state": "absent", "error": "connection refused"},
    ],
    compared=2,
    rows=20_000,
    services=31,
    instances=4_400,
    findings={"WEIGHT": 10, "MISSING": 2, "EXTRA": 0},
    late={"HEALTH": 3},
    by_pair=[
        {"member": "10.0.0.1:8848", "reference": "10.0.0.2:8848", "findings": 11},
        {"member": "10.0.0.2:8848", "reference": "10.0.0.1:8848", "findings": 1},
    ],
    by_service=[
        {"namespace": "public", "service": "DEFAULT_GROUP@@orders", "instances": 9, "findings": 11, "late": 3},
        {"namespace": "prod", "service": "DEFAULT_GROUP@@stock", "instances": 2, "findings": 2, "late": 0},
    ],
    examples=[finding(), finding(finding_class="HEALTH", lasting=False, nights_open=1)],
    by_class=[class_of(LOST), class_of(GROUP), class_of(LATE)],
    by_member=[of_member("MISSING", 2, new=2), of_member("WEIGHT", 10)],
    groups=[LOST, GROUP, LATE],
    dumps="/var/lib/rollcall/dumps",
    results="/var/lib/rollcall/results",
    notes=["field 'colour' is unknown"],
)
AGREED = Summary(
    str(NIGHT), Verdict.AGREED, "agreed: 2 members", members=RICH.members[:2], compared=2, services=31, instances=4_400
)


def past(count: int, **values: Any) -> list[Summary]:
    """So many nights before the night, oldest first."""
    nights = [NIGHT - timedelta(days=number) for number in range(count, 0, -1)]
    return [replace(AGREED, night=str(night), **values) for night in nights]


def page_of(summary: Summary, earlier: Sequence[Summary] = ()) -> Page:
    return Page(render(summary, earlier))


def test_a_divergent_night_says_who_what_since_when_and_what_to_do() -> None:
    page = page_of(RICH, past(3, findings={"WEIGHT": 1}))
    for said in (
        "Divergent 1 of 3 members differs: 12 findings in both rounds.",
        "Compared: 4,400 instances of 31 services at 2 of 3 members.",
        "Member that differs 10.0.0.1:8848 lacks 2 instances, differs on the weight of 10 "
        "open for 10 nights, since 2026-11-12 ; 2 new tonight",
        "rollcall compare 10.0.0.2:8848 10.0.0.1:8848 --dumps /var/lib/rollcall/dumps --date 2026-11-21 "
        "--service DEFAULT_GROUP@@stock",
        "rollcall heal --service DEFAULT_GROUP@@stock --members 10.0.0.1:8848, 10.0.0.2:8848 --dry-run",
    ):
        assert said in page.text
    first_screen, _, rest = page.text.partition("Findings, the worst first")
    assert "rollcall heal" in first_screen, "before all that is only to be looked up"
    assert "Rows read" in rest


def test_counts_of_a_sample_are_the_least_that_there_are() -> None:
    text = "900,000 keys differ, 900,000 in both rounds; explained and counted: one of 18"
    page = page_of(replace(RICH, sampled=True, notes=[text, *RICH.notes]))
    assert f"differs: at least 12 findings in both rounds. {text}. Compared" in page.text


def test_findings_are_grouped_and_the_worst_come_first() -> None:
    page = page_of(RICH, past(3, findings={"WEIGHT": 1}))
    for said in (
        f"MISSING 2 in 1 service at 1 member {MEANINGS[FindingClass.MISSING]}",
        "DEFAULT_GROUP@@stock 10.0.0.1:8848 lost all 2 instances new tonight 10.1.2.4:8080 and 1 more",
        "DEFAULT_GROUP@@orders 10.0.0.1:8848 differs on the weight of 10 of 40 open for 10 nights, since 2026-11-12",
        "10.1.2.3:8080 found 1.0 version 3.17~a expected 2.0 version 4.17~b and 9 more",
        "Late findings 3 differences that the two rounds do not share",
        "HEALTH 3 in 1 service at 1 member",
        "field 'colour' is unknown",
        "rollcall 0.1.0 4,321",
        "connection refused",
        "2026-11-21 03:20:11 UTC",
        "2026-11-21 03:15:15 UTC",
        "20,000 (10,000/s)",
        "divergent: 12 lasting findings",
    ):
        assert said in page.text
    assert page.text.index("MISSING 2") < page.text.index("WEIGHT 10") < page.text.index("HEALTH 3")
    assert "EXTRA" not in page.text.partition("All findings")[0].replace('"EXTRA"', ""), "a class without a finding"
    assert page.drawings() == ["over-nights", "over-few-nights", "by-pair", "by-service"]


def test_it_is_said_which_member_lacks_a_service_or_a_record() -> None:
    """The words of these classes do not say it; those of MISSING do."""
    lacks = finding(ip="", port=None, found="absent", expected="there, without instances")
    for name, is_shown in (("SERVICE", True), ("RECORD", True), ("CLIENT", True), ("MISSING", False)):
        group = GROUP | {"finding_class": name, "samples": [lacks | {"finding_class": name}]}
        page = page_of(replace(RICH, groups=[group], by_class=[class_of(group)]))
        assert ("found absent" in page.text) is is_shown, name
        assert ("expected there, without instances" in page.text) is is_shown, name


def test_a_member_without_an_answer_is_not_said_to_differ() -> None:
    rows = [of_member("ABSENT_MEMBER", 1, "10.0.0.3:8848"), of_member("WEIGHT", 11)]
    page = page_of(replace(RICH, by_member=rows))
    assert "Divergent 2 of 3 members differ or could not be compared: 12 findings in both rounds." in page.text
    assert "Members that differ or could not be compared 10.0.0.3:8848 did not answer" in page.text


def test_findings_of_classes_that_were_left_out_are_not_said_to_be_gone() -> None:
    before = past(1, verdict=Verdict.DIVERGENT, findings={"DUPLICATE": 1})
    assert "its findings are gone" in page_of(AGREED, before).text
    page = page_of(replace(AGREED, judged_with={"ignore": ["DUPLICATE"]}), before)
    assert "was divergent. This check left out some classes." in page.text


def test_commands_in_the_words_of_a_step_are_shown_as_code() -> None:
    page = render(replace(RICH, findings={"RECORD": 1}), [])
    assert "run <code>rollcall switches NAME VALUE</code>, for" in page
    assert "`" not in page


def test_an_address_that_clients_registered_twice_makes_no_member_differ() -> None:
    page = page_of(replace(RICH, findings={"DUPLICATE": 2}, by_member=[of_member("DUPLICATE", 2)]))
    assert "Divergent 2 findings in both rounds." in page.text
    assert "Member that differs" not in page.text


def test_what_is_not_shown_is_counted_and_it_is_said_where_it_is() -> None:
    more = class_of(GROUP, findings=8_412, groups=312, services=312)
    page = page_of(replace(RICH, findings={"WEIGHT": 8_412}, by_class=[more], groups=[GROUP]))
    assert "311 further groups are not shown here; all findings have them." in page.text
    assert "#all" in page.attributes("href")
    assert "findings_json/night=2026-11-21" in page.text.partition("All findings")[2]
    assert "read_json" in page.text


def test_few_findings_are_unfolded_and_of_many_the_worst_class_and_the_largest() -> None:
    def unfolded(summary: Summary) -> list[bool]:
        return ["open" in one for tag, one in page_of(summary).elements if tag == "details" and one.get("class")]

    few = replace(RICH, by_class=[class_of(LOST), class_of(GROUP)])
    assert unfolded(few) == [True, True]
    third = class_of(GROUP | {"finding_class": "BEHIND", "findings": 1})
    many = [class_of(LOST), class_of(GROUP, groups=90), third]
    assert unfolded(replace(few, by_class=many)) == [True, True, False]


def test_plots_that_show_no_difference_are_left_out() -> None:
    assert page_of(replace(RICH, by_pair=RICH.by_pair[:1], by_service=RICH.by_service[:1])).drawings() == []
    alike = [one | {"findings": 1, "late": 0} for one in RICH.by_service]
    assert page_of(replace(RICH, by_pair=[], by_service=alike)).drawings() == [], "nor of bars that are alike"


def test_the_drawings_are_told_in_words() -> None:
    page = page_of(RICH, past(3, findings={"WEIGHT": 7}, late={"HEALTH": 1}))
    for said in (
        "10.0.0.1:8848 against 10.0.0.2:8848: 11 findings",
        "DEFAULT_GROUP@@orders: 11 findings and 3 late",
        "4 nights from 2026-11-18 to 2026-11-21, 4 of them judged. Most lasting findings: 12, in the night 2026-11-21.",
    ):
        assert said in page.text


def test_an_agreed_night_says_so_at_once() -> None:
    page = page_of(AGREED)
    assert "Agreed Both 2 members hold the same 4,400 instances of 31 services." in page.text
    partly = Page(render(replace(AGREED, unasked=1), []))
    assert "Agreed 2 of 3 listed members hold the same 4,400 instances of 31 services." in partly.text
    assert "This is the first night with a verdict." in page.text
    assert page.drawings() == []
    assert "What to do" not in page.text


def test_agreed_nights_are_counted() -> None:
    page = page_of(AGREED, [unjudged("2026-11-10", "no dump"), *past(9)])
    assert "Agreed for 10 nights in a row, since 2026-11-12 ." in page.text
    assert page.drawings() == [], "a trend of nothing"


def test_a_night_that_was_not_judged_says_why_and_what_to_do() -> None:
    earlier = past(3, findings={"WEIGHT": 1}, dumps="/dumps", results="/results")
    page = page_of(unjudged(str(NIGHT), "no dump of the night 2026-11-21 under /dumps"), earlier)
    for said in (
        "Not judged No dump of the night 2026-11-21 under /dumps.",
        "The last verdict: agreed , in the night 2026-11-20 , with 1 finding.",
        "rollcall dump --members 10.0.0.1:8848, 10.0.0.2:8848 --out /dumps --date 2026-11-21",
        "rollcall check --dumps /dumps --out /results --night 2026-11-21",
    ):
        assert said in page.text
    assert page.drawings() == ["over-nights", "over-few-nights"]


def test_not_even_the_night_may_be_known() -> None:
    page = page_of(unjudged("", "no dump"), past(3, findings={"WEIGHT": 1}))
    assert "Not judged No dump." in page.text
    assert page.drawings() == []


def test_nights_that_are_missing_count_as_not_judged() -> None:
    first, *_, last = past(5, findings={"WEIGHT": 1})
    page = page_of(AGREED, [last, first])
    assert "6 nights from 2026-11-16 to 2026-11-21, 3 of them judged" in page.text
    assert page.texts.count("not judged") == 2, "as an entry of the legend of either drawing"
    assert "not judged" not in page_of(AGREED, past(5, findings={"WEIGHT": 1})).texts


def test_the_trend_has_the_last_ninety_nights_and_none_to_come() -> None:
    to_come = replace(AGREED, night="2026-12-24", findings={"WEIGHT": 1})
    page = page_of(RICH, [*past(365, findings={"WEIGHT": 1}), to_come])
    assert "90 nights from 2026-08-24 to 2026-11-21, 90 of them judged" in page.text


def test_classes_beyond_the_colours_share_one() -> None:
    many = {one.value: number + 1 for number, one in enumerate(FindingClass)}
    page = page_of(AGREED, past(1, findings=many))
    rest = sum(sorted(many.values())[: len(many) - 7])
    assert f"2026-11-20: other classes {rest}" in page.texts
    few = dict(list(many.items())[:8])
    assert "other classes" not in page_of(AGREED, past(1, findings=few)).texts


def test_names_are_shown_and_never_run() -> None:
    names = ("namespace", "service", "cluster", "ip", "member", "reference", "found", "expected", "found_version")
    bad = finding(finding_class=HOSTILE, detail=HOSTILE, first_seen=HOSTILE, **dict.fromkeys(names, HOSTILE))
    group = GROUP | dict.fromkeys(("finding_class", "namespace", "service", "member", "first_seen"), HOSTILE)
    hostile = replace(
        RICH,
        line=HOSTILE,
        run=HOSTILE,
        dumps=HOSTILE,
        results="/" + HOSTILE,
        members=[dict.fromkeys(("address", "state", "kind", "version", "error"), HOSTILE)],
        findings={HOSTILE: 4},
        by_pair=[{"member": HOSTILE, "reference": HOSTILE + one, "findings": int(one)} for one in "23"],
        by_service=[{"namespace": one, "service": HOSTILE, "findings": len(one), "late": 1} for one in ("a", "bb")],
        examples=[bad],
        by_class=[class_of(group)],
        by_member=[of_member(HOSTILE, 4, HOSTILE)],
        groups=[group | {"samples": [bad]}],
        notes=[HOSTILE],
    )
    html = render(hostile, past(2, findings={HOSTILE: 3}))
    page = Page(html)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "x" not in page.attributes("id")
    assert "{{ 7*7 }}" in page.text
    assert "49" not in page.text
    assert "rollcall heal" not in page.text, "no command line from names that are not printable"
    assert len(page.drawings()) == 4
    drawn = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert drawn
    assert not [one for one in drawn if "\u202e" in one or "\x1b" in one], "no drawing is written from right to left"


def test_nothing_is_fetched() -> None:
    html = render(replace(RICH, dumps="s3://bucket/dumps"), past(30, findings={"WEIGHT": 1}))
    page = Page(html)
    assert not re.search(r"https?:|@import|data:|url\(", html)
    assert not page.attributes("src")
    links = page.attributes("href")
    assert {link.removeprefix("#") for link in links} <= set(page.attributes("id")), "what is linked to is there"
    assert all(link.startswith("#") for link in links)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.attributes("content")


def test_ids_are_of_one_element_each() -> None:
    page = page_of(RICH, past(30, findings={"WEIGHT": 1}))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    labels = [label for labels in page.attributes("aria-labelledby") for label in labels.split()]
    assert set(labels) <= set(ids)


def test_colours_are_those_of_the_page() -> None:
    html = render(RICH, [*past(30, findings={one.value: 1 for one in FindingClass}), unjudged("2026-11-01", "no dump")])
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.findall(r"#[0-9a-f]{6}\b", drawn), "a colour of its own would not be seen in the dark"
    asked, told = set(re.findall(r"var\((--[\w-]+)\)", html)), set(re.findall(r"(--[\w-]+): #", html))
    assert asked <= told


def test_the_largest_page_is_below_a_megabyte() -> None:
    value, name = "<&>" * (VALUE_CHARS_MAX // 3), "<&>" * (NAME_CHARS_MAX // 3)
    one = finding(namespace=name, service=name, found=value, expected=value + " ", detail=value)
    one |= {"member": name, "reference": name, "found_version": value, "expected_version": value, "cluster": value}
    groups = [
        GROUP
        | {"finding_class": finding_class.value, "lasting": lasting, "namespace": name, "service": name, "member": name}
        | {"samples": [one] * SAMPLES_MAX}
        for finding_class in FindingClass
        for lasting in (True, False)
        for _ in range(GROUPS_MAX if lasting else GROUPS_LATE_MAX)
    ]
    large = replace(
        RICH,
        members=[{"address": f"{name}-{number}:8848", "state": "absent", "error": value} for number in range(500)],
        findings={one.value: 1_000_000 for one in FindingClass},
        by_pair=[{"member": f"m{n}", "reference": f"r{n}", "findings": n} for n in range(1, 1_000)],
        by_service=[{"service": f"{name}{number}", "findings": 9_999, "late": 9} for number in range(SERVICES_MAX)],
        examples=[one] * EXAMPLES_MAX,
        by_class=[
            class_of(group, groups=999)
            for at in (0, GROUPS_MAX)
            for group in groups[at :: GROUPS_MAX + GROUPS_LATE_MAX]
        ],
        by_member=[of_member("WEIGHT", 7, f"{name}{number}") for number in range(BY_MEMBER_MAX)],
        groups=groups,
        notes=["note " * 200] * 500,
    )
    html = render(large, past(365, findings={one.value: 7 for one in FindingClass}, late={"HEALTH": 4}))
    assert len(html.encode()) <= PAGE_BYTES_MAX == 1_000_000
    page = Page(html)
    assert page.text.count("And 400 more.") == 2, "notes and members"
    assert f"And {BY_MEMBER_MAX - 100} more." in page.text


def test_long_values_show_where_they_differ() -> None:
    same = "".join(f'"key-{number}":"value",' for number in range(20))
    long = finding(found=f"{same}blue", expected=f"{same}green, and more")
    page = page_of(replace(RICH, groups=[LOST, GROUP | {"samples": [long]}]))
    assert any(text.endswith("blue") and text.startswith("…") for text in page.texts)
    assert any("green, and more" in text and text.startswith("…") for text in page.texts)
    assert any(hint.startswith(same[:200]) for hint in page.attributes("title"))


@pytest.mark.parametrize(
    ("addresses", "shown"),
    [
        (("10.0.0.1:8848", "10.0.0.2:8848"), "10.0.0.1 against 10.0.0.2"),
        (("10.0.0.7:8848", "10.0.1.7:8848"), "10.0.0.7 against 10.0.1.7"),
        (("127.0.0.1:8848", "127.0.0.1:8858"), "127.0.0.1:8848 against 127.0.0.1:8858"),
        (("a.prod.example:8848", "b.prod.example:8848"), "a against b"),
        (("a.prod.example:8848", "a.test.example:8848"), "a.prod against a.test"),
    ],
)
def test_what_all_addresses_end_with_is_left_out_of_a_drawing(addresses: tuple[str, str], shown: str) -> None:
    both_ways = enumerate((addresses, addresses[::-1]), 3)
    pairs = [{"member": one, "reference": other, "findings": number} for number, (one, other) in both_ways]
    assert shown in page_of(replace(RICH, members=[], by_pair=pairs)).texts

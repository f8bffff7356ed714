"""The page of a night, read as a browser reads it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from app.audit.format.findings import FINDING_FIELDS, FindingClass
from app.audit.report.report import MEANINGS, PAGE_BYTES_MAX, render
from app.audit.report.summary import EXAMPLES_MAX, SERVICES_MAX, Summary, Verdict, unjudged

pytest.importorskip("matplotlib")  # of the extra `audit`

NIGHT = date(2026, 11, 21)
HOSTILE = (
    '</title></svg><script>alert(1)</script>"\'><img src=x onerror=alert(1)> $a^{2$ {{ 7*7 }} &amp; \u202e\x1b id="x" _'
)
VOID = {"meta", "br", "img", "link", "input"}


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
        {"address": "10.0.0.2:8848", "state": "absent", "error": "connection refused"},
    ],
    rows=20_000,
    services=31,
    instances=4_400,
    findings={"WEIGHT": 10, "MISSING": 2, "EXTRA": 0},
    late={"HEALTH": 3},
    by_pair=[{"member": "10.0.0.1:8848", "reference": "10.0.0.2:8848", "findings": 11}],
    by_service=[{"namespace": "public", "service": "DEFAULT_GROUP@@orders", "instances": 9, "findings": 11, "late": 3}],
    examples=[finding(), finding(finding_class="HEALTH", lasting=False, nights_open=1)],
    notes=["field 'colour' is unknown"],
)
AGREED = Summary(str(NIGHT), Verdict.AGREED, "agreed: 3 members", members=RICH.members[:1], services=31)


def past(count: int, **values: Any) -> list[Summary]:
    """So many nights before the night, oldest first."""
    nights = [NIGHT - timedelta(days=number) for number in range(count, 0, -1)]
    return [replace(AGREED, night=str(night), **values) for night in nights]


def page_of(summary: Summary, earlier: Sequence[Summary] = ()) -> Page:
    return Page(render(summary, earlier))


def test_a_divergent_night_tells_all_that_it_knows() -> None:
    page = page_of(RICH, past(3, findings={"WEIGHT": 1}))
    for said in (
        "Divergent: 2026-11-21",
        "divergent: 12 lasting findings",
        "2026-11-21 03:20:11 UTC",
        "2026-11-21 03:15:15 UTC",
        "20,000 (10,000/s)",
        "rollcall 0.1.0 4,321",
        "connection refused",
        f"WEIGHT 10 0 {MEANINGS[FindingClass.WEIGHT]}",
        "HEALTH 0 3",
        "All 12 3",
        "field 'colour' is unknown",
        "DEFAULT_GROUP@@orders 9 11 3",
        "2 of 15 findings",
        "WEIGHT lasting DEFAULT_GROUP@@orders 10.1.2.3:8080 10.0.0.1 against 10.0.0.2 1.0 version 3.17~a 2.0 version "
        "4.17~b 2026-11-12 10",
    ):
        assert said in page.text
    assert "EXTRA" not in page.text, "a class without a finding is left out"
    assert page.drawings() == ["by-class", "by-pair", "by-service", "oldest", "over-nights"]


def test_the_drawings_are_told_in_words() -> None:
    page = page_of(RICH, past(3, findings={"WEIGHT": 7}, late={"HEALTH": 1}))
    for said in (
        "WEIGHT: 10 findings; MISSING: 2 findings; HEALTH: 0 findings and 3 late",
        "10.0.0.1:8848 against 10.0.0.2:8848: 11 findings",
        "DEFAULT_GROUP@@orders: 11 findings and 3 late",
        "WEIGHT, DEFAULT_GROUP@@orders, 10.1.2.3:8080, 10.0.0.1:8848: 10 nights",
        "4 nights from 2026-11-18 to 2026-11-21, 4 of them judged. Most lasting findings: 12, in the night 2026-11-21.",
    ):
        assert said in page.text


def test_an_agreed_night_says_so_instead_of_drawing_nothing() -> None:
    page = page_of(AGREED)
    assert "Agreed: 2026-11-21" in page.text
    assert "No finding: all members hold the same." in page.text
    assert "This is the first night." in page.text
    assert page.drawings() == []


def test_agreed_nights_have_no_trend_to_draw() -> None:
    earlier = [*past(4), unjudged("2026-11-16", "no dump")]
    assert (
        "No finding in the 6 nights from 2026-11-16 to 2026-11-21; 1 of them not judged."
        in page_of(AGREED, earlier).text
    )


def test_a_night_that_was_not_judged_shows_the_trend_only() -> None:
    page = page_of(unjudged(str(NIGHT), "no dump"), past(3, findings={"WEIGHT": 1}))
    assert "Not judged: 2026-11-21" in page.text
    assert "could not judge: no dump" in page.text
    assert "No finding" not in page.text
    assert page.drawings() == ["over-nights"]


def test_not_even_the_night_may_be_known() -> None:
    page = page_of(unjudged("", "no dump"), past(3, findings={"WEIGHT": 1}))
    assert "It is not known which night this is." in page.text


def test_nights_that_are_missing_count_as_not_judged() -> None:
    first, *_, last = past(5, findings={"WEIGHT": 1})
    page = page_of(AGREED, [last, first])
    assert "6 nights from 2026-11-16 to 2026-11-21, 3 of them judged" in page.text
    assert page.texts.count("not judged") == 1, "as an entry of the legend"
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
    hostile = replace(
        RICH,
        line=HOSTILE,
        run=HOSTILE,
        members=[dict.fromkeys(("address", "state", "kind", "version", "error"), HOSTILE)],
        findings={HOSTILE: 4},
        by_pair=[{"member": HOSTILE, "reference": HOSTILE + "2", "findings": 1}],
        by_service=[{"namespace": HOSTILE, "service": HOSTILE, "instances": 1, "findings": 1, "late": 1}],
        examples=[finding(finding_class=HOSTILE, detail=HOSTILE, first_seen=HOSTILE, **dict.fromkeys(names, HOSTILE))],
        notes=[HOSTILE],
    )
    page = page_of(hostile, past(2, findings={HOSTILE: 3}))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "x" not in page.attributes("id")
    assert "{{ 7*7 }}" in page.text
    assert "49" not in page.text
    assert len(page.drawings()) == 5
    drawn = re.findall(r"<svg.*?</svg>", render(hostile, []), re.DOTALL)
    assert drawn
    assert not [one for one in drawn if "\u202e" in one or "\x1b" in one], "no drawing is written from right to left"


def test_nothing_is_fetched() -> None:
    html = render(RICH, past(30, findings={"WEIGHT": 1}))
    page = Page(html)
    assert not re.search(r"https?:|//|@import|data:", html)
    assert not page.attributes("src")
    links = page.attributes("href")
    assert [link for link in links if not link.startswith("#")] == []
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.attributes("content")
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | {link.removeprefix("#") for link in links}
    assert used <= set(page.attributes("id")), "what is linked to is there"


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
    metadata = '{"' + '","'.join(f'key-{number}":"{"<&>" * 20}' for number in range(400)) + '"}'
    name = "DEFAULT_GROUP@@" + "service&" * 60
    one = finding(namespace="n" * 100, service=name, found=metadata, expected=metadata + " ", detail=metadata)
    one |= {"member": "m" * 200, "reference": "r" * 200, "found_version": "v" * 200, "expected_version": "w" * 200}
    large = replace(
        RICH,
        members=[
            {"address": f"{'host' * 30}-{number}:8848", "state": "absent", "error": metadata} for number in range(50)
        ],
        findings={one.value: 1_000_000 for one in FindingClass},
        by_pair=[{"member": f"m{n}", "reference": f"r{n}", "findings": n} for n in range(1, 1_000)],
        by_service=[{"service": f"{name}{number}", "findings": 9_999, "late": 9} for number in range(SERVICES_MAX)],
        examples=[one] * EXAMPLES_MAX,
        notes=["note " * 200] * 500,
    )
    html = render(large, past(365, findings={one.value: 7 for one in FindingClass}, late={"HEALTH": 4}))
    assert len(html.encode()) <= PAGE_BYTES_MAX == 1_000_000
    assert "And 400 more." in Page(html).text


def test_long_values_show_where_they_differ() -> None:
    same = "".join(f'"key-{number}":"value",' for number in range(20))
    page = page_of(replace(RICH, examples=[finding(found=f"{same}blue", expected=f"{same}green, and more")]))
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
    pair = {"member": addresses[0], "reference": addresses[1], "findings": 3}
    assert shown in page_of(replace(RICH, members=[], by_pair=[pair])).texts

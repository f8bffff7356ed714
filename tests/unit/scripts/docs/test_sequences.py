"""The pictures of docs/concepts.md show what the members of now say and decide."""

import xml.etree.ElementTree as ElementTree

from app.tools.simulation.transcript.entry import Entry, What
from scripts.docs.sequence_svg import draw
from scripts.docs.sequences import PICTURES, TARGET, pictures

SVG = "{http://www.w3.org/2000/svg}"
A, B = "10.0.0.1:8848", "10.0.0.2:8848"


def test_the_pictures_are_up_to_date() -> None:
    made = dict(pictures())
    assert made.keys() == {path.name for path in TARGET.glob("*.svg")} == {f"{name}.svg" for name in PICTURES}
    stale = [name for name, text in made.items() if (TARGET / name).read_text(encoding="utf-8") != text]
    assert not stale, "python -m scripts.docs.sequences writes them anew"


def test_each_picture_is_on_the_page() -> None:
    page = (TARGET.parent / "concepts.md").read_text(encoding="utf-8")
    assert not [name for name in PICTURES if f"(pictures/{name}.svg)" not in page]


def test_a_sequence_has_a_lane_for_each_process_and_a_row_for_each_event() -> None:
    entries = [
        Entry(1_000, What.WRITE, "client-1", "register <x>", peer=B),
        Entry(1_004, What.SEND, B, "sends orders 1.0.B", peer=A),
        Entry(1_005, What.LOST, B, "sends orders: is lost", peer=A),
        Entry(2_006, What.DECIDE, A, "orders 1.0.B: applied", peer=B, incoming=True, rule="R3: it is unknown here"),
    ]
    picture = ElementTree.fromstring(draw("Title", entries))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts[:3] == ["client-1", "A", "B"]
    assert [text for text in texts if str(text).endswith(" ms")] == ["0 ms", "4 ms", "5 ms", "1,006 ms"]
    assert "register <x>" in texts
    assert texts[-2:] == ["A: orders 1.0.B: applied", "(R3: it is unknown here)"]
    dots, heads = list(picture.iter(f"{SVG}circle")), list(picture.iter(f"{SVG}path"))
    assert (len(dots), len(heads)) == (1, 3)
    assert [line for line in picture.iter(f"{SVG}line") if line.get("stroke-dasharray")]

"""The picture of the rooms: as the code is, and not drawn over a way that the code does not take."""

import pytest

from scripts.docs import picture
from scripts.docs.picture import ENGINE, Step, check_way, digest, draw, is_current, read_floors, read_way

pytest.importorskip("matplotlib")


def test_the_picture_in_the_docs_is_that_of_the_code() -> None:
    assert is_current(), "draw it again: python -m scripts.docs.picture"


def test_what_is_drawn_names_what_it_shows() -> None:
    drawn = draw()
    assert drawn.startswith("<?xml")
    assert digest(read_floors(), read_way()) in drawn
    assert "DistroRuntime" in drawn


def test_every_module_of_a_contract_has_a_room() -> None:
    rooms = {room.name: room for floor in read_floors() for room in floor}
    assert {"app.http", "app.rpc", "app.naming", "app.node", "distro"} <= rooms.keys()
    assert all(room.caption for room in rooms.values())
    assert rooms["distro"].layers[:2] == [["engine"], ["verify"]]


@pytest.mark.parametrize(
    "step",
    [
        Step("app.naming.service:NamingService.no_such_method", "", ""),
        Step("app.naming.service:NamingService.register", "no_such_name", ""),
    ],
)
def test_a_way_that_the_code_does_not_take_is_not_drawn(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "ENGINE", (*ENGINE, step))
    with pytest.raises(LookupError, match=r"mend ENGINE|record the way again"):
        draw()
    with pytest.raises(LookupError):
        check_way((step,))

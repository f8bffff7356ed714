"""Fields of JSON objects: what clients may send loosely, and members exactly."""

from typing import Any

import pytest

from app.naming.model.json_fields import (
    FLOAT_MAX,
    FROM_MEMBER,
    FROM_RECORD,
    ITEMS_MAX,
    Fields,
    member_object,
    structure_of,
)
from app.naming.model.keys import METADATA_CHARS_MAX
from app.naming.model.nacos_errors import InvalidParam
from distro.model.errors import CodecError


class TestFromClients:
    def test_null_and_empty_count_as_absent(self) -> None:
        fields = Fields({"a": None, "b": "", "m": None, "l": None})
        assert (fields.text("a", "x"), fields.text("b", "x"), fields.text("c", "x")) == ("x", "x", "x")
        assert (fields.texts("m"), fields.items("l"), fields.flag("a", True)) == ({}, [], True)
        assert (fields.whole("b", 7, 0, 9), fields.number("a", 1.5), fields.inner("m").text("x")) == (7, 1.5, "")

    def test_numbers_come_in_the_ways_of_several_sdks(self) -> None:
        fields = Fields(
            {"weight": 2, "port": "80", "metadata": {"n": 1, "y": True, "f": False, "d": 0.5, "t": "t", "x": None}}
        )
        assert (fields.number("weight", 1.0), fields.whole("port", 0, 0, 65_535)) == (2.0, 80)
        assert fields.texts("metadata") == {"n": "1", "y": "true", "f": "false", "d": "0.5", "t": "t"}

    def test_a_value_may_be_as_large_as_its_bound(self) -> None:
        longest, metadata = "x" * 1_024, {"a": "x" * (METADATA_CHARS_MAX - 1)}
        fields = Fields({"t": longest, "f": FLOAT_MAX, "m": metadata, "l": [{}] * ITEMS_MAX})
        assert (fields.text("t"), fields.required("t"), fields.number("f")) == (longest, longest, FLOAT_MAX)
        assert Fields({"f": -FLOAT_MAX}).number("f") == -FLOAT_MAX
        assert (fields.texts("m"), len(fields.items("l"))) == (metadata, ITEMS_MAX)

    @pytest.mark.parametrize(
        ("value", "method", "arguments"),
        [
            (1, "text", ()),
            ("x" * 1_025, "text", ()),
            ("a\nb", "text", ()),
            ("", "required", ()),
            ("x", "whole", (0, 0, 9)),
            (True, "whole", (0, 0, 9)),
            (10, "whole", (0, 0, 9)),
            ("9" * 30, "whole", (0, 0, 9)),
            ("1", "number", (1.0,)),
            (True, "number", (1.0,)),
            ("true", "flag", (False,)),
            ([], "texts", ()),
            ({"a": []}, "texts", ()),
            ({"a": "x" * METADATA_CHARS_MAX}, "texts", ()),
            ([], "inner", ()),
            ({}, "items", ()),
            ([1], "items", ()),
            ([{}] * (ITEMS_MAX + 1), "items", ()),
        ],
    )
    def test_a_value_of_another_kind_is_refused_by_name(
        self, value: object, method: str, arguments: tuple[object, ...]
    ) -> None:
        with pytest.raises(InvalidParam, match="field 'name'"):
            getattr(Fields({"name": value}), method)("name", *arguments)


class TestFromMembers:
    def test_what_is_there_and_what_may_be_absent(self) -> None:
        fields = member_object({"a": "", "n": 2, "t": None, "o": {"x": True}, "l": [1]}, "it")
        assert (fields.required("a"), fields.text("a", "d"), fields.text_or_none("t"), fields.text("t", "d")) == (
            "",
            "d",
            None,
            "d",
        )
        assert (fields.integer("n"), fields.integer("m", 7), fields.number("n"), fields.whole("n", None, 0, 2)) == (
            2,
            7,
            2.0,
            2,
        )
        assert (fields.inner("o").flag("x"), fields.flag("f", False), fields.parallel("l", 1)) == (True, False, [1])
        assert (fields.has("t"), fields.has("n"), fields.value("l")) == (False, True, [1])

    @pytest.mark.parametrize(
        ("values", "method", "arguments", "says"),
        [
            ({}, "required", (), "is not text"),
            ({"name": None}, "required", (), "is not text"),
            ({"name": "xx"}, "required", (1,), "has over 1 characters"),
            ({"name": None}, "integer", (1,), "is not a number"),
            ({"name": "1"}, "integer", (), "is not a number"),
            ({"name": True}, "integer", (), "is not a number"),
            ({"name": "1"}, "whole", (None, 0, 9), "is not a whole number from 0 to 9"),
            ({"name": None}, "whole", (1, 0, 9), "is not a whole number from 0 to 9"),
            ({"name": None}, "number", (1.0,), "is not a number"),
            ({"name": float("inf")}, "number", (), "is not a number"),
            ({"name": 10**400}, "number", (), "is not a number"),
            ({"name": None}, "flag", (True,), "is neither true nor false"),
            ({"name": 1}, "flag", (), "is neither true nor false"),
            ({}, "inner", (), "is not an object"),
            ({"name": {}}, "array", (), "is not a list"),
            ({"name": [1]}, "parallel", (2,), "has 1 entries for 2 services"),
        ],
    )
    def test_a_value_of_another_kind_is_refused_by_name(
        self, values: dict[str, Any], method: str, arguments: tuple[object, ...], says: str
    ) -> None:
        with pytest.raises(CodecError, match=f"^field 'name' of a thing {says}$"):
            getattr(Fields(values, FROM_MEMBER, " of a thing"), method)("name", *arguments)

    def test_an_inner_object_is_read_exactly_and_has_the_name_it_is_given(self) -> None:
        fields = member_object({"o": {"n": "1"}, "l": [{"n": "1"}]}, "it", " of it")
        for inner, says in (
            (fields.inner("o"), "field 'n' is not a number"),
            (fields.inner("o", " of o"), "field 'n' of o is not a number"),
            (fields.items("l")[0], "field 'n' is not a number"),
        ):
            with pytest.raises(CodecError, match=f"^{says}$"):
                inner.number("n")
        with pytest.raises(CodecError, match=r"^field 'o' of it is not a list$"):
            fields.array("o")

    def test_what_is_no_object_is_named(self) -> None:
        with pytest.raises(CodecError, match=r"^the snapshot is not an object$"):
            member_object([], "the snapshot")


def test_a_record_is_read_exactly_and_refused_in_the_words_for_clients() -> None:
    with pytest.raises(InvalidParam, match=r"^field 'port' of a record should be a number$"):
        Fields({"port": "80"}, FROM_RECORD, " of a record").integer("port")


def test_bytes_come_as_base64() -> None:
    assert Fields({"d": "aGk="}, FROM_MEMBER).data("d") == b"hi"
    assert Fields({}, FROM_MEMBER).data("d") == b""
    assert Fields({"d": None}, FROM_MEMBER).data("d") == b""
    for wrong in ("a", "aGk", "aGk=\n", "a_k=", 7, ["aGk="]):
        with pytest.raises(CodecError, match="field 'd' is not base64"):
            Fields({"d": wrong}, FROM_MEMBER).data("d")


@pytest.mark.parametrize(
    ("text", "structure"), [("", 0), ("1", 0), ("[]", 1), ("{}", 1), ('[{"a":1,"b":[2,3]},"[,{"]', 9)]
)
def test_the_structure_of_a_json_text_is_its_commas_and_brackets(text: str, structure: int) -> None:
    assert structure_of(text) == structure_of(text.encode()) == structure

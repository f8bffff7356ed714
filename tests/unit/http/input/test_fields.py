"""Kinds of parameters: the value in a text, the texts that count as absent, the words of refusals."""

from typing import Any

import pytest
from marshmallow import Schema, fields, validate

from app.http.input.fields import (
    FILLED,
    PRESENT,
    AddressText,
    Flag,
    IntOrZero,
    JsonObject,
    LenientFlag,
    ListFilter,
    LoadFactor,
    MetadataFilter,
    MetadataText,
    Needed,
    NeededLenientFlag,
    NeededMetadata,
    Number,
    PageNumber,
    Parameter,
    SelectorText,
    StrictFlag,
    Text,
    Threshold,
    Trimmed,
)
from app.http.input.forms import Parameters
from app.http.input.schemas import ServiceSchema, load, load_parameters
from app.naming.model.meta import NO_SELECTOR
from app.naming.model.nacos_errors import InvalidParam

ABSENT = "the default"


def read(field: fields.Field[Any], **values: str) -> Any:
    return load(Schema.from_dict({"found": field}), values)["found"]


def refusal(field: fields.Field[Any], **values: str) -> str:
    with pytest.raises(InvalidParam) as refused:
        read(field, **values)
    return refused.value.text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Trimmed, " a\x01", "a"),
        (Trimmed, " \x01", ABSENT),
        (Needed, " ", ""),
        (Needed, "", ABSENT),
        (IntOrZero, " 7 ", 7),
        (IntOrZero, "zz", 0),
        (IntOrZero, " ", 0),
        (IntOrZero, "", ABSENT),
        (Number, "+7", 7),
        (Number, "", ABSENT),
        (Threshold, " 0.7 ", 0.7),
        (Threshold, " ", ABSENT),
        (Flag, "\u3000ON ", True),
        (Flag, "0", False),
        (Flag, " ", ABSENT),
        (StrictFlag, "True", True),
        (StrictFlag, "yes", False),
        (StrictFlag, " ", ABSENT),
        (LenientFlag, "Y", True),
        (LenientFlag, "1", False),
        (LenientFlag, " ", ABSENT),
        (NeededLenientFlag, " ", False),
        (NeededLenientFlag, "", ABSENT),
        (MetadataText, "null", {}),
        (MetadataText, "a=b", {"a": "b"}),
        (MetadataText, " ", ABSENT),
        (NeededMetadata, "null", None),
        (NeededMetadata, " ", {}),
        (NeededMetadata, "", ABSENT),
        (SelectorText, "%7B%22type%22:%22none%22%7D", NO_SELECTOR),
        (SelectorText, " ", NO_SELECTOR),
        (SelectorText, "", ABSENT),
        (ListFilter, '{"type":"label","expression":"SERVICE.metadata.a = \'b\'"}', MetadataFilter(False, "a", "b")),
        (ListFilter, '{"type":"label","expression":"a=b"}', None),
        (ListFilter, " ", None),
        (JsonObject, ' {"a":1.50}', {"a": 1.5}),
        (JsonObject, "", ABSENT),
        (AddressText, " [::1]:9 ", ("::1", 9)),
        (AddressText, "h", ("h", 8848)),
        (AddressText, " ", ABSENT),
        (LoadFactor, "10", 10.0),
        (LoadFactor, " ", ABSENT),
    ],
)
def test_values(kind: type[Parameter[Any]], text: str, value: Any) -> None:
    assert read(kind("found", "", ABSENT), found=text) == value


@pytest.mark.parametrize("kind", [Needed, IntOrZero, Number, Threshold, NeededLenientFlag, NeededMetadata, JsonObject])
@pytest.mark.parametrize("values", [{}, {"x": ""}])
def test_a_required_parameter_must_be_filled(kind: type[Parameter[Any]], values: dict[str, str]) -> None:
    assert refusal(kind("x", "", needs=FILLED), **values) == "Param 'x' is required."


def test_a_parameter_that_must_be_there_may_be_empty() -> None:
    assert refusal(Text("x", "", needs=PRESENT)) == "Parameter 'x' is missing"
    assert read(Text("x", "", needs=PRESENT), x="") == ""
    assert refusal(PageNumber("x", "", needs=PRESENT)) == "Parameter 'x' is missing"
    assert refusal(PageNumber("x", "", needs=PRESENT), x="") == "Parameter 'x' is illegal: it should be a whole number"


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Number, " ", 'For input string: ""'),
        (Number, "2147483648", 'For input string: "2147483648"'),
        (MetadataText, "zz", "metadata format incorrect:zz"),
        (SelectorText, '{"type":"unknown"}', "not match any type of selector!"),
        (SelectorText, '{"type":"label","expression":"zz"}', "parse expression failed!"),
        (AddressText, "::1", "Param 'x' is illegal: an IPv6 address needs brackets"),
        (LoadFactor, "NaN", "Param 'x' is illegal, it should be a number from 0 to 10."),
        (LoadFactor, "zz", 'For input string: "zz"'),
    ],
)
def test_refusals_in_the_words_of_nacos_are_the_whole_answer(kind: type[Parameter[Any]], text: str, words: str) -> None:
    assert refusal(kind("x", ""), x=text) == words


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (PageNumber, "1.0", "it should be a whole number"),
        (Threshold, "zz", 'For input string: "zz"'),
        (Threshold, "Infinity", "it should be a finite number"),
        (Flag, "maybe", "it should be true or false"),
        (SelectorText, '{"type":"label","expression":[]}', "its 'expression' should be a text"),
        (SelectorText, "zz", "it should be a JSON object with a known 'type'"),
        (ListFilter, "{}", "it should be a JSON object with a 'type'"),
        (JsonObject, "[]", "it should be a JSON object"),
        (JsonObject, "{", "it should be a JSON object"),
    ],
)
def test_other_refusals_name_the_parameter(kind: type[Parameter[Any]], text: str, words: str) -> None:
    assert refusal(kind("x", ""), x=text) == f"Parameter 'x' is illegal: {words}"


def test_a_schema_words_the_refusals_of_its_field() -> None:
    field = JsonObject("x", "", error_messages={"invalid": "it should be an object of switches"})
    assert refusal(field, x="zz") == "Parameter 'x' is illegal: it should be an object of switches"
    bounded = Number("x", "", validate=validate.Range(0, 9, error="it should be a digit"))
    assert refusal(bounded, x="10") == "Parameter 'x' is illegal: it should be a digit"


def test_the_first_field_with_a_complaint_is_answered() -> None:
    schema = Schema.from_dict({"b": Number("b", "", 0), "a": Number("a", "", needs=FILLED)})
    with pytest.raises(InvalidParam, match='For input string: "x"'):
        load(schema, {"b": "x"})
    with pytest.raises(InvalidParam, match="'a' is required"):
        load(schema, {"b": "1"})


def test_parameters_are_loaded_with_the_full_name_of_the_service() -> None:
    found = load_parameters(ServiceSchema, Parameters({"dom": "a", "groupName": "G", "unknown": "c"}))
    assert found == {"namespace": "public", "service": "G@@a"}
    with pytest.raises(InvalidParam, match="Parameter 'serviceName' is missing"):
        load_parameters(ServiceSchema, Parameters({}))

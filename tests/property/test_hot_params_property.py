"""The parsers written by hand against schemas: the same command, or the same refusal, whatever a client sends."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.input.forms import parse_plain, parse_values
from app.http.input.params import (
    Parameters,
    hot_beat,
    hot_register,
    parse_beat,
    parse_deregister,
    parse_list,
    parse_register,
)
from app.naming.model.nacos_errors import InvalidParam
from tests.support import hot_schemas

FORM = "application/x-www-form-urlencoded"
Parser = Callable[[Parameters, bool], Any]
Oracle = Callable[[Mapping[str, str], bool], Any]

HOT: dict[str, tuple[Parser, Oracle]] = {
    "register": (parse_register, hot_schemas.register),
    "deregister": (parse_deregister, hot_schemas.deregister),
    "beat": (lambda parameters, _: parse_beat(parameters), hot_schemas.beat),
    "list": (lambda parameters, _: parse_list(parameters), hot_schemas.list_query),
}

# --- what clients send --------------------------------------------------------------------------------

FLAGS = ["true", "TRUE", "True", " tRuE ", "false", "yes", "on", "y", "t", "T", "1", "0", "", " ", "null", "\ufb06"]
LONG = "x" * 600
USUAL: dict[str, list[str]] = {
    "serviceName": ["a", "orders", "G@@a", "com.acme:orders_v2"],
    "groupName": ["DEFAULT_GROUP", "g"],
    "namespaceId": ["public", "ns-1", "6f1c9d2e"],
    "ip": ["10.0.0.1", "255.255.255.255", "0.0.0.0"],
    "port": ["80", "8080", "0", "65535"],
    "clusterName": ["DEFAULT", "c1"],
    "weight": ["1", "1.0", "2.5", "0", "100"],
    "metadata": ["", "{}", '{"version":"1.0"}', "a=1,b=2", '{"preserved.register.source":"X"}', '{"k":"v w"}'],
    "healthy": ["true", "false"],
    "enabled": ["true", "false"],
    "enable": ["true"],
    "ephemeral": ["true", "false"],
    "healthyOnly": ["true", "false"],
    "isCheck": ["false"],
    "clusters": ["", "DEFAULT", "c1,c2"],
    "udpPort": ["0", "54321"],
    "clientIP": ["10.0.0.9"],
    "app": ["unknown", "my-app"],
}
# fmt: off
ODD: dict[str, list[str]] = {
    "serviceName": ["", " ", "\t", "@@x", "G@@", "@@", "@@@@", "a@@b@@c", " a ", "é", "a#b/c", "a b", LONG, "名"],
    "dom": ["", " ", "old", "G@@old", " old "],
    "groupName": ["", " ", "G@@", "é", LONG, "g "],
    "namespaceId": ["", " ", " ns ", "a#", "a##b", "\x7f", "a\u2028b", "\x85", "a\nb", LONG, "é"],
    "ip": [
        "", " ", " 10.0.0.1 ", "10.0.0.1\n", "256.1.1.1", "1.2.3", "1234", "01.2.3.4", "001.2.3.4", "10.0.0.001",
        "1..2", "1.2.3.4.5", "host-1", "a b", "[::1]", "::1", "é", "\x00", "\u0663.1.1.1", "10.0.0.1é", LONG,
        "4294967295", "4294967296",
    ],
    "port": [
        "", " ", " 80 ", "+80", "-0", "-1", "0080", "00080", "000080", "65536", "99999", "100000", "2147483647",
        "2147483648", "-2147483649", "80.0", "1e2", "0x50", "\uff18\uff10", "\xb2", "1_0", "http", "0" * 40,
    ],
    "clusterName": ["", " ", " c1 ", "c 1", "c_1", "é", LONG],
    "cluster": ["", " ", "c2", " c2 "],
    "weight": [
        "", " ", " 1 ", "-0", "-0.0", "-1", "1e3", "1E+3", "1f", "1D", ".5", "5.", ".", "1e400", "-1e400", "1e-400",
        "NaN", "nan", "Infinity", "-Infinity", "inf", "0x1p3", "1_0", "1e0000000001", "1e00000000001", "\uff11",
        "10001", "1" * 600, "1." + "0" * 509, "1." + "0" * 510, "1." + "0" * 511,
    ],
    "healthy": FLAGS, "enabled": FLAGS, "enable": FLAGS, "ephemeral": FLAGS, "healthyOnly": FLAGS, "isCheck": FLAGS,
    "metadata": [
        " ", "null", " null ", "[]", "1", '"x"', "NaN", "{", '{"a":{"b":1}}', '{"a":[1]}',
        '{"a":1.50,"b":true,"c":null}', '{"a":1,"a":2}', '{"a":12345678901234567890123}', '{"a":-0}', '{"a":1e5}',
        '{"a":NaN}', '{"a":"\\ud800"}', '{"a":"\\ud83d\\ude00"}', '{"é":"名"}', '{"a": "b c"}',
        "a", "a=", "=1", "a=1=2", ",", "a=1,,", ",a=1", "a=1,a=2",
        f'{{"a":"{LONG}"}}', f'{{"a":"{"y" * 65_530}"}}', f'{{"a":"{"y" * 65_536}"}}', '{"a":' * 300, "a=é", "{}}",
    ],
    "clusters": [" ", ",", "c1, c2", "é"],
    "env": ["", " x ", "é"],
    "clientIP": ["", " 1.1.1.1 "],
    "udpPort": ["", " ", "-1", "65536", "2147483648", "x", "+1"],
    "app": ["", " ", " x ", "y" * 512, "y" * 513, "a\x7fb", "é"],
    "encoding": ["UTF-8", "utf-8", "", "nope", *hot_schemas.CHARSETS],
    "nofix": ["1"],
    "beat": [
        "", " ", "{}", "null", "[]", "1", "{", '"x"', "{}x", ' {"ip":"10.0.0.1"} ', '{"ip":"10.0.0.1","port":NaN}',
        '{"a":' * 300, '{"ip":"\\ud800"}', '{"x":"\\ud800","ip":"10.0.0.1"}', "\ufeff{}", '{"ip":"10.0.0.1",}',
    ],
}
# fmt: on
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def value_of(name: str) -> st.SearchStrategy[str]:
    usual, odd = USUAL.get(name, [""]), ODD.get(name, [""])
    if name == "beat":
        return st.one_of(beat_texts, beat_texts, st.sampled_from(odd))
    return st.one_of(st.sampled_from(usual), st.sampled_from(usual), st.sampled_from(odd), texts)


usual_weights: st.SearchStrategy[Any] = st.sampled_from([1.0, 2.5, 100.0, 0.0, -0.0, 1, 10])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-5, 70_000), st.floats(), usual_weights, texts)
BEAT_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "ip": st.sampled_from([*USUAL["ip"], *USUAL["ip"], *ODD["ip"]]),
    "port": st.one_of(st.integers(0, 65_535), st.integers(-2, 70_000), st.sampled_from(ODD["port"])),
    "cluster": st.sampled_from([*USUAL["clusterName"], *ODD["clusterName"], "名"]),
    "weight": st.one_of(usual_weights, st.floats(), st.integers(), st.sampled_from(ODD["weight"])),
    "metadata": st.one_of(
        st.dictionaries(texts, texts, max_size=2),
        st.dictionaries(texts, scalars, max_size=2),
        st.dictionaries(texts, st.lists(scalars, max_size=1), max_size=1),
        st.just({"k": "y" * 65_536}),
    ),
    "ephemeral": st.one_of(st.booleans(), st.sampled_from(["true", "False", "", "no", " true"])),
    "serviceName": texts,
    "scheduled": st.booleans(),
    "period": st.integers(),
    "stopped": scalars,
}
usual_beats = st.fixed_dictionaries(
    {
        "ip": st.sampled_from(USUAL["ip"]),
        "port": st.integers(0, 65_535),
        "cluster": st.sampled_from(USUAL["clusterName"]),
        "weight": st.sampled_from([1.0, 2.5, 100.0, 1]),
    },
    optional={
        "metadata": st.dictionaries(st.sampled_from(["version", "zone"]), st.sampled_from(["1", "a b", "é"])),
        "ephemeral": st.booleans(),
        "scheduled": st.just(False),
        "serviceName": st.just("G@@a"),
    },
)


@st.composite
def odd_beats(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(sorted(BEAT_FIELDS)), unique=True))
    return {name: draw(st.one_of(BEAT_FIELDS[name], BEAT_FIELDS[name], scalars)) for name in names}


@st.composite
def numbers_as_written(draw: st.DrawFn) -> str:
    """A beat whose numbers no encoder would write so."""
    digits = r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,12}|\.0{500,515})?([eE][+-]?0{0,12}[0-9]{1,3})?"
    number = draw(st.from_regex(digits, fullmatch=True))
    field = draw(st.sampled_from(["weight", "port", "ignored"]))
    fields = {"ip": '"10.0.0.1"', "port": "80", "cluster": '"c"', "weight": "1.0"} | {field: number}
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


beat_texts = st.one_of(
    st.tuples(
        st.one_of(usual_beats, usual_beats, odd_beats()),
        st.sampled_from([(",", ":"), (", ", ": "), None]),
        st.booleans(),
    ).map(lambda one: json.dumps(one[0], separators=one[1], ensure_ascii=one[2])),
    numbers_as_written(),
)

# --- as bytes -----------------------------------------------------------------------------------------


def quote_usual(text: str) -> str:
    """The escapes of browsers: JSON's own characters, in upper case."""
    return quote(text, safe="!$'()*,;:@/?[]|^`\\<>~.-_")


def quote_lower(text: str) -> str:
    quoted = ("".join(f"%{byte:02x}" for byte in one.encode()) for one in text)
    return "".join(
        one if one.isascii() and one.isalnum() else all_of_it for one, all_of_it in zip(text, quoted, strict=True)
    )


def quote_all(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def as_it_is(text: str) -> str:
    """Without escapes, as far as the pair stays one."""
    return text.replace("%", "%25").replace("&", "%26").replace("+", "%2B")


ENCODERS = [quote, quote_plus, quote_usual, quote_lower, quote_all, as_it_is]
NOISE = ["", "&", "x", "=y", "x=", "x=1=2", "%", "x=%zz", "x=%C3", "%78=1", "+=1", "=", "a%3Db=1"]
raw_noise = st.one_of(st.sampled_from([text.encode() for text in NOISE]), st.binary(max_size=8))


def raw(values: Mapping[str, str], encode: Callable[[str], str]) -> list[bytes]:
    return [f"{name}={encode(value)}".encode() for name, value in values.items()]


@st.composite
def calls(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Query and form of a call: usual for the most part, as odd ones alone are refused at the first odd value."""
    names = ["serviceName", "ip", "port", *draw(st.lists(st.sampled_from(sorted(USUAL)), unique=True))]
    values = {name: draw(st.sampled_from(USUAL[name])) for name in names}
    if draw(st.booleans()):
        values["beat"] = draw(beat_texts)
    for name in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=2)):
        values[name] = draw(value_of(name))
    for name in draw(st.lists(st.sampled_from(["serviceName", "ip", "port"]), max_size=1)):
        values.pop(name)
    pairs = draw(st.permutations(raw(values, draw(st.sampled_from(ENCODERS)))))
    for noise in draw(st.lists(raw_noise, max_size=1)):
        pairs.insert(draw(st.integers(0, len(pairs))), noise)
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(USUAL)))
        pairs.append(f"{name}={draw(st.sampled_from(USUAL[name]))}".encode())  # it may be there already
    cut = draw(st.sampled_from([0, len(pairs), len(pairs), len(pairs) // 2]))
    return b"&".join(pairs[:cut]), b"&".join(pairs[cut:])


def outcome(make: Callable[[], Any]) -> str:
    """The command as a text, as a number that is none equals no other; or the words of the refusal."""
    try:
        return repr(make())
    except InvalidParam as refusal:
        return f"{refusal.status} {refusal.text}"


def assert_agreement(name: str, query: bytes, form: bytes, ephemeral: bool, kind: str = FORM) -> None:
    parse, oracle = HOT[name]
    method = {"register": "POST", "deregister": "DELETE", "beat": "PUT", "list": "GET"}[name]
    read = hot_schemas.values_of(query, b"" if name == "list" else form)
    expected = outcome(lambda: oracle(read, ephemeral))
    assert outcome(lambda: parse(Parameters.of(query, kind, form, method), ephemeral)) == expected


@pytest.mark.parametrize("name", HOT)
@given(call=calls(), ephemeral=st.booleans(), kind=st.sampled_from([FORM, FORM.upper(), f"{FORM};charset=GBK"]))
def test_parser_and_schema_agree(name: str, call: tuple[bytes, bytes], ephemeral: bool, kind: str) -> None:
    assert_agreement(name, *call, ephemeral, kind)


@pytest.mark.parametrize("name", HOT)
@given(call=calls(), ephemeral=st.booleans())
def test_the_hot_path_and_the_general_one_agree(name: str, call: tuple[bytes, bytes], ephemeral: bool) -> None:
    query, form = call
    parse, _ = HOT[name]
    quick = Parameters.of(query, FORM, form, "POST")
    general = Parameters(parse_values(query, FORM, form, "POST"))
    assert general.plain is None
    assert dict(quick.items()) == dict(general.items())
    assert outcome(lambda: parse(quick, ephemeral)) == outcome(lambda: parse(general, ephemeral))


# --- one odd thing at a time --------------------------------------------------------------------------

OTHER_VALUES = b"serviceName=z&ip=10.7.7.7&port=77&weight=7&clusterName=c7"
PLAIN_CALL = {"serviceName": "a", "ip": "10.0.0.1", "port": "80"}
BEAT = {"ip": "10.0.0.1", "port": 80, "cluster": "DEFAULT", "weight": 1.0, "serviceName": "g@@a", "scheduled": False}
COMPACT = (",", ":")
# fmt: off
ODD_NUMBERS = [
    "0", "-0", "-1", "1", "80", "65535", "65536", "1.0", "80.0", "-1.0", "-0.0", "0.0", "1e2", "1E-2", "1e999",
    "1e-999", "1.0e0000000001", "1.0e000000001", "1." + "0" * 511, "9007199254740993", "18446744073709551616",
    "1" * 400, "01", "1.", "NaN", "Infinity",
]
ODD_TEXTS = [
    "", " ", "c1", " c1 ", "c 1", "é", "名", "c-1", "\x00", "80", " 80 ", "8_0", "1.5", "true", "TRUE", "false", "yes",
    "256.1.1.1", "1.2.3", "01.2.3.4", "host", " 10.0.0.1", "10.0.0.1\n", "::1", "x" * 129, LONG,
]
ODD_JSON = [
    "null", "true", "false", "[]", "[1]", "{}", '{"a":"b"}', '{"a":1}', '{"a":1.50,"b":true}', '{"a":null}', '{"a":{}}',
    '{"a":"\\ud800"}', '{"":""}', '{"a":"b","a":"c"}', '"\\ud800"', '"\\u0031"', "", "x", '"', "1,1",
]
# fmt: on


@pytest.mark.parametrize("name", HOT)
@pytest.mark.parametrize("encode", ENCODERS)
def test_one_odd_value(name: str, encode: Callable[[str], str]) -> None:
    for odd_name in sorted({*USUAL, *ODD}):
        for value in USUAL.get(odd_name, []) + ODD.get(odd_name, []):
            pairs = raw(PLAIN_CALL | {odd_name: value}, encode)
            for ephemeral in (True, False):
                assert_agreement(name, b"&".join(pairs), b"", ephemeral)
                assert_agreement(name, b"", b"&".join(pairs), ephemeral)
            assert_agreement(name, b"&".join(pairs), OTHER_VALUES, True)
            assert_agreement(name, OTHER_VALUES, b"&".join(pairs), True)
            # With another of its names beside it.
            for other in ("clusterName=c9", "cluster=c8", "enabled=false", "enable=false", "dom=d"):
                assert_agreement(name, b"&".join([*pairs, other.encode()]), b"", True)


@pytest.mark.parametrize("field", sorted({*BEAT, "metadata", "ephemeral", "other"}))
def test_one_odd_field_of_a_beat(field: str) -> None:
    texts = [json.dumps(text, ensure_ascii=ascii_only) for text in ODD_TEXTS for ascii_only in (True, False)]
    for written in [*ODD_NUMBERS, *texts, *ODD_JSON]:
        told = {name: json.dumps(value) for name, value in BEAT.items()} | {field: written}
        beat = "{" + ",".join(f'"{name}":{value}' for name, value in told.items()) + "}"
        for values in ({}, {"ip": "10.9.9.9", "port": "90", "clusterName": "c9"}, {"port": "x"}, {"namespaceId": "n"}):
            pairs = raw({"serviceName": "a", "beat": beat} | values, quote)
            assert_agreement("beat", b"&".join(pairs), b"", True)
        assert_agreement("beat", b"serviceName=a", b"beat=" + quote_all(beat).encode(), True)


@pytest.mark.parametrize("field", sorted(BEAT))
def test_a_beat_without_a_field(field: str) -> None:
    beat = json.dumps({name: value for name, value in BEAT.items() if name != field})
    for values in ({}, {"ip": "10.9.9.9", "port": "90", "clusterName": "c9"}):
        assert_agreement("beat", b"&".join(raw({"serviceName": "a", "beat": beat} | values, quote)), b"", True)


# --- the hot parser is used ---------------------------------------------------------------------------


@pytest.mark.parametrize("encode", [quote, quote_plus, quote_usual, quote_lower])
@pytest.mark.parametrize("as_form", [True, False])
@pytest.mark.parametrize(
    "beat", [BEAT, BEAT | {"weight": 10}, BEAT | {"metadata": {"version": "1.0"}, "ephemeral": True}], ids=str
)
def test_what_sdks_send_is_read_by_the_hot_parser(
    encode: Callable[[str], str], as_form: bool, beat: dict[str, Any]
) -> None:
    def read(values: dict[str, str]) -> Mapping[str, str]:
        raw = "&".join(f"{name}={encode(value)}" for name, value in values.items()).encode()
        plain = (Parameters.of(b"", FORM, raw, "PUT") if as_form else Parameters.of(raw, "", b"", "PUT")).plain
        assert plain == values
        return plain

    names = {"namespaceId": "public", "serviceName": "DEFAULT_GROUP@@com.acme.orders", "groupName": "DEFAULT_GROUP"}
    registration = names | {
        "ip": "10.0.0.1",
        "port": "8080",
        "clusterName": "DEFAULT",
        "weight": "1.0",
        "enable": "true",
        "healthy": "true",
        "ephemeral": "true",
        "metadata": '{"preserved.register.source":"SPRING_CLOUD","version":"1.0"}',
        "app": "unknown",
    }
    assert hot_register(read(registration), True) is not None
    assert hot_beat(read(names | {"beat": json.dumps(beat, separators=COMPACT)})) is not None


def test_long_texts_are_not_kept() -> None:
    """What anybody may send would else stay in memory."""
    for name in ("serviceName", "groupName", "weight", "metadata", "app"):
        values = {"serviceName": "a", "ip": "10.0.0.1", "port": "80"} | {name: "1" * 600}
        assert hot_register(values, True) is None
    assert hot_beat({"serviceName": "a" * 600, "beat": json.dumps(BEAT)}) is None
    assert hot_beat({"serviceName": "a", "beat": json.dumps(BEAT | {"metadata": {"x": "y" * 600}})}) is None


ESCAPED = [f"%{code}" for code in ("41", "00", "01", "0", "", "3D", "3d", "26", "2B", "25", "20", "7F", "C3%A9")]
PIECES = st.sampled_from([*ESCAPED, *'ab=&+ _2F"\n\r\0\x01\x7f\xc3'])


@given(st.lists(PIECES, max_size=10))
def test_a_plain_query_is_read_as_the_general_parser_reads_it(pieces: list[str]) -> None:
    raw = "".join(["x=", *pieces]).encode("latin-1")
    plain = parse_plain(raw)
    if plain is not None:
        assert list(plain.items()) == list(parse_values(raw, "", b"", "GET").items())
        assert all(
            not value or (value.isascii() and value.isprintable() and " " not in value) for value in plain.values()
        )


@pytest.mark.parametrize(
    "raw", [b"b%00%01b=", b"a=x%01b=c", b"a%00x&b=c", b"%=1", b"a=%", b"a=%4", b"a=%\n", b"a=1&a=2"]
)
def test_a_query_that_only_looks_plain_is_left_to_the_general_parser(raw: bytes) -> None:
    assert parse_plain(raw) is None

"""Parameters and the commands made of them."""

from urllib.parse import quote, urlencode

import pytest

from app.http.input.forms import PARAMETERS_MAX, PARTS_MAX, Parameters
from app.http.input.json_text import parse_metadata
from app.http.input.params import (
    parse_beat,
    parse_deregister,
    parse_detail,
    parse_list,
    parse_patch,
    parse_register,
    service_of,
)
from app.http.input.values import int_or_zero, java_double, java_int
from app.naming.model.keys import JSON_VALUES_MAX, METADATA_CHARS_MAX, check_ip
from app.naming.model.nacos_errors import InvalidParam

FORM = "application/x-www-form-urlencoded;charset=UTF-8"


def parameters(query: str = "", form: bytes = b"", content_type: str = FORM, method: str = "POST") -> Parameters:
    return Parameters.of(query.encode(), content_type, form, method)


def of(**values: str) -> Parameters:
    return Parameters({"serviceName": "a", "ip": "10.0.0.1", "port": "80"} | values)


# --- where values come from -----------------------------------------------------------------------


def test_query_comes_before_form_and_the_first_value_counts() -> None:
    found = parameters("a=1&a=2&b=3", b"b=4&c=5")
    assert [found.get(name) for name in "abcd"] == ["1", "3", "5", None]


def test_empty_pairs_and_names_are_skipped() -> None:
    assert parameters("&&a=1&=x&b&").items() == [("a", "1"), ("b", "")]


def test_the_go_sdk_sends_forms_that_are_not_escaped() -> None:
    form = 'metadata={"k":"v 2"}&serviceName=DEFAULT_GROUP@@x&ip=10.0.0.1&port=80&app=杭州'.encode()
    command = parse_register(parameters(form=form, method="PUT"))
    assert (command.metadata, command.service, command.app) == ({"k": "v 2"}, "DEFAULT_GROUP@@x", "杭州")


@pytest.mark.parametrize(
    ("raw", "value"),
    [("a+b", "a b"), ("a%20b", "a b"), ("a%2Bb", "a+b"), ("%zz", "%zz"), ("50%", "50%"), ("caf%E9", "caf�")],
)
def test_escapes(raw: str, value: str) -> None:
    assert parameters(f"x={raw}").get("x") == value


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert parameters(form=b"x=\xff\xed\xa0\x80").get("x") == "�" * 4


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json"])
def test_a_body_of_another_type_is_no_form(content_type: str) -> None:
    assert parameters(form=b"x=1", content_type=content_type).get("x") is None


def test_a_form_on_get_is_not_read() -> None:
    assert parameters(form=b"x=1", method="GET").get("x") is None


def test_a_declared_charset_is_not_believed() -> None:
    found = parameters(form=b"x=%E6%9D%AD", content_type="application/x-www-form-urlencoded;charset=ISO-8859-1")
    assert found.get("x") == "杭"


def test_multipart_form() -> None:
    body = b'--XX\r\nContent-Disposition: form-data; name="ip"\r\n\r\n10.0.0.1\r\n--XX--\r\n'
    assert parameters(form=body, content_type="multipart/form-data; boundary=XX").get("ip") == "10.0.0.1"


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=YY"])
def test_a_broken_multipart_form_is_refused(content_type: str) -> None:
    with pytest.raises(InvalidParam, match="multipart"):
        parameters(form=b"--XX nothing of the kind", content_type=content_type)


def _part(name: str, head: str = "", value: str = "v") -> bytes:
    return f'--XX\r\nContent-Disposition: form-data; name="{name}"{head}\r\n\r\n{value}\r\n'.encode()


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"".join(_part(str(number)) for number in range(PARTS_MAX + 1)), "", "128 parts"),
        (_part("a", "".join(f'; b{number}="\\\\"' for number in range(1_000))), "", "part headers"),
        (b"--XX\r\n" + b"X: y\r\n" * 2_000 + b"\r\nv\r\n", "", "part headers"),
        (b"--XX\r\n" + b"X: y\n" * 2_000, "", "part headers"),
        (b"a" * 9_000 + _part("a"), "", "begin"),
        (b"\r\n" * 9_000 + _part("a"), "", "begin"),
        (_part("a"), "; x=y" * 60, "Content-Type"),
    ],
    ids=["parts", "attributes", "headers", "no end", "before", "blank lines", "type"],
)
def test_a_multipart_form_that_takes_long_to_read_is_refused(body: bytes, content_type: str, words: str) -> None:
    """They held the interpreter for 6 to 230 ms."""
    with pytest.raises(InvalidParam, match=words):
        parameters(form=body + b"--XX--\r\n", content_type="multipart/form-data" + content_type + "; boundary=XX")


def test_a_multipart_form_of_many_parts_is_read() -> None:
    value = "x\r\n\r\n--X;=" * 5_000
    body = b"".join(_part(f"p{number}", "\r\nContent-Type: text/plain") for number in range(60)) + _part("b", "", value)
    found = parameters(form=b"\r\n" + body + b"--XX--\r\n", content_type="multipart/form-data; boundary=XX")
    assert (found.get("p59"), found.get("b")) == ("v", value)


def test_too_many_parameters_are_refused() -> None:
    with pytest.raises(InvalidParam, match=str(PARAMETERS_MAX)):
        parameters("&".join(f"p{number}=1" for number in range(PARAMETERS_MAX + 1)))


# --- reading values -------------------------------------------------------------------------------


def test_required_is_trimmed_and_a_blank_is_a_value() -> None:
    found = parameters("a=+x+&b=++&c=")
    assert (found.required("a"), found.required("b")) == ("x", "")
    for name in ("c", "d"):
        with pytest.raises(InvalidParam, match=f"Param '{name}' is required"):
            found.required(name)


def test_optional_takes_the_default_for_blanks() -> None:
    found = parameters("a=+x+&b=++&c=")
    assert [found.optional(name, "D") for name in "abcd"] == ["x", "D", "D", "D"]


def test_encoding_reads_utf8_bytes_in_another_charset() -> None:
    # The client wrote GBK bytes, the container read them as UTF-8; only what survived that can be restored.
    query = urlencode({"app": "é", "encoding": "GBK"})
    assert parameters(query).get("app") == "é".encode().decode("gbk")


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-8", "no-such", "unicode_escape", "rot13", "x" * 100, "\0", ""])
def test_other_encodings_change_nothing(encoding: str) -> None:
    assert parameters(urlencode({"app": "\\ud800 é", "encoding": encoding})).get("app") == "\\ud800 é"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"serviceName": "a"}, "DEFAULT_GROUP@@a"),
        ({"serviceName": "a", "groupName": " "}, "DEFAULT_GROUP@@a"),
        ({"serviceName": " a ", "groupName": "G"}, "G@@a"),
        ({"serviceName": "G1@@a", "groupName": "G2"}, "G1@@a"),
        ({"serviceName": "@@a"}, "@@a"),
        ({"dom": "a", "groupName": "G"}, "G@@a"),
        ({"serviceName": " ", "dom": "a"}, "DEFAULT_GROUP@@a"),
        ({"serviceName": ""}, ""),
        ({"serviceName": " "}, " "),
        ({}, None),
    ],
)
def test_the_group_is_put_before_the_service_name(values: dict[str, str], name: str | None) -> None:
    assert Parameters(values).service_name() == name


@pytest.mark.parametrize("name", [" ", "@@", "G@@"])
def test_a_name_without_its_parts_is_refused(name: str) -> None:
    with pytest.raises(InvalidParam, match="groupName@@serviceName"):
        service_of(Parameters({"serviceName": name}))


@pytest.mark.parametrize("text", ["", " ", "80.5", "0x50", "1_0", "٣", "2147483648", "-2147483649", "9" * 5_000])
def test_what_is_no_java_int(text: str) -> None:
    with pytest.raises(InvalidParam, match="For input string: "):
        java_int(text)
    assert int_or_zero(text) == 0


def test_java_ints() -> None:
    assert [java_int(text) for text in ("+8", "-1", "007", "2147483647", "-2147483648")] == [
        8,
        -1,
        7,
        2**31 - 1,
        -(2**31),
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), (" 7 ", 7.0), ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0), ("2.5f", 2.5), ("1D", 1.0)],
)
def test_java_doubles(text: str, number: float) -> None:
    assert java_double(text) == number


def test_minus_zero_is_zero() -> None:
    assert str(java_double("-0")) == "0.0"


@pytest.mark.parametrize("text", ["", "abc", "1_0", "nan", "inf", "1e", "--1", "1" * 600])
def test_what_is_no_java_double(text: str) -> None:
    with pytest.raises(InvalidParam, match="For input string: "):
        java_double(text)


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("", {}),
        (
            '{"n":1,"f":1.50,"t":true,"s":"x","":"e","z":null}',
            {"n": "1", "f": "1.50", "t": "true", "s": "x", "": "e", "z": None},
        ),
        ("null", None),
        ("zone=a", {"zone": "a"}),
        ("a= 1 , b=2", {"a": " 1 ", " b": "2"}),
        ("a=1,", {"a": "1"}),
        ("a=1=", {"a": "1"}),
        ("=1", {"": "1"}),
        (",", {}),
        ('{"a":"😀 杭"}', {"a": "😀 杭"}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
    ],
)
def test_metadata(text: str, metadata: dict[str, str | None] | None) -> None:
    assert parse_metadata(text) == metadata


@pytest.mark.parametrize(
    "text",
    ["abc", "a=1,b", '{"a":', "a=b=c", '{"a":{"b":1}}', "k=", "[1]", '{"a":"\\ud800"}', "[" * 10_000, '{"a":NaN}'],
)
def test_what_is_no_metadata(text: str) -> None:
    with pytest.raises(InvalidParam) as refusal:
        parse_metadata(text)
    assert refusal.value.text == f"metadata format incorrect:{text[:1000]}"


def test_too_much_metadata() -> None:
    text = "v" * (METADATA_CHARS_MAX - 1)
    assert parse_metadata(f"k={text}") == {"k": text}
    with pytest.raises(InvalidParam, match="metadata"):
        parse_metadata(f"kk={text}")


@pytest.mark.parametrize("ip", ["1.2.3.4", "1.2.3", "1234", "node-1.example.org", "[::1]", "::1", "010.0.0.1"])
def test_addresses_that_are_taken(ip: str) -> None:
    check_ip(ip)


@pytest.mark.parametrize("ip", ["1..2", "300.1.1.1", "1.2.3.4.5", "1.2.3.", "1.2.65536", "4294967296"])
def test_numbers_that_are_no_address(ip: str) -> None:
    with pytest.raises(InvalidParam) as refusal:
        check_ip(ip)
    assert refusal.value.text == f'The IPv4 address("{ip}") is incorrect.'


@pytest.mark.parametrize("ip", ["", "a" * 129, "a b", "a\nb", "a\0", "a\u2028b"])
def test_texts_that_are_no_address(ip: str) -> None:
    with pytest.raises(InvalidParam, match="'ip'"):
        check_ip(ip)


# --- commands -------------------------------------------------------------------------------------


def test_register_with_defaults() -> None:
    command = parse_register(of())
    assert (command.service, command.namespace, command.cluster) == ("DEFAULT_GROUP@@a", "public", "DEFAULT")
    assert (command.weight, command.healthy, command.enabled, command.ephemeral) == (1.0, True, True, True)
    assert (command.metadata, command.app) == ({}, "DEFAULT")


def test_enable_is_the_older_name_of_enabled() -> None:
    assert not parse_register(of(enabled=" ", enable="false")).enabled
    assert parse_register(of(enabled="true", enable="false")).enabled


def test_cluster_is_the_older_name_of_cluster_name() -> None:
    assert parse_register(of(clusterName=" ", cluster="c2")).cluster == "c2"
    assert parse_detail(of(cluster="c2")).cluster == "DEFAULT"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"serviceName": ""}, "Param 'serviceName' is required."),
        ({"ip": ""}, "Param 'ip' is required."),
        ({"ip": "  "}, "Param 'ip' is required."),
        ({"port": ""}, "Param 'port' is required."),
        ({"port": "  "}, 'For input string: ""'),
        ({"port": "65536"}, "Param 'port' is illegal, it should be a number from 0 to 65535."),
        ({"port": "-1"}, "Param 'port' is illegal, it should be a number from 0 to 65535."),
        ({"weight": "abc"}, 'For input string: "abc"'),
        ({"metadata": "abc"}, "metadata format incorrect:abc"),
        ({"app": "a" * 513}, "Param 'app' is illegal, the param length should not exceed 512."),
        ({"namespaceId": "a\nb"}, "Param 'namespaceId' is illegal, illegal characters should not appear in the param."),
    ],
)
def test_register_refuses(values: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidParam) as refusal:
        parse_register(of(**values))
    assert refusal.value.text == text


def test_deregister_looks_at_the_address_first_and_not_at_metadata() -> None:
    assert parse_deregister(of(metadata="nonsense")).ip == "10.0.0.1"
    for values, text in (({"ip": "", "serviceName": ""}, "'ip'"), ({"weight": "abc"}, "abc")):
        with pytest.raises(InvalidParam, match=text):
            parse_deregister(of(**values))


def test_patch_leaves_alone_what_is_blank() -> None:
    command = parse_patch(of(weight=" ", app=""))
    assert (command.metadata, command.app, command.weight, command.healthy, command.enabled) == (None,) * 5
    command = parse_patch(of(weight="3", app="z", healthy="no", enabled="yes", metadata="a=1"))
    assert (command.metadata, command.app, command.weight, command.healthy, command.enabled) == (
        {"a": "1"}, "z", 3.0, False, True,
    )  # fmt: skip


def test_list_query() -> None:
    query = parse_list(Parameters({"serviceName": "a", "clusters": "c1, c2", "healthyOnly": "yes", "isCheck": "TRUE"}))
    assert (query.clusters, query.healthy_only, query.is_check) == ("c1, c2", False, True)
    with pytest.raises(InvalidParam, match="abc"):
        parse_list(Parameters({"serviceName": "a", "udpPort": "abc"}))


def test_a_beat_without_an_object_is_light() -> None:
    command = parse_beat(of(beat=" ", clusterName="c1"))
    assert (command.full, command.ip, command.port, command.cluster) == (False, "10.0.0.1", 80, "c1")


def test_a_beat_without_an_address_is_taken() -> None:
    assert parse_beat(Parameters({"serviceName": "a"})).port == 0


def test_the_fields_of_a_full_beat_win() -> None:
    beat = '{"ip":"10.0.0.2","port":"81","cluster":"c2","weight":2.5,"metadata":{"n":1},"scheduled":true,"period":5000}'
    command = parse_beat(of(beat=beat, clusterName="c1"))
    assert (command.full, command.ip, command.port, command.cluster) == (True, "10.0.0.2", 81, "c2")
    assert (command.weight, command.metadata) == (2.5, {"n": "1"})


def test_a_full_beat_without_weight_and_metadata_has_none() -> None:
    command = parse_beat(of(beat='{"ip":"10.0.0.2","port":81,"cluster":null}', clusterName="c1"))
    assert (command.weight, command.metadata, command.cluster) == (0.0, None, "c1")


@pytest.mark.parametrize(
    ("beat", "field"),
    [
        ("{not json", "beat"),
        ("[]", "beat"),
        ("null", "beat"),
        ('{"ip":{}}', "ip"),
        ('{"ip":"10.0.0.1","port":"x"}', "port"),
        ('{"ip":"10.0.0.1","port":[1]}', "port"),
        ('{"ip":"10.0.0.1","port":70000}', "port"),
        ('{"ip":"10.0.0.1","port":80,"weight":"heavy"}', "weight"),
        ('{"ip":"10.0.0.1","port":80,"weight":true}', "weight"),
        ('{"ip":"10.0.0.1","port":80,"metadata":"x"}', "metadata"),
        ('{"ip":"10.0.0.1","port":80,"metadata":{"a":{}}}', "metadata"),
        ('{"ip":"10.0.0.1","port":80,"ephemeral":"maybe"}', "ephemeral"),
        ('{"ip":"10.0.0.1","port":80,"cluster":"\\udc00"}', "beat"),
    ],
)
def test_a_beat_with_a_wrong_field_is_refused_by_its_name(beat: str, field: str) -> None:
    with pytest.raises(InvalidParam, match=f"'{field}'"):
        parse_beat(of(beat=beat))


def test_a_value_that_was_escaped_arrives() -> None:
    name = "a&b=c+d%e/é 😀"
    assert parameters(f"x={quote(name, safe='')}").get("x") == name


@pytest.mark.parametrize("name", ["metadata", "beat"])
@pytest.mark.parametrize(
    "crowd", ["[" + "[]," * 9_000 + "1]", "{" + '"":0,' * 17_000 + "}", "a=b," * 17_000, "[" * 17_000]
)
def test_a_crowd_of_values_is_refused_by_its_name_and_not_parsed(
    name: str, crowd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.http.input.json_text._decode", None)
    parse = parse_beat if name == "beat" else parse_register
    raw = urlencode({"serviceName": "a", "ip": "10.0.0.1", "port": "80", name: crowd}).encode()
    with pytest.raises(InvalidParam) as refusal:
        parse(Parameters.of(raw, "", b"", "POST"))
    assert refusal.value.text == f"Param '{name}' is illegal, it should have at most {JSON_VALUES_MAX} values."

"""Namespaces that people would take for one another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.similar_names import SimilarNames, check_new_namespace, skeleton

ALIKE = [
    "Public",
    "PUBLIC",
    "\uff50\uff55\uff42\uff4c\uff49\uff43",  # full width
    "\U0001d429ublic",  # a mathematical letter
    "publi\u0441",  # Cyrillic es
    "\u0440ublic",  # Cyrillic er
    "\u03c1ublic",  # Greek rho
    "p\u03c5blic",  # Greek upsilon
    "PUBL\u0406C",  # Cyrillic capital I
    "publ\u0131c",  # dotless i
    "p\u00fablic",  # accents
    "pu\u0301blic",
    "public\u00a0",  # blanks
    "public ",
    "pub lic",
    "\u3000public",
    "pub\u200blic",  # no width
    "pub\u00adlic",
    "\u202epublic",
    "\ufeffpublic",
    *("public\u115f", "public\u3164", "pub\uffa0lic", "public\u2800", "public\u17b4"),  # letters that show nothing
    *("public\ufe0f", "p\u180bublic", "public\U000e0100"),  # variants
    *("publi\u03f2", "PUBLI\u03f9", "\u2374ublic", "pu\u0184lic", "pu\u044clic", "publi\u1d04"),
    *("\u146dublic", "\u13e2UBLIC", "\ua4d1\ua4f4\ua4d0\ua4e1\ua4f2\ua4da", "pub\u01c0ic", "p\u1d1cblic"),
    "pubIic",  # a capital I, the digit one
    "pub1ic",
    "pub|ic",
]


def names(*of: str) -> SimilarNames:
    found = SimilarNames()
    for name in of:
        found.add(name)
    return found


@pytest.mark.parametrize("name", ALIKE, ids=ascii)
def test_what_looks_like_the_public_namespace_is_refused(name: str) -> None:
    with pytest.raises(InvalidParam, match=r"Param 'namespaceId' is illegal: .+ looks like the namespace 'public'\."):
        check_new_namespace("namespaceId", name, names(), names())


@pytest.mark.parametrize("name", ["public", "public-2", "publics", "dev", "republic", "\u516c\u5171", "pub.lic", "p"])
def test_what_does_not_is_allowed(name: str) -> None:
    check_new_namespace("namespaceId", name, names(), names())


@pytest.mark.parametrize(("name", "is_alike"), [("Orders-Dev", True), ("orders\u2010dev", True), ("orders-dev", False)])
def test_what_was_created_keeps_its_look_to_itself(name: str, is_alike: bool) -> None:
    created = names("orders-dev", "other")
    if is_alike:
        with pytest.raises(InvalidParam, match="looks like the namespace 'orders-dev'"):
            check_new_namespace("customNamespaceId", name, created, names())
    else:
        check_new_namespace("customNamespaceId", name, created, names())


def test_what_anybody_began_keeps_nobody_from_a_plain_name() -> None:
    """Else a stranger's services could keep people out of the namespaces that they mean to use."""
    check_new_namespace("namespaceId", "dev", names(), names("Dev", "\uff44ev"))
    with pytest.raises(InvalidParam, match="looks like the namespace 'dev'"):
        check_new_namespace("namespaceId", "\uff44ev", names(), names("dev"))


def test_both_of_two_that_were_created_stay_allowed() -> None:
    """Of a release that let both be created."""
    both = names("dev", "Dev")
    for name in ("dev", "Dev"):
        check_new_namespace("namespaceId", name, both, names())
    both.discard("Dev")
    both.discard("never there")
    assert "Dev" not in both
    assert "dev" in both
    assert both.others("DEV") == ["dev"]
    both.discard("dev")
    assert both.others("DEV") == []


@given(st.text(max_size=20))
def test_a_name_looks_like_itself_however_often_it_is_asked(name: str) -> None:
    assert skeleton(name) == skeleton(name)
    assert skeleton(name.lower()) == skeleton(skeleton(name.lower())) or not name.isascii()

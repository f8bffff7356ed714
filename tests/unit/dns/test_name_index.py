"""Which service a name stands for: case, other characters, defaults, and names that are written alike."""

import hashlib

import pytest

from app.dns.name_index import CANDIDATES_MAX, Ambiguous, NameIndex, exact_label, fold

GROUP = "DEFAULT_GROUP@@"


def index_of(*services: tuple[str, str]) -> NameIndex:
    index = NameIndex()
    for namespace, full_name in services:
        index.note(namespace, full_name, True)
    return index


def labels(text: str) -> list[bytes]:
    return [one.encode() for one in text.split(".")]


@pytest.mark.parametrize(
    ("full_name", "label"),
    [
        ("orders", "orders"),
        ("Orders", "oRDERS"),
        ("com.acme.orders", "com-acme-orders"),
        ("orders_v2", "orders_v2"),
        ("orders_v2", "orders-v2"),
        ("providers:com.acme.Orders:1.0:", "providers-com-acme-orders-1-0-"),
    ],
)
def test_a_name_in_any_case_and_with_hyphens(full_name: str, label: str) -> None:
    assert index_of(("public", GROUP + full_name)).find([label.encode()]) == ("public", GROUP + full_name)


@pytest.mark.parametrize("name", ["*", "カート", "服务", "$/#", "a" * 64])
def test_a_name_that_dns_cannot_write_has_its_exact_form_alone(name: str) -> None:
    index = index_of(("public", GROUP + name), ("public", GROUP + "orders"))
    assert index.exact_only == 1
    assert index.find([fold(name.encode())]) is None
    assert index.find([exact_label(name)]) == ("public", GROUP + name)
    assert index.unique_labels("public", GROUP + name)[0] == exact_label(name)
    index.note("public", GROUP + name, True)
    assert index.exact_only == 1
    index.note("public", GROUP + name, False)
    assert (index.exact_only, index.find([exact_label(name)])) == (0, None)


def test_names_of_dubbo_are_written_with_hyphens() -> None:
    index = index_of(
        ("public", GROUP + "providers:com.foo.Outer$Inner:1.0.0:"), ("public", GROUP + "consumers:X:1.0:*")
    )
    assert index.find([b"providers-com-foo-outer-inner-1-0-0-"]) is not None
    assert index.find([b"consumers-x-1-0--"]) is not None
    assert index.exact_only == 0


@pytest.mark.parametrize("name", ["orders", "orders.default_group", "orders.default-group.public"])
def test_what_is_left_out_is_the_default(name: str) -> None:
    index = index_of(("public", GROUP + "orders"), ("other", GROUP + "orders"), ("public", "G@@orders"))
    assert index.find(labels(name)) == ("public", GROUP + "orders")


def test_groups_and_namespaces_are_told_apart() -> None:
    index = index_of(("public", "G@@orders"), ("test", "G@@orders"))
    assert index.find(labels("orders.g")) == ("public", "G@@orders")
    assert index.find(labels("orders.g.test")) == ("test", "G@@orders")
    assert index.find(labels("orders")) is None
    assert index.find(labels("orders.g.none")) is None


def test_names_that_are_written_alike_are_ambiguous_and_have_exact_forms() -> None:
    index = index_of(("public", GROUP + "orders"), ("public", GROUP + "Orders"))
    with pytest.raises(Ambiguous):
        index.find([b"orders"])
    digest = hashlib.sha256(b"Orders").hexdigest()[:32]
    assert index.find([f"X--{digest.upper()}".encode()]) == ("public", GROUP + "Orders")
    assert index.unique_labels("public", GROUP + "Orders")[0] == exact_label("Orders")


def test_groups_and_namespaces_that_are_written_alike() -> None:
    index = index_of(("Test", "a.b@@orders"), ("test", "a-b@@orders"), ("test", "a-b@@users"))
    with pytest.raises(Ambiguous):
        index.find(labels("orders.a-b.test"))
    # The other has no such service.
    assert index.find(labels("users.a-b.test")) == ("test", "a-b@@users")
    exact = [b"orders", b"a-b", exact_label("Test")]
    assert index.find(exact) == ("Test", "a.b@@orders")


def test_too_many_groups_to_look_through_are_ambiguous() -> None:
    written = [f"{number:b}".zfill(8).translate({48: "a", 49: "A"}) for number in range(CANDIDATES_MAX + 2)]
    index = index_of(*[("public", f"{one}@@s{number}") for number, one in enumerate(written)])
    with pytest.raises(Ambiguous):
        index.find([b"s99999", b"aaaaaaaa"])


def test_what_is_gone_is_not_found_and_leaves_nothing() -> None:
    services = [("public", GROUP + "orders"), ("public", GROUP + "Orders"), ("test", "G@@orders")]
    index = index_of(*services)
    index.note("public", GROUP + "Orders", False)
    assert index.find([b"orders"]) == ("public", GROUP + "orders")
    index.note("public", GROUP + "orders", False)
    index.note("test", "G@@orders", False)
    assert index.find([b"orders"]) is None
    assert not any((index._namespaces, index._groups, index._services))


def test_a_service_that_is_noted_twice_is_one() -> None:
    index = index_of(("public", GROUP + "orders"), ("public", GROUP + "orders"))
    assert index.find([b"orders"]) == ("public", GROUP + "orders")


def test_a_name_that_is_no_label_has_its_exact_form_alone() -> None:
    long = "a" * 64
    index = index_of(("public", GROUP + long))
    assert index.find([exact_label(long)]) == ("public", GROUP + long)
    assert index.unique_labels("public", GROUP + long) == [exact_label(long), b"default-group", b"public"]


def test_namespaces_and_groups_have_names_below_them() -> None:
    index = index_of(("public", GROUP + "orders"), ("test", "G@@orders"))
    assert all(index.is_above(labels(one)) for one in ("public", "test", "default_group", "g.test"))
    assert not any(index.is_above(labels(one)) for one in ("g", "orders", "g.public", "none", "a.g.test"))


def test_any_bytes_are_a_label() -> None:
    assert fold(bytes(range(256))).isascii()
    assert index_of(("名", GROUP + "orders")).find([b"orders", b"default-group", exact_label("名")]) is not None

"""The part of PromQL that boards of Nacos use, evaluated over two scrapes of one minute."""

import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float
SPAN_S = 60.0
NAME = "__name__"
_TOKENS = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<word>[a-zA-Z_:][\w:]*)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<mark>=~|!=|[-+*/()\[\]{},=>]))"
)
AGGREGATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "max": max,
    "count": len,
    "avg": lambda values: sum(values) / len(values),
}
OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan if not a else math.copysign(math.inf, a),
}


class Sample(NamedTuple):
    """A sample of a scrape."""

    name: str
    labels: dict[str, str]
    value: float


class Evaluator:
    """Evaluates one expression at the second of two scrapes, ``SPAN_S`` after the first."""

    def __init__(self, before: Iterable[Sample], now: Iterable[Sample]) -> None:
        self._before, self._now = ({_labels(one): one.value for one in samples} for samples in (before, now))
        self._tokens: list[tuple[str, str]] = []

    def query(self, text: str) -> Value:
        self._tokens, at = [], 0
        while text[at:].strip():
            found = _TOKENS.match(text, at)
            assert found is not None, f"{text[at:]!r} is not known here"
            at = found.end()
            kind = found.lastgroup or ""
            self._tokens.append((kind, found[kind].strip("'\"") if kind == "text" else found[kind]))
        value = self._compared()
        assert not self._tokens, f"left over: {self._tokens}"
        return value

    def _take(self, text: str) -> bool:
        """Take this mark or word, if it is the next token."""
        if self._tokens and self._tokens[0][0] != "text" and self._tokens[0][1] == text:
            self._tokens.pop(0)
            return True
        return False

    def _need(self, text: str) -> None:
        assert self._take(text), f"{text!r} expected before {self._tokens[:3]}"

    def _compared(self) -> Value:
        value = self._added()
        if not self._take(">"):
            return value
        bound = self._added()
        assert isinstance(value, dict)
        assert isinstance(bound, float)
        return {labels: one for labels, one in value.items() if one > bound}

    def _added(self) -> Value:
        value = self._multiplied()
        while self._tokens and self._tokens[0][1] in ("+", "-"):
            sign = self._tokens.pop(0)[1]
            value = _binary(OPERATORS[sign], value, self._multiplied())
        return value

    def _multiplied(self) -> Value:
        value = self._single()
        while self._tokens and self._tokens[0][1] in ("*", "/"):
            sign = self._tokens.pop(0)[1]
            value = _binary(OPERATORS[sign], value, self._single())
        return value

    def _single(self) -> Value:
        if self._take("("):
            value = self._compared()
            self._need(")")
            return value
        kind, text = self._tokens.pop(0)
        if kind == "number":
            return float(text)
        assert kind == "word", f"{text!r} begins no expression"
        if text in AGGREGATIONS:
            return self._aggregated(AGGREGATIONS[text])
        if text in ("rate", "increase"):
            self._need("(")
            name = self._tokens.pop(0)[1]
            now, before = self._selected(name, ranged=True)
            self._need(")")
            divisor = SPAN_S if text == "rate" else 1.0
            return {_without_name(one): (now[one] - before[one]) / divisor for one in now.keys() & before.keys()}
        return self._selected(text)[0]

    def _aggregated(self, aggregate: Callable[[list[float]], float]) -> Vector:
        self._need("(")
        inner = self._compared()
        self._need(")")
        assert isinstance(inner, dict)
        kept: set[str] = set()
        if self._take("by"):
            self._need("(")
            while not self._take(")"):
                kept.add(self._tokens.pop(0)[1])
                self._take(",")
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(frozenset(one for one in labels if one[0] in kept), []).append(value)
        return {labels: float(aggregate(values)) for labels, values in groups.items()}

    def _selected(self, name: str, *, ranged: bool = False) -> tuple[Vector, Vector]:
        matchers: list[tuple[str, str, str]] = []
        if self._take("{"):
            while not self._take("}"):
                (_, label), (_, sign), (_, wanted) = (self._tokens.pop(0) for _ in range(3))
                matchers.append((label, sign, wanted))
                self._take(",")
        if ranged:
            self._need("[")
            while not self._take("]"):
                self._tokens.pop(0)
        return _chosen(self._now, name, matchers), _chosen(self._before, name, matchers)


def _labels(sample: Sample) -> Labels:
    return frozenset({**sample.labels, NAME: sample.name}.items())


def _without_name(labels: Labels) -> Labels:
    return frozenset(one for one in labels if one[0] != NAME)


def _chosen(samples: Vector, name: str, matchers: list[tuple[str, str, str]]) -> Vector:
    return {
        labels: value
        for labels, value in samples.items()
        if (named := dict(labels))[NAME] == name
        and all(_fits(named.get(label, ""), *more) for label, *more in matchers)
    }


def _fits(text: str, sign: str, wanted: str) -> bool:
    match sign:
        case "=":
            return text == wanted
        case "!=":
            return text != wanted
        case "=~":
            return re.fullmatch(wanted, text) is not None
        case _:
            raise AssertionError(f"{sign!r} is not known here")


def _binary(apply: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return apply(left, right)
    if isinstance(left, float):
        assert isinstance(right, dict)
        return {_without_name(labels): apply(left, value) for labels, value in right.items()}
    if isinstance(right, float):
        return {_without_name(labels): apply(value, right) for labels, value in left.items()}
    others = {_without_name(labels): value for labels, value in right.items()}
    named = {_without_name(labels): value for labels, value in left.items()}
    return {labels: apply(value, others[labels]) for labels, value in named.items() if labels in others}

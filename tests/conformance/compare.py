"""Compares an answer with what a recorded one allows."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DAY_MS = 86_400_000
ANY_ORDER = "<<any order>>"
SHOWN_CHARS_MAX = 160


@dataclass(frozen=True, slots=True)
class Target:
    """The node that is asked: what requests and answers may name."""

    host: str
    port: int
    context: str = "/nacos"

    def variables(self, run: str) -> dict[str, str]:
        """The values of ``${NAME}``; ``run`` tells the names of one run from those of all others."""
        return {
            "RUN": run,
            "NOW": str(int(time.time() * 1000)),
            "HOST": self.host,
            "PORT": str(self.port),
            "ADDR": f"{self.host}:{self.port}",
            "CTX": self.context,
        }


@dataclass(frozen=True, slots=True)
class Matcher:
    """Stands for a value that no two answers share: ``pattern`` inside a text, ``whole`` for a JSON value."""

    pattern: str
    whole: Callable[[Any, Target], bool] | None = None
    """None: it stands for text only."""


def _is_now_ms(value: Any, _: Target) -> bool:
    return type(value) is int and abs(value - time.time() * 1000) < DAY_MS


# Types are compared exactly, as a bool is an int and 1 equals 1.0 in Python, but not to a client.
MATCHERS = {
    "any": Matcher(r".*", lambda value, _: True),
    "int": Matcher(r"-?\d+", lambda value, _: type(value) is int),
    "number": Matcher(r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?", lambda value, _: type(value) in (int, float)),
    "ms": Matcher(r"\d{13}", _is_now_ms),
    "port": Matcher(r"\d+", lambda value, target: type(value) is int and value == target.port),
    "string": Matcher(r".*", lambda value, _: isinstance(value, str)),
    "digits": Matcher(r"\d+"),
    "md5": Matcher(r"[0-9a-f]{32}"),
    "uuid": Matcher(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "iso": Matcher(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|[+-]\d\d:?\d\d)"),
    "addr": Matcher(r"[^:\s]+:\d+"),
}
_TOKEN = re.compile("<<(" + "|".join(MATCHERS) + ")>>")


def differences(want: Any, got: Any, target: Target, extra: bool, at: str = "body") -> list[str]:
    """Return a line for each place where ``got`` is not as wanted; ``extra`` allows keys that nobody asked for.

    Objects are compared without their order, arrays with it unless they stand under ``ANY_ORDER``.
    """
    if isinstance(want, str):
        return [] if _text_matches(want, got, target) else [f"{at}: want {shown(want)}, got {shown(got)}"]
    if isinstance(want, dict) and ANY_ORDER in want:
        return _differences_any_order(want[ANY_ORDER], got, target, extra, at)
    if type(want) is not type(got):
        return [f"{at}: want {shown(want)}, got {shown(got)}"]
    if isinstance(want, dict):
        found = [f"{at}.{key}: unexpected, {shown(got[key])}" for key in got if key not in want and not extra]
        for key, value in want.items():
            if key in got:
                found += differences(value, got[key], target, extra, f"{at}.{key}")
            else:
                found.append(f"{at}.{key}: missing")
        return found
    if isinstance(want, list):
        if len(want) != len(got):
            return [f"{at}: want {len(want)} elements, got {len(got)}: {shown(got)}"]
        pairs = enumerate(zip(want, got, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, target, extra, f"{at}[{i}]")]
    return [] if want == got else [f"{at}: want {shown(want)}, got {shown(got)}"]


def _text_matches(want: str, got: Any, target: Target) -> bool:
    token = _TOKEN.fullmatch(want)
    if token and (whole := MATCHERS[token[1]].whole):
        return whole(got, target)
    if not isinstance(got, str):
        return False
    parts = _TOKEN.split(want)  # text, matcher, text, matcher, ..., text
    pattern = "".join(MATCHERS[part].pattern if i % 2 else re.escape(part) for i, part in enumerate(parts))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


def _differences_any_order(want: list[Any], got: Any, target: Target, extra: bool, at: str) -> list[str]:
    """Pair each wanted element with the most similar one that is left."""
    if not isinstance(got, list) or len(got) != len(want):
        return [f"{at}: want {len(want)} elements in any order, got {shown(got)}"]
    rest = list(got)
    for i, item in enumerate(want):
        found, best = min(
            ((differences(item, other, target, extra, f"{at}[{i}]"), index) for index, other in enumerate(rest)),
            key=lambda pair: len(pair[0]),
        )
        if found:
            return found
        del rest[best]
    return []


def shown(value: Any, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """A value for a message, cut to a length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text)} characters)"

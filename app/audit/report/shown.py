"""Values as the report shows them: short, with the whole as a hint where it is cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from app.audit.report.plots import shorten

VALUE_CHARS_MAX = 60
ADDRESS_CHARS_MAX = 40


@dataclass(frozen=True, slots=True)
class Shown:
    """Shortens values for the page. ``hint_chars_max``: how much of the whole value a hint holds, 0 for no hints.

    Hundreds of findings with values of any length would else make the page as long as their values.
    """

    hint_chars_max: int

    def short(self, value: object, chars_max: int = VALUE_CHARS_MAX) -> str | Markup:
        """The value as text, cut in its middle when it is long; empty for None."""
        text = "" if value is None else str(value)
        return text if len(text) <= chars_max else self.cut(shorten(text, chars_max), text)

    def cut(self, text: str, whole: str) -> str | Markup:
        """``text``, with as much of ``whole`` as a hint may hold."""
        if not self.hint_chars_max:
            return text
        hint = whole
        if len(whole) > self.hint_chars_max:
            hint = f"{whole[: self.hint_chars_max]}… ({len(whole):,} characters)"
        return Markup('<span title="{}">{}</span>').format(hint, text)

    def address(self, names: Mapping[str, str], address: object) -> str | Markup:
        """The member's address in its short form of ``names``, if it has one."""
        whole = str(address or "")
        short = names.get(whole, whole)
        if short == whole:
            return self.short(whole, ADDRESS_CHARS_MAX)
        return self.cut(shorten(short, ADDRESS_CHARS_MAX), whole)

    def values(self, finding: Mapping[str, Any]) -> list[tuple[str, str | Markup | None, str | None]]:
        """The found and the expected value of a finding; long values from where they begin to differ.

        Shape: (heading, value or None, version or None).
        """
        found, expected = str(finding.get("found") or ""), str(finding.get("expected") or "")
        start = 0
        if max(len(found), len(expected)) > VALUE_CHARS_MAX:
            pairs = enumerate(zip(found, expected, strict=False))
            same = next((place for place, (left, right) in pairs if left != right), min(len(found), len(expected)))
            start = max(0, same - VALUE_CHARS_MAX // 3)
        return [
            ("Found", self._part(finding.get("found"), start), finding.get("found_version")),
            ("Expected", self._part(finding.get("expected"), start), finding.get("expected_version")),
        ]

    def _part(self, value: object, start: int) -> str | Markup | None:
        """The value from place ``start`` on, cut at its end; None for None."""
        if value is None:
            return None
        text = str(value)
        shown = text[start : start + VALUE_CHARS_MAX]
        if shown == text:
            return text
        end = "…" if start + VALUE_CHARS_MAX < len(text) else ""
        return self.cut(f"{'…' if start else ''}{shown}{end}", text)

"""Values as the report shows them: short, with the whole as a hint where it is cut, and command lines."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from app.languages.catalogues import ENGLISH_TEXTS, N_, Texts
from app.tools.audit.report.plots import shorten

VALUE_CHARS_MAX = 60
ADDRESS_CHARS_MAX = 46
"""The most characters of an address that is never broken over lines: an IPv6 one with its port has at most 47."""

_CODE = re.compile(r"`([^`]*)`")
_OPTION = re.compile(r"(?<= )(--[a-z-]+)")


@dataclass(frozen=True, slots=True)
class Shown:
    """Shortens values for the page. ``hint_chars_max``: how much of the whole value a hint holds, 0 for no hints.

    Hundreds of findings with values of any length would else make the page as long as their values.
    """

    hint_chars_max: int
    texts: Texts = ENGLISH_TEXTS

    def short(self, value: object, chars_max: int = VALUE_CHARS_MAX) -> str | Markup:
        """Return the value as text, cut in its middle if it is long; empty for None."""
        text = "" if value is None else str(value)
        return text if len(text) <= chars_max else self._cut(shorten(text, chars_max), text)

    def address(self, value: object) -> Markup:
        """Return an address of a member or an instance, in one piece."""
        return Markup('<span class="address">{}</span>').format(self.short(value, ADDRESS_CHARS_MAX))

    def values(self, finding: Mapping[str, Any]) -> list[tuple[str, str | Markup, object]]:
        """Return the found and the expected value of a finding; long values from where they begin to differ.

        Shape: (heading, value, version or None), without entries that have neither value nor version.
        """
        found, expected = str(finding.get("found") or ""), str(finding.get("expected") or "")
        start = 0
        if max(len(found), len(expected)) > VALUE_CHARS_MAX:
            pairs = enumerate(zip(found, expected, strict=False))
            same = next((place for place, (left, right) in pairs if left != right), min(len(found), len(expected)))
            start = max(0, same - VALUE_CHARS_MAX // 3)
        versions = finding.get("found_version"), finding.get("expected_version")
        told = [(N_("found"), found, versions[0]), (N_("expected"), expected, versions[1])]
        return [
            (self.texts.gettext(name), self._part(text, start), version)
            for name, text, version in told
            if text or version
        ]

    def _part(self, text: str, start: int) -> str | Markup:
        """Return the text from place ``start`` on, cut at its end."""
        shown = text[start : start + VALUE_CHARS_MAX]
        if shown == text:
            return text
        end = "…" if start + VALUE_CHARS_MAX < len(text) else ""
        return self._cut(f"{'…' if start else ''}{shown}{end}", text)

    def _cut(self, text: str, whole: str) -> str | Markup:
        """Return ``text``, with as much of ``whole`` as a hint may hold."""
        if not self.hint_chars_max:
            return text
        hint = whole
        if len(whole) > self.hint_chars_max:
            note = self.texts.gettext("(%(count)s characters)", count=f"{len(whole):,}")
            hint = f"{whole[: self.hint_chars_max]}… {note}"
        return Markup('<span title="{}">{}</span>').format(hint, text)


def command_line(text: str) -> Markup:
    """Return a command line that may be broken between its arguments, and between the members in a list."""
    whole_options = _OPTION.sub(r'<span class="word">\1</span>', str(escape(text)))
    return Markup(whole_options.replace(",", ",<wbr>"))


def with_code(text: str) -> Markup:
    """Return a text whose parts between backticks are commands, to be shown as such."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))

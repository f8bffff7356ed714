"""Namespaces that people would mistake for one another, and the check that refuses a new one that looks like another.

A person sees no difference between ``public`` and the same letters in full width or in Cyrillic, or with a blank that
has no width; and DNS ignores case. So a stranger's namespace could be taken for one that people trust.
"""

import unicodedata
from functools import lru_cache

from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import InvalidParam

SHOWN_CHARS_MAX = 200
_LIKE_CAPITALS = {
    "A": "\u0410\u0391",
    "B": "\u0412\u0392\u13f4\u15f7\ua4d0",
    "C": "\u0421\u13df\u2ca4\ua4da",
    "E": "\u0415\u0395",
    "H": "\u041d\u0397",
    "I": "\u0406\u0399\u2c92\ua4f2",
    "J": "\u0408",
    "K": "\u041a\u039a",
    "L": "\u13de\u14aa\ua4e1",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "\u041e\u039f",
    "P": "\u0420\u03a1\u13e2\u146d\u2ca2\ua4d1",
    "S": "\u0405",
    "T": "\u0422\u03a4",
    "U": "\u144c\ua4f4",
    "X": "\u0425\u03a7",
    "Y": "\u0423\u03a5",
    "Z": "\u0396",
}
_LIKE_SMALL = {
    "a": "\u0430\u03b1",
    "b": "\u03b2\u0185\u044c",
    "c": "\u0441\u1d04",
    "d": "\u0501",
    "e": "\u0435\u03b5",
    "g": "\u0261",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9\u0131",
    "j": "\u0458",
    "k": "\u043a\u03ba",
    "l": "\u04cf\u01c0\u0269",
    "m": "\u043c",
    "n": "\u043f\u03b7\u0578",
    "o": "\u043e\u03bf\u0585\u1d0f",
    "p": "\u0440\u03c1\u2374",
    "q": "\u051b\u0566",
    "r": "\u0433",
    "s": "\u0455\ua731",
    "t": "\u0442\u03c4",
    "u": "\u03c5\u057d\u1d1c\ua79f",
    "v": "\u0475\u03bd",
    "w": "\u051d",
    "x": "\u0445\u03c7",
    "y": "\u0443\u03b3",
}
"""Letters of other scripts, especially Cyrillic and Greek, that look like a Latin one. Source: Unicode TS 39."""
_LUNATE = str.maketrans("\u03f2\u03f9", "cC")
"""Greek letters that look like a C, but that the normal form turns into a sigma."""
_CAPITALS, _SMALL = (
    str.maketrans({like: letter for letter, all_like in one.items() for like in all_like})
    for one in (_LIKE_CAPITALS, _LIKE_SMALL)
)
_DIGITS = str.maketrans("10|i", "loll")
"""Only for the public namespace: elsewhere a digit at the end of a name distinguishes two namespaces."""
_ACCENTS = range(0x300, 0x370)
_BLANK_LETTERS = frozenset(map(chr, (0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, *range(0x180B, 0x1810))))
"""Fillers of Hangul, vowels of Khmer and a pattern of Braille that show nothing, and the signs that choose a variant of
a letter in Mongolian."""
_VARIANTS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


@lru_cache(16_384)
def skeleton(name: str) -> str:
    """Return the text that all names share which look like this one."""
    if is_plain(name):
        return name.lower()
    folded = unicodedata.normalize("NFKD", name.translate(_LUNATE)).translate(_CAPITALS).casefold()
    seen = ["-" if unicodedata.category(char) == "Pd" else char for char in folded if not _is_unseen(char)]
    return "".join(seen).translate(_SMALL)


def is_plain(name: str) -> bool:
    """Return whether a name has only printable ASCII characters, and no blanks."""
    return name.isascii() and name.isprintable() and " " not in name


def _is_unseen(char: str) -> bool:
    if unicodedata.category(char)[0] in "ZC" or char in _BLANK_LETTERS:
        return True
    return ord(char) in _ACCENTS or any(ord(char) in variants for variants in _VARIANTS)


class SimilarNames:
    """A set of names, indexed by their appearance."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, name: str) -> None:
        self._names.setdefault(skeleton(name), set()).add(name)

    def discard(self, name: str) -> None:
        seen = skeleton(name)
        if names := self._names.get(seen):
            names.discard(name)
            if not names:
                del self._names[seen]

    def others(self, name: str) -> list[str]:
        """Return the names in the set that look like this one, without the name itself, sorted."""
        return sorted(self._names.get(skeleton(name), set()) - {name})

    def __contains__(self, name: str) -> bool:
        return name in self._names.get(skeleton(name), ())


def check_new_namespace(field: str, namespace: str, created: SimilarNames, used: SimilarNames) -> None:
    """Refuse to begin a namespace that looks like another one.

    ``created``: namespaces that an administrator made. ``used``: namespaces with services. Any client may begin one of
    these, so they do not prevent the use of a plain name.

    Raises:
        InvalidParam: names the field and the other namespace.
    """
    if namespace == DEFAULT_NAMESPACE or namespace in created:
        return
    others = created.others(namespace) or ([] if is_plain(namespace) else used.others(namespace))
    if skeleton(namespace).translate(_DIGITS) == DEFAULT_NAMESPACE.translate(_DIGITS):
        others = [DEFAULT_NAMESPACE]
    if others:
        raise InvalidParam(
            f"Param '{field}' is illegal: {namespace[:SHOWN_CHARS_MAX]!a} looks like the namespace"
            f" {others[0][:SHOWN_CHARS_MAX]!a}."
        )

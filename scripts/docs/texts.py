"""Bring the catalogues of translations up to date with the texts in the code: `python -m scripts.docs.texts`.

A new text gets an empty translation, and one that is no longer used is removed. tests/unit/languages compares.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import polib
from babel.messages.extract import extract_from_dir

from app.languages.catalogues import CHINESE, COMMANDS, CONSOLE, po_file
from app.tools.cli import make_parser

ROOT = Path(__file__).parents[2]
KEYWORDS = {"gettext": None, "ngettext": (1, 2), "N_": None, "_": None, "Column": None, "_done": (2,), "phrase": None}
TEMPLATES = ("app/http/console/templates/**.html", "app/tools/audit/report/templates/**.html")
EFFECTS, STORED = "app/operator/switch_effects.py", "app/languages/stored_texts.py"
SOURCES = {
    CONSOLE: ("app/http/console/", "app/operator/event_words.py", "app/operator/verdict.py", EFFECTS, STORED),
    COMMANDS: (
        "app/tools/",
        "app/operator/verdict.py",
        EFFECTS,
        STORED,
        "app/config/",
        "app/machine/process/",
        "app/machine/storage/",
    ),
}
"""Where the texts of a domain are: the beginnings of paths."""
Message = tuple[str, str]
"""The text in English, and its plural or an empty text."""


def texts_in(domain: str) -> dict[Message, list[str]]:
    """Return the texts of a domain, each with the files that have it."""
    found: dict[Message, list[str]] = {}
    for path, message in _extracted():
        if path.startswith(SOURCES[domain]) and path not in found.setdefault(message, []):
            found[message].append(path)
    if domain == COMMANDS:
        found |= {(text, ""): ["app/tools/cli.py"] for text in _help_of(make_parser()) if (text, "") not in found}
    return found


def _help_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the texts of the help of a command and of the commands below it, as argparse gets them."""
    yield from filter(None, (parser.description, parser.epilog))
    for group in parser._action_groups:
        yield from filter(None, (group.title, group.description))
    for action in parser._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            yield from filter(None, (one.help for one in action._choices_actions))
            for one in action.choices.values():
                yield from _help_of(one)


def _extracted() -> Iterator[tuple[str, Message]]:
    methods = [*((one, "jinja2") for one in TEMPLATES), ("app/**.py", "python")]
    options = {one: {"trimmed": "true", "trim_blocks": "true", "lstrip_blocks": "true"} for one in TEMPLATES}
    folder = str(ROOT)
    for path, _, message, _, _ in extract_from_dir(
        folder, methods, options, keywords=KEYWORDS, directory_filter=_is_searched
    ):
        singular, plural = (message[0], message[1]) if isinstance(message, tuple) else (message, "")
        yield path, (singular, plural)


def _is_searched(path: str) -> bool:
    relative = Path(path).relative_to(ROOT).as_posix()
    return any(f"{relative}/".startswith(one) or one.startswith(f"{relative}/") for one in _FOLDERS)


_FOLDERS = sorted({one for sources in SOURCES.values() for one in sources})


def updated(file: Path, texts: Mapping[Message, list[str]]) -> polib.POFile:
    """Return the catalogue of a file with exactly these texts; those that it has keep their translation."""
    known = {(one.msgid, one.msgid_plural): one for one in polib.pofile(str(file))} if file.exists() else {}
    made = polib.POFile(wrapwidth=120)
    made.metadata = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "8bit",
        "Language": "zh_CN",
        "Plural-Forms": "nplurals=1; plural=0;",
    }
    for (singular, plural), paths in texts.items():
        old = known.get((singular, plural))
        entry = polib.POEntry(msgid=singular, msgid_plural=plural, occurrences=[(path, "") for path in paths])
        if plural:
            entry.msgstr_plural = old.msgstr_plural if old else {0: ""}
        else:
            entry.msgstr = old.msgstr if old else ""
        made.append(entry)
    return made


def main() -> None:
    """Write all catalogues."""
    for domain in SOURCES:
        updated(po_file(domain, CHINESE), texts_in(domain)).save(str(po_file(domain, CHINESE)))


if __name__ == "__main__":
    main()

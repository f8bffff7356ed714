"""Writes docs/settings.md from the table of setting keys."""

from pathlib import Path

from app.config.link_settings import FIELDS
from app.config.settings import ALL_KEYS

ROOT = Path(__file__).resolve().parents[2]

HEAD = """\
# Settings

You can set each key in the environment, as written or in capitals with underscores (`nacos.member.list`,
`NACOS_MEMBER_LIST`), or in `application.properties` in the configuration folder. The environment takes precedence over
the file, and a command-line option over both. A node does not start with a value that is not allowed. Rollcall warns
about unknown keys that begin with `rollcall.`, and about keys of Nacos that seem misspelt. It ignores keys of Nacos
that it does not have; `rollcall config` lists them. The keys of [links](links.md) have the name of a link in place of
`NAME`, and a node reads them again when the file changes.

Made by `python -m scripts.docs.settings`.

| key | default | allowed | what it is for |
|---|---|---|---|
"""


def document() -> str:
    """Return the text of the page."""
    rows = []
    for key in (*ALL_KEYS, *FIELDS.values()):
        names = "<br>".join(f"`{name}`" for name in key.names)
        default = f"`{key.default}`" if key.default else ""
        rows.append(f"| {names} | {default} | {key.kind.allowed} | {key.purpose} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(document(), encoding="utf-8")

"""Writes docs/settings.md from the table of keys that the settings are read by."""

from pathlib import Path

from app.config.settings import ALL_KEYS

ROOT = Path(__file__).resolve().parents[2]

HEAD = """\
# Settings

Each key may stand in the environment, as written or in capitals with underscores (`nacos.member.list`,
`NACOS_MEMBER_LIST`), or in `application.properties` in the configuration folder; the environment comes first, a
command-line option before both. A value that is not allowed stops the start. An unknown key that begins with
`rollcall.` gives a warning; keys of Nacos that Rollcall does not have are ignored.

Made by `python -m scripts.docs.settings`.

| key | default | allowed | what it is for |
|---|---|---|---|
"""


def document() -> str:
    """The page's whole text."""
    rows = []
    for key in ALL_KEYS:
        names = "<br>".join(f"`{name}`" for name in key.names)
        default = f"`{key.default}`" if key.default else ""
        rows.append(f"| {names} | {default} | {key.kind.allowed} | {key.purpose} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(document(), encoding="utf-8")

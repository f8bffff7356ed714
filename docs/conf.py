"""How Sphinx builds the site of these pages: `python -m scripts.docs.site`."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from app.config.version import __version__

FOLDER = Path(__file__).parent
CHINESE = "zh/"

project = "Rollcall"
author = "the Rollcall developers"
release = version = __version__

extensions = ["myst_parser"]
exclude_patterns = ["changes/*"]
nitpicky = True

# Each heading is an anchor, named as code hosts name it; a link to one that is not there is a warning.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Rollcall {__version__}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Nothing is fetched when a page is read.
html_theme_options = {"footer_icons": []}
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_unnamed_pages)
    app.connect("source-read", add_other_language)


def add_unnamed_pages(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put the pages that index.md does not name where it says so: a new page needs no change there."""
    if name != "index":
        return
    named = set(re.findall(r"^(?:[^<|\n]+ <)?([\w/-]+)>?$", source[0], re.MULTILINE))
    unnamed = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem not in named | {"index"})
    source[0] = source[0].replace("% every page that is not named here", "\n".join(unnamed))


def add_other_language(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put a link below the title of a page that is there in English and in Chinese."""
    is_chinese = name.startswith(CHINESE)
    other = name.removeprefix(CHINESE) if is_chinese else f"{CHINESE}{name}"
    if not (FOLDER / f"{other}.md").exists():
        return
    link = f"[English](../{other}.md)" if is_chinese else f"[简体中文]({other}.md)"
    title, _, rest = source[0].partition("\n")
    source[0] = f"{title}\n\n{link}\n{rest}"

"""Builds the pages in docs/ as a site that works offline, checks every link in it, and reports its size.

    python -m scripts.docs.site                              # into build/site; open build/site/index.html
    python -m scripts.docs.site --out FOLDER --screenshot site.png

Warnings are errors: a page outside the navigation, a broken reference. Exit code 1 after a warning, or when a link in
the site leads to a missing file or anchor, or makes a browser fetch something from another site.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
"""Tags and attributes whose target a browser fetches when it shows a page."""
SCREENSHOT_TIMEOUT_S = 60.0
SCREEN = "1280,1000"
COUNTED = 1e6
"""Bytes in the unit of the reported size."""


class PageLinks(HTMLParser):
    """The links of one page of the site, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif (tag, name) in FETCHED:
                self.fetched.append(value)
            elif name == "href":
                self.links.append(value)


def build(out: Path) -> int:
    """Build the site into a folder, from nothing; return the exit code of Sphinx."""
    shutil.rmtree(out, ignore_errors=True)
    options = ["-b", "html", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env", "--jobs", "1"]
    command = [sys.executable, "-m", "sphinx", *options, "-d", str(out.with_name(f"{out.name}-doctrees"))]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, str(ROOT / "docs"), str(out)], check=False, env=environ).returncode


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each broken link between the pages of a site. Links to other sites are not followed."""
    pages = {path: PageLinks(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in [*page.links, *page.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    yield f"{name} fetches {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name} leads to {link}, where no file is"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} leads to {link}, which has no such anchor"


def size_of(site: Path) -> tuple[int, int, int]:
    """Return the number of pages, files and bytes of a site."""
    files = [path for path in site.rglob("*") if path.is_file()]
    return sum(path.suffix == ".html" for path in files), len(files), sum(path.stat().st_size for path in files)


def take_screenshot(site: Path, file: Path) -> None:
    """Save a screenshot of the first page.

    Raises:
        FileNotFoundError: Chromium is not in the path.
    """
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise FileNotFoundError("no chromium in the path")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SCREEN}"]
    command = [browser, *options, f"--screenshot={file.absolute()}", (site / "index.html").absolute().as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=SCREENSHOT_TIMEOUT_S)


def main() -> int:
    """Build, check and report; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder; it is emptied first")
    parser.add_argument("--screenshot", type=Path, help="a PNG file of the first page; needs Chromium")
    arguments = parser.parse_args()
    if build(arguments.out):
        return 1
    broken = list(broken_links(arguments.out))
    print("\n".join(broken), end="\n" if broken else "")
    pages, files, size = size_of(arguments.out)
    print(f"{arguments.out}: {pages} pages, {files} files, {size / COUNTED:.1f} MB, {len(broken)} broken links")
    if arguments.screenshot:
        take_screenshot(arguments.out, arguments.screenshot)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())

"""The blocks of code in README.md, CONTRIBUTING.md and docs/, and what the comment above says of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"\s*<!-- (?P<text>.*) -->")
FENCE = re.compile(r"(?P<indent> *)```(?P<language>[\w{}-]*)(?: .*)?")
NOT_PAGES = {"changes", "decisions"}
NOT_RUN, PROGRAM, RUN_BY, USERS = "not run: ", "program: ", "run by: ", "with users"
PRINTED = "printed: by each program"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block. ``mark``: what the comment in the line above says; empty when there is none."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not_run(self) -> str:
        """The reason why no test runs it; empty for what is run."""
        return self.mark.removeprefix(NOT_RUN) if self.mark.startswith(NOT_RUN) else ""

    @property
    def programs(self) -> tuple[str, ...]:
        """The environments of client libraries in which it is a program."""
        return tuple(self.mark.removeprefix(PROGRAM).split()) if self.mark.startswith(PROGRAM) else ()

    @property
    def run_by(self) -> str:
        """The test of its own that runs it; empty for what is run as its language or its mark says."""
        return self.mark.removeprefix(RUN_BY) if self.mark.startswith(RUN_BY) else ""


def pages() -> list[Path]:
    """The pages for readers, without change notes and decisions."""
    docs = ROOT / "docs"
    found = [page for page in sorted(docs.rglob("*.md")) if page.relative_to(docs).parts[0] not in NOT_PAGES]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def snippets() -> list[Snippet]:
    """All blocks of all pages, in the order in which a reader meets them."""
    return [one for page in pages() for one in snippets_of(page)]


def snippets_of(page: Path) -> Iterator[Snippet]:
    lines = page.read_text(encoding="utf-8").splitlines()
    name = page.relative_to(ROOT).as_posix()
    number = 0
    while number < len(lines):
        opened = FENCE.fullmatch(lines[number])
        if opened is None:
            number += 1
            continue
        indent = opened["indent"]
        end = lines.index(f"{indent}```", number + 1)
        mark = MARK.fullmatch(lines[number - 1])
        text = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end])
        yield Snippet(name, number + 1, opened["language"], mark["text"] if mark else "", text)
        number = end + 1


def statements_of(page: Path, of: str) -> list[str]:
    """The statements of the one block of SQL on the page in which this text is."""
    (found,) = [one.text for one in snippets_of(page) if one.language == "sql" and of in one.text]
    return [statement.removesuffix(";") for statement in re.split(r"(?<=;)\n", found) if statement.strip()]


def outside_fences(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page that are in no block, by number."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line

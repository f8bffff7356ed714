"""Results of the last run of each file, kept until the next run."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from scripts.mutation.mutants import Mutant, Outcome


class Results:
    """The mutants of each file with their outcomes. Shape of each: ``{"source": sha256, "mutants": [Mutant, ...]}``."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Keep the results of the code in ``root`` as files in this folder."""
        self._root = root
        self._folder = folder

    def of(self, file: str) -> list[Mutant]:
        """Return the mutants of a file; none when the file has changed since, or was in no run."""
        path = self._path(file)
        if not path.exists():
            return []
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["source"] != self.source(file):
            return []
        return [Mutant(**one | {"outcome": Outcome(one["outcome"])}) for one in kept["mutants"]]

    def put(self, file: str, mutants: Iterable[Mutant], source: str) -> None:
        """Keep these mutants of a file instead of earlier ones. ``source``: digest of their original code."""
        kept = {"source": source, "mutants": [dataclasses.asdict(one) for one in mutants]}
        self._path(file).parent.mkdir(parents=True, exist_ok=True)
        self._path(file).write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")

    def source(self, file: str) -> str:
        """Return a digest of the current code of a file."""
        return hashlib.sha256((self._root / file).read_bytes()).hexdigest()

    def _path(self, file: str) -> Path:
        return self._folder / f"{file}.json"

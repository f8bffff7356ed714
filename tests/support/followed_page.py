"""An operator who knows the page of a night alone: takes its steps in order, each command to the letter."""

import html
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.tools.audit.check.command import main
from tests.spark.conftest import findings
from tests.support.processes import COMMAND, ClusterProcesses, clean_environ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_S = 120.0
EARLIER = {"dump": ["--gap", "2s"], "heal": ["--gap", "100ms"]}
"""What is added to a command of the page: only that the test need not wait for 15 s."""
Found = tuple[str, str, str, str]
"""Class, service, name and member."""


@dataclass(frozen=True, slots=True)
class PageStep:
    """One step under "What to do": its words, and the command as a shell splits it, without the program's name."""

    text: str
    command: Sequence[str]


def steps_of(page: str) -> list[PageStep]:
    """Return the steps of a page."""
    section = page.partition('id="todo"')[2].partition("</section>")[0]
    found = []
    for item in re.findall(r"<li>(.*?)</li>", section, re.S):
        line = re.search(r'<pre class="command"><code>(.*?)</code></pre>', item, re.S)
        words = shlex.split(_text(line.group(1))) if line else ["rollcall"]
        assert words[0] == "rollcall"
        found.append(PageStep(_text(re.split(r"<details>|<pre", item)[0]).strip(), words[1:]))
    return found


def _text(part: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", part))


class Nights:
    """The nightly dumps and checks of a cluster, in one folder."""

    def __init__(self, cluster: ClusterProcesses, spark: "SparkSession", folder: Path) -> None:
        self._members = ",".join(one.address for one in cluster.members)
        self._spark = spark
        self.folder = folder

    def dump(self, night: str, *arguments: str, code: int = 0) -> None:
        """Take the dump of a night, which ends with this exit code."""
        places = ["--members", self._members, "--out", str(self.folder / "dumps"), "--date", night, *EARLIER["dump"]]
        self.ran("dump", *places, *arguments, codes=(code,))

    def check(self, night: str, *arguments: str) -> int:
        """Check a night, and return the exit code."""
        places = ["--dumps", str(self.folder / "dumps"), "--out", str(self.folder / "out"), "--night", night]
        return self._checked([*places, *arguments])

    def checked(self, night: str) -> tuple[int, set[Found]]:
        """Dump and check a night. Return the exit code and the lasting findings."""
        self.dump(night)
        return self.check(night), self.found(night)

    def found(self, night: str) -> set[Found]:
        """Return the lasting findings of a night."""
        lasting = [one for one in findings(self.folder, night) if one["lasting"]]
        return {(one["finding_class"], one["service"], one["name"], one["member"]) for one in lasting}

    def page(self, night: str) -> str:
        return (self.folder / "out" / "reports" / f"night={night}" / "report.html").read_text()

    def follow(self, night: str, by_hand: Callable[[PageStep], bool]) -> dict[str, str]:
        """Take each step of the page: the command, unless it has none, and then what ``by_hand`` does for its words.

        Return the output of each command by its words. Each step has one of both.
        """
        outputs = {}
        for step in steps_of(self.page(night)):
            if step.command:
                name, *rest = step.command
                text = " ".join(step.command)
                if name == "check":
                    outputs[text] = str(self._checked(rest))
                else:
                    outputs[text] = self.ran(*step.command, *EARLIER.get(name, []), codes=(0, 1))
            assert by_hand(step) or step.command, step.text
        return outputs

    def ran(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command and return its output."""
        done = subprocess.run(
            [COMMAND, *arguments], env=clean_environ(), capture_output=True, text=True, timeout=END_S, check=False
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    def _checked(self, arguments: Sequence[str]) -> int:
        code = main(arguments, self._spark)
        self._spark.catalog.clearCache()
        return code

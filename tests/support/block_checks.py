"""What can be told of a block on a page without running it: by its language, and by what reads such a file."""

import configparser
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from app.config.client_config import FILE_VARIABLE, read_client_config
from app.config.link_settings import LinkSource, is_link_key
from app.config.settings import ALL_KEYS
from app.http.api.call import ROUTES
from app.http.blueprints import MODULES
from app.rpc.server.limits import parse_rule
from app.tools.cli import make_parser
from scripts.docs.cli_help import parsers
from tests.support.promtool import promtool
from tests.support.snippets import ROOT, Snippet

assert MODULES, "their import fills the table of routes"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
URL_PATH = re.compile(r"http://[\w.]+:8848/nacos(/[\w/]+)")
FILE_OF_DIFF = re.compile(r"# ([\w/.-]+)(?:, (?:class )?\w+)?")
USAGES = {"rollcall ": "", "scripts/distro_check.py ": "check "}
"""How the line begins that shows how a command is called, and the command's name where it is not the next word."""


def check_json(one: Snippet, _: Path) -> None:
    """An answer, or a file of ours, which our reader takes."""
    value = json.loads(one.text)
    assert value
    if "countLimit" in value:
        rule = parse_rule(one.text.encode())
        assert [rule.total, rule.ip_default, *rule.per_ip.values()] == [5_000, 50, 200]


def check_toml(one: Snippet, folder: Path) -> None:
    """A file of ours, which its reader takes."""
    names, file = tomllib.loads(one.text).keys(), folder / "block.toml"
    file.write_text(one.text)
    file.chmod(0o600)
    if "suppress" in names:
        # The module needs the extra `audit`, which runs of the units alone do without.
        pytest.importorskip("pyspark")
        from app.tools.audit.check.suppressions import read_suppressions

        assert read_suppressions(str(file), "2026-11-21")
        return
    environ = {FILE_VARIABLE: str(file)}
    assert read_client_config(environ).server == tomllib.loads(one.text)["server"]
    for name, profile in tomllib.loads(one.text)["profiles"].items():
        assert read_client_config(environ, profile=name).server == profile["server"]


def check_yaml(one: Snippet, folder: Path) -> None:
    """A part of Prometheus's configuration, which promtool takes, or of a pod's."""
    value = yaml.safe_load(one.text)
    if isinstance(value, dict) and "lifecycle" in value:
        command = value["lifecycle"]["preStop"]["exec"]["command"]
        assert command[:2] == ["sh", "-c"]
        subprocess.run(["sh", "-n", "-c", command[2]], check=True, timeout=60)
        assert paths_in(command[2]) <= {row.path for row in ROUTES}
        assert isinstance(value["terminationGracePeriodSeconds"], int)
        return
    whole = value if isinstance(value, dict) else {"scrape_configs": value}
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(whole))
    # The secrets that it names are on the reader's machine.
    promtool("check", "config", "--syntax-only", file)


def check_properties(one: Snippet, _: Path) -> None:
    """Settings, each of which is one of ours where its name says so."""
    ours, of_links = {name for key in ALL_KEYS for name in key.names}, {}
    for line in one.text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, sign, value = line.partition("=")
        assert sign, line
        assert value, line
        if is_link_key(name):
            of_links[name] = value
        else:
            assert not name.startswith(("rollcall.", "nacos.")) or name in ours, name
    servers = {f"{name.rpartition('.')[0]}.servers": "10.1.0.1" for name in of_links}
    LinkSource(((servers | of_links, one.page),), cluster_id="example").read()


def check_ini(one: Snippet, _: Path) -> None:
    """Sections of keys, as systemd has them."""
    read = configparser.ConfigParser(strict=True, interpolation=None)
    read.read_string(one.text)
    assert all(read[section] for section in read.sections())
    assert read.sections()


def check_text(one: Snippet, _: Path) -> None:
    """How a command is called, or its help."""
    if one.text.startswith("usage: "):
        helps = {parser.prog: parser.format_help() for parser in parsers(make_parser())}
        assert one.text.strip() in {text.strip() for text in helps.values()}, "python -m scripts.docs.cli_help"
        return
    [(start, name)] = [(start, name) for start, name in USAGES.items() if one.text.startswith(start)]
    command = f"{name}{one.text.removeprefix(start)}".split()[0]
    [parser] = [one for one in parsers(make_parser()) if one.prog == f"rollcall {command}"]
    there = {option for action in parser._actions for option in action.option_strings}
    told = set(OPTION.findall(one.text))
    assert told - there == set()


def check_diff(one: Snippet, _: Path) -> None:
    """Changes whose surroundings are in the files that they are of."""
    for name, hunks in hunks_of(one.text):
        file = ROOT / name
        assert file.exists() or not any(line[:1] in " -" for hunk in hunks for line in hunk), name
        for hunk in hunks if file.exists() else ():
            place_of(file.read_text().splitlines(), hunk)


CHECKS: Mapping[str, Callable[[Snippet, Path], None]] = {
    "json": check_json,
    "toml": check_toml,
    "yaml": check_yaml,
    "properties": check_properties,
    "ini": check_ini,
    "text": check_text,
    "diff": check_diff,
}
"""By language."""


# --- parts ----------------------------------------------------------------------------------------------


def paths_in(text: str) -> set[str]:
    """The paths of calls, below the context path, that a text names by their addresses."""
    return set(URL_PATH.findall(text))


def hunks_of(diff: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The files of a diff, each with the lines of its hunks. A file is named by a comment, and perhaps the place."""
    name, hunks = "", [list[str]()]
    for line in diff.splitlines():
        if found := FILE_OF_DIFF.fullmatch(line):
            if name:
                yield name, [hunk for hunk in hunks if hunk]
            name, hunks = found[1], [list[str]()]
        elif line == "@@":
            hunks.append([])
        else:
            hunks[-1].append(line or " ")
    yield name, [hunk for hunk in hunks if hunk]


def place_of(lines: list[str], hunk: list[str]) -> int:
    """Where the lines of a file are that a hunk keeps or removes; the one place of them."""
    old = [line[1:] for line in hunk if line[0] in " -"]
    found = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    assert found, f"no such lines: {old}"
    return found[0]


def changed_by(text: str, hunks: list[list[str]]) -> str:
    """The text of a file after its hunks."""
    lines = text.splitlines()
    for hunk in hunks:
        at = place_of(lines, hunk)
        kept = sum(line[0] in " -" for line in hunk)
        lines[at : at + kept] = [line[1:] for line in hunk if line[0] in " +"]
    return "\n".join(lines) + "\n"

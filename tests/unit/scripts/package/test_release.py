"""Facts that a release relies on: one version, fragments of known kinds, bounds that can be installed, and a help."""

import configparser
import re
import subprocess
import tomllib
from pathlib import Path

from app.config.version import __version__
from scripts.package.clean_environments import PYTHONS, found_pythons, lowest
from scripts.package.lowest_versions import environment, make_environment

ROOT = Path(__file__).resolve().parents[4]
SETUP = (ROOT / "setup.cfg").read_text(encoding="utf-8")


def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(SETUP)
    return parser


def test_the_version_is_the_same_everywhere() -> None:
    assert config()["metadata"]["version"] == __version__
    assert f'newTag: "{__version__}"' in (ROOT / "deploy" / "k8s" / "kustomization.yaml").read_text()


def test_each_fragment_of_the_changelog_has_a_kind_that_is_assembled() -> None:
    types = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    kinds = {one["directory"] for one in types}
    wrong = [
        path.name
        for path in (ROOT / "docs" / "changes").iterdir()
        if not re.fullmatch(rf"[\w-]+\.({'|'.join(kinds)})\.md", path.name)
    ]
    assert not wrong


def test_the_links_of_a_fragment_lead_to_pages() -> None:
    """The template turns ``../page.md`` into ``docs/page.md``, and leaves other links as they are."""
    for path in (ROOT / "docs" / "changes").iterdir():
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
        assert not [link for link in links if not (path.parent / link).is_file()], path.name


def test_each_dependency_has_a_lower_bound_and_no_upper_one() -> None:
    wanted = config()["options"]["install_requires"].split()
    assert lowest(SETUP) == [one.replace(">=", "==") for one in wanted]


def test_the_tests_with_the_lowest_versions_run_in_an_environment_of_their_own(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir "$3" && echo "$*" >"$3/made"\n')
    python.chmod(0o755)
    make_environment(tmp_path, python)
    venv = tmp_path / ".venv"
    assert (venv / "made").read_text().strip() == f"-m venv {venv}"
    assert (venv / ".place").read_text().strip() == str(venv), "as scripts/bootstrap.sh asks"
    given = {"PATH": "/bin", "ROLLCALL_SERVER": "x", "VIRTUAL_ENV": "y"}
    assert environment(given, tmp_path / "c") == {"PATH": "/bin", "PIP_CONSTRAINT": str(tmp_path / "c")}


def test_the_dependencies_of_a_release_bring_what_its_bill_of_materials_lists() -> None:
    """The bill has the packages of the extra `audit`, which a clean clone would lack."""
    assert "rollcall-registry[audit]" in config()["options.extras_require"]["release"].split()


def test_extras_for_users_bring_nothing_of_the_tests_of_this_repository() -> None:
    extras = config()["options.extras_require"]
    assert extras["all"].split() == ["rollcall-registry[audit,test]"]
    assert {re.split("[>=]", one)[0] for one in extras["test"].split()} == {"pytest"}


def test_the_pythons_of_a_release_are_those_of_the_metadata() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", SETUP, re.MULTILINE)
    assert tuple(named) == PYTHONS
    assert list(dict(found_pythons())), "the tests run on one of them"


def test_the_description_on_the_index_has_no_link_into_the_repository() -> None:
    text = (ROOT / "scripts" / "package" / "README.md").read_text(encoding="utf-8")
    assert not [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    assert "pip install rollcall-registry" in text


def test_the_script_explains_itself_and_refuses_what_it_does_not_know() -> None:
    script = ROOT / "scripts" / "release"
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--dry-run" in done.stdout
    done = subprocess.run([script, "--dryrun"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "scripts/release: unknown option --dryrun; see scripts/release --help\n",
    )


def test_no_text_names_the_package_of_a_stranger() -> None:
    pattern = re.compile(r"pip install (?:-U )?['\"]?rollcall(?!-registry)\b")
    tops = [ROOT / name for name in ("app", "distro", "docs", "scripts", "deploy", "README.md")]
    files = [file for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]
    text_of = {
        file: file.read_text(encoding="utf-8", errors="replace")
        for file in files
        if file.suffix in (".py", ".md", ".sh", "") and file.is_file()
    }
    assert not [file for file, text in text_of.items() if pattern.search(text)]

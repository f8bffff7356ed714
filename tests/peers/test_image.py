"""The image, built from packages of Debian and run by the tool for containers that is installed here."""

import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from scripts.package import image
from tests.sdk.environments import NotInstallable, install_python_base

TOOLS = ("docker", "podman", "podman --runtime runc")
"""Debian's crun refuses a machine with control groups of both versions."""
TAG, BASE, OTHER_TAG = (f"localhost/rollcall-test-{name}:{os.getpid()}" for name in ("image", "base", "other"))
OWN_MB_MAX = 130
"""Of the environment: pip, a compiler or Spark in it would be more."""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command that runs containers here, which has a base of the name BASE."""
    reasons = []
    for words in TOOLS:
        tool = image.Tool(words.split())
        if shutil.which(words.split()[0]) is None:
            reasons.append(f"{words} is not in the path")
            continue
        try:
            tool.run("version")
            tool.run("import", install_python_base(), BASE)
            tool.run("run", "--rm", *image.limits(), BASE, "true")
        except (image.ImageFailed, NotInstallable) as error:
            reasons.append(str(error))
            continue
        yield words
        tool.run("image", "rm", "--force", TAG, BASE)
        return
    pytest.skip("; ".join(reasons))


def built_with(words: str) -> list[str]:
    """Options of a build: it needs least of the machine, trusts what the machine trusts, and leaves the image alone."""
    if words.startswith("podman"):
        trust = ["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
        return ["--network", "host", "--isolation", "chroot", "--layers=false", *trust]
    return ["--network", "host"]


@pytest.fixture(scope="module")
def table(words: str) -> str:
    """What the command prints that builds the image as TAG and tries it."""
    printed, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(errors):
        code = image.main(["--tool", words, "--tag", TAG, "--base", BASE, *built_with(words)])
    assert code == 0, errors.getvalue()
    return printed.getvalue()


def test_the_image_serves_with_a_read_only_root_and_keeps_its_data(table: str, words: str) -> None:
    rows = dict(re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE))
    assert {"first start: until it serves", "start with data: stop"} <= rows.keys()
    assert 50 < int(rows["without its base"].removesuffix(" MB")) < OWN_MB_MAX
    left = image.Tool(words.split()).run("ps", "--all", "--quiet", "--filter", "name=rollcall-trial")
    assert left == "", "no container is left"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("USER 0:0\nENV ROLLCALL_DATA_DIR=/tmp/data", r"has the rights.*\['0', '0', '0', '0'\]"),
        ('CMD ["serve", "--port", "none"]', r"the container exited\n.*none"),
    ],
    ids=["root", "wrong-setting"],
)
def test_a_container_that_is_wrong_is_refused(words: str, tmp_path: Path, change: str, reason: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {TAG}\n{change}\n")
    tool = image.Tool(words.split())
    tool.run("build", "--tag", OTHER_TAG, *built_with(words), tmp_path)
    try:
        with pytest.raises(image.ImageFailed, match=f"(?s){reason}"):
            image.trial(tool, OTHER_TAG)
    finally:
        tool.run("image", "rm", "--force", OTHER_TAG)


def test_without_a_tool_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert image.main([]) == 1
    assert capsys.readouterr().err == "image: neither docker nor podman is in the path\n"

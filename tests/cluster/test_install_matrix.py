"""The wheel beside packages that use the names `app` and `distro`, in each order of installing and removing.

All of it takes minutes, so it runs where ROLLCALL_INSTALL_MATRIX is set, as scripts/release does; one pair of it is in
test_sample_project.py.
"""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.support.built import install, run
from tests.support.other_packages import APP, DISTRO, OURS_BESIDE, make_app_project

OURS = "rollcall-registry"
OTHERS = {
    "distro": ("distro", DISTRO),
    "app": ("their-project", APP),
    "nacos-sdk-python": (
        "nacos-sdk-python==3.2.0",
        "from v2.nacos import ClientConfigBuilder, NacosNamingService\n"
        "assert ClientConfigBuilder().server_address('127.0.0.1:8848').build()\n",
    ),
    "openai": ("openai<2", "import openai\nassert openai.OpenAI(api_key='none').platform_headers\n" + DISTRO),
}
"""What to install of each other package, and a program that uses it."""
REMOVED = {"distro": "distro", "app": "their-project", "nacos-sdk-python": "nacos-sdk-python", "openai": "openai"}

pytestmark = pytest.mark.skipif(
    not os.environ.get("ROLLCALL_INSTALL_MATRIX"), reason="set ROLLCALL_INSTALL_MATRIX to install in every order"
)


@pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
@pytest.mark.parametrize("other", OTHERS)
def test_both_work_and_each_alone_after_the_other_is_removed(
    other: str,
    ours_first: bool,
    archives: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package, theirs = OTHERS[other]
    wanted = str(make_app_project(tmp_path)) if other == "app" else package
    begun_s = time.monotonic()
    first, second = (archives[1], wanted) if ours_first else (wanted, archives[1])
    commands = install(tmp_path, first)
    python = commands / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", second, folder=tmp_path)
    assert run(python, "-m", "pip", "check", folder=tmp_path).startswith("No broken requirements")
    # In one process, in each order of the imports.
    run(python, "-c", theirs + OURS_BESIDE + theirs, folder=tmp_path)
    run(python, "-c", OURS_BESIDE + theirs, folder=tmp_path)
    run(*pip, "uninstall", "--yes", REMOVED[other], folder=tmp_path)
    run(python, "-c", OURS_BESIDE, folder=tmp_path)
    assert run(commands / "rollcall", "--version", folder=tmp_path).startswith("rollcall ")
    run(*pip, "install", wanted, folder=tmp_path)
    run(*pip, "uninstall", "--yes", OURS, folder=tmp_path)
    run(python, "-c", theirs, folder=tmp_path)
    assert not (commands / "rollcall").exists()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    left = {path.name for path in (tmp_path / "venv" / "lib" / version / "site-packages").iterdir()}
    assert not [name for name in left if name.startswith("rollcall")]
    with capsys.disabled():
        print(f"\n{other}, {'ours' if ours_first else 'theirs'} first: works, {time.monotonic() - begun_s:.0f} s")

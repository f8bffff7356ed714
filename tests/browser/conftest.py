"""A real browser before three real members: pages with their scripts, styles, cookies and policy, as people have them.

Screenshots are left in the folder that ``ROLLCALL_SCREENSHOTS`` names, else in pytest's own.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.environments import NotInstallable, install_axe
from tests.support.auth import AUTH_ON, make_first_admin
from tests.support.damage import LONG
from tests.support.processes import FAST, HANG_S, VERIFY_WITHOUT_SAMPLES, ClusterProcesses, Member, eventually

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = HANG_S * 1_000
SHOT_TRIES = 3
WIDE, NARROW = {"width": 1_280, "height": 800}, {"width": 390, "height": 780}
FOUND = ("moderate", "serious", "critical")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOUR_RULES = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules of those that look at colours; all else is the same in the dark."""
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=2>\"'>"
HOSTILE_IP = "<b>ip</b>"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """The browser; one for all tests."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"there is none of {', '.join(NAMES)} in the path")
    # As root the browser does not run in its sandbox; in a container /dev/shm is small.
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options, timeout=TIMEOUT_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def axe() -> str:
    """The text of axe-core, which looks a page through for what people with a screen reader or a keyboard miss."""
    try:
        return install_axe().read_text(encoding="utf-8")
    except NotInstallable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are left."""
    given = os.environ.get("ROLLCALL_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass
class Visit:
    """One person's window at one member, and what went wrong in it."""

    page: Any
    member: Member
    shots: Path
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._on_said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.set_default_timeout(TIMEOUT_MS)

    def _on_said(self, message: Any) -> None:
        # A refusal is a page like any other; the browser calls it a failure to load.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def open(self, path: str) -> Any:
        """Go to a page of the console."""
        self.page.goto(f"http://{self.member.address}/nacos{path}")
        return self.page

    def press(self, name: str) -> None:
        """Press the first button or link of this name."""
        self.page.locator("a, button").filter(has_text=name).first.click()

    def shoot(self, name: str) -> None:
        """Leave a screenshot, of the whole page."""
        # With a path it would start a thread that writes it, and stays.
        # Of a page that is drawn anew just then, as one with live facts may be, Chromium has no picture.
        for left in reversed(range(SHOT_TRIES)):
            try:
                (self.shots / f"{name}.png").write_bytes(self.page.screenshot(full_page=True))
                return
            except playwright.Error as error:
                if not left or "Unable to capture screenshot" not in error.message:
                    raise

    def text(self) -> str:
        """All that is to be read on the page."""
        return str(self.page.inner_text("body"))


Visits = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Any, shots: Path) -> Iterator[Visits]:
    """Opens windows of people who know nothing of each other; at the end none may have met a fault."""
    windows: list[tuple[Any, Visit]] = []

    def begin(member: Member, *, narrow: bool = False, **options: Any) -> Visit:
        context = chromium.new_context(viewport=NARROW if narrow else WIDE, **options)
        windows.append((context, Visit(context.new_page(), member, shots)))
        return windows[-1][1]

    yield begin
    faults = [fault for _, one in windows for fault in one.faults]
    for context, _ in windows:
        context.close()
    assert not faults


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members without users, with services of all kinds, and hostile texts in one."""
    members = ClusterProcesses(tmp_path_factory.mktemp("open"), 3, {**FAST, **VERIFY_WITHOUT_SAMPLES})
    try:
        members.start()
        fill(members)
        yield members
    finally:
        members.end()
    members.assert_no_traceback()


def fill(members: ClusterProcesses) -> None:
    """Register what the tests look at, and wait until all members have it."""
    first = members.members[0].client
    for number in range(1, 6):
        assert first.register("orders", f"10.0.0.{number}", metadata=LONG, weight=number).status == 200
    assert first.register("billing", "10.0.1.1", ephemeral="false", clusterName="west").status == 200
    assert first.register("billing", "10.0.1.2", ephemeral="false", clusterName="east").status == 200
    for number in range(30):
        assert first.register(f"service-{number:02}", f"10.0.2.{number}", ephemeral="false").status == 200
    long = LONG.removesuffix("}") + ', "<i>key</i>": "' + HOSTILE.replace('"', '\\"') + '"}'
    assert first.register("hostile", HOSTILE_IP, metadata=long, app=HOSTILE).status == 200
    for member in members:
        eventually(lambda member=member: f"{HOSTILE_IP}:8080" in member.client.hosts("hostile"))  # type: ignore[misc]
        eventually(lambda member=member: len(member.client.hosts("billing")) == 2)  # type: ignore[misc]


@pytest.fixture(scope="package")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that ask for users, with an administrator."""
    members = ClusterProcesses(tmp_path_factory.mktemp("users"), 3, {**FAST, **AUTH_ON})
    try:
        members.start()
        make_first_admin(members.members[0])
        yield members
    finally:
        members.end()
    members.assert_no_traceback()


def findings(page: Any, axe: str, rules: dict[str, list[str]] = RULES) -> list[str]:
    """What axe finds on a page, but for what is minor: rule, how serious, the first place."""
    # The policy of the page lets no script in; that of the test comes by the debugger's way.
    page.evaluate(axe)
    found = page.evaluate("options => axe.run(document, options)", rules)
    return [
        f"{one['id']} ({one['impact']}): {one['nodes'][0]['html']}"
        for one in found["violations"]
        if one["impact"] in FOUND
    ]

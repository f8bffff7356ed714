"""Rules of the house that no linter knows."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sorted(path for folder in ("app", "distro", "scripts") for path in (ROOT / folder).rglob("*.py"))
WRITTEN = [path for path in PYTHON if "pb" not in path.parts]
"""Without modules that a compiler wrote."""
TEXT = {".py", ".cfg", ".toml", ".md", ".yml", ".yaml", ".html", ".js", ".css", ".sh", ".json", ".jsonl", ""}
MODULE_LINES_MAX = 400
WHOLE = {
    "distro/receive/receive.py": "the way of a datum that came: each decision, and what it does",
    "distro/model/types.py": "the values that the engine passes around: keys, members, answers, and the calls to make",
    "app/naming/records/records.py": "each change of a record, by a client or a peer, and what follows from it",
    "app/tools/simulation/world/checker.py": "all that must hold, over one memory of what was seen",
    "app/naming/wire/datum_codec.py": "the JSON of one datum, written and read: whole, a delta, a claim",
    "app/http/server/connection.py": "one connection's socket: replies in order, what is not read, and the end",
    "app/rpc/server/transport.py": "one connection's socket: what comes, what is sent, what takes too long",
    "app/rpc/server/http2.py": "the states of one connection: each frame, and what it makes of a stream or of all",
}
"""Longer modules that tell one story, and which."""
FUNCTION_LINES_MAX = 60
THREAD_OWNERS = {
    "distro/engine/runtime.py",
    "distro/engine/mailbox.py",
    "app/links/link_thread.py",
    "app/links/nacos_connection.py",
    "app/members/member_ips.py",
    "app/members/member_lookup.py",
    "app/background/timers.py",
    "app/background/push_udp.py",
    "app/rpc/server/grpc_server.py",
    "app/metrics/event_watch.py",
    "app/metrics/line_file.py",
    "app/tools/embedded/loop_thread.py",
    "app/tools/command/asking/server_events.py",
    "app/tools/demo/demo_clients.py",
    "app/tools/demo/demonstration.py",
}
NO_BEGINNINGS = {"What", "Of", "That", "Those", "Who", "Whether"}
"""A docstring begins with a verb or a noun, so with none of these."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts(*tops: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of ours but this under these folders, and of these files."""
    for top in tops:
        found = [ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*"))
        for path in found:
            ours = path.suffix in TEXT and not {"__pycache__", "node_modules"} & set(path.parts)
            if path.is_file() and ours and path != Path(__file__).resolve():
                yield name(path), path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_only_their_owners_start_threads(path: Path) -> None:
    if name(path) not in THREAD_OWNERS:
        assert not re.search(r"\bThread\(", path.read_text()), "see the owners of threads in THREAD_OWNERS"


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_a_module_is_about_one_thing(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= MODULE_LINES_MAX or name(path) in WHOLE, "does it tell two stories? Then compose them"


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_a_function_does_one_thing(path: Path) -> None:
    long = [
        f"{node.name} ({lines} lines)"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of a module, its classes and functions, and those below its attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                yield line, text


def begins_wrongly(text: str) -> bool:
    return bool(words := re.findall(r"\w+", text)) and words[0] in NO_BEGINNINGS


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_a_docstring_begins_with_a_verb_or_a_noun(path: Path) -> None:
    found = [f"line {line}: {text}" for line, text in docstrings(ast.parse(path.read_text())) if begins_wrongly(text)]
    assert not found, "\n".join(["see the words in NO_BEGINNINGS:", *found])


@pytest.mark.parametrize(
    "code",
    [
        '"""What it is."""',
        'def f():\n    """Whether it is."""',
        'class A:\n    x = 1\n    """Of it."""',
        'class A:\n    def __init__(self):\n        self.x = 1\n        """Those, and others."""',
    ],
)
def test_a_docstring_that_begins_wrongly_is_found_wherever_it_stands(code: str) -> None:
    assert [text for _, text in docstrings(ast.parse(code)) if begins_wrongly(text)]


NO_CALLBACKS = {"on_loop", "on_cluster_port", "text_factory"}
"""Attributes that say where a call came, and a function that sqlite3 takes in no other way."""


def late_callbacks(tree: ast.Module) -> Iterator[str]:
    """Yield each assignment that sets a callback of an object after its construction, or a default that waits for one.

    A callback of another object is an attribute named ``on_*``, or one that gets a lambda or a function of this module.
    """
    methods = {
        one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                annotation = ""
            case ast.AnnAssign(target=target, annotation=typed, value=value):
                targets, annotation = [target], ast.unparse(typed)
            case _:
                continue
        for target in targets:
            match target:
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    found = "Callable" in annotation and isinstance(value, ast.Lambda)
                case ast.Attribute(attr=attribute):
                    is_callback = attribute.startswith("on_") or is_function(value, functions - methods, methods)
                    found = is_callback and attribute not in NO_CALLBACKS
                case _:
                    continue
            if found:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def is_function(value: ast.expr | None, functions: set[str], methods: set[str]) -> bool:
    """Return whether a value is a lambda, one of these functions, or one of these methods of ``self``."""
    match value:
        case ast.Lambda():
            return True
        case ast.Name(id=called):
            return called in functions
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=called):
            return called in methods
        case _:
            return False


@pytest.mark.parametrize("path", [path for path in WRITTEN if name(path).startswith(("app/", "distro/"))], ids=name)
def test_no_callback_is_set_after_construction(path: Path) -> None:
    found = list(late_callbacks(ast.parse(path.read_text())))
    assert not found, "\n".join(["hand it to the constructor, and build the part that it calls first:", *found])


@pytest.mark.parametrize(
    "code",
    [
        "server.on_end = end",
        "self.records.on_write: Callable[[], None] = note",
        "cluster.refuses = lambda: True",
        "def take(key): ...\ncluster.take = take",
        "class A:\n    def check(self): ...\n    def f(self): self.cluster.check = self.check",
        "class A:\n    def __init__(self):\n        self.take: Callable[[str], None] = lambda _key: None",
    ],
)
def test_a_callback_that_is_set_late_is_found(code: str) -> None:
    assert list(late_callbacks(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "self._on_end = on_end",
        "class A:\n    def __init__(self, end: Callable[[], None] = lambda: None):\n        self._end = end",
        "call.user = session.user",
        "call.on_loop = True",
    ],
)
def test_a_callback_of_a_constructor_and_a_value_are_fine(code: str) -> None:
    assert not list(late_callbacks(ast.parse(code)))


def unexplained(text: str) -> Iterator[str]:
    """Yield each line that leaves the types without a reason in the line, or in a comment right above it."""
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        left = re.search(r"# type: ignore(\[[\w-]+(, ?[\w-]+)*\])?(?P<ignored>.*)|(?<![.\w])cast\((?P<cast>.*)", line)
        if left and not above.startswith("#"):
            reason = left["ignored"] if left["ignored"] is not None else left["cast"]
            if not re.search(r"# +(?!type: ignore)\S+ \S+", reason):
                yield f"line {number}: {line.strip()}"
        above = line.strip()


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_whoever_leaves_the_types_says_why(path: Path) -> None:
    assert not list(unexplained(path.read_text()))


@pytest.mark.parametrize(
    ("code", "is_explained"),
    [
        ("x = f()  # type: ignore", False),
        ("x = f()  # type: ignore[misc, arg-type]", False),
        ("x = cast(int, y)", False),
        ("x = typed.cast(int)", True),
        ("x = cast(int, y)  # the library has no types", True),
        ("x = f()  # type: ignore[misc]  # the library has no types", True),
        ("# The library has no types.\nx = f()  # type: ignore[misc]", True),
    ],
)
def test_a_reason_stands_beside_what_leaves_the_types_or_above_it(code: str, is_explained: bool) -> None:
    assert (not list(unexplained(code))) is is_explained


@pytest.mark.parametrize("path", [path for path in WRITTEN if path.name == "__init__.py"], ids=name)
def test_a_package_runs_nothing_when_imported(path: Path) -> None:
    module = ast.parse(path.read_text())
    assert ast.get_docstring(module), "a package says what it is"
    assert len(module.body) == 1, "and nothing more"


def test_what_is_called_from_outside_is_there() -> None:
    """Each entry of the list of names that only look unused is still in the code."""
    entries = ast.parse((ROOT / ".ci" / "vulture_whitelist.py").read_text()).body[1:]
    code = "\n".join(path.read_text() for path in PYTHON)
    words = set(re.findall(r"\w+", code))
    assert not [ast.unparse(one) for one in entries if ast.unparse(one).removeprefix("_.") not in words]


def test_no_two_classes_share_a_name() -> None:
    found = Counter(
        node.name
        for path in WRITTEN
        if path.relative_to(ROOT).parts[0] != "scripts"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in found.items() if count > 1]


def test_no_two_files_share_a_name() -> None:
    """But where the folder completes the name: endpoints of v1, v2 and v3, the audit's commands, scripts."""
    completed = re.compile(r"app/http/v[123]/|app/tools/audit/\w+/command\.py$|scripts/|__init__\.py$")
    found = Counter(path.name for path in PYTHON if not completed.search(name(path)))
    assert not [file for file, count in found.items() if count > 1]


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    tops = ("app", "distro", "scripts", "tests", "deploy", ".ci")
    assert not [where for where, text in texts(*tops) if marks.search(text)]


def test_no_path_of_one_machine() -> None:
    tops = ("app", "distro", "scripts", "tests", "deploy", "docs", ".ci", "README.md", "CHANGELOG.md", "setup.cfg")
    assert not [where for where, text in texts(*tops) if "/work/" in text]

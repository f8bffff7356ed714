"""Client libraries, each installed in a folder of its own: none of what they need may come into our environment.

PyPI's package ``distro`` would take the place of our package of that name; the libraries' other needs may clash too.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scripts.package.image import DEBIAN
from tests.support.processes import clean_environ

PROGRAMS = Path(__file__).with_name("programs")
CHECK = Path(__file__).resolve().parents[2] / "scripts" / "distro_check.py"
JAVA_SOURCES = ("pom.xml", "src/main/java/JavaClient.java")
DUBBO_SOURCES = (
    "pom.xml",
    "src/main/java/DubboClient.java",
    "src/main/java/Greeter.java",
    "src/main/java/com/foo/Outer.java",
)
FUZZY_SOURCES = ("pom.xml", "src/main/java/FuzzyClient.java")
MAINTAINER_SOURCES = ("pom.xml", "src/main/java/MaintainerClient.java")
SPRING_SOURCES = ("pom.xml", "src/main/java/SpringClient.java")
TRINO_SOURCES = ("pom.xml", "TrinoServer.java")
GO_SOURCES = ("go.mod", "go.sum", "lines/lines.go", "http/main.go", "grpc/main.go")
PYTHON_SDK = "nacos-sdk-python==0.1.17"
JAVA_SDK, JAVA_2_SDK, JAVA_3_SDK = "1.4.8", "2.5.1", "3.1.1"
"""The first speaks HTTP, the others gRPC."""
SPRING_CLOUD_ALIBABA = "2023.0.3.3"
"""It has a nacos-client of its own choice, which speaks gRPC."""
PYTHON_2_SDK, PYTHON_3_SDK = "nacos-sdk-python==2.0.11", "nacos-sdk-python==3.2.0"
"""They speak gRPC."""
RUST_SDK = "nacos-sdk-rust-binding-py==0.8.0"
"""The Rust SDK as a package of Python, which needs no compiler; it speaks gRPC."""
MAINTAINER_JAVA, MAINTAINER_PYTHON = "3.2.1-2026.03.30", "nacos-maintainer-sdk-python==0.5.3"
"""They call HTTP v3 as operators do."""
NODE_SDK = '{"private": true, "dependencies": {"nacos": "2.6.3"}}\n'
AXE = '{"private": true, "dependencies": {"axe-core": "4.14.1"}}\n'
OPERATOR_MODELS = "cloudcoil-models-prometheus-operator==0.80.1.0"
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
HELM = "helm.sh/helm/v3/cmd/helm@v3.18.6"
COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@v2.8.1"
"""The loader of `docker compose`, with a command that prints what it reads."""
TRINO = "435"
"""The last release for Java 17. Its connector comes as a plugin, as it does with a server."""
GRAFANA = "grafana-foundation-sdk==1769699998!10.1.0"
"""Grafana's own types of a dashboard."""
PYSPARK_MIN = "4.0.0"
"""The oldest release of Spark that the nightly check supports."""
INSTALL_TIMEOUT_S = 600
"""With a cold cache and a slow network; a warm one takes ten seconds, and Go compiles for a minute."""
TEXT_CHARS_MAX = 400


class NotInstallable(Exception):
    """The tool or the network is missing; the text says which, and what it said."""


@dataclass(frozen=True, slots=True)
class Environment:
    """How a program of ours runs with a library."""

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=clean_environ)


def install_python() -> Environment:
    """nacos-sdk-python.

    Raises:
        NotInstallable: pip could not get it.
    """
    return _python_with(PYTHON_SDK, "python", "python_client.py")


def install_python_rpc(package: str) -> Environment:
    """nacos-sdk-python since 2.0.

    Raises:
        NotInstallable: pip could not get it.
    """
    return _python_with(package, "python-rpc", "python_rpc_client.py")


def install_operator_models() -> Environment:
    """The Prometheus operator's kinds as models, made from its CRDs.

    Raises:
        NotInstallable: pip could not get them.
    """
    return _python_with(OPERATOR_MODELS, "operator-models", "operator_models.py")


def install_rust() -> Environment:
    """nacos-sdk-rust, by its binding for Python.

    Raises:
        NotInstallable: pip could not get it.
    """
    return _python_with(RUST_SDK, "rust", "rust_client.py")


def _python_with(package: str, name: str, program: str) -> Environment:
    # The environment is of no use without the Python that it was made with.
    wanted = f"{package} {sys.version} {sys.base_prefix}"

    def fill(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], folder.parent)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, package], folder.parent)

    folder = _cached(name, wanted, fill)
    return Environment((str(folder / "bin/python"), str(PROGRAMS / program)))


def install_node() -> Environment:
    """The package nacos of Node.js.

    Raises:
        NotInstallable: node or npm is missing, or npm could not get it.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstallable("node or npm is not in the path")

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / "package.json").write_text(NODE_SDK)
        _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], folder)

    folder = _cached("node", NODE_SDK, fill)
    environ = clean_environ() | {"NODE_PATH": str(folder / "node_modules")}
    return Environment((node, str(PROGRAMS / "node_client.js")), environ)


def install_axe() -> Path:
    """The script axe-core, which looks a page of a browser through for what keeps people out.

    Raises:
        NotInstallable: npm is missing, or could not get it.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallable("npm is not in the path")

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / "package.json").write_text(AXE)
        _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], folder)

    return _cached("axe", AXE, fill) / "node_modules" / "axe-core" / "axe.min.js"


def install_java(version: str = JAVA_SDK) -> Environment:
    """nacos-client of Java, compiled into our program.

    Raises:
        NotInstallable: java or mvn is missing, or mvn could not get it.
    """
    return _java_with("java", JAVA_SOURCES, version, "JavaClient")


def install_dubbo() -> Environment:
    """Dubbo with nacos-client, compiled into our program: a provider or a consumer.

    Raises:
        NotInstallable: as above.
    """
    return _java_with("dubbo", DUBBO_SOURCES, JAVA_2_SDK, "DubboClient")


def install_spring() -> Environment:
    """Spring Cloud Alibaba, compiled into our program: a provider or a consumer.

    Raises:
        NotInstallable: as above.
    """
    return _java_with("spring", SPRING_SOURCES, SPRING_CLOUD_ALIBABA, "SpringClient")


def install_fuzzy() -> Environment:
    """nacos-client 3 of Java, compiled into our program that watches services by patterns.

    Raises:
        NotInstallable: as above.
    """
    return _java_with("fuzzy", FUZZY_SOURCES, JAVA_3_SDK, "FuzzyClient")


def install_maintainer() -> Environment:
    """nacos-maintainer-client of Java, compiled into our program; a call that fails is not repeated.

    Raises:
        NotInstallable: as above.
    """
    found = _java_with("maintainer", MAINTAINER_SOURCES, MAINTAINER_JAVA, "MaintainerClient")
    java, *more = found.command
    return Environment((java, "-DMAINTAINER.CLIENT.MAX.RETRY.TIMES=0", *more), found.environ)


def install_maintainer_python() -> Environment:
    """nacos-maintainer-sdk-python.

    Raises:
        NotInstallable: pip could not get it.
    """
    return _python_with(MAINTAINER_PYTHON, "maintainer-python", "python_maintainer_client.py")


def _java_with(name: str, sources: Sequence[str], version: str, program: str) -> Environment:
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        raise NotInstallable("java or mvn is not in the path")

    def fill(folder: Path) -> None:
        _copy(PROGRAMS / name, sources, folder)
        chosen = f"-Dlibrary.version={version}"
        _run([maven, "--batch-mode", "--quiet", chosen, "compile", "dependency:copy-dependencies"], folder)

    folder = _cached(name, version + _texts(PROGRAMS / name, sources), fill) / "target"
    # The library's logs and caches go to the home folder, which Java does not take from HOME.
    options = ("-Duser.home=.", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Environment((java, *options, "-cp", f"{folder / 'classes'}:{folder / 'dependency'}/*", program))


def install_go(program: str = "http") -> Environment:
    """nacos-sdk-go, compiled into one of our programs.

    Raises:
        NotInstallable: go is missing, or could not get it.
    """
    go = _go()

    def fill(folder: Path) -> None:
        _copy(PROGRAMS / "go", GO_SOURCES, folder)
        _run([go, "build", "-buildvcs=false", "-o", "bin/", "./http", "./grpc"], folder)

    return Environment((str(_cached("go", _texts(PROGRAMS / "go", GO_SOURCES), fill) / "bin" / program),))


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise NotInstallable("go is not in the path")
    return go


def install_h2spec() -> str:
    """h2spec, compiled; the path of its command.

    Raises:
        NotInstallable: go is missing, or could not get it.
    """
    return _go_command(H2SPEC)


def install_helm() -> str:
    """Helm, from the path or compiled, which takes some minutes once; the path of its command.

    Raises:
        NotInstallable: go is missing, or could not get it.
    """
    return shutil.which("helm") or _go_command(HELM)


def install_compose() -> str:
    """The reader of compose files, compiled; the path of its command.

    Raises:
        NotInstallable: go is missing, or could not get it.
    """
    return _go_command(COMPOSE)


def install_grafana() -> Environment:
    """Grafana's types, with a program that names the fields of a dashboard that they lack.

    Raises:
        NotInstallable: pip could not get it.
    """
    return _python_with(GRAFANA, "grafana", "dashboard_fields.py")


def install_oldest_pyspark() -> Environment:
    """The nightly check, by this Python and its packages, with the oldest PySpark in the place of the newest.

    Raises:
        NotInstallable: pip could not get it.
    """

    def fill(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--target", str(folder), f"pyspark=={PYSPARK_MIN}"], folder.parent)

    folder = _cached("pyspark", PYSPARK_MIN, fill)
    return Environment((sys.executable, str(CHECK)), clean_environ() | {"PYTHONPATH": str(folder)})


def install_trino() -> Environment:
    """Trino's engine and its connector for Hive, in a program that runs statements; some 300 MB, so not for every run.

    Raises:
        NotInstallable: a tool is missing, or mvn could not get it.
    """
    java, maven, unzip = shutil.which("java"), shutil.which("mvn"), shutil.which("unzip")
    if java is None or maven is None or unzip is None:
        raise NotInstallable("java, mvn or unzip is not in the path")

    def fill(folder: Path) -> None:
        _copy(PROGRAMS / "trino", TRINO_SOURCES, folder)
        mvn = [maven, "--batch-mode", "--quiet", f"-Dlibrary.version={TRINO}"]
        _run([*mvn, "dependency:copy-dependencies"], folder)
        plugin = f"-Dartifact=io.trino:trino-hive:{TRINO}:zip"
        _run([*mvn, "dependency:copy", plugin, f"-DoutputDirectory={folder}"], folder)
        _run([unzip, "-q", f"trino-hive-{TRINO}.zip"], folder)
        (folder / f"trino-hive-{TRINO}.zip").unlink()
        jars = f"target/dependency/*:trino-hive-{TRINO}/*"
        _run(["javac", "-d", "target/classes", "-cp", jars, "TrinoServer.java"], folder)

    folder = _cached("trino", TRINO + _texts(PROGRAMS / "trino", TRINO_SOURCES), fill)
    jars = [folder / "target/classes", folder / "target/dependency/*", folder / f"trino-hive-{TRINO}/*"]
    options = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Environment((java, *options, "-cp", ":".join(map(str, jars)), "TrinoServer"))


def install_python_base() -> Path:
    """A Debian with Python, as an archive of its root folder.

    Raises:
        NotInstallable: mmdebstrap is missing, or could not get it.
    """
    command = shutil.which("mmdebstrap")
    if command is None:
        raise NotInstallable("mmdebstrap is not in the path")

    def fill(folder: Path) -> None:
        folder.mkdir()
        _run([command, *DEBIAN, "trixie", str(folder / "base.tar")], folder)

    return _cached("python-base", " ".join(DEBIAN), fill) / "base.tar"


def _go_command(package: str) -> str:
    """Return the path of a command that Go compiles, named as the last part of its package."""
    go, path = _go(), package.partition("@")[0]

    def fill(folder: Path) -> None:
        _run([go, "install", package], folder.parent, GOBIN=str(folder / "bin"))

    name = path.rpartition("/")[2]
    folder = _cached("compose" if name == "cmd" else name, package, fill)
    return str(folder / "bin" / name)


INSTALLERS: Mapping[str, Callable[[], Environment]] = {
    "python": install_python,
    "node": install_node,
    "java": install_java,
    "go": install_go,
}
"""Over HTTP."""
GRPC_INSTALLERS: Mapping[str, Callable[[], Environment]] = {
    "java": partial(install_java, JAVA_2_SDK),
    "java-3": partial(install_java, JAVA_3_SDK),
    "go": partial(install_go, "grpc"),
    "python-2": partial(install_python_rpc, PYTHON_2_SDK),
    "python-3": partial(install_python_rpc, PYTHON_3_SDK),
}
"""Over gRPC."""


def _texts(folder: Path, names: Sequence[str]) -> str:
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def _copy(source: Path, names: Sequence[str], target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def _cached(name: str, wanted: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder that holds ``wanted``; ``fill`` makes it when no run before this one did."""
    given = os.environ.get("ROLLCALL_TEST_CACHE")
    cache = Path(given).absolute() if given else Path.home() / ".cache" / "rollcall-tests"
    folder = cache / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{name}.lock"):
            # The stamp is written last: without it the folder is what an interrupted run left.
            stamp = folder / ".complete"
            if not stamp.exists():
                shutil.rmtree(folder, ignore_errors=True)
                fill(folder)
                stamp.touch()
    except OSError as error:
        raise NotInstallable(f"{folder} cannot be written: {error}") from error
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other run of the tests installs the same."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str], folder: Path, **environ: str) -> None:
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"{command[0]} did not end within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise NotInstallable(f"{' '.join(command)}: {said[-TEXT_CHARS_MAX:]}")


def install_all() -> None:
    """Have every library that can be had, for tests that come later."""
    java = (install_dubbo, install_fuzzy, install_maintainer)
    tools = (install_h2spec, install_axe, install_compose, install_grafana, install_helm, install_python_base)
    others = (*java, install_rust, install_maintainer_python, *tools)
    # The largest one first.
    for install in (install_oldest_pyspark, *INSTALLERS.values(), *GRPC_INSTALLERS.values(), *others):
        with suppress(NotInstallable):
            install()


if __name__ == "__main__":
    install_all()

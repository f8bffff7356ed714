"""The Helm chart, as Helm renders it."""

import subprocess
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.support.shipped import DEPLOY

CHART = DEPLOY / "helm" / "rollcall"
SHAPES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
RELEASE, NAMESPACE = "rollcall", "registry"
KUBERNETES = "1.35.0"
"""Helm that Go compiled without its makefile takes the cluster for an old one."""
TIMEOUT_S = 120
IDENTITY, TOKEN_KEY = "NACOS_CORE_AUTH_SERVER_IDENTITY_VALUE", "NACOS_CORE_AUTH_PLUGIN_NACOS_TOKEN_SECRET_KEY"


def values_of(shape: str) -> Path:
    """Return the file of an example's values."""
    return CHART / "ci" / f"{shape}-values.yaml"


class Helm:
    """One command of Helm."""

    def __init__(self, command: str, folder: Path) -> None:
        """``folder``: a new one for what Helm keeps."""
        self._command = command
        self._folder = folder
        self._environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(folder / "none")}

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run a command of Helm."""
        return subprocess.run(
            [self._command, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            env=self._environ,
            cwd=self._folder,
        )

    def text(self, shape: str | None, *words: str, chart: Path = CHART) -> str:
        """Return all documents of an example's values, changed by options of `helm template`."""
        done = self._template(shape, words, chart)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def render(self, shape: str | None, *words: str) -> "Rendered":
        """Return the objects of an example's values, changed by options of `helm template`."""
        return Rendered([one for one in yaml.safe_load_all(self.text(shape, *words)) if one])

    def refusal(self, shape: str | None, *words: str) -> str:
        """Return why Helm refuses these values."""
        done = self._template(shape, words, CHART)
        assert done.returncode != 0, "the chart took these values"
        return done.stderr

    def _template(self, shape: str | None, words: Sequence[str], chart: Path) -> "subprocess.CompletedProcess[str]":
        values = ["--values", str(values_of(shape))] if shape else []
        where = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES]
        return self.run("template", RELEASE, chart, *where, *values, *words)


class Rendered:
    """The objects of a release."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return copies of all objects of a kind: tests share what is rendered."""
        return deepcopy([one for one in self.objects if one["kind"] == kind])

    def one(self, kind: str, name: str | None = None) -> dict[str, Any]:
        """Return the only object of a kind, or of a kind with this name."""
        [found] = [one for one in self.all(kind) if name is None or one["metadata"]["name"] == name]
        return found

    def pod(self) -> dict[str, Any]:
        """Return the template of a member's pod."""
        found: dict[str, Any] = self.one("StatefulSet")["spec"]["template"]
        return found

    def container(self) -> dict[str, Any]:
        """Return the container of a member."""
        [found] = self.pod()["spec"]["containers"]
        return dict(found)

    def variables(self) -> dict[str, str]:
        """Return the variables that a member's container is given as text."""
        return {one["name"]: one["value"] for one in self.container()["env"] if "value" in one}

    def configuration(self) -> dict[str, str]:
        """Return the files of a member's configuration folder."""
        found: dict[str, str] = self.one("ConfigMap", f"{RELEASE}-members")["data"]
        return found

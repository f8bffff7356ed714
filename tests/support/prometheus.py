"""A real Prometheus, and what is shipped for it: its files in a folder of a test, with addresses of loopback."""

import json
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes import clean_environ, free_ports
from tests.support.shipped import DEPLOY

RULES = (DEPLOY / "prometheus-node-rules.yml", DEPLOY / "prometheus-rules.yml")
DASHBOARDS = (DEPLOY / "grafana-node.json", DEPLOY / "grafana-dashboard.json")
STEP_S = 1
"""Between two scrapes, and two evaluations of the rules."""
WINDOW_S = 6
"""For all ranges of rules: some scrapes. An alert is over so long after its cause."""
PANEL_WINDOW_S = 60
"""For all ranges of panels: two scrapes, also on a machine that has no time for most of them."""
HASTE, FOR_S_MAX = 10, 4
"""Rules wait for a tenth of their time; those that are about minutes wait for some seconds at most."""
HOUR_S = 3_600
_SECONDS = {"s": 1, "m": 60, "h": HOUR_S}
_RANGE = re.compile(r"(last_over_time\(.*?\))|\[(?:\d+[smhd]|\$__rate_interval)\]")
"""A range, but not of a function that looks back for the last sample."""
_PATH = re.compile(r"(?<![\w.])/(?=(?:etc|run)/)")


def program(name: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"{name} is not there: Debian's packages prometheus and prometheus-node-exporter have it")
    return found


class Process:
    """A program that serves HTTP at ``address`` until ``stop``; its output is in a file of its folder."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = [program(name), *arguments, f"--web.listen-address={self.address}"]
        with (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(command, env=clean_environ(), stdout=log, stderr=log)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


class Prometheus(Process):
    """A Prometheus with this configuration; its folder must be one of its own."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        super().__init__("prometheus", folder, f"--config.file={file}", f"--storage.tsdb.path={folder / 'tsdb'}")

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("targets?state=active")["activeTargets"]
        return found

    def query(self, text: str) -> list[Any]:
        found: list[Any] = self.ask(f"query?query={urllib.parse.quote(text)}")["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that fire, with their labels and since when (``activeAt``)."""
        found: list[dict[str, Any]] = self.ask("alerts")["alerts"]
        return [one for one in found if one["state"] == "firing"]


class ShippedFiles:
    """The file system that shipped files of Prometheus expect, in a folder: rules, tokens and the configuration.

    Paths below /etc and /run become those of the folder, addresses become what ``addresses`` names for them, and times
    become short. All else stays as it is shipped.
    """

    def __init__(self, folder: Path, config: Path, addresses: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir()
        text = config.read_text(encoding="utf-8")
        for shipped, here in addresses.items():
            assert shipped in text, f"{shipped} is not in {config}"
            text = text.replace(shipped, here)
        self.config: dict[str, Any] = yaml.safe_load(_PATH.sub(f"{folder}/", text))
        self.config["global"] |= {"scrape_interval": f"{STEP_S}s", "evaluation_interval": f"{STEP_S}s"}

    def put(self, path: str, text: str) -> None:
        """Write a file at a path of the shipped files."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def put_rules(self, path: str, file: Path) -> None:
        """Write a file of rules, in haste."""
        self.put(path, json.dumps(in_haste(yaml.safe_load(file.read_text(encoding="utf-8")))))

    def start(self) -> Prometheus:
        return Prometheus(self.folder, self.config)


def in_haste(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups of rules, with short ranges and waits."""
    groups = [
        group | {"rules": [rule | {"expr": short_ranges(rule["expr"]), **_wait(rule)} for rule in group["rules"]]}
        for group in rules["groups"]
    ]
    return {"groups": groups}


def short_ranges(expression: str, window_s: int = WINDOW_S) -> str:
    """Return an expression of a rule or a panel as it can be asked after some seconds."""
    text = _RANGE.sub(lambda found: found[1] or f"[{window_s}s]", expression)
    return text.replace("$instance", ".*")


def _wait(rule: Mapping[str, Any]) -> dict[str, str]:
    if "for" not in rule:
        return {}
    shipped_s = int(rule["for"][:-1]) * _SECONDS[rule["for"][-1]]
    most_s = FOR_S_MAX if shipped_s < HOUR_S else shipped_s
    return {"for": f"{min(max(shipped_s // HASTE, 1), most_s)}s"}


def panel_queries(dashboard: Path) -> list[tuple[str, str]]:
    """The title and expression of each query of a dashboard, as it can be asked after some seconds."""
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    return [
        (panel["title"], short_ranges(target["expr"], PANEL_WINDOW_S))
        for panel in panels
        for target in panel["targets"]
    ]

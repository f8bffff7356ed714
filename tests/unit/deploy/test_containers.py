"""Image, compose and Kubernetes: their schemas take them, and what they say of each other and of the node is true."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePath
from typing import Any

import pytest
import yaml

from app.config.rpc_settings import RPC_CLUSTER_OFFSET, RPC_SDK_OFFSET
from app.config.settings import read_settings
from app.config.settings_keys import KEYS, snake
from tests.support.prometheus import DASHBOARDS, RULES
from tests.support.promtool import promtool
from tests.support.shipped import COMPOSE, DEPLOY, composition, mounted, secrets_in, variables

ROOT = Path(__file__).resolve().parents[3]
SECRETS = DEPLOY / "secrets.sh"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
MANIFESTS = sorted(path for path in (DEPLOY / "k8s").glob("*.yaml") if path.name != "kustomization.yaml")
HTTP_PORT = 8848
UID = 10848


def tool(name: str) -> Path:
    """A command of this environment; skips the test when it is not installed."""
    command = Path(sys.executable).with_name(name)
    if not command.exists():
        pytest.skip(f"{name} is not installed in this environment")
    return command


def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def documents() -> dict[str, list[dict[str, Any]]]:
    """All manifests by their kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in MANIFESTS:
        for one in yaml.safe_load_all(path.read_text()):
            found.setdefault(one["kind"], []).append(one)
    return found


# --- the image ------------------------------------------------------------------------------------


def test_the_linter_has_nothing_to_say_of_the_image() -> None:
    done = run(tool("hadolint"), DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_linter_is_one_that_speaks(tmp_path: Path) -> None:
    open_one = tmp_path / "Dockerfile"
    open_one.write_text("FROM python\nRUN cd /tmp\n")
    assert "DL3006" in run(tool("hadolint"), open_one).stdout


def test_the_image_is_of_a_fixed_user_and_a_pinned_base() -> None:
    text = DOCKERFILE.read_text()
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", text, re.MULTILINE)
    final = text.rpartition("\nFROM ")[2]
    assert re.search(rf"^USER {UID}:{UID}$", final, re.MULTILINE)
    assert "pip install" not in final
    assert f"EXPOSE {HTTP_PORT} {HTTP_PORT + RPC_SDK_OFFSET} {HTTP_PORT + RPC_CLUSTER_OFFSET}" in final


def test_compiled_modules_of_the_image_count_whatever_its_layers_do_to_times() -> None:
    """Layers round times to seconds. A start then compiled 1,300 modules."""
    build = DOCKERFILE.read_text().rpartition("\nFROM ")[0]
    assert "compileall -q -f --invalidation-mode unchecked-hash /opt/rollcall/.venv/lib" in build


def test_packages_of_the_image_can_come_from_a_mirror() -> None:
    build = DOCKERFILE.read_text().rpartition("\nFROM ")[0]
    assert re.search(r"^ARG PIP_INDEX_URL=$.*^RUN .*pip install", build, re.MULTILINE | re.DOTALL)


def test_each_variable_of_the_image_is_a_setting() -> None:
    names = {snake(name) for key in KEYS for name in key.names}
    given = set(re.findall(r"^(?:ENV| +)\s*((?:ROLLCALL|NACOS|SERVER)_[A-Z_]+)=", DOCKERFILE.read_text(), re.MULTILINE))
    assert given
    assert given <= names


def test_all_that_the_build_copies_is_in_its_context() -> None:
    """The list of what is left out begins with everything."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    taken = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert all((ROOT / one).exists() for one in taken)
    assert {"app", "distro", "setup.cfg", "pyproject.toml", "deploy", "scripts/package"} <= set(taken)
    copied = set(re.findall(r"deploy/\S+\.(?:py|sh)", DOCKERFILE.read_text()))
    assert copied == {"deploy/docker/healthcheck.py", "deploy/docker/first_admin.py", "deploy/nightly.sh"}


# --- compose --------------------------------------------------------------------------------------


def test_the_schema_takes_the_composition() -> None:
    done = run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_refuses_another_one(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("cap_drop:", "cap_drops:"))
    assert run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", wrong).returncode != 0


def test_members_of_the_composition_are_those_that_they_list(tmp_path: Path) -> None:
    secret = variables((secrets_in(tmp_path) / "rollcall.env").read_text())
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    members = {name: one for name, one in services.items() if name.startswith("member")}
    assert len(members) == 3
    for name, one in members.items():
        settings = read_settings(environ={**secret, **one["environment"]})
        assert settings.self_address == f"{name}:{HTTP_PORT}"
        assert set(settings.members) == {f"{member}:{HTTP_PORT}" for member in members}
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
    ports = [published.split(":")[:2] for one in members.values() for published in one["ports"]]
    assert all(host == "127.0.0.1" for host, _ in ports)
    assert len({port for _, port in ports}) == len(ports)


def test_what_the_composition_mounts_is_there_or_made_by_the_script(tmp_path: Path) -> None:
    composed = yaml.safe_load(COMPOSE.read_text())
    mounts = [volume for one in composed["services"].values() for volume in one.get("volumes", ())]
    files = [volume.split(":")[0] for volume in mounts if volume.startswith(".")]
    assert files
    assert all((COMPOSE.parent / file).exists() for file in files)
    made = secrets_in(tmp_path)
    assert (made / "rollcall.env").is_file()
    assert composed["secrets"].keys() == {"grafana-password", "metrics-token"}
    for name in composed["secrets"]:
        file = made / Path(composed["secrets"][name]["file"]).name
        assert file.stat().st_mode & 0o777 == 0o644, "containers read it as other users"
    token = (made / "metrics-token").read_text().strip()
    assert variables((made / "rollcall.env").read_text())["ROLLCALL_METRICS_TOKEN"] == token


def test_the_composition_has_all_rules_and_all_dashboards() -> None:
    services = composition()["services"]
    inside = {file: path for path, file in mounted(services["prometheus"]).items()}
    [pattern] = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())["rule_files"]
    assert {file.name for file in DEPLOY.glob("prometheus*rules.yml")} == {file.name for file in RULES}
    assert all(PurePath(inside[file]).match(pattern) for file in RULES)
    assert {file.name for file in DEPLOY.glob("grafana-*.json")} == {file.name for file in DASHBOARDS}
    found = {file: path for path, file in mounted(services["grafana"]).items()}
    provider = COMPOSE.parent / "grafana" / "dashboards" / "rollcall.yaml"
    assert found[provider.parent] == "/etc/grafana/provisioning/dashboards"
    [one] = yaml.safe_load(provider.read_text())["providers"]
    assert {Path(found[file]).parent for file in DASHBOARDS} == {Path(one["options"]["path"])}


def test_secrets_are_new_each_time_long_and_only_for_this_user(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        made = secrets_in(tmp_path / name)
        assert made.stat().st_mode & 0o777 == 0o700
        assert (made / "rollcall.env").stat().st_mode & 0o777 == 0o600
        found.append(variables((made / "rollcall.env").read_text()))
    value, key = "NACOS_CORE_AUTH_SERVER_IDENTITY_VALUE", "NACOS_CORE_AUTH_PLUGIN_NACOS_TOKEN_SECRET_KEY"
    for name in (value, key):
        assert len(found[0][name]) >= 64
        assert found[0][name] != found[1][name]
    read_settings(environ=found[0])


def test_secrets_are_not_made_over_others(tmp_path: Path) -> None:
    made = secrets_in(tmp_path)
    before = (made / "rollcall.env").read_text()
    assert run(tmp_path / "deploy" / "secrets.sh", "compose").returncode != 0
    assert (made / "rollcall.env").read_text() == before


@pytest.mark.parametrize("file", ["compose/prometheus.yml", "prometheus.yml", "k8s/prometheus.yml"])
def test_prometheus_takes_its_configuration(file: str, tmp_path: Path) -> None:
    config = yaml.safe_load((DEPLOY / file).read_text())
    for job in config["scrape_configs"]:
        job.pop("kubernetes_sd_configs", None)  # Debian's Prometheus is built without it
    copy = tmp_path / "prometheus.yml"
    copy.write_text(yaml.safe_dump(config))
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", copy)


# --- Kubernetes -----------------------------------------------------------------------------------


def validated(manifest: Path) -> int:
    """The exit code of `kubernetes-validate --strict`, run here: a process each would load the schemas each time."""
    tools = pytest.importorskip("kubernetes_validate.utils")
    code: int = tools.validate_file(str(manifest), tools.latest_version(), strict=True, quiet=False, no_warn=False)
    return code


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_schema_takes_the_manifest(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = validated(manifest)
    said = capsys.readouterr().out
    assert (code, "passed" in said, "WARN" in said) == (0, True, False), said


def test_the_schema_takes_the_secret_of_the_script(tmp_path: Path) -> None:
    done = run(DEPLOY / "secrets.sh", "k8s", "registry")
    manifest = tmp_path / "secret.yaml"
    manifest.write_text(done.stdout)
    assert validated(manifest) == 0
    secret, metrics = yaml.safe_load_all(done.stdout)
    assert secret["metadata"] == {"name": "rollcall", "namespace": "registry"}
    assert metrics["metadata"] == {"name": "rollcall-metrics", "namespace": "registry"}
    settings = read_settings(environ={**secret["stringData"], "ROLLCALL_METRICS_TOKEN": metrics["stringData"]["token"]})
    assert settings.told.metrics_token
    assert secret["stringData"]["NACOS_CORE_AUTH_ENABLED"] == "true"


def test_the_schema_refuses_another_manifest(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((DEPLOY / "k8s" / "statefulset.yaml").read_text().replace("replicas: 3", "replica: 3"))
    assert validated(wrong) != 0


def test_each_pod_finds_itself_in_the_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = documents()
    [members] = found["ConfigMap"]
    [state] = found["StatefulSet"]
    container = state["spec"]["template"]["spec"]["containers"][0]
    assert container["envFrom"] == [{"secretRef": {"name": "rollcall"}}]
    environ = variables(run(DEPLOY / "secrets.sh", "env").stdout)
    environ |= {one["name"]: one["value"] for one in container["env"] if "value" in one}
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    mount = mounts[environ["ROLLCALL_CONF_DIR"]]
    assert "subPath" not in mount, "such a file is never changed"
    volumes = {one["name"]: one for one in state["spec"]["template"]["spec"]["volumes"]}
    assert volumes[mount["name"]]["configMap"]["name"] == members["metadata"]["name"]
    for name, text in members["data"].items():
        (tmp_path / name).write_text(text)
    environ["ROLLCALL_CONF_DIR"] = str(tmp_path)
    name, headless = state["metadata"]["name"], state["spec"]["serviceName"]
    for number in range(state["spec"]["replicas"]):
        monkeypatch.setattr("socket.gethostname", lambda number=number: f"{name}-{number}")
        settings = read_settings(environ={**environ, "SERVER_ADDRESS": "0.0.0.0"})
        assert settings.self_address == f"{name}-{number}.{headless}:{HTTP_PORT}"
        assert len(settings.members) == state["spec"]["replicas"]
    services = {one["metadata"]["name"]: one["spec"] for one in found["Service"]}
    assert services[headless]["clusterIP"] == "None"
    assert services[headless]["publishNotReadyAddresses"] is True
    assert all(one["selector"] == state["spec"]["selector"]["matchLabels"] for one in services.values())


def test_members_and_prometheus_have_the_same_token_of_the_script() -> None:
    made = {one["metadata"]["name"]: one["stringData"] for one in yaml.safe_load_all(run(SECRETS, "k8s").stdout)}
    container = documents()["StatefulSet"][0]["spec"]["template"]["spec"]["containers"][0]
    [given] = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one]
    assert made[given["name"]].keys() == {given["key"]}, "Prometheus needs no other secret"
    monitor = monitoring()["PodMonitor"][0]["spec"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": given["name"], "key": given["key"]}
    [job] = yaml.safe_load((DEPLOY / "k8s" / "prometheus.yml").read_text())["scrape_configs"]
    assert PurePath(job["authorization"]["credentials_file"]).parts[-2:] == (given["name"], given["key"])
    [selector] = documents()["StatefulSet"][0]["spec"]["selector"]["matchLabels"].items()
    [discovery] = job["kubernetes_sd_configs"]
    assert discovery["selectors"] == [{"role": discovery["role"], "label": "=".join(selector)}]


def test_the_operator_gets_the_pods_rules_and_dashboards() -> None:
    found = monitoring()
    [state] = documents()["StatefulSet"]
    monitor, pod = found["PodMonitor"][0]["spec"], state["spec"]["template"]
    assert monitor["selector"] == state["spec"]["selector"]
    assert pod["metadata"]["labels"][monitor["jobLabel"]] == "rollcall", "the job of the rules"
    [endpoint] = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
    [relabeling] = endpoint["relabelings"]
    names = [f"rollcall-{number}" for number in range(state["spec"]["replicas"])]
    listed = documents()["ConfigMap"][0]["data"]["cluster.conf"].split()
    assert [relabeling["replacement"].replace("$1", name) for name in names] == listed
    assert [one["spec"] for one in found["PrometheusRule"]] == [yaml.safe_load(file.read_text()) for file in RULES]
    boards = [text for one in found["ConfigMap"] for text in one["data"].values()]
    assert [json.loads(one) for one in boards] == [json.loads(file.read_text()) for file in DASHBOARDS]
    assert all(one["metadata"]["labels"]["grafana_dashboard"] == "1" for one in found["ConfigMap"])
    assert len({one["metadata"]["name"] for kind in found.values() for one in kind}) == 3


def monitoring(**environ: str) -> dict[str, list[dict[str, Any]]]:
    """What the script prints for the operator, by kind."""
    script = DEPLOY / "k8s" / "monitoring.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=True, env={**os.environ, **environ})
    found: dict[str, list[dict[str, Any]]] = {}
    for one in yaml.safe_load_all(done.stdout):
        found.setdefault(one["kind"], []).append(one)
    return found


def test_the_operators_label_is_on_all_that_it_selects() -> None:
    found = monitoring(LABELS="release: stack")
    for one in found["PodMonitor"] + found["PrometheusRule"]:
        assert one["metadata"]["labels"]["release"] == "stack"


def test_pods_have_no_rights_and_time_to_leave() -> None:
    [state] = documents()["StatefulSet"]
    pod = state["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == UID
    own = container["securityContext"]
    assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    grace = {one["name"]: one["value"] for one in container["env"] if one["name"] == "ROLLCALL_LEAVE_GRACEMS"}
    settings = read_settings(environ=grace)
    assert settings.leave_grace_ms == 5_000, "endpoints are told of the end at the same time, and calls still come"
    assert pod["terminationGracePeriodSeconds"] > settings.stop_timeout_s


def test_the_port_of_members_is_open_to_members_alone() -> None:
    found = documents()
    [policy] = found["NetworkPolicy"]
    members = {"matchLabels": found["StatefulSet"][0]["spec"]["selector"]["matchLabels"]}
    assert policy["spec"]["podSelector"] == members
    for rule in policy["spec"]["ingress"]:
        if any(port["port"] == HTTP_PORT + RPC_CLUSTER_OFFSET for port in rule["ports"]):
            assert rule["from"] == [{"podSelector": members}]
    client = next(one for one in found["Service"] if one["metadata"]["name"] == "rollcall")
    assert HTTP_PORT + RPC_CLUSTER_OFFSET not in [port["port"] for port in client["spec"]["ports"]]

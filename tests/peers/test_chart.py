"""The Helm chart, rendered by Helm: four shapes, the manifests beside it, the shipped rules, notes and the package."""

import base64
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.properties import parse_properties
from app.config.settings import ALL_KEYS, read_settings
from app.config.settings_keys import snake
from tests.support.certificates import make_certificate, needs_openssl
from tests.support.helm import (
    CHART,
    IDENTITY,
    KUBERNETES,
    NAMESPACE,
    RELEASE,
    SHAPES,
    TOKEN_KEY,
    Helm,
    Rendered,
    values_of,
)
from tests.support.prometheus import DASHBOARDS, RULES
from tests.support.promtool import promtool
from tests.support.shipped import DEPLOY

SECRETS = {
    IDENTITY: "0123456789abcdef",
    IDENTITY.replace("VALUE", "KEY"): "Cluster-Identity",
    TOKEN_KEY: base64.b64encode(bytes(range(48))).decode(),
}
CUSTOM = {"PodMonitor", "PrometheusRule", "Certificate", "HTTPRoute", "TCPRoute"}
"""Kinds that operators bring, for which Kubernetes itself has no schema."""


def manifest(name: str) -> list[dict[str, Any]]:
    """The documents of a file of deploy/k8s."""
    return list(yaml.safe_load_all((DEPLOY / "k8s" / name).read_text(encoding="utf-8")))


# --- the four shapes ------------------------------------------------------------------------------


def test_there_are_four_shapes() -> None:
    assert SHAPES == ["ingress", "secured", "single", "three"]


@pytest.mark.parametrize("shape", SHAPES)
def test_helm_finds_no_fault(helm: Helm, shape: str) -> None:
    done = helm.run("lint", "--strict", "--kube-version", KUBERNETES, CHART, "--values", values_of(shape))
    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize("shape", SHAPES)
def test_the_schemas_of_kubernetes_take_all_objects(shapes: dict[str, Rendered], shape: str, tmp_path: Path) -> None:
    tools = pytest.importorskip("kubernetes_validate.utils")
    objects = shapes[shape].objects
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all([one for one in objects if one["kind"] not in CUSTOM]))
    assert tools.validate_file(str(file), tools.latest_version(), strict=True, quiet=False, no_warn=False) == 0
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))
    assert all(one["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE for one in objects)


def test_the_shapes_have_what_they_are_for(shapes: dict[str, Rendered]) -> None:
    kinds = {shape: {one["kind"] for one in rendered.objects} for shape, rendered in shapes.items()}
    common = {"ConfigMap", "NetworkPolicy", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"}
    assert kinds["single"] == kinds["three"] == common
    more = {"Certificate", "CronJob", "PersistentVolumeClaim", "PodMonitor", "PrometheusRule"}
    assert kinds["secured"] == common | more
    assert kinds["ingress"] == common | {"HTTPRoute", "Ingress", "Secret", "TCPRoute"}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_variable_and_each_setting_is_one_of_a_node(shapes: dict[str, Rendered], shape: str) -> None:
    rendered = shapes[shape]
    names = {name for key in ALL_KEYS for name in key.names}
    given = {one["name"] for one in rendered.container()["env"]}
    assert given <= {snake(name) for name in names}
    assert parse_properties(rendered.configuration()["application.properties"]).keys() <= names


def test_a_single_node_starts_alone(shapes: dict[str, Rendered], tmp_path: Path) -> None:
    rendered = shapes["single"]
    assert "cluster.conf" not in rendered.configuration()
    assert "envFrom" not in rendered.container()
    settings = read_settings(environ={**rendered.variables(), "ROLLCALL_CONF_DIR": str(tmp_path)})
    assert (settings.standalone, settings.auth) == (True, None)


def test_each_pod_finds_itself_in_the_list(
    shapes: dict[str, Rendered], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rendered = shapes["three"]
    for name, text in rendered.configuration().items():
        (tmp_path / name).write_text(text)
    environ = {**SECRETS, **rendered.variables(), "ROLLCALL_CONF_DIR": str(tmp_path), "SERVER_ADDRESS": "0.0.0.0"}
    headless = rendered.one("StatefulSet")["spec"]["serviceName"]
    assert rendered.one("Service", headless)["spec"]["publishNotReadyAddresses"] is True
    for number in range(3):
        monkeypatch.setattr("socket.gethostname", lambda number=number: f"{RELEASE}-{number}")
        settings = read_settings(environ=environ)
        assert settings.self_address == f"{RELEASE}-{number}.{headless}:8848"
        assert len(settings.members) == 3
    assert settings.auth is not None
    assert settings.log_level == "DEBUG", "application.properties"


# --- beside the manifests -------------------------------------------------------------------------


def test_chart_and_manifests_run_a_member_alike(shapes: dict[str, Rendered]) -> None:
    """Probes, rights, ports and times are the same, so that what is shown of one holds for the other."""
    [state], rendered = manifest("statefulset.yaml"), shapes["three"]
    theirs, ours = state["spec"], rendered.one("StatefulSet")["spec"]
    for name in ("minReadySeconds", "podManagementPolicy", "replicas", "serviceName", "updateStrategy"):
        assert ours[name] == theirs[name]
    their_pod, our_pod = theirs["template"]["spec"], ours["template"]["spec"]
    for name in ("automountServiceAccountToken", "enableServiceLinks", "securityContext", "serviceAccountName"):
        assert our_pod[name] == their_pod[name]
    assert our_pod["terminationGracePeriodSeconds"] == their_pod["terminationGracePeriodSeconds"]
    [their_container] = their_pod["containers"]
    our_container = rendered.container()
    assert our_container["securityContext"] == their_container["securityContext"]
    assert our_container["ports"] == their_container["ports"]
    assert our_container["volumeMounts"] == their_container["volumeMounts"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        our_container[probe]["httpGet"].pop("scheme")
        assert our_container[probe] == their_container[probe]
    their_environ = {one["name"]: one for one in their_container["env"]}
    our_environ = {one["name"]: one for one in our_container["env"]}
    assert our_environ.pop("NACOS_CORE_AUTH_ENABLED")["value"] == "true", "deploy/secrets.sh"
    assert our_environ == their_environ
    assert our_container["envFrom"] == their_container["envFrom"]
    assert our_container["resources"] == their_container["resources"]
    our_claims, their_claims = ours["volumeClaimTemplates"], theirs["volumeClaimTemplates"]
    assert [one["spec"] for one in our_claims] == [one["spec"] for one in their_claims]


def test_chart_and_manifests_open_the_same_ports(shapes: dict[str, Rendered]) -> None:
    [policy], ours = manifest("network-policy.yaml"), shapes["three"].one("NetworkPolicy")["spec"]

    def ports(rules: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        return [rule["ports"] for rule in rules]

    own_pods = ours["ingress"].pop(1)
    assert own_pods["ports"] == [{"protocol": "TCP", "port": 8848}], "the nightly check and helm test"
    assert ports(ours["ingress"]) == ports(policy["spec"]["ingress"])
    assert ports(ours["egress"]) == ports(policy["spec"]["egress"])
    members = ours["podSelector"]
    for rule in ours["ingress"]:
        if any(port["port"] == 9849 for port in rule["ports"]):
            assert rule["from"] == [{"podSelector": members}]
    assert 9849 not in [port["port"] for port in shapes["three"].one("Service", RELEASE)["spec"]["ports"]]


# --- TLS, metrics, the nightly check, routes ------------------------------------------------------


def test_the_certificate_names_each_member(shapes: dict[str, Rendered]) -> None:
    rendered = shapes["secured"]
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    hosts = [line.split(":")[0] for line in rendered.configuration()["cluster.conf"].split()]
    assert len(hosts) == 3
    assert {*hosts, RELEASE, f"{RELEASE}.{NAMESPACE}.svc", "registry.example.org"} <= set(names)
    secret = rendered.one("Certificate")["spec"]["secretName"]
    assert {one.get("secret", {}).get("secretName") for one in rendered.pod()["spec"]["volumes"]} >= {secret}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert rendered.container()[probe]["httpGet"]["scheme"] == "HTTPS"
    files = {value for value in rendered.variables().values() if value.startswith("/etc/rollcall-tls/")}
    assert {Path(one).name for one in files} == {"tls.crt", "tls.key", "ca.crt"}


@needs_openssl
def test_a_node_takes_the_settings_of_tls(shapes: dict[str, Rendered], tmp_path: Path) -> None:
    rendered = shapes["secured"]
    certificate, key = make_certificate(tmp_path)
    for name, file in (("tls.crt", certificate), ("ca.crt", certificate), ("tls.key", key)):
        shutil.copy(file, tmp_path / name)
    for name, text in rendered.configuration().items():
        (tmp_path / name).write_text(text)
    environ = {name: value.replace("/etc/rollcall-tls", str(tmp_path)) for name, value in rendered.variables().items()}
    settings = read_settings(environ={**environ, **SECRETS, "ROLLCALL_CONF_DIR": str(tmp_path)})
    assert settings.http_tls is not None
    assert settings.http_tls.mutual is True
    assert settings.scheme == "https"


def test_the_operator_gets_the_shipped_rules_and_dashboards(shapes: dict[str, Rendered], tmp_path: Path) -> None:
    rendered = shapes["secured"]
    rules = rendered.all("PrometheusRule")
    assert [one["spec"] for one in rules] == [yaml.safe_load(file.read_text()) for file in RULES]
    for number, one in enumerate(rules):
        file = tmp_path / f"{number}.yml"
        file.write_text(yaml.safe_dump(one["spec"]))
        assert "SUCCESS" in promtool("check", "rules", file)
    labelled = [one for one in rendered.all("ConfigMap") if one["metadata"]["labels"].get("grafana_dashboard") == "1"]
    texts = [json.loads(text) for one in labelled for text in one["data"].values()]
    assert texts == [json.loads(file.read_text()) for file in DASHBOARDS]
    for one in (*rules, *rendered.all("PodMonitor")):
        assert one["metadata"]["labels"]["release"] == "stack"


def test_targets_have_the_names_of_the_list(shapes: dict[str, Rendered]) -> None:
    rendered = shapes["secured"]
    monitor = rendered.one("PodMonitor")["spec"]
    assert monitor["selector"] == rendered.one("StatefulSet")["spec"]["selector"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == ("http", "https", "/metrics")
    job, instance = endpoint["relabelings"]
    assert (job["targetLabel"], job["replacement"]) == ("job", "rollcall"), "the job of the rules"
    listed = rendered.configuration()["cluster.conf"].split()
    assert [instance["replacement"].replace("$1", f"{RELEASE}-{number}") for number in range(3)] == listed
    [token] = [one["valueFrom"]["secretKeyRef"] for one in rendered.container()["env"] if "valueFrom" in one]
    assert endpoint["authorization"]["credentials"] == {"name": token["name"], "key": token["key"]}
    assert endpoint["tlsConfig"]["serverName"] in rendered.one("Certificate")["spec"]["dnsNames"]


def test_the_nightly_check_asks_all_members_as_the_administrator(shapes: dict[str, Rendered]) -> None:
    rendered = shapes["secured"]
    job = rendered.one("CronJob")["spec"]["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    [container] = pod["containers"]
    environ = {one["name"]: one.get("value") for one in container["env"]}
    documented = set(re.findall(r"^#?(ROLLCALL_\w+)=", (DEPLOY / "audit.env.example").read_text(), re.MULTILINE))
    assert environ.keys() <= documented
    listed = rendered.configuration()["cluster.conf"].split()
    assert environ["ROLLCALL_AUDIT_MEMBERS"] == ",".join(f"https://{one}" for one in listed)
    assert "--ca /etc/rollcall-tls/ca.crt" in str(environ["ROLLCALL_AUDIT_DUMP_OPTIONS"])
    assert environ["ROLLCALL_LANGUAGE"] == "zh-CN"
    secrets = {one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "valueFrom" in one}
    assert secrets == {"rollcall-administrator"}
    assert (job["backoffLimit"], pod["restartPolicy"]) == (0, "Never"), "an exit code is a verdict"
    member = rendered.pod()["spec"]
    assert pod["securityContext"] == member["securityContext"]
    assert container["securityContext"] == member["containers"][0]["securityContext"]
    [key] = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert key["items"] == [{"key": "ca.crt", "path": "ca.crt"}], "no private key"


def test_what_comes_from_outside_reaches_one_service_under_names_that_members_take(shapes: dict[str, Rendered]) -> None:
    rendered = shapes["ingress"]
    [rule] = rendered.one("Ingress")["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert (path["path"], path["backend"]["service"]["name"]) == ("/nacos", RELEASE)
    properties = parse_properties(rendered.configuration()["application.properties"])
    assert properties["rollcall.http.hosts"].split(",") == ["registry.example.org", "console.example.org"]
    [route] = rendered.one("TCPRoute")["spec"]["rules"]
    assert route["backendRefs"] == [{"name": RELEASE, "port": 9848}]
    policy = rendered.one("NetworkPolicy")["spec"]
    peers = [peer for rule in policy["ingress"] for peer in rule["from"]]
    assert {"namespaceSelector": {}} not in peers, "the named clients take the place of every pod"
    ports = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert ports == {8848, 9848, 9849, 8853}, "with rollcall.dns.enabled also that of DNS"


# --- the package ----------------------------------------------------------------------------------


def test_the_packed_chart_has_the_files_themselves(helm: Helm, tmp_path: Path) -> None:
    """In the tree the chart has links to them: there is one source."""
    done = helm.run("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    [packed] = tmp_path.glob("rollcall-*.tgz")
    with tarfile.open(packed) as archive:
        members = {one.name: one for one in archive.getmembers()}
        for file in (*RULES, *DASHBOARDS):
            one = members[f"rollcall/files/{file.name}"]
            opened = archive.extractfile(one)
            assert opened is not None
            assert opened.read() == file.read_bytes()
    assert not [name for name in members if "/ci/" in name]
    assert "kind: PrometheusRule" in helm.text("secured", chart=packed)


def test_the_notes_say_what_to_do_next(helm: Helm, tmp_path: Path) -> None:
    """`helm template` does not print them, so a copy of the chart has them as an object."""
    chart = tmp_path / "rollcall"
    shutil.copytree(CHART, chart)
    shutil.move(chart / "templates" / "NOTES.txt", chart / "files" / "NOTES.txt")
    wrapped = (
        'kind: Notes\nmetadata: {name: notes}\ntext: |\n  {{- tpl (.Files.Get "files/NOTES.txt") . | nindent 2 }}\n'
    )
    (chart / "templates" / "notes.yaml").write_text(wrapped)

    def notes(shape: str) -> str:
        objects = [one for one in yaml.safe_load_all(helm.text(shape, chart=chart)) if one]
        return str(Rendered(objects).one("Notes")["text"])

    three, secured, single, ingress = (notes(shape) for shape in ("three", "secured", "single", "ingress"))
    assert f"kubectl -n {NAMESPACE} rollout status statefulset/{RELEASE}" in three
    assert f"kubectl -n {NAMESPACE} exec -it {RELEASE}-0 -- rollcall admin" in three
    assert "in the Secret rollcall-administrator" in secured
    assert "https://127.0.0.1:8848/nacos/" in secured
    assert "auth.enabled is false: anyone who reaches the port can change everything." in single
    assert "is lost when all pods end" in single
    assert "https://registry.example.org/nacos/" in ingress
    assert "The secrets were generated." in ingress

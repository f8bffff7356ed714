"""Values of the Helm chart: secrets that exist, are given or generated; changes; and what is refused, and why."""

import base64
from pathlib import Path

import pytest
import yaml

from app.config.properties import parse_properties
from app.config.settings import read_settings
from tests.support.helm import CHART, IDENTITY, RELEASE, TOKEN_KEY, Helm, Rendered

# --- secrets and administrators -------------------------------------------------------------------


def test_given_secrets_are_in_secrets_alone(helm: Helm) -> None:
    identity, key, token, password = "identity-of-members", "a" * 60, "token-of-scrapes-1", "password-of-ann"
    given = ("secrets.existingSecret=", f"secrets.identityValue={identity}", f"secrets.tokenKey={key}")
    more = ("metrics.existingSecret=", f"metrics.token={token}", "auth.administrator.username=ann")
    words = [word for one in (*given, *more, f"auth.administrator.password={password}") for word in ("--set", one)]
    rendered = helm.render("three", *words)
    secret = {name: base64.b64decode(text).decode() for name, text in rendered.one("Secret", RELEASE)["data"].items()}
    assert (secret[IDENTITY], secret[TOKEN_KEY]) == (identity, key)
    assert rendered.container()["envFrom"] == [{"secretRef": {"name": RELEASE}}]
    metrics = rendered.one("Secret", f"{RELEASE}-metrics")["data"]
    assert {name: base64.b64decode(text).decode() for name, text in metrics.items()} == {"token": token}
    administrator = rendered.one("Secret", f"{RELEASE}-administrator")["stringData"]
    assert administrator == {"username": "ann", "password": password}
    [mount] = [one for one in rendered.container()["volumeMounts"] if one["name"] == "administrator"]
    hook = rendered.container()["lifecycle"]["postStart"]["exec"]["command"]
    assert hook == ["python3", "/opt/rollcall/first_admin.py", mount["mountPath"]]
    others = yaml.safe_dump_all([one for one in rendered.objects if one["kind"] != "Secret"])
    assert not [one for one in (identity, key, token, password) if one in others]


def test_generated_secrets_are_random_long_and_what_a_node_takes(helm: Helm, shapes: dict[str, Rendered]) -> None:
    found = [one.one("Secret", RELEASE)["data"] for one in (shapes["ingress"], helm.render("ingress"))]
    for name in (IDENTITY, TOKEN_KEY):
        first, second = (base64.b64decode(one[name]).decode() for one in found)
        assert first != second
        assert len(first) >= 64
    read_settings(environ={name: base64.b64decode(text).decode() for name, text in found[0].items()})
    assert shapes["ingress"].one("Secret", RELEASE)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_an_upgrade_makes_no_other_secrets(helm: Helm) -> None:
    assert "makes one only at the first install" in helm.refusal("ingress", "--is-upgrade")


# --- changes --------------------------------------------------------------------------------------


def test_pods_are_replaced_for_settings_and_not_for_members(helm: Helm, shapes: dict[str, Rendered]) -> None:
    before = shapes["three"]
    more = helm.render("three", "--set", "listedMembers=5")
    assert len(more.configuration()["cluster.conf"].split()) == 5
    assert more.pod() == before.pod()
    assert more.one("StatefulSet")["spec"]["replicas"] == 3
    other = helm.render("three", "--set", r"settings.rollcall\.log\.level=INFO")
    assert other.pod() != before.pod()


def test_settings_are_written_as_a_node_reads_them(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    settings = {"rollcall.limit.metadataBytes": 1_125_899_906_842_624, "rollcall.console.enabled": False}
    settings |= {"rollcall.console.reports": r"C:\night", "server.servlet.contextPath": "/registry/"}
    values.write_text(yaml.safe_dump({"settings": settings}))
    rendered = helm.render("three", "--values", str(values))
    properties = parse_properties(rendered.configuration()["application.properties"])
    assert properties["rollcall.limit.metadataBytes"] == "1125899906842624"
    assert properties["rollcall.console.enabled"] == "false"
    assert properties["rollcall.console.reports"] == r"C:\night"
    probe = rendered.container()["readinessProbe"]["httpGet"]
    assert probe["path"] == "/registry/v1/console/health/readiness"


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_a_size_sets_resources_and_disk(helm: Helm, size: str) -> None:
    wanted = yaml.safe_load((CHART / "values.yaml").read_text())["sizes"][size]
    rendered = helm.render("three", "--set", f"size={size}")
    resources = rendered.container()["resources"]
    assert resources["requests"] == {"cpu": wanted["cpu"], "memory": wanted["memory"]}
    assert resources["limits"] == {"memory": wanted["memoryLimit"]}, "no limit of CPU"
    [claim] = rendered.one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == wanted["disk"]


# --- what is refused ------------------------------------------------------------------------------

REFUSED = [
    ("replicaCount=0", "at '/replicaCount': minimum: got 0, want 1"),
    ("replicaCount=three", "at '/replicaCount': got string, want integer"),
    ("listedMembers=2", "listedMembers is 2, and replicaCount 3"),
    ("size=huge", 'size is "huge": choose one of large, medium, small'),
    ("replicas=3", "additional properties 'replicas' not allowed"),
    ("image.repository=", "image.repository is empty"),
    ("image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of"),
    (r"settings.rollcall\.log\.level=LOUD", "at '/settings/rollcall.log.level': value must be one of 'DEBUG'"),
    (r"settings.rollcall\.limit\.pageSize=0", "at '/settings/rollcall.limit.pageSize': minimum: got 0, want 1"),
    (r"settings.rollcall\.limt\.pageSize=9", "additional properties 'rollcall.limt.pageSize' not allowed"),
    (r"settings.server\.port=80", "additional properties 'server.port' not allowed"),
    (r"settings.rollcall\.metrics\.token=abc", "additional properties 'rollcall.metrics.token' not allowed"),
    ("secrets.existingSecret=", "a cluster needs the secret by which its members know each other"),
    ("secrets.existingSecret=,secrets.identityValue=0123456789abcdef", "secrets.tokenKey is empty"),
    ("secrets.identityValue=short", "at '/secrets/identityValue': minLength: got 5, want 16"),
    ("auth.administrator.username=ann", "auth.administrator.password is empty"),
    ("auth.administrator.password=secret7", "at '/auth/administrator/password': minLength: got 7, want 8"),
    ("tls.enabled=true", "tls.enabled=true needs certificates"),
    ("metrics.existingSecret=,metrics.podMonitor.enabled=true", "metrics.podMonitor needs the token of scrapes"),
    ("nightlyCheck.enabled=true", "nightlyCheck logs in as an administrator"),
    ("nightlyCheck.schedule=nightly", "at '/nightlyCheck/schedule'"),
    ("ingress.enabled=true", "at '/ingress/hosts': minItems: got 0, want 1"),
    ("ingress.hosts={https://registry}", "at '/ingress/hosts/0'"),
    ("rollout.leaveGraceMs=60000", "set 80 or more"),
    ("networkPolicy.clients=all", "at '/networkPolicy/clients': got string, want array"),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED, ids=[given for given, _ in REFUSED])
def test_values_that_do_not_fit_are_refused_with_the_reason(helm: Helm, given: str, reason: str) -> None:
    assert reason in helm.refusal("three", "--set", given)


def test_a_refusal_does_not_repeat_a_secret(helm: Helm) -> None:
    for given in ("secrets.identityValue=5ecret", "secrets.tokenKey=5ecret", "metrics.token=5ecret"):
        assert "5ecret" not in helm.refusal("three", "--set", given)

"""What deploy/ gives the Prometheus operator has only fields of the operator's CRDs, with values of their types."""

import copy
import json
import subprocess
from typing import Any

import pytest
import yaml

from tests.sdk.environments import NotInstallable, install_operator_models
from tests.support.processes import HANG_S
from tests.support.shipped import DEPLOY

pytestmark = pytest.mark.sdk
KINDS = ("PodMonitor", "PrometheusRule")


def complaints(objects: list[dict[str, Any]]) -> list[str]:
    """Return what the models say of each object; the empty text for nothing."""
    try:
        models = install_operator_models()
    except NotInstallable as error:
        pytest.skip(str(error))
    lines = "".join(f"{json.dumps(one)}\n" for one in objects)
    done = subprocess.run(
        models.command,
        input=lines,
        env=dict(models.environ),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_operators_objects_fit_its_crds() -> None:
    printed = subprocess.run([DEPLOY / "k8s" / "monitoring.sh"], capture_output=True, text=True, check=True).stdout
    shipped = [one for one in yaml.safe_load_all(printed) if one["kind"] in KINDS]
    assert [one["kind"] for one in shipped] == ["PodMonitor", "PrometheusRule", "PrometheusRule"]
    wrong = copy.deepcopy(shipped[:2])
    wrong[0]["spec"]["podMetricsEndpoints"][0]["authorisation"] = {}
    wrong[1]["spec"]["groups"][0]["rules"] = "none"
    told = complaints([*shipped, *wrong])
    assert told[:3] == ["", "", ""]
    assert ("not taken as given" in told[3], "rules" in told[4]) == (True, True)

"""Reads objects of Kubernetes as JSON, one a line, and prints what the operator would refuse or ignore of each.

It runs in an environment with the models that are made from the Prometheus operator's CRDs.
"""

import json
import sys
from importlib import import_module

MODELS = import_module("cloudcoil.models.prometheus_operator.v1")

for line in sys.stdin:
    given = json.loads(line)
    try:
        model = getattr(MODELS, given["kind"]).model_validate(given)
        taken = json.loads(model.model_dump_json(by_alias=True, exclude_unset=True))
        print(json.dumps("" if taken == given else f"not taken as given: {taken}"))
    except ValueError as error:
        print(json.dumps(str(error)))

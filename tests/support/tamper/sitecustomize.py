"""Lets a test change what a member's process holds, behind the back of everything that would send or notice it.

A folder with this file on PYTHONPATH: on the signal ``SIGNAL`` the process carries out the JSON commands of the file
named by ``ROLLCALL_TAMPER`` and removes it. Only what tests start has such a path.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

SIGNAL = signal.SIGRTMIN


def _node():
    return sys.modules["app.wsgi"].node


def _change(service, command):
    """Take an instance out, put a copy of one in under another address, or change fields of it; no version rises."""
    key = command["key"]
    if command["do"] == "remove":
        del service.stored[key]
    elif command["do"] == "copy":
        stored = service.stored[key]
        instance = replace(stored.instance, ip=command["ip"])
        service.stored[instance.key] = type(stored)(instance, stored.version, stored.beat_ms)
    else:
        stored = service.stored[key]
        service.stored[key] = type(stored)(
            replace(stored.instance, **command["fields"]),
            stored.version,
            stored.beat_ms,
            stored.client_version,
            stored.last_confirmed_ms,
        )
    service.revision += 1


def _own(cluster, full_name):
    """Let the member take itself for responsible for a service."""
    responsible, map_srv = cluster.responsible, cluster.map_srv
    kind = type(cluster)
    kind.responsible = lambda self, tag: tag == full_name or responsible(tag)
    kind.map_srv = lambda self, tag: self.self_address if tag == full_name else map_srv(tag)


def _tamper(*_):
    path = Path(os.environ["ROLLCALL_TAMPER"])
    for command in json.loads(path.read_text()):
        if command["do"] == "own":
            _own(_node().engine.cluster, command["service"])
        else:
            registry = _node().domain.registry
            _change(registry.table.get("public", command["service"]), command)
    path.unlink()


if "ROLLCALL_TAMPER" in os.environ:
    signal.signal(SIGNAL, _tamper)

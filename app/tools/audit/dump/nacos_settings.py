"""Rows of real Nacos beside instances: settings of services, switches, namespaces, clients over gRPC."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.rows.rows import ServiceSettings, client_row, record_row
from app.tools.audit.client.http_client import CallError, MemberClient, Refused
from app.tools.audit.dump.nacos import asked, service_parameters

CLIENTS_MAX = 1_000_000
_DEFAULT_CHECKER = {"type": "TCP"}
_DEFAULT_PORT = 80
_NOT_SHARED = {"checksum", "name", "masters"}
"""Fields in Nacos's answer that do not count as switches, or belong to this member alone."""
_OF_ADDRESS = ("#true", "#false")
"""The ends of the ids of clients over HTTP. Source: Nacos 2.2.3 IpPortBasedClient."""


class SettingsReader:
    """Reads the settings of services from one member, with a call for each; stops asking a member without that call."""

    def __init__(self, client: MemberClient) -> None:
        self._client = client
        self._answers = True

    def read(self, namespace: str, service: str) -> ServiceSettings | None:
        """Return the settings of a service; None if the member does not give them, or has no such service any more.

        Source of the shape: Nacos 1.4.1 CatalogController.serviceDetail.

        Raises:
            CallError: no answer.
        """
        if not self._answers:
            return None
        try:
            answer = self._client.get("/v1/ns/catalog/service", service_parameters(namespace, service)).json()
        except Refused as error:
            if error.passing:
                raise
            self._answers = "not found" in error.said
            return None
        described = answer.get("service") if isinstance(answer, dict) else None
        if not isinstance(described, dict):
            return None
        listed = answer.get("clusters")
        clusters = {
            str(one["name"]): settings
            for one in (listed if isinstance(listed, list) else [])
            if isinstance(one, dict) and one.get("name") and (settings := _cluster(one))
        }
        metadata, threshold = described.get("metadata"), described.get("protectThreshold")
        return ServiceSettings.of(
            {name: None if value is None else str(value) for name, value in metadata.items()}
            if isinstance(metadata, dict)
            else None,
            float(threshold) if isinstance(threshold, int | float) else 0.0,
            described.get("selector"),
            clusters,
        )


def _cluster(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings of a cluster; None for the defaults of a cluster without settings."""
    checker = value.get("healthChecker") or _DEFAULT_CHECKER
    port, by_instance = value.get("defaultCheckPort", _DEFAULT_PORT), value.get("useIPPort4Check") is not False
    metadata = value.get("metadata") or {}
    if checker == _DEFAULT_CHECKER and port == _DEFAULT_PORT and by_instance and not metadata:
        return None
    return {"healthChecker": checker, "checkPort": port, "useInstancePort": by_instance, "metadata": metadata}


def read_records(client: MemberClient, namespaces: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the switches, and of the created namespaces among those that the member lists.

    Raises:
        CallError: no answer. A call that the member refuses leaves its part out.
    """
    switches = asked(client, "/v1/ns/operator/switches")
    if isinstance(switches, dict) and "data" in switches and "code" in switches:
        switches = switches["data"]
    if isinstance(switches, dict):
        yield record_row("switches", {name: value for name, value in switches.items() if name not in _NOT_SHARED})
    for one in namespaces:
        if one.get("namespace"):
            shown = {"name": one.get("namespaceShowName"), "description": one.get("namespaceDesc") or ""}
            yield record_row(f"namespace {one['namespace']}", shown)


def read_clients(client: MemberClient) -> list[dict[str, Any]] | None:
    """Return the rows of the gRPC clients that publish instances, connected here or elsewhere; None without that call.

    Real Nacos shows neither their revision nor their member, and lists clients that only subscribe at the member to
    which they are connected. Source: Nacos 2.2.3 ClientControllerV2.

    Raises:
        CallError: no answer.
    """
    answer = asked(client, "/v2/ns/client/list")
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    rows = []
    for one in listed[:CLIENTS_MAX]:
        if not isinstance(one, str) or one.endswith(_OF_ADDRESS):
            continue
        told = asked(client, "/v2/ns/client/publish/list", {"clientId": one})
        published = told.get("data") if isinstance(told, dict) else None
        if isinstance(published, list) and published:
            rows.append(client_row(one, instances=len(published)))
    if len(listed) > CLIENTS_MAX:
        raise CallError(f"/v2/ns/client/list: over {CLIENTS_MAX} clients")
    return rows

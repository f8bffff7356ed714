"""Registration and look-up by the HTTP API of a registry, with nothing but the standard library."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

TIMEOUT_S = 3.0


class NobodyThere(Exception):
    """No healthy instance of a service is known, or no registry answers."""


class Discovery:
    """One program's view of a registry, or of the members of a cluster, which are asked in turn."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    def announce(self, service: str, ip: str, port: int) -> None:
        """Register this program's instance."""
        self._call("POST", "/v1/ns/instance", serviceName=service, ip=ip, port=str(port))

    def beat(self, service: str, ip: str, port: int) -> None:
        """Say that the instance lives."""
        self._call("PUT", "/v1/ns/instance/beat", serviceName=service, ip=ip, port=str(port))

    def find(self, service: str) -> str:
        """Return ``ip:port`` of one healthy instance.

        Raises:
            NobodyThere: there is none.
        """
        for host in self._hosts(service):
            if host["healthy"]:
                return f"{host['ip']}:{host['port']}"
        raise NobodyThere(service)

    def _hosts(self, service: str) -> Iterator[dict[str, object]]:
        answer = self._call("GET", "/v1/ns/instance/list", serviceName=service, healthyOnly="true")
        yield from json.loads(answer)["hosts"]

    def _call(self, method: str, path: str, **parameters: str) -> bytes:
        query = urllib.parse.urlencode(parameters)
        for url in self._urls:
            request = urllib.request.Request(f"{url}{path}?{query}", method=method)
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                error.close()
            except OSError:
                continue
        raise NobodyThere(", ".join(self._urls))

"""An instance as commands name it: ``SERVICE IP:PORT``, and its cluster."""

import argparse

from app.languages.command_texts import gettext
from app.naming.model.ip_addresses import host_port, is_same_ip, read_ip
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.printable import printable

PORT_MAX = 65_535
DEFAULT_CLUSTER = "DEFAULT"
NAMES_MAX = 5


def address_argument(text: str) -> tuple[str, int]:
    """Return ip and port of ``10.0.0.7:8080`` or ``[fe80::1]:8080``; for argparse. The ip may be a host name."""
    ip, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal() and len(port) < 6 and int(port) <= PORT_MAX
    if not colon or not ip or not is_number or not _is_host(ip):
        raise argparse.ArgumentTypeError(
            gettext("%(text)s is not an instance address, such as 10.0.0.7:8080", text=repr(text))
        )
    return ip.strip("[]"), int(port)


def _is_host(text: str) -> bool:
    if text.startswith("[") and text.endswith("]"):
        return read_ip(text) is not None
    return ":" not in text and text.isprintable() and " " not in text


def add_instance_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name an instance: service, address, cluster."""
    parser.add_argument("service", metavar="SERVICE", help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("instance", metavar="IP:PORT", type=address_argument, help="the instance's address")
    parser.add_argument("--cluster", metavar="NAME", default=DEFAULT_CLUSTER, help=f"of it ({DEFAULT_CLUSTER})")


def parameters_of(options: argparse.Namespace, client: RegistryClient) -> dict[str, str | int]:
    """Return the parameters that name the instance in a call."""
    ip, port = options.instance
    return {
        "namespaceId": client.namespace,
        "serviceName": options.service,
        "clusterName": options.cluster,
        "ip": ip,
        "port": port,
    }


def shown_instance(options: argparse.Namespace) -> str:
    """Return the instance as part of a sentence."""
    ip, port = options.instance
    return f"{host_port(ip, port)} of {printable(options.service)}"


def find_instance(options: argparse.Namespace, client: RegistryClient) -> Row:
    """Return the instance that is registered at the address, and set its cluster if the options name none.

    Raises:
        CommandError: there is none, or there are several; the text names those that are registered.
    """
    ip, port = options.instance
    rows = client.instances(options.service)
    there = [one for one in rows if is_same_ip(str(one.get("ip")), ip) and one.get("port") == port]
    if options.cluster is None and len(there) == 1:
        options.cluster = str(there[0].get("clusterName"))
    for one in there:
        if one.get("clusterName") == options.cluster:
            options.instance = str(one.get("ip")), port
            return one
    if there:
        clusters = ", ".join(sorted({str(one.get("clusterName")) for one in there}))
        values = {"instance": shown_instance(options), "clusters": clusters}
        if options.cluster is None:
            text = gettext("%(instance)s is in %(clusters)s: give --cluster", **values)
        else:
            text = gettext(
                "%(instance)s is not in cluster %(cluster)s, but in %(clusters)s: give --cluster",
                cluster=options.cluster,
                **values,
            )
        raise CommandError(ExitCode.NOT_FOUND, text)
    names = ", ".join(f"{host_port(str(one.get('ip')), one.get('port'))}" for one in rows[:NAMES_MAX])
    more = gettext(" and %(count)s more", count=len(rows) - NAMES_MAX) if len(rows) > NAMES_MAX else ""
    text = gettext(
        "%(shown_instance)s is not registered; there are: %(names)s%(more)s",
        shown_instance=shown_instance(options),
        names=names or "none",
        more=more,
    )
    raise CommandError(ExitCode.NOT_FOUND, text)

"""The settings of a link to a Nacos, as lines for application.properties."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing

from app.config.link_fields import BOTH, CLUSTER_ID, NACOS, NACOS_1, PREFIX
from app.config.link_settings import NAME
from app.languages.command_texts import gettext
from app.tools.audit.client.access import CONTEXT_PATH, Access, AccessError
from app.tools.command.asking.exits import ExitCode
from app.tools.command.migrate.asking_nacos import asked
from app.tools.command.migrate.nacos_view import NacosReader, NacosView
from app.tools.printable import printable

OLDEST_2 = (2, 1, 1)
"""Links over gRPC need at least this release."""


def print_plan(options: argparse.Namespace, addresses: Sequence[str], access: Access) -> int:
    """Print the lines, and return the exit code.

    Raises:
        CommandError: the Nacos does not answer, or refuses the call.
        AccessError: a name is not allowed.
    """
    if not NAME.fullmatch(options.link):
        raise AccessError(gettext("--link: the name of a link has up to 32 letters, digits and -"))
    try:
        CLUSTER_ID.kind.parse(options.cluster_id)
    except ValueError:
        raise AccessError(gettext("--cluster-id: up to 64 letters, digits, . _ and -")) from None
    with closing(NacosReader(addresses, access)) as reader:
        view = asked(", ".join(addresses), "--nacos-user", access.user, reader.open)
    sys.stdout.writelines(f"{printable(line)}\n" for line in _lines(options, view, access))
    return ExitCode.DONE


def _lines(options: argparse.Namespace, view: NacosView, access: Access) -> Iterator[str]:
    number = tuple(int(part) for part in view.version.split("-")[0].split(".") if part.isascii() and part.isdecimal())
    is_1 = number[:1] == (1,)
    notes = [
        gettext("the link to Nacos %(version)s, for every member", version=view.version or "-"),
        gettext("links are read again without a restart; a new cluster id needs one"),
    ]
    if not is_1 and number < OLDEST_2:
        notes.append(gettext("a link to Nacos 2.x needs release 2.1.1 or newer: update the Nacos first"))
    yield from (f"# {one}" for one in notes)
    yield f"{CLUSTER_ID.name}={options.cluster_id}"
    values = {
        "servers": ",".join(view.members),
        "kind": NACOS_1 if is_1 else NACOS,
        "direction": BOTH,
    }
    if access.context_path != CONTEXT_PATH:
        values["contextPath"] = access.context_path
    if access.scheme == "https":
        values["tls"] = "true"
    if access.ca:
        values["trusted"] = access.ca
    if access.user:
        values |= {"user": access.user, "password": "..."}
    yield from (f"{PREFIX}{options.link}.{name}={value}" for name, value in values.items())

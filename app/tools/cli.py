"""The console command ``rollcall``."""

import argparse
import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import app
from app.config import settings_keys as keys
from app.config.addresses import PORT_MAX, is_wildcard, join_address, split_address
from app.config.lookup_settings import FILE, LOOKUP_TYPE, MEMBER_LIST
from app.config.observability import JSON
from app.config.rpc_settings import RPC_ENABLED
from app.config.settings import SettingError, Settings, read_settings
from app.languages.phrases import phrase, reason_for
from app.machine.process.announce import base_url, listen_failure, ready_text, to_try
from app.machine.process.data_lock import DataLock
from app.tools.audit.check import command as check_command
from app.tools.audit.compare import command as compare_command
from app.tools.audit.dump import command as dump_command
from app.tools.audit.findings import command as findings_command
from app.tools.audit.heal import command as heal_command
from app.tools.audit.watch import command as agreement_command
from app.tools.command import (
    admin_command,
    config_command,
    doctor_command,
    explain_command,
    files_command,
    simulate_command,
)
from app.tools.command.local_cluster import LocalCluster, LocalNode
from app.tools.command.migrate import migrate_command
from app.tools.command.registry import (
    clients_command,
    completion_command,
    drain_command,
    events_command,
    find_command,
    instances_command,
    links_command,
    members_command,
    namespaces_command,
    operate_command,
    register_command,
    services_command,
    switches_command,
    update_command,
    user_command,
    watch_command,
)
from app.tools.command.suggesting_parser import SuggestingParser, add_commands
from app.tools.demo import demo_command

MEMBERS_MAX = 9
PORT_STEP = 10
"""The step between the ports of members that one command starts; their gRPC ports, 1000 and 1001 above, differ too."""

INTERRUPTED, READER_GONE = 130, 141
COMPLETION_VARIABLE = "_ARGCOMPLETE"
"""The variable that a shell sets to ask for completions."""
READY_PATH = "/v1/console/health/readiness"

MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "4194304", "MALLOC_TRIM_THRESHOLD_": "16777216"}
"""Variables that make glibc give memory back: by default each thread keeps its own, and large freed blocks stay."""

COMMANDS = (
    services_command,
    instances_command,
    find_command,
    members_command,
    links_command,
    migrate_command,
    clients_command,
    namespaces_command,
    switches_command,
    watch_command,
    events_command,
    register_command,
    operate_command,
    update_command,
    drain_command,
    user_command,
    dump_command,
    compare_command,
    heal_command,
    check_command,
    findings_command,
    agreement_command,
    explain_command,
    config_command,
    doctor_command,
    simulate_command,
    admin_command,
    files_command,
    completion_command,
)
_FOLDER = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code, as docs/cli.md lists them; a failure is printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a letter of a name
    parser = make_parser()
    if COMPLETION_VARIABLE in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, such as head, has enough; the rest of the buffer is dropped without complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run_serve(options: argparse.Namespace) -> int:
    overrides = {
        key.name: str(value)
        for key, value in (
            (keys.PORT, options.port),
            (keys.HOST_KEY, options.host),
            (keys.DATA_DIR, options.data),
            (keys.CONF_DIR, options.conf),
        )
        if value is not None
    }
    try:
        if options.members > 1:
            return _serve_cluster(overrides, options.members, options.member)
        if options.member is not None:
            raise SettingError(
                phrase("--member names one of the nodes of --members: give --members, as at their start")
            )
        _serve(overrides)
    except SettingError as error:
        print(f"rollcall: {reason_for(sys.stderr, error)}", file=sys.stderr)
        return 2
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, each of which loads its modules when it runs."""
    parser = SuggestingParser(prog="rollcall", description="A service registry with Nacos's API.")
    parser.add_argument("--version", action="version", version=f"rollcall {version('rollcall-registry')}")
    commands = add_commands(parser, "COMMAND")
    serve = commands.add_parser(
        "serve",
        help="run a node, or several on this machine",
        description="Run a node until Ctrl-C or SIGTERM. Other settings come from the environment, from "
        "application.properties in the configuration folder, or are the defaults.",
    )
    serve.add_argument("--port", metavar="PORT", help=f"HTTP port ({keys.PORT.default})")
    serve.add_argument("--host", metavar="ADDRESS", help=f"address to listen on ({keys.HOST_KEY.default})")
    serve.add_argument("--data", metavar="DIR", help=f"data folder ({keys.DATA_DIR.default})")
    serve.add_argument("--conf", metavar="DIR", help="folder of application.properties and cluster.conf (./conf)")
    serve.add_argument(
        "--members",
        metavar="N",
        type=int,
        choices=range(1, MEMBERS_MAX + 1),
        default=1,
        help=f"run N nodes that know each other, on PORT, PORT+{PORT_STEP} and so on, each with a data folder in DIR",
    )
    serve.add_argument(
        "--member",
        metavar="PORT",
        type=int,
        help="run only this one of the nodes of --members, as after its end; the others continue",
    )
    serve.set_defaults(run=_run_serve)
    demo_command.add_to(commands, _demo_nodes)
    # Each of them imports packages beyond the standard library only when it runs.
    for command in COMMANDS:
        command.add_to(commands)
    return parser


def _serve(overrides: dict[str, str]) -> None:
    """Replace this process by gunicorn's master of one node."""
    settings = read_settings(overrides)
    _check_free(settings)
    _become(_node(settings, overrides))


def _become(node: LocalNode) -> None:
    """Replace this process by that of a node."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(node.folder)
    os.execve(node.command[0], node.command, node.environ)


def _cluster(
    overrides: dict[str, str], count: int, only: int | None
) -> tuple[Settings, list[Settings], list[LocalNode]]:
    """Return the settings that all members share, each member's own, and the processes. ``only``: of this port alone.

    Raises:
        SettingError: a setting does not go with several members, or a port or folder is in use.
    """
    base = read_settings({**overrides, keys.STANDALONE.name: "true"})
    if base.cluster_conf.exists():
        raise SettingError(
            phrase(
                "--members makes the member list, and %(cluster_conf)s has a different one: remove the file, "
                "or give --conf another folder",
                cluster_conf=base.cluster_conf,
            )
        )
    ports = [base.port + PORT_STEP * index for index in range(count)]
    if ports[-1] > PORT_MAX:
        raise SettingError(
            phrase(
                "--port %(port)s with --members %(count)s would need port %(last)s; allowed: up to %(most)s",
                port=base.port,
                count=count,
                last=ports[-1],
                most=PORT_MAX,
            )
        )
    own_host = split_address(base.self_address)[0]
    shared = {
        **overrides,
        keys.STANDALONE.name: "false",
        LOOKUP_TYPE.name: FILE,
        MEMBER_LIST.name: ",".join(join_address(own_host, port) for port in ports),
        keys.ANNOUNCE.name: "false",
    }
    if only is not None and only not in ports:
        raise SettingError(
            phrase(
                "--member %(port)s is none of these members; allowed: %(ports)s",
                port=only,
                ports=", ".join(map(str, ports)),
            )
        )
    nodes, read = [], []
    for port in ports if only is None else [only]:
        own = {**shared, keys.PORT.name: str(port), keys.DATA_DIR.name: str(base.data_dir / str(port))}
        if only is not None:
            del own[keys.ANNOUNCE.name]
        read.append(settings := read_settings(own))
        _check_free(settings)
        nodes.append(_node(settings, own, _restart_command(overrides, count, port)))
    return base, read, nodes


def _serve_cluster(overrides: dict[str, str], count: int, only: int | None) -> int:
    """Run all members; or become one of them, whose port is ``only``."""
    base, read, nodes = _cluster(overrides, count, only)
    if only is not None:
        _become(nodes[0])
        return 0
    is_json = base.told.log_format == JSON
    cluster = LocalCluster(
        nodes, base.stop_timeout_s + 1, lambda: to_try(read[0], read[-1]), base.port if is_json else None
    )
    for warning in (text for text in base.warnings if not text.startswith(keys.STANDALONE.name)):
        cluster.tell(phrase("warning: %(text)s", text=warning))
    return cluster.run()


def _restart_command(overrides: dict[str, str], count: int, port: int) -> str:
    """Return the command that starts one of several members, in the folder and environment of this one."""
    names = {
        keys.PORT.name: "--port",
        keys.HOST_KEY.name: "--host",
        keys.DATA_DIR.name: "--data",
        keys.CONF_DIR.name: "--conf",
    }
    given = [word for name, value in overrides.items() for word in (names[name], value)]
    return shlex.join(["rollcall", "serve", *given, "--members", str(count), "--member", str(port)])


def _demo_nodes(overrides: Mapping[str, str], count: int) -> list[tuple[str, LocalNode]]:
    """Return the address and the process of each member of the demonstration."""
    _, read, nodes = _cluster(dict(overrides), count, None)
    return [(settings.self_address, node) for settings, node in zip(read, nodes, strict=True)]


def _node(settings: Settings, overrides: dict[str, str], restart: str = "") -> LocalNode:
    """Return the process of a node: gunicorn, run in the folder that contains this package.

    There, and with -P, no ``app`` or ``gunicorn`` in the caller's folder is imported in place of ours. Paths are
    therefore absolute. A configuration folder that does not exist is given by its parent, as naming it is an error.
    """
    configuration, application = f"python:{app.__name__}.gunicorn_conf", f"{app.__name__}.wsgi:app"
    command = [sys.executable, "-P", "-m", "gunicorn", "-c", configuration, application]
    environ = {**MALLOC, **os.environ, **overrides, keys.DATA_DIR.name: str(settings.data_dir)}
    if settings.conf_dir.is_dir():
        environ[keys.CONF_DIR.name] = str(settings.conf_dir)
    else:
        environ[keys.NACOS_HOME.name] = str(settings.conf_dir.parent)
    # At the address that it listens on: from this machine, the node's own address may not be reachable.
    asked = ("::1" if ":" in settings.host else "127.0.0.1") if is_wildcard(settings.host) else settings.host
    ready_url = f"{settings.scheme}://{join_address(asked, settings.port)}{settings.context_path}{READY_PATH}"
    return LocalNode(base_url(settings), ready_url, command, environ, str(_FOLDER), ready_text(settings), restart)


def _check_free(settings: Settings) -> None:
    """Check that the ports and the data folder are free: gunicorn would fail later, and with a poorer message.

    Raises:
        SettingError: a port or the folder is in use, or cannot be used.
    """
    where = (
        phrase("every address, port %(port)s", port=settings.port) if is_wildcard(settings.host) else base_url(settings)
    )
    _check_port(settings.host, settings.port, where, f"{keys.HOST_KEY.name}, {keys.PORT.name}")
    for one in (settings.rpc.sdk, settings.rpc.cluster) if settings.rpc else ():
        where = phrase(
            "port %(port)s for gRPC, which goes with %(key)s=%(http)s",
            port=one.port,
            key=keys.PORT.name,
            http=settings.port,
        )
        _check_port(
            settings.host,
            one.port,
            where,
            phrase("%(key)s; %(rpc)s=false does without", key=keys.PORT.name, rpc=RPC_ENABLED.name),
        )
    with DataLock(settings.data_dir):
        pass


def _check_port(host: str, port: int, where: str, names: str) -> None:
    if (why := listen_failure(host, port)) is not None:
        raise SettingError(
            phrase(
                "cannot listen on %(where)s: %(why)s; allowed: an address of this machine and a free port (%(names)s)",
                where=where,
                why=why,
                names=names,
            )
        )

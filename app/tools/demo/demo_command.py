"""``rollcall demo``: three members with clients on this machine, and faults to watch."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.config import settings_keys as keys
from app.config.settings_keys import SettingError
from app.languages.command_texts import gettext
from app.languages.phrases import reason_of
from app.tools.command.asking.exits import ExitCode
from app.tools.command.local_cluster import LocalNode
from app.tools.demo.demo_faults import FAULTS

MEMBERS = 3
MakeNodes = Callable[[Mapping[str, str], int], Sequence[tuple[str, LocalNode]]]
"""Returns the address and the process of each member, for settings and a number of members."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", make_nodes: MakeNodes) -> None:
    """Add the command to those of ``rollcall``. ``make_nodes`` makes the members' processes."""
    parser = subparsers.add_parser(
        "demo",
        help="run three members with clients on this machine, and try faults",
        description="Run three members with 21 instances over HTTP and 5 over gRPC on this machine, open the console, "
        "and cause the faults that you name. All data is in a temporary folder and is removed at the end.",
        epilog="Without --fault, the command explains the faults, and asks for one.",
    )
    parser.add_argument("--port", type=int, default=8848, help="port of the first member; the others follow (8848)")
    parser.add_argument(
        "--fault",
        action="append",
        choices=list(FAULTS),
        default=[],
        help="cause this fault, tell what it does, and end; several in turn",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open the console")
    parser.set_defaults(run=lambda options: _run(options, make_nodes))


def _run(options: argparse.Namespace, make_nodes: MakeNodes) -> int:
    from app.tools.demo.demo_members import DemoError, DemoMember, start_all, stop_all
    from app.tools.demo.demonstration import Demonstration

    with tempfile.TemporaryDirectory(prefix="rollcall-demo-") as folder:
        data = Path(folder)
        try:
            nodes = make_nodes(_settings(options.port, data), MEMBERS)
        except SettingError as error:
            print(f"rollcall: {reason_of(error)}", file=sys.stderr)
            return ExitCode.WRONG_OPTIONS
        members = [DemoMember(address, node, data / f"{number}.log") for number, (address, node) in enumerate(nodes, 1)]
        names = ", ".join(one.address for one in members)
        print(gettext("starting %(count)d members: %(members)s", count=MEMBERS, members=names), flush=True)
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: sys.exit(ExitCode.DONE))  # so that the members are ended, too
            start_all(members)
            demonstration = Demonstration(members, opens=not options.no_browser)
            return ExitCode.DONE if demonstration.run(options.fault) else ExitCode.NOT_ALL
        except (DemoError, OSError) as error:
            print(f"rollcall: {reason_of(error)}", file=sys.stderr)
            return ExitCode.FAILED
        except KeyboardInterrupt:
            return ExitCode.DONE
        finally:
            stop_all(members)


def _settings(port: int, data: Path) -> dict[str, str]:
    (conf := data / "conf").mkdir()
    return {
        keys.PORT.name: str(port),
        keys.HOST_KEY.name: "127.0.0.1",
        keys.DATA_DIR.name: str(data),
        keys.CONF_DIR.name: str(conf),
    }

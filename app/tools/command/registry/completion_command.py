"""``rollcall completion``: the code for a shell that completes commands and options with the tab key."""

import argparse
import sys

SHELLS = ("bash", "zsh", "fish")


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "completion",
        help="print the code that lets a shell complete the command",
        description="Print the code that makes a shell complete commands and options. For bash and zsh, in their "
        'start-up files: eval "$(rollcall completion bash)". For fish: rollcall completion fish | source',
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["rollcall"], shell=options.shell) + "\n")
    return 0

"""``rollcall user``: users, their roles and permissions, and a login that gives a token."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from app.config.client_config import NEW_PASSWORD_VARIABLE
from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import DATA, LISTS, OutputFormat, is_data, print_data, print_list
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.command.suggesting_parser import add_commands
from app.tools.printable import printable, write_line

USERS, ROLES, PERMISSIONS = "/v1/auth/users", "/v1/auth/roles", "/v1/auth/permissions"
TOKENS = "/v1/auth/users/tokens"
PAGE = 500
ACTIONS = ("r", "w", "rw")
PASSWORD_BYTES_MAX = 4_096
_MISSING = re.compile(r"not (exist|found)")
Parameters = dict[str, str | int]


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, with its own commands, to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "user",
        help="list and change users, roles and permissions; log in",
        description="Users exist where nacos.core.auth.enabled is true; `rollcall admin` makes the first. A user has "
        "roles, and a role has permissions: r, w or rw for a RESOURCE, namespace:group:service, where * is any text "
        "and the public namespace is empty.",
    )
    commands = add_commands(parser, "ACTION")
    _add(commands, "list", "list users and their roles", _list, LISTS)
    made = _add(commands, "add", "create a user", _create)
    made.add_argument("name", metavar="NAME")
    made.add_argument("--role", metavar="ROLE", action="append", default=[], help="give it at once; several times")
    _add_new_password(made)
    _add(commands, "remove", "remove a user and revoke the tokens", _remove).add_argument("name", metavar="NAME")
    changed = _add(commands, "password", "set your own password, or any user's as an administrator", _set_password)
    changed.add_argument("name", metavar="NAME")
    _add_new_password(changed)
    for name, text, run in (
        ("grant", "give a user a role", _grant),
        ("revoke", "take a role from a user", _revoke),
    ):
        one = _add(commands, name, text, run)
        one.add_argument("name", metavar="NAME")
        one.add_argument("role", metavar="ROLE")
    _add(commands, "permissions", "list the permissions of roles", _list_permissions, LISTS)
    for name, text, run in (
        ("permit", "give a role a permission", _permit),
        ("forbid", "take a permission from a role", _forbid),
    ):
        one = _add(commands, name, text, run)
        one.add_argument("role", metavar="ROLE")
        one.add_argument("resource", metavar="RESOURCE", help="such as dev:*:* or :DEFAULT_GROUP:orders")
        one.add_argument("actions", metavar="ACTIONS", choices=ACTIONS, help="r, w or rw")
    _add(commands, "login", "print a token, for ROLLCALL_TOKEN or --token-file", _log_in)
    _add(commands, "logout", "revoke all tokens of a user", _end_tokens).add_argument("name", metavar="NAME")


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    run: Callable[[argparse.Namespace, RegistryClient], int],
    formats: Sequence[OutputFormat] = DATA,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    finish(parser, run, formats)
    return parser


def _add_new_password(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--new-password-file",
        metavar="FILE",
        type=Path,
        help=f"file with the password as its first line; without it {NEW_PASSWORD_VARIABLE}, or a prompt",
    )


# --- lists ---------------------------------------------------------------------------------------


def _list(options: argparse.Namespace, client: RegistryClient) -> int:
    names = [text_of(one, "username") for one in _items(client, USERS)]
    roles: dict[str, list[str]] = {}
    for one in _items(client, ROLES):
        roles.setdefault(text_of(one, "username"), []).append(text_of(one, "role"))
    print_list(
        options,
        lambda: [{"user": name, "roles": sorted(roles.get(name, ()))} for name in names],
        lambda: names,
        (Column("user"), Column("roles", least=16)),
        ((Cell(name, Tone.NAME), ", ".join(sorted(roles.get(name, ()))) or "-") for name in names),
    )
    return ExitCode.DONE


def _list_permissions(options: argparse.Namespace, client: RegistryClient) -> int:
    found = list(_items(client, PERMISSIONS))
    print_list(
        options,
        lambda: found,
        lambda: dict.fromkeys(text_of(one, "role") for one in found),
        (Column("role"), Column("resource"), Column("actions")),
        ((Cell(text_of(one, "role"), Tone.NAME), text_of(one, "resource"), text_of(one, "action")) for one in found),
    )
    return ExitCode.DONE


def _items(client: RegistryClient, path: str) -> Iterator[Row]:
    """Yield all rows of a list of users, roles or permissions."""
    page, seen = 1, 0
    while True:
        answer = client.get(path, {"pageNo": page, "pageSize": PAGE})
        rows = client.rows(path, answer.get("pageItems") if isinstance(answer, dict) else None)
        yield from rows
        seen, page = seen + len(rows), page + 1
        if not rows or not isinstance(answer.get("totalCount"), int) or seen >= answer["totalCount"]:
            return


# --- changes -------------------------------------------------------------------------------------


def _create(options: argparse.Namespace, client: RegistryClient) -> int:
    _change(client, "POST", USERS, {"username": options.name, "password": _new_password(options)})
    for role in options.role:
        _change(client, "POST", ROLES, {"username": options.name, "role": role})
    if not options.role:
        return _done(options, "created user %(name)s", name=options.name)
    return _done(options, "created user %(name)s with %(roles)s", name=options.name, roles=", ".join(options.role))


def _remove(options: argparse.Namespace, client: RegistryClient) -> int:
    if all(text_of(one, "username") != options.name for one in _items(client, USERS)):
        raise CommandError(
            ExitCode.NOT_FOUND, gettext("there is no user %(name)s; `rollcall user list` lists all", name=options.name)
        )
    _change(client, "DELETE", USERS, {"username": options.name})
    return _done(options, "removed user %(name)s", name=options.name)


def _set_password(options: argparse.Namespace, client: RegistryClient) -> int:
    _change(client, "PUT", USERS, {"username": options.name, "newPassword": _new_password(options)})
    return _done(options, "%(name)s has a new password; the former tokens are no longer valid", name=options.name)


def _grant(options: argparse.Namespace, client: RegistryClient) -> int:
    _change(client, "POST", ROLES, {"username": options.name, "role": options.role})
    return _done(options, "%(name)s has the role %(role)s", name=options.name, role=options.role)


def _revoke(options: argparse.Namespace, client: RegistryClient) -> int:
    has = (options.name, options.role)
    if all((text_of(one, "username"), text_of(one, "role")) != has for one in _items(client, ROLES)):
        raise CommandError(
            ExitCode.NOT_FOUND,
            gettext("%(name)s has no role %(role)s; see `rollcall user list`", name=options.name, role=options.role),
        )
    _change(client, "DELETE", ROLES, {"username": options.name, "role": options.role})
    return _done(options, "%(name)s no longer has the role %(role)s", name=options.name, role=options.role)


def _permit(options: argparse.Namespace, client: RegistryClient) -> int:
    _change(client, "POST", PERMISSIONS, _permission(options))
    return _done(
        options,
        "%(role)s has the permission %(actions)s for %(resource)s",
        role=options.role,
        actions=options.actions,
        resource=options.resource,
    )


def _forbid(options: argparse.Namespace, client: RegistryClient) -> int:
    wanted = _permission(options)
    if all(any(one.get(name) != value for name, value in wanted.items()) for one in _items(client, PERMISSIONS)):
        raise CommandError(ExitCode.NOT_FOUND, gettext("there is no such permission; see `rollcall user permissions`"))
    _change(client, "DELETE", PERMISSIONS, wanted)
    return _done(
        options,
        "%(role)s no longer has the permission %(actions)s for %(resource)s",
        role=options.role,
        actions=options.actions,
        resource=options.resource,
    )


def _permission(options: argparse.Namespace) -> Parameters:
    return {"role": options.role, "resource": options.resource, "action": options.actions}


def _change(client: RegistryClient, method: str, path: str, parameters: Parameters) -> None:
    try:
        client.change(method, path, parameters)
    except CommandError as error:
        if error.code is ExitCode.FAILED and _MISSING.search(str(error)):
            raise CommandError(ExitCode.NOT_FOUND, str(error)) from None
        raise


def _done(options: argparse.Namespace, message: str, **values: object) -> int:
    """Print a completed change; as data it is English."""
    if is_data(options):
        print_data(options, {"done": message % values})
    else:
        write_line(printable(gettext(message, **values)))
    return ExitCode.DONE


def _new_password(options: argparse.Namespace) -> str:
    """Return the password to set, which is not an argument, as other users of the machine see arguments.

    Raises:
        CommandError: there is none, or the two that were typed differ.
    """
    if (file := options.new_password_file) is not None:
        try:
            lines = file.read_bytes()[:PASSWORD_BYTES_MAX].decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                ExitCode.WRONG_OPTIONS,
                gettext("the password file %(file)s cannot be read: %(error)s", file=file, error=error),
            ) from None
        return lines[0] if lines else ""
    if (given := os.environ.get(NEW_PASSWORD_VARIABLE)) is not None:
        return given
    if not sys.stdin.isatty():
        text = gettext(
            "no new password: give --new-password-file, or set %(new_password_variable)s",
            new_password_variable=NEW_PASSWORD_VARIABLE,
        )
        raise CommandError(ExitCode.WRONG_OPTIONS, text)
    from getpass import getpass

    password = getpass(f"New password of {printable(options.name)}: ")
    if getpass("Again: ") != password:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("the two passwords differ"))
    return password


# --- tokens --------------------------------------------------------------------------------------


def _log_in(options: argparse.Namespace, client: RegistryClient) -> int:
    if not client.user:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("no user to log in: give --user NAME, or configure one"))
    answer = client.log_in()
    if answer.get("message"):
        raise CommandError(
            ExitCode.FAILED, gettext("%(server)s has no users: %(text)s", server=client.server, text=answer["message"])
        )
    if is_data(options):
        print_data(options, dict(answer))
        return ExitCode.DONE
    sys.stdout.write(f"{answer['accessToken']}\n")
    say(
        options,
        gettext(
            "a token of %(user)s for %(tokenttl)s s; keep it as safe as a password",
            user=client.user,
            tokenttl=text_of(answer, "tokenTtl"),
        ),
    )
    return ExitCode.DONE


def _end_tokens(options: argparse.Namespace, client: RegistryClient) -> int:
    _change(client, "DELETE", TOKENS, {"username": options.name})
    return _done(options, "all tokens of %(name)s are revoked", name=options.name)

"""The doctor's checks of this machine: user, ports, data folder, descriptors, certificates, UDP, time-outs."""

import os
import resource
import shutil
import socket
import ssl
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

from app.config import settings_keys as keys
from app.config.settings import SettingError, Settings
from app.languages.phrases import phrase
from app.machine.limits.connection_room import ConnectionRoom
from app.machine.process.announce import listen_failure
from app.machine.process.data_lock import DataLock, DataLockError
from app.machine.process.open_files import CONNECTIONS_MAX, files_wanted, room_for_connections
from app.machine.process.root_user import ROOT_WARNING, is_root
from app.tools.command.doctor_findings import CheckFinding, failure, ok, warning

SPACE_LEAST_BYTES, SPACE_LOW_BYTES = 100 << 20, 1 << 30
FILES_LEAST = 1_000
UDP_WAIT_S = 1.0
UNREAD_NAMED_MAX, UNREAD_CHARS_MAX = 20, 300


def machine_findings(settings: Settings) -> Iterator[CheckFinding]:
    """Yield the findings on this machine, given the settings with which a node starts or runs here."""
    yield from _user()
    is_running = yield from _folder(settings)
    yield from _ports(settings, is_running)
    yield _descriptors(settings)
    yield from _certificates(settings)
    yield _udp()
    yield from _times(settings)


def _user() -> Iterator[CheckFinding]:
    if is_root():
        yield warning("user", phrase("this is root"), phrase(ROOT_WARNING))
    else:
        yield ok("user", phrase("not root (uid %(uid)s)", uid=os.geteuid()))


def _folder(settings: Settings) -> Generator[CheckFinding, None, bool]:
    """Yield the state of the data folder; return whether a node runs with it."""
    folder = settings.data_dir
    if not folder.exists():
        yield from _place(folder)
        yield ok("data folder", phrase("%(folder)s does not exist yet: the first start makes it", folder=folder))
        return False
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield failure(
            "data folder",
            phrase("%(folder)s cannot be read and written", folder=folder),
            phrase("give it to the user of the node (chown)"),
        )
        return False
    is_running = False
    try:
        with DataLock(folder):
            pass
    except DataLockError as error:
        is_running = "in use" in str(error)
        if not is_running:
            yield failure(
                "data folder",
                str(error),
                phrase("set %(data_dir)s to a folder that can be written", data_dir=keys.DATA_DIR.name),
            )
            return False
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        yield warning(
            "data folder",
            phrase("%(folder)s is open to others (mode %(mode)s)", folder=folder, mode=f"{mode:04o}"),
            f"chmod 0700 {folder}",
        )
    else:
        yield ok(
            "data folder",
            phrase(
                "%(folder)s, mode %(mode)s%(use)s",
                folder=folder,
                mode=f"{mode:04o}",
                use=phrase(", in use by a running node") if is_running else "",
            ),
        )
    yield from _place(folder)
    yield from _unread(folder)
    return is_running


def _unread(folder: Path) -> Iterator[CheckFinding]:
    """Yield the files in the folder that a node could not read, or will not be able to read at its next start."""
    from app.machine.storage.record_file import FILE_NAME, unread_records
    from app.machine.storage.warm_log import ASIDE

    try:
        found = unread_records(folder)
    except SettingError as error:
        yield failure("records", error.args[0], phrase("move the file away to let this member load from the others"))
        return
    for one in found[:UNREAD_NAMED_MAX]:
        yield warning(
            "records",
            phrase(
                "the record %(key)s cannot be read: %(reason)s",
                key=repr(str(one.key)[:UNREAD_CHARS_MAX]),
                reason=one.why[:UNREAD_CHARS_MAX],
            ),
            phrase("it has no effect; write it again if it is missed, and delete it from the table set_aside"),
        )
    if len(found) > UNREAD_NAMED_MAX:
        text = phrase("%(count)s more records cannot be read", count=len(found) - UNREAD_NAMED_MAX)
        yield warning("records", text, phrase("see the table set_aside of %(file)s", file=folder / FILE_NAME))
    elif not found:
        yield ok("records", phrase("all durable records can be read"))
    for path in sorted(folder.glob(f"warm{ASIDE}*")):
        yield warning(
            "data folder",
            phrase("%(path)s was an unreadable copy of instance lists", path=path),
            phrase("remove it"),
        )


def _place(folder: Path) -> Iterator[CheckFinding]:
    """Yield the free space at the present or future place of the folder."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free, files = shutil.disk_usage(there).free, os.statvfs(there)
    text = phrase("%(count)s MiB free at %(there)s", count=free >> 20, there=there)
    if free < SPACE_LEAST_BYTES:
        yield failure("disk", text, phrase("free some space: durable records cannot be written to a full disk"))
    elif free < SPACE_LOW_BYTES:
        yield warning("disk", text, phrase("free some space before it is full: durable records are refused then"))
    else:
        yield ok("disk", text)
    if files.f_files and files.f_favail < FILES_LEAST:
        yield failure(
            "disk",
            phrase("only %(count)s more files fit at %(there)s", count=files.f_favail, there=there),
            phrase("remove files: inodes are used up"),
        )


def _ports(settings: Settings, is_running: bool) -> Iterator[CheckFinding]:
    ports = [settings.port]
    if settings.rpc is not None:
        ports += [settings.rpc.sdk.port, settings.rpc.cluster.port]
    for port in ports:
        why = listen_failure(settings.host, port)
        if why is None and not is_running:
            yield ok("port", phrase("%(port)s is free", port=port))
        elif why is None:
            yield failure(
                "port",
                phrase("the node that runs does not listen on %(port)s", port=port),
                phrase("its log has the reason"),
            )
        elif is_running:
            yield ok("port", phrase("%(port)s is in use, by the node that runs", port=port))
        else:
            yield failure(
                "port",
                phrase("cannot listen on %(host)s port %(port)s: %(why)s", host=settings.host, port=port, why=why),
                phrase(
                    "end the process that uses it (ss -ltnp), or set %(port)s or %(host_key)s",
                    port=keys.PORT.name,
                    host_key=keys.HOST_KEY.name,
                ),
            )


def _descriptors(settings: Settings) -> CheckFinding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    has_grpc = settings.rpc is not None
    wanted = files_wanted(has_grpc=has_grpc)
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return ok(
            "descriptors",
            phrase(
                "%(limit)s, of %(wanted)s wanted",
                limit=phrase("unlimited") if hard == resource.RLIM_INFINITY else hard,
                wanted=wanted,
            ),
        )
    room = ConnectionRoom(room_for_connections(hard), has_grpc=has_grpc, has_members=not settings.standalone)
    possible = phrase("%(count)s over HTTP", count=room.http.possible)
    if has_grpc:
        possible = phrase("%(http)s, %(count)s over gRPC", http=possible, count=room.grpc.possible)
    return warning(
        "descriptors",
        phrase(
            "the hard limit is %(hard)s: %(total)s connections in all, at the most %(possible)s",
            hard=hard,
            total=room.total,
            possible=possible,
        ),
        phrase(
            "raise it to %(wanted)s (LimitNOFILE= of systemd, or ulimit -Hn) for %(count)s of each",
            wanted=wanted,
            count=CONNECTIONS_MAX,
        ),
    )


def _certificates(settings: Settings) -> Iterator[CheckFinding]:
    for what, port in (
        (phrase("TLS for SDKs"), settings.rpc and settings.rpc.sdk),
        (phrase("TLS for members"), settings.rpc and settings.rpc.cluster),
    ):
        if not port or port.certificate is None or port.private_key is None:
            continue
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(port.certificate, port.private_key, lambda: "")
        except (OSError, ValueError) as error:
            yield failure(
                what,
                phrase("%(certificate)s with its key: %(error)s", certificate=port.certificate, error=error),
                phrase("give a PEM chain and the key that fits"),
            )
            continue
        mode = stat.S_IMODE(port.private_key.stat().st_mode)
        if mode & 0o077:
            yield warning(
                what,
                phrase(
                    "others can read %(private_key)s (mode %(mode)s)", private_key=port.private_key, mode=f"{mode:04o}"
                ),
                f"chmod 0600 {port.private_key}",
            )
        else:
            yield ok(what, phrase("%(certificate)s and its key fit", certificate=port.certificate))


def _udp() -> CheckFinding:
    """Check that datagrams reach this machine itself: pushes to 1.x SDKs are datagrams."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            receiver.settimeout(UDP_WAIT_S)
            receiver.sendto(b"rollcall", receiver.getsockname())
            receiver.recv(16)
    except OSError as error:
        return warning(
            "UDP",
            phrase("a datagram to this machine itself did not arrive: %(error)s", error=error),
            phrase("allow UDP in its firewall"),
        )
    return ok("UDP", phrase("datagrams reach this machine itself; firewalls must also let those to clients pass"))


def _times(settings: Settings) -> Iterator[CheckFinding]:
    distro = settings.distro
    if distro.report_timeout_ms >= distro.silent_down_ms:
        yield warning(
            "time-outs",
            phrase(
                "one report may take %(report_ms)s ms, and a member is DOWN after %(down_ms)s ms",
                report_ms=distro.report_timeout_ms,
                down_ms=distro.silent_down_ms,
            ),
            phrase(
                "set %(silent_down)s to at least twice %(report_timeout)s",
                silent_down=keys.DISTRO["silent_down_ms"].name,
                report_timeout=keys.DISTRO["report_timeout_ms"].name,
            ),
        )
    else:
        yield ok(
            "time-outs",
            phrase(
                "a stopping node takes %(seconds)s s at most: let its service manager wait longer",
                seconds=settings.stop_timeout_s,
            ),
        )

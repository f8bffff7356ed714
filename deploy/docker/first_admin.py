"""Create the first administrator, once the node of this container serves and while there is none.

    python3 /opt/rollcall/first_admin.py FOLDER

FOLDER has the files username and password, as a mounted Secret does. The command returns at once, and a process in the
background goes on: Kubernetes does not report a pod's address before its hook postStart ends, and members need each
other's addresses to become ready. Later changes of the files have no effect. The exit code is always 0: the first
process of the container is gunicorn, which takes some exit codes of orphans as those of a worker, and ends.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import healthcheck

WAIT_S = 900.0
"""How long to try: more than the longest load of a member (rollcall.distro.load.maxMs)."""
PAUSE_S, PAUSE_MAX_S = 1.0, 30.0


def is_wanted() -> bool:
    """Return whether there is no administrator: the member then has a file with the secret for making one."""
    return (Path(os.environ.get("ROLLCALL_DATA_DIR", "/data")) / "first-admin.secret").exists()


def create(folder: Path) -> str:
    """Have `rollcall admin` create the administrator. Return its refusal, empty after a success."""
    try:
        name = (folder / "username").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        return f"no username in {folder}: {error}"
    command = ["rollcall", "admin", "--user", name, "--password-file", str(folder / "password")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"exit code {done.returncode}")


def run(
    folder: Path,
    say: Callable[[str], object],
    serves: Callable[[], bool] = lambda: healthcheck.reason() is None,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Try until an administrator exists, or for WAIT_S. A refusal that repeats is reported once."""
    waited, pause, refusal, reported = 0.0, PAUSE_S, "", ""
    while waited < WAIT_S:
        if serves():
            if not is_wanted():
                return
            refusal = create(folder)
            if not refusal:
                say("created the first administrator")
                return
            pause = min(2 * pause, PAUSE_MAX_S)
        sleep(pause)
        waited += pause
        # Another member may have been first; this one then removes the secret within a second.
        if refusal != reported and is_wanted():
            say(f"the first administrator was not created: {refusal}")
            reported = refusal
    say(f"gave up creating the first administrator after {WAIT_S:.0f} s; create it with: rollcall admin")


def log_line(text: str) -> None:
    """Write a line to the log of the container, which is what its first process writes to."""
    try:
        with open("/proc/1/fd/2", "w", encoding="utf-8") as log:
            print(f"first_admin: {text}", file=log)
    except OSError:
        return


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        log_line("usage: first_admin.py FOLDER")
        return 0
    if os.fork():
        return 0
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    try:
        run(Path(arguments[0]), log_line)
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

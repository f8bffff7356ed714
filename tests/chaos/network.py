"""Network namespaces: one a member, joined by a bridge, with cuts at the receiver. Linux only, see ``unable``.

All of it lies in namespaces of a process's own (``run_in_own_namespaces``): nothing on the machine changes, and when
the first process in them ends, however it does, the kernel ends all others, their networks and mounts.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import psutil

DRIVER_IP = "10.77.0.1"
CHECKED_NETWORK = "10.77.1.0/24"
"""Addresses of this process, which members reach through it."""
PORT = 8848
PORTS = (PORT, PORT + 1_000, PORT + 1_001)
FOLDER = "ROLLCALL_CHAOS_FOLDER"
"""The variable that says that a process runs in namespaces of its own, and which folder is for its files."""
CALL_S = 20.0


class Unable(Exception):
    """The machine does not allow what a run needs; the text says what."""


def unable() -> str:
    """Why no run is possible here; empty when one is."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    for tool in ("ip", "nft", "unshare", "nsenter", "setpriv", "mount"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    script = "ip link add br0 type bridge && ip link add v0 type veth peer name v1 && nft add table inet cuts"
    tried = subprocess.run([*_unshare(), "sh", "-c", script], capture_output=True, text=True, check=False)
    return f"network namespaces are not allowed here: {tried.stderr.strip()[:200]}" if tried.returncode else ""


def _unshare() -> list[str]:
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["setpriv", "--pdeathsig", "KILL", "--", "unshare", *own_user, *own, "--"]


def run_in_own_namespaces(arguments: Sequence[str]) -> int:
    """Run a Python command line of this checkout in namespaces of its own; return its exit code.

    An exception here, as Ctrl-C raises it, ends all processes in them.
    """
    with tempfile.TemporaryDirectory(prefix="rollcall-chaos-") as folder:
        # The shell is the first process, and takes in those that lost their parents.
        first = ["sh", "-c", '"$@"; exit $?', "sh", "env", f"{FOLDER}={folder}"]
        process = subprocess.Popen(
            [*_unshare(), *first, sys.executable, *arguments], stdin=subprocess.DEVNULL, process_group=0
        )
        try:
            return process.wait()
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End namespaces by their first process, and return when all processes in them are gone."""
    if process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for first in psutil.Process(process.pid).children():
                first.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CALL_S)
        process.kill()
        process.wait()


def run(*command: str, text: str | None = None) -> str:
    """Run a command; return what it printed.

    Raises:
        Unable: it failed.
    """
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=CALL_S, check=False)
    if ended.returncode:
        raise Unable(f"{' '.join(command)}: {ended.stderr.strip()[:500]}")
    return ended.stdout


class Cut(Enum):
    """How packets from one member to another are treated, at the receiver."""

    DROP = "drop"
    """None arrive, in a connection of either side."""
    RESET = "reset"
    """A connection of either side is reset by the next packet."""
    CONNECTS = "connects"
    """None arrive in connections that the sender made; those of the receiver go on."""


@dataclass(slots=True)
class Place:
    """The namespace of one member."""

    ip: str
    holder: subprocess.Popen[bytes]
    """A process that does nothing; the namespace lives as long."""
    cuts: dict[str, Cut] = field(default_factory=dict)
    """By the sender's ip."""

    def enter(self, *command: str) -> list[str]:
        """The command that runs another one in this namespace."""
        return ["nsenter", "--net", "--target", str(self.holder.pid), "--", *command]


class Network:
    """The namespaces of ``count`` members, which reach each other and this process."""

    def __init__(self, count: int) -> None:
        self.places: list[Place] = []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "addr", "add", f"{DRIVER_IP}/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        for number in range(count):
            self._add(number)

    def _add(self, number: int) -> None:
        ip, outside = f"10.77.0.{10 + number}", f"member{number}"
        # It ends with this process, whose end of the pipe it waits for.
        holder = subprocess.Popen(["unshare", "--net", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        place = Place(ip, holder)
        self.places.append(place)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if holder.poll() is not None:
                raise Unable("a member's namespace ended at once")
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "link", "set", outside, "master", "br0", "up")
        run(*place.enter("ip", "addr", "add", f"{ip}/24", "dev", "eth0"))
        run(*place.enter("ip", "link", "set", "eth0", "up"))
        run(*place.enter("ip", "link", "set", "lo", "up"))
        run(*place.enter("ip", "route", "add", CHECKED_NETWORK, "via", DRIVER_IP))

    # --- cuts -----------------------------------------------------------------------------------------

    def cut(self, senders: Iterable[int], receivers: Iterable[int], kind: Cut = Cut.DROP) -> None:
        """Cut what the senders send to the receivers, in this direction alone."""
        senders = list(senders)
        for number in receivers:
            place = self.places[number]
            place.cuts.update({self.places[sender].ip: kind for sender in senders if sender != number})
            self._set(place)

    def split(self, one: Iterable[int], other: Iterable[int], kind: Cut = Cut.DROP) -> None:
        """Cut two sides apart, in both directions."""
        one, other = list(one), list(other)
        self.cut(one, other, kind)
        self.cut(other, one, kind)

    def heal(self) -> None:
        """End all cuts."""
        for place in self.places:
            if place.cuts:
                place.cuts = {}
                self._set(place)

    def _set(self, place: Place) -> None:
        rules = []
        for ip, kind in place.cuts.items():
            match kind:
                case Cut.DROP:
                    rules.append(f"ip saddr {ip} drop")
                case Cut.RESET:
                    rules += [f"ip saddr {ip} meta l4proto tcp reject with tcp reset", f"ip saddr {ip} drop"]
                case Cut.CONNECTS:
                    rules.append(f"ip saddr {ip} tcp dport {{ {', '.join(map(str, PORTS))} }} drop")
        chain = "\n".join(["type filter hook input priority 0", *rules])
        # One transaction: there is no moment at which a cut that stays is open.
        text = f"table inet cuts {{}}\ndelete table inet cuts\ntable inet cuts {{\nchain input {{\n{chain}\n}}\n}}\n"
        run(*place.enter("nft", "-f", "-"), text=text)

    def end(self) -> None:
        """End the namespaces, and leave this process's own as it was."""
        for number, place in enumerate(self.places):
            # The kernel ends a namespace in its time, and the next run's links have the same names.
            run("ip", "link", "del", f"member{number}")
            place.holder.kill()
            place.holder.wait()
        run("ip", "link", "del", "br0")

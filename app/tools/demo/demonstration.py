"""The course of the demonstration: clients live, faults come, and each change is printed with the time since the
fault."""

import os
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread

from app.languages.command_texts import gettext
from app.tools.demo.demo_clients import CONTEXT_PATH, PORT, DemoClients
from app.tools.demo.demo_faults import CRASH, FAULTS, KILL, PAUSE, PAUSE_S, SILENCE, START
from app.tools.demo.demo_members import DemoMember
from app.tools.demo.demo_view import UP, View, changes, look

DOWN = "DOWN"
LOOK_S = 0.3
SETTLE_S = 30.0
EFFECT_S = 90.0
"""The longest time that a fault may take to have its whole effect. A silent instance is removed after 30 s."""
QUIT = "quit"
IsSeen = Callable[[View], bool]


class Demonstration:
    """Runs clients at members that serve, and causes faults."""

    def __init__(self, members: Sequence[DemoMember], *, opens: bool) -> None:
        """``opens``: whether a browser shows the console."""
        self._members, self._opens = members, opens
        self._clients = DemoClients(members)
        self._view = View()
        self._begun_s = time.monotonic()
        self._ways = {
            KILL: self._kill,
            START: self._start,
            PAUSE: self._pause,
            SILENCE: self._silence,
            CRASH: self._crash,
        }

    def run(self, faults: Sequence[str]) -> bool:
        """Cause the faults in turn, or those that the user types if there are none; return whether each had its effect.

        Raises:
            DemoError: a member does not start.
            OSError: no member takes the clients.
        """
        try:
            self._clients.start()
            self._await(gettext("all members list the same"), self._is_whole, SETTLE_S)
            self._greet()
            return all(map(self._causes, faults)) if faults else self._ask()
        finally:
            self._clients.stop()
            print(f"\n{self._calls()}", flush=True)

    def _is_whole(self, view: View) -> bool:
        count = len(self._clients.http) + len(self._clients.grpc)
        return view.agree and view.all_up(self._members) and all(len(one) == count for one in view.lists.values())

    def _greet(self) -> None:
        address = f"http://{self._members[0].address}{CONTEXT_PATH}/"
        text = gettext(
            "The console: %(address)s\n%(http)d instances over HTTP and %(grpc)d over gRPC, in %(services)d services",
            address=address,
            http=len(self._clients.http),
            grpc=len(self._clients.grpc),
            services=len(self._clients.services),
        )
        print(f"\n{text}", flush=True)
        if self._opens and _has_screen():
            webbrowser.open(address)

    # --- what the user asks for -------------------------------------------------------------------

    def _ask(self) -> bool:
        """Cause what the user types, until the end of the input."""
        width = max(map(len, FAULTS))
        print(gettext("Type the name of a fault and press Enter:"))
        print(*(f"  {name:{width}}  {gettext(purpose)}" for name, purpose in FAULTS.items()), sep="\n")
        print(f"  {QUIT:{width}}  {gettext('end the members and the clients')}", flush=True)
        typed = _typed()
        while True:
            try:
                word = typed.get(timeout=LOOK_S)
            except Empty:
                self._look()
                continue
            if word in (QUIT, QUIT[0]):
                return True
            if word in FAULTS:
                self._causes(word)
            elif word:
                print(
                    gettext("%(word)s: name one of %(known)s", word=word, known=", ".join([*FAULTS, QUIT])), flush=True
                )

    # --- faults -----------------------------------------------------------------------------------

    def _causes(self, fault: str) -> bool:
        """Cause a fault and wait for its effect. Return whether it came."""
        before = self._clients.calls.failed
        self._begun_s = time.monotonic()
        came = self._ways[fault]()
        failed = self._clients.calls.failed - before
        self._tell(gettext("failed calls of the clients: %(count)d", count=failed))
        return came

    def _kill(self) -> bool:
        running = [one for one in self._members if one.is_running]
        if len(running) == 1:
            return self._refuse(gettext("only one member runs"))
        victim = running[-1]
        victim.kill()
        self._tell(gettext("%(member)s was killed", member=victim.address))
        return self._await(
            gettext("the others see %(member)s DOWN, and list the same", member=victim.address),
            lambda view: view.agree and view.all_say(victim.address, DOWN) and self._has_all_clients(view),
        )

    def _start(self) -> bool:
        victim = next((one for one in self._members if not one.is_running), None)
        if victim is None:
            return self._refuse(gettext("all members run"))
        victim.start()
        self._tell(gettext("%(member)s starts", member=victim.address))
        victim.wait_ready()
        return self._await(
            gettext("all see %(member)s UP, and list the same", member=victim.address),
            lambda view: view.agree and victim.address in view.lists and view.all_say(victim.address, UP),
        )

    def _pause(self) -> bool:
        running = [one for one in self._members if one.serves]
        if len(running) == 1:
            return self._refuse(gettext("only one member runs"))
        victim = running[-1]
        victim.pause()
        self._tell(gettext("%(member)s stands still for 10 s", member=victim.address))
        end_s = time.monotonic() + PAUSE_S
        while time.monotonic() < end_s:
            time.sleep(LOOK_S)
            self._look()
        victim.resume()
        self._tell(gettext("%(member)s continues", member=victim.address))
        return self._await(
            gettext("all see %(member)s UP, and list the same", member=victim.address),
            lambda view: view.agree and victim.address in view.lists and view.all_say(victim.address, UP),
        )

    def _silence(self) -> bool:
        one = next((one for one in self._clients.http if not one.is_silent), None)
        if one is None:
            return self._refuse(gettext("all instances over HTTP are silent"))
        one.is_silent = True
        name = f"{one.service} {one.ip}:{PORT}"
        self._tell(gettext("%(instance)s sends no more beats", instance=name))
        return self._await_gone(name)

    def _crash(self) -> bool:
        client = next((one for one in self._clients.grpc if not one.is_over), None)
        if client is None:
            return self._refuse(gettext("all clients over gRPC have crashed"))
        client.is_over = True
        client.cut()
        name = f"{client.service} {client.ip}:{PORT}"
        self._tell(gettext("%(instance)s crashed", instance=name))
        return self._await_gone(name)

    def _await_gone(self, name: str) -> bool:
        return self._await(
            gettext("no member lists %(instance)s", instance=name), lambda view: view.health(name) == {None}
        )

    def _has_all_clients(self, view: View) -> bool:
        """Return whether the clients of the lost member are back at the others."""
        wanted = {f"{one.service} {one.ip}:{PORT}" for one in self._clients.grpc if not one.is_over}
        return all(wanted <= listed.keys() for listed in view.lists.values())

    def _refuse(self, why: str) -> bool:
        print(gettext("Not now: %(reason)s", reason=why), flush=True)
        return False

    # --- looking and telling ----------------------------------------------------------------------

    def _look(self) -> View:
        before, self._view = self._view, look(self._members, self._clients.services)
        if before.states:
            for text in changes(before, self._view):
                self._tell(text)
        return self._view

    def _await(self, effect: str, is_seen: IsSeen, within_s: float = EFFECT_S) -> bool:
        deadline_s = time.monotonic() + within_s
        while not is_seen(self._look()):
            if time.monotonic() > deadline_s:
                self._tell(gettext("NOT SEEN within %(seconds)d s: %(effect)s", seconds=within_s, effect=effect))
                return False
            time.sleep(LOOK_S)
        self._tell(effect)
        return True

    def _calls(self) -> str:
        calls = self._clients.calls
        return gettext(
            "%(done)d lists asked for, %(failed)d failed, %(empty)d empty",
            done=calls.done,
            failed=calls.failed,
            empty=calls.empty,
        )

    def _tell(self, text: str) -> None:
        print(f"{self._time()}  {text}", flush=True)

    def _time(self) -> str:
        return f"{time.monotonic() - self._begun_s:6.1f} s"


def _typed() -> "SimpleQueue[str]":
    """Return the queue of the words that are typed from now on; the end of the input is ``QUIT``."""
    words = SimpleQueue[str]()

    def read() -> None:
        for line in sys.stdin:
            words.put(line.strip().lower())
        words.put(QUIT)

    Thread(target=read, name="demo-input", daemon=True).start()
    return words


def _has_screen() -> bool:
    """Return whether a browser opens a separate window. Without one, a browser for terminals would take this one."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

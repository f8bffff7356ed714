"""A member that is real Nacos 1.4, in virtual time: by its rules of members, datums and checksums, without versions.

Source: Nacos 1.4.1 ServerMemberManager, MemberUtil, DistroFilter, DistroConsistencyServiceImpl, DistroProtocol,
ClientBeatCheckTask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from app.config.version import NACOS_VERSION
from app.http.api.agents import is_peer
from app.http.api.answers import filter_error
from app.http.api.call import OK, Call, Reply
from app.http.input.params import parse_beat, parse_deregister, parse_register
from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry import operations
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import Shared, register
from app.naming.wire.datum_codec import InstanceListCodec
from app.tools.simulation.member.engine_calls import CHECKSUM, DATUM, DATUMS, REPORT
from app.tools.simulation.member.sim_ports import ClusterWorld, Listed
from app.tools.simulation.member.sim_ports import Reply as NetworkReply
from distro.members.mapper import DistroMapper
from distro.model.types import NO_VERSION, Datum, Outcome
from distro.wire.codec import decode_frame, encode_frame

REPORT_MS, REPORT_TIMEOUT_MS = 2_000, 1_500
FAILURES_MAX = 3
SYNC_DELAY_MS, SYNC_RETRY_MS, SYNC_TIMEOUT_MS = 1_000, 5_000, 3_000
VERIFY_MS = 5_000
CHECK_MS = 5_000
FORWARD_TIMEOUT_MS = 2_000
UP, SUSPICIOUS, DOWN = "UP", "SUSPICIOUS", "DOWN"


@dataclass
class _Peer:
    state: str = UP
    failures: int = 0


@dataclass
class SimNacos:
    """A real Nacos that starts once, after our members, and runs to the end of the world."""

    world: ClusterWorld
    address: str
    run: int = 1
    listening: bool = False
    lists: dict[str, dict[str, StoredInstance]] = field(default_factory=dict)
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _turn: int = 0
    _comparing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._codec = InstanceListCodec(lambda: self.world.now_ms)
        self._shared = Shared()

    @property
    def http(self) -> SimNacos:
        return self

    @property
    def ip(self) -> str:
        return self.address.partition(":")[0]

    def post(self, work: Callable[[], None]) -> None:
        work()

    def start(self) -> None:
        self.listening = True
        self._peers = {one: _Peer() for one in self.world.addresses if one != self.address}
        self._load(list(self._peers))
        for every_ms, work in ((REPORT_MS, self._report), (VERIFY_MS, self._verify), (CHECK_MS, self._check_beats)):
            self._repeat(every_ms, work)

    def _repeat(self, every_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            work()
            self.world.after(every_ms, run)

        self.world.after(self.world.between(0, every_ms), run)

    def _call(
        self, peer: str, method: str, path: str, body: bytes, timeout_ms: int, end: NetworkReply, query: str = ""
    ) -> None:
        call = Call(method, path, query.encode(), {"user-agent": f"Nacos-Server:v{NACOS_VERSION}"}, body, self.ip)
        self.world.network.call(
            self, peer, lambda process, reply: process.http.serve(call, reply), timeout_ms, end, repeats=False
        )

    # --- members ---------------------------------------------------------------------------------

    def _owner(self, full_name: str) -> str:
        return DistroMapper.over(self.address, self.view).map_srv(full_name)

    @property
    def view(self) -> list[str]:
        """The members that carry keys."""
        return sorted([self.address, *(one for one, peer in self._peers.items() if peer.state != DOWN)])

    def _report(self) -> None:
        """Report to one member at a time, in turn."""
        peers = sorted(self._peers)
        self._turn += 1
        peer = peers[self._turn % len(peers)]

        def end(outcome: Outcome, reply: Reply | None) -> None:
            if outcome is Outcome.DELIVERED and reply is not None and reply.status == 200:
                self._peers[peer] = _Peer()
            else:
                self._failed(peer, refused=outcome is Outcome.REFUSED)

        self._call(peer, "POST", REPORT, orjson.dumps(self._own_json()), REPORT_TIMEOUT_MS, end)

    def _failed(self, peer: str, *, refused: bool) -> None:
        known = self._peers[peer]
        known.failures += 1
        known.state = DOWN if refused or known.failures > FAILURES_MAX or known.state == DOWN else SUSPICIOUS

    def _own_json(self) -> dict[str, Any]:
        host, _, port = self.address.partition(":")
        info = {"version": "1.4.1", "raftPort": "7848", "lastRefreshTime": self.world.now_ms}
        return {"ip": host, "port": int(port), "address": self.address, "state": UP, "extendInfo": info}

    # --- answers -------------------------------------------------------------------------

    def serve(self, call: Call, reply: NetworkReply) -> None:
        def respond(answer: Reply) -> None:
            reply(Outcome.DELIVERED, answer)

        match call.method, call.path:
            case "POST", "/v1/core/cluster/report":
                body = orjson.loads(call.body)
                if body["address"] in self._peers:
                    self._peers[body["address"]] = _Peer()
                respond(Reply(200, b'{"code":200,"message":null,"data":"true"}'))
            case "PUT", "/v1/ns/distro/datum":
                if call.body == b"{}":
                    respond(Reply(400, b"receive empty entity!"))
                else:
                    self._take(call.body)
                    respond(OK)
            case "PUT", "/v1/ns/distro/checksum":
                self._compare(call.parameters.required("source"), orjson.loads(call.body))
                respond(OK)
            case "GET", "/v1/ns/distro/datum":
                respond(Reply(200, self._datums(orjson.loads(call.body)["keys"].split(","))))
            case "GET", "/v1/ns/distro/datums":
                respond(Reply(200, self._datums(list(self.lists))))
            case _:
                self._write(call, respond)

    def _write(self, call: Call, respond: Callable[[Reply], None]) -> None:
        service = call.parameters.service_name() or ""
        owner = self._owner(service)
        if owner == self.address:
            respond(self._execute(call))
        elif is_peer(call.agent):
            respond(filter_error(call.uri, 400, f"receive invalid redirect request from peer {call.remote_ip}", 0))
        else:
            self.world.marks["write forwarded by Nacos"] += 1
            query = call.raw_query.decode()

            def end(outcome: Outcome, reply: Reply | None) -> None:
                respond(Reply(500, b"") if reply is None or reply.status != 200 else Reply(200, reply.body))

            self._call(owner, call.method, call.path, b"", FORWARD_TIMEOUT_MS, end, query)

    def _execute(self, call: Call) -> Reply:
        self.world.marks["write executed by Nacos"] += 1
        now_ms = self.world.now_ms
        if call.path.endswith("/beat"):
            beat = parse_beat(call.parameters)
            known = self.lists.get(datum_key(beat.namespace, beat.service), {}).get(operations.key_of(beat))
            if known is None:
                return Reply(200, b'{"clientBeatInterval":5000,"code":20404}')
            known.beat_ms = now_ms
            return Reply(200, b'{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}')
        if call.method == "POST":
            command = parse_register(call.parameters, True)
            key, name = datum_key(command.namespace, command.service), operations.key_of(command)
            stored = self.lists.setdefault(key, {})
            old: Instance | None = stored[name].instance if name in stored else None
            stored[name] = StoredInstance(register(old, command, (), self._shared), NO_VERSION, now_ms)
        else:
            gone = parse_deregister(call.parameters, True)
            key, name = datum_key(gone.namespace, gone.service), operations.key_of(gone)
            self.lists.get(key, {}).pop(name, None)
        self._sync(key)
        return OK

    # --- datums ----------------------------------------------------------------------------------

    def _sync(self, key: str) -> None:
        for peer in self._peers:
            self.world.after(SYNC_DELAY_MS, partial(self._send, peer, key))

    def _send(self, peer: str, key: str) -> None:
        def end(outcome: Outcome, reply: Reply | None) -> None:
            if (reply is None or reply.status != 200) and self._peers[peer].state != DOWN:
                self.world.after(SYNC_RETRY_MS, lambda: self._send(peer, key))

        if key in self.lists:
            self._call(peer, "PUT", DATUM, self._datums([key]), SYNC_TIMEOUT_MS, end)

    def _datums(self, keys: list[str]) -> bytes:
        datums = [Datum(key, NO_VERSION, InstanceList(self.lists[key], {})) for key in keys if key in self.lists]
        return encode_frame(datums, self._codec, self.world.now_ms, versioned=False)

    def _take(self, body: bytes) -> None:
        """Replace the stored lists by those that come, without a comparison."""
        datums, failed = decode_frame(body, self._codec, self.world.now_ms)
        assert not failed, failed
        for datum in datums:
            self.world.marks["datum taken by Nacos"] += 1
            self.lists[datum.key] = datum.value.stored

    def _load(self, peers: list[str]) -> None:
        """Take the snapshot of the first member that gives one."""
        if not peers:
            return

        def end(outcome: Outcome, reply: Reply | None) -> None:
            if reply is not None and reply.status == 200:
                self._take(reply.body)
            else:
                self._load(peers[1:])

        self._call(peers[0], "GET", DATUMS, b"", SYNC_TIMEOUT_MS, end)

    def _verify(self) -> None:
        checksums = {
            key: self._codec.checksum(Datum(key, NO_VERSION, InstanceList(stored, {})))
            for key, stored in self.lists.items()
            if self._owner(_name(key)) == self.address
        }
        for peer in self._peers:
            body, query = orjson.dumps(checksums), f"source={self.address}"
            self._call(peer, "PUT", CHECKSUM, body, SYNC_TIMEOUT_MS, lambda *_: None, query)

    def _compare(self, source: str, checksums: dict[str, str]) -> None:
        """Compare checksums: a key that it takes for its own ends the whole round; keys that the owner lacks go."""
        if source in self._comparing:
            return
        if any(self._owner(_name(key)) == self.address for key in checksums):
            self.world.marks["round given up by Nacos"] += 1
            return
        wanted = [key for key, checksum in checksums.items() if self._checksum(key) != checksum]
        for key in [key for key in self.lists if self._owner(_name(key)) == source and key not in checksums]:
            del self.lists[key]
        if not wanted:
            return
        self._comparing.add(source)

        def end(outcome: Outcome, reply: Reply | None) -> None:
            self._comparing.discard(source)
            if reply is not None and reply.status == 200:
                self._take(reply.body)

        body = orjson.dumps({"keys": ",".join(wanted)})
        self._call(source, "GET", DATUM, body, SYNC_TIMEOUT_MS, end)

    def _checksum(self, key: str) -> str:
        stored = self.lists.get(key)
        return "" if stored is None else self._codec.checksum(Datum(key, NO_VERSION, InstanceList(stored, {})))

    def _check_beats(self) -> None:
        for key, stored in self.lists.items():
            if self._owner(_name(key)) != self.address:
                continue
            now_ms = self.world.now_ms
            silent = [name for name, one in stored.items() if now_ms - one.beat_ms > one.instance.delete_timeout_ms]
            for name in silent:
                del stored[name]
            if silent:
                self._sync(key)

    # --- queries of the checks -------------------------------------------------------------------------

    def shows(self, one: Listed) -> bool:
        return one.instance_key in self.lists.get(one.datum_key, {})


def _name(key: str) -> str:
    return key.rpartition("##")[2]

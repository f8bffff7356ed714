"""Builds the engine of a node: its resource types, the cluster as it sees it, and the calls to members."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from app.auth.member_calls import Callers
from app.auth.member_signer import MemberSigner
from app.auth.signed import identity_of
from app.config.settings import Settings
from app.config.version import MEMBER_AGENT, NACOS_VERSION
from app.http.api.answers import refusal_by_switch
from app.machine.tls.node_tls import NodeTls
from app.members.last_list import LastList
from app.members.member_ips import MemberSenders
from app.members.member_lookup import MemberLookup
from app.members.member_reports import MemberReports
from app.members.member_sources import source_maker
from app.members.membership import Membership
from app.members.own_entry import OwnEntry
from app.metrics.audit_trail import NODE, AuditTrail
from app.naming.clients.clients import ClientExpiry
from app.naming.model.keys import parse_datum_key
from app.naming.service import NamingService
from app.node.node_parts import Domain, Engine, NodeClock, NodeKinds
from app.peers.beats import BeatCollector
from app.peers.grpc_clients import ClientAgent, NacosClientAgent
from app.peers.grpc_links import GrpcLinks
from app.peers.small_datums import SmallSends
from app.replication.address_client_type import HTTP_CLIENTS, http_client_component
from app.replication.address_clients import HttpClients
from app.replication.client_receiver import ClientReceiver
from app.replication.client_type import CLIENTS, ClientCodec, ClientStore, client_key
from app.replication.foreign_type import FOREIGN, ForeignAgent, ForeignCodec, ForeignStore
from app.replication.http_peers import NodeReplication
from app.replication.instance_list_type import INSTANCE_LIST, InstanceListAgent, InstanceListStore
from app.replication.large_bodies import LargeBodies
from app.replication.nacos_1_names import NacosOneNames
from app.replication.record_type import RECORDS, RecordCodec
from app.replication.service_heal import ServiceHealer
from distro.engine.engine import DistroEngine
from distro.model.ports import Clock, Component, DatumCodec, DistroCallbackAgent, DistroTransportAgent
from distro.model.types import CAPABILITY_LINKS, DistroKey, MemberKind
from distro.protocol.engine_reader import EngineReader
from distro.receive.call_times import CallDeadlines
from distro.wire.http_agent import DistroHttpAgent

CLAIMED_SHOWN_MAX = 20
"""Keys that are in the audit trail, of those that this member took over at once."""


def build_engine(
    settings: Settings, clock: NodeClock, domain: Domain, made: DistroEngine, tls: NodeTls, kinds: NodeKinds
) -> Engine:
    """Give the engine all its resource types, and make the calls to members; no thread runs yet."""
    config, reader, mailbox, components = settings.distro, made.reader, made.mailbox, made.components
    beats = BeatCollector()
    deadlines = CallDeadlines(domain.writer, clock)
    senders = MemberSenders(reader, deadlines)
    cluster, reports, callers, signer, links = build_membership(
        settings, clock, domain, made, senders, deadlines, tls, beats, kinds
    )
    sync = None if settings.standalone else mailbox.sync
    address_clients = HttpClients(
        lambda: reader.view,
        domain.registry.lists,
        lambda client_id: sync(DistroKey(HTTP_CLIENTS, client_key(client_id))) if sync is not None else None,
        lambda client_id: domain.clients.copies.forget(client_id, absent=True),
    )
    nacos_1 = NacosOneNames()
    built, small_sends = build_components(
        settings, clock, domain, made, cluster, links, signer, tls, nacos_1, address_clients
    )
    components.update(built)
    receiver, bodies = made.receiver, LargeBodies(config.body_bytes_max)
    runtime = made.runtime(reports, cluster.note_behind)
    return Engine(
        stats=made.stats,
        times=made.times,
        reader=reader,
        runtime=runtime,
        remember=mailbox.remember,
        components=components,
        cluster=cluster,
        senders=senders,
        reports=reports,
        beats=beats,
        lookup=build_lookup(settings),
        callers=callers,
        signer=signer,
        links=links,
        small_sends=small_sends,
        replication=NodeReplication(receiver, components, cluster, senders, clock, bodies, made.digests, nacos_1),
        healer=ServiceHealer(
            cluster, reader.mapper_of, components, receiver, mailbox, domain.durable, domain.clients.table, clock
        ),
        client_receiver=ClientReceiver(
            receiver,
            domain.clients.table,
            domain.clients.copies,
            address_clients,
            clock,
            bodies,
        ),
        client_expiry=ClientExpiry(domain.clients.own, domain.clients.copies, reader.has_left, config.pause_ms),
        address_clients=address_clients,
        tls=tls,
        sync=sync,
        now_s=clock.boot_s,
        came_back=mailbox.came_back,
    )


def make_engine(
    settings: Settings,
    clock: NodeClock,
    writer: str,
    before_serving: Callable[[int], None],
    audit: AuditTrail,
    is_pushed: Callable[[DistroKey], bool],
    kinds: NodeKinds,
) -> DistroEngine:
    """Make the engine without its resource types; claims are written to the audit trail.

    ``writer``: this run of this node. ``before_serving``, ``is_pushed``: as of ``DistroEngine``.
    """
    return DistroEngine(
        settings.self_address,
        writer,
        settings.distro,
        clock,
        standalone=settings.standalone,
        now_s=clock.boot_s,
        before_serving=before_serving,
        on_claimed=partial(audit_claims, audit),
        is_pushed=is_pushed,
        kinds=kinds.engine,
    )


def audit_claims(audit: AuditTrail, keys: list[DistroKey]) -> None:
    """Write to the audit trail that this node took keys over."""
    shown = [key.key for key in keys[:CLAIMED_SHOWN_MAX]]
    audit.write("ownership.claim", f"{len(keys)} keys", after=shown, actor=NODE)


def build_membership(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    made: DistroEngine,
    senders: MemberSenders,
    deadlines: CallDeadlines,
    tls: NodeTls,
    beats: BeatCollector,
    kinds: NodeKinds,
) -> tuple[Membership, MemberReports, Callers, MemberSigner, GrpcLinks | None]:
    """Make the cluster as this node sees it, its reports, what tells who calls it, and what signs its own calls."""
    reader = made.reader
    identity = identity_of(settings.identity)
    signer = MemberSigner(settings.self_address, identity, deadlines)
    rpc = None if settings.standalone else settings.rpc
    links = GrpcLinks(settings.self_address, rpc.cluster, signer) if rpc else None
    refusal = partial(refusal_by_switch, domain.durable, settings.context_path)
    cluster = kinds.membership(settings, reader, clock, deadlines, refusal)
    reports = kinds.reports(
        settings,
        cluster,
        senders,
        reader,
        clock,
        deadlines,
        signer,
        links,
        tls.members,
        beats=beats,
        take_beats=beat_taker(domain.naming, reader),
        on_report=made.mailbox.on_report,
    )
    return cluster, reports, Callers(identity, domain.writer, deadlines.clock_ms, senders), signer, links


def build_lookup(settings: Settings) -> MemberLookup | None:
    """Make the follower of the member list; None for a node alone."""
    if settings.standalone:
        return None
    own = settings.self_address
    # Of a list from elsewhere nothing is known but this node itself, if nothing answered before the start.
    is_known = not settings.lookup.is_polled or settings.members != (own,)
    return MemberLookup(
        settings.lookup.kind,
        source_maker(settings.lookup, settings.cluster_conf, own),
        settings.members if is_known else (),
        OwnEntry(own, settings.host),
        own,
        settings.check_members,
        LastList(settings.data_dir),
    )


def beat_taker(naming: NamingService, reader: EngineReader) -> Callable[[str, Mapping[str, int]], None]:
    """Return what takes the beats of one datum that other members could not send, if this one owns it."""

    def take_beats(key: str, ages_ms: Mapping[str, int]) -> None:
        parsed = parse_datum_key(key)
        if parsed is not None and reader.view.mapper.responsible(parsed[1]):
            naming.take_beats(key, ages_ms)

    return take_beats


def build_components(
    settings: Settings,
    clock: Clock,
    domain: Domain,
    made: DistroEngine,
    cluster: Membership,
    links: GrpcLinks | None,
    signer: MemberSigner,
    tls: NodeTls,
    nacos_1: NacosOneNames,
    address_clients: HttpClients,
) -> tuple[dict[str, Component], SmallSends]:
    """Make the resource types with their own stores, by name: each a store, a codec and the way to the peers.

    And the way of small frames of instance lists, which the event loop is to be attached to.
    """

    def agent_parts(codec: DatumCodec) -> dict[str, Any]:
        return {
            "self_address": settings.self_address,
            "context_path": settings.context_path,
            "user_agent": MEMBER_AGENT,
            "headers": {"Client-Version": NACOS_VERSION},
            "signer": signer,
            "codec": codec,
            "clock": clock,
            "capabilities": cluster.capabilities,
            "deadline": cluster.deadline,
            "stamp": cluster.stamp,
            "sent_ms": cluster.sent_ms,
            "body_bytes_max": settings.distro.body_bytes_max,
            "tls": tls.members,
            "sent": made.times.sent,
        }

    over_http = DistroHttpAgent(**agent_parts(ClientCodec()), resource_type=CLIENTS)
    over_grpc, to_nacos = client_agents(settings, clock, cluster, links, over_http)
    registry = domain.registry
    list_store = InstanceListStore(registry.lists, registry.replication, registry.upkeep, domain.notify.publish)
    list_agent = InstanceListAgent(domain.naming.service_view, nacos_1, **agent_parts(domain.instance_codec))
    small_sends = SmallSends(list_agent, clock)
    return {
        INSTANCE_LIST: Component(list_store, domain.instance_codec, list_agent, small_sends, deltas=list_store),
        FOREIGN: foreign_component(domain.foreign, ForeignAgent(**agent_parts(ForeignCodec()), resource_type=FOREIGN)),
        RECORDS: Component(
            domain.records,
            RecordCodec(),
            DistroHttpAgent(**agent_parts(RecordCodec()), resource_type=RECORDS),
            taken_by=frozenset({MemberKind.OWN}),
        ),
        CLIENTS: client_component(
            domain,
            settings.self_address,
            made.reader.has_left,
            address_clients.holds,
            over_grpc or over_http,
            over_grpc,
        ),
        HTTP_CLIENTS: http_client_component(address_clients, domain.writer, to_nacos or over_http, to_nacos),
    }, small_sends


def client_agents(
    settings: Settings, clock: Clock, cluster: Membership, links: GrpcLinks | None, over_http: DistroHttpAgent
) -> tuple[ClientAgent, NacosClientAgent] | tuple[None, None]:
    """Make the ways of clients over gRPC, to all members and to real Nacos alone; none without gRPC."""
    if links is None or settings.rpc is None:
        return None, None
    parts = over_http, links, ClientCodec(), clock, cluster.release, settings.rpc.cluster.message_bytes_max
    return ClientAgent(*parts), NacosClientAgent(*parts)


def foreign_component(store: ForeignStore, agent: ForeignAgent) -> Component:
    """Make the resource type of instances that links bring."""
    return Component(store, ForeignCodec(), agent, taken_by=frozenset({MemberKind.OWN}), needs=CAPABILITY_LINKS)


def client_component(
    domain: Domain,
    self_address: str,
    has_left: Callable[[str], bool],
    is_listed: Callable[[str], bool],
    agent: DistroTransportAgent,
    callbacks: DistroCallbackAgent | None,
) -> Component:
    """Make the resource type of clients with connections."""
    clients = domain.clients
    store = ClientStore(clients.table, clients.own, clients.copies, self_address, has_left, is_listed)
    return Component(
        store,
        ClientCodec(),
        agent,
        callbacks=callbacks,
        taken_by=frozenset({MemberKind.OWN, MemberKind.NACOS_2}),
        owned_by_writer=True,
        on_verified=store.on_verified,
        on_compared=store.on_compared,
        deltas=store,
    )

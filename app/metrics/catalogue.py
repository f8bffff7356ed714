"""The names, types and help texts of the metrics that are made of plain counters."""

from dataclasses import dataclass

PREFIX = "rollcall_"


@dataclass(frozen=True, slots=True)
class CounterInfo:
    """The description of one counter of the node. ``name`` has no prefix, and no ``_total``."""

    name: str
    help: str
    is_gauge: bool = False
    scale: float = 1.0
    """The factor that converts the counter to Prometheus's units: seconds, bytes."""


def _counts(**texts: str) -> dict[str, CounterInfo]:
    return {name: CounterInfo(name, text) for name, text in texts.items()}


def _gauge(name: str, text: str, scale: float = 1.0) -> CounterInfo:
    return CounterInfo(name, text, is_gauge=True, scale=scale)


COUNTERS: dict[str, CounterInfo] = {
    **_counts(
        sync_sent="Sends of changed keys to other members.",
        sync_delivered="Sends that the other member took.",
        sync_failed="Sends that failed or were rejected; their keys are sent again.",
        sync_keys="Keys in all sends.",
        sync_dropped="Keys that were not sent, as their member could not be reached; verify rounds bring them.",
        sync_deltas="Keys of which only what had changed was sent.",
        received_keys="Keys that other members sent.",
        received_refused="Received keys that were refused, as this node knows a later state.",
        received_merged="Received keys that were merged with what this node held.",
        received_failed="Received keys that could not be read or stored.",
        received_deltas="Received changes of keys that were applied to what this node held.",
        deltas_wanted_whole="Received changes of keys that did not fit, so that the whole was asked for.",
        reissued="Keys that got a new version, as a member held other values under the stored one.",
        verify_sent="Verify rounds sent to other members.",
        verify_failed="Verify rounds that failed.",
        verify_wanted="Keys that a verify round found missing at the other member, and that were sent.",
        verify_received="Verify rounds of other members that were compared.",
        contents_differed="Keys whose content differed from that of another member in the same version.",
        query_keys="Keys that this node fetched, as another member had a later state.",
        served_keys="Keys that other members fetched here one by one.",
        keys_unfit="Times that a key could not be sent or fetched in a call of its own: it is too large.",
        calls_lost="Calls to members whose end was not told long after their deadline.",
        claims="Keys that this node took over from another member.",
        forgotten="Removals that all members agreed to forget.",
        inbox_dropped="Events that the full mailbox of the engine dropped; verify rounds repair them.",
        pauses="Times that this process stood still for longer than it may.",
        overruns="Times that the engine was as late by this process's own work.",
        forward_answered="Calls of clients that the responsible member answered.",
        forward_held="Calls that waited, as a responsible member was being found.",
        forward_failed="Calls that no responsible member answered in time.",
        forward_busy="Calls refused, as too many waited for other members.",
        forward_batches="Calls to members in which several writes of clients went together.",
        forward_unseen="Writes that the responsible member executed, and whose outcome could not be read in time.",
        lists_held_back="Losses that nobody caused, and that are not shown until they are confirmed.",
        events_slow="Calls of handlers of events that took too long.",
        events_failed="Calls of handlers of events that failed.",
        too_late="Writes and beats refused, as they were given up or may have waited while this process stood still.",
        checks_refused="Health checks that were not made, as their address may not be called.",
        checks_unwritten="Results of health checks that could not be stored.",
        audit_lines_written="Lines that the audit log has.",
        audit_lines_dropped="Lines of the audit log that were lost: too many waited, or the disk did not take them.",
        audit_lines_writes_failed="Writes of the audit log that failed.",
        security_lines_written="Lines that the security log has.",
        security_lines_dropped="Lines of the security log that were lost: too many waited, or the disk failed.",
        security_lines_writes_failed="Writes of the security log that failed.",
        access_lines_written="Lines that the access log has.",
        access_lines_dropped="Lines of the access log that were lost.",
        access_lines_writes_failed="Writes of the access log that failed.",
        identity_signed="Calls of members taken by their signature.",
        identity_plain="Calls of members taken by the secret itself, as from real Nacos.",
        identity_proved="Connections of other members to which this one proved that it knows the secret.",
        identity_exempt="Calls of members taken over gRPC without a secret, as a setting names the caller.",
        identity_learnt="Calls to members made again with the clock that they named.",
        identity_refused_missing="Calls in a member's name that brought neither secret nor signature.",
        identity_refused_value="Calls in a member's name with a wrong secret.",
        identity_refused_signature="Calls in a member's name with a wrong signature.",
        identity_refused_clock="Calls signed for another run or time; their sender asks again.",
        identity_refused_replayed="Signed calls that came a second time.",
        identity_refused_body="Calls signed for another body.",
        identity_refused_sender="Calls that named another member than their signature.",
        identity_refused_address="Calls in a member's name from another address.",
        access_unknown="Calls without a user where one is asked for.",
        access_invalid="Calls with an invalid token.",
        access_expired="Calls with a token whose time is over.",
        access_denied="Calls of users without the right to them.",
        logins="Logins that succeeded.",
        logins_wrong="Logins of an unknown user or with a wrong password.",
        logins_waited="Logins that had to wait, after too many wrong passwords.",
        logins_throttled="Logins refused without a look at the password, as too many waited.",
        hashes_computed="Password hashes computed.",
        hashes_refused="Passwords not looked at, as too many waited.",
        tls_handshakes="Connections over TLS to the HTTP port and those of gRPC.",
        tls_handshakes_failed="TLS handshakes that failed.",
        tls_handshakes_cut="Connections closed before their TLS handshake ended.",
        tls_plain_refused="Connections to a port of TLS that spoke none.",
        tls_plain_taken="Plain connections taken during a move to HTTPS.",
        tls_plain_calls="Plain connections made to members during a move to HTTPS.",
        tls_members_refused="Connections to members not made, as their certificate is not good.",
        tls_reloads="Changed certificates taken into use.",
        tls_reloads_failed="Changed certificates that could not be used.",
        record_commits="Transactions of durable records that the disk took; a take-over makes one of many records.",
        record_writes_failed="Changes of durable records that the disk did not take.",
        warm_writes_failed="Writes of the copy of instance lists that the disk did not take.",
        descriptors_used_up="Looks that found no free descriptor, for this process or on the machine.",
        wall_clock_steps="Times that the wall clock was set.",
        member_lists_failed="Looks for a member list that found none that may be used.",
        member_lists_taken="Member lists that differed from the one in use, and were taken.",
        name_lookups_failed="Look-ups of members' host names that failed.",
        name_addresses_changed="Members' host names whose addresses have changed.",
        config_refused="Calls of configurations that were refused.",
        config_absent="Calls of configurations answered as of one that does not exist.",
        limit_namespaces="Writes refused, as there are too many namespaces.",
        limit_services_per_namespace="Services refused, as their namespace has too many.",
        limit_instances_per_namespace="Instances refused, as their namespace has too many.",
        limit_instances_per_service="Instances refused, as their service has too many.",
        limit_persistent_instances="Persistent instances refused, as there are too many.",
        limit_metadata_bytes="Writes refused, as there is too much metadata.",
        limit_clusters_per_service="Settings of a cluster refused, as their service has too many.",
        limit_record_bytes="Durable records refused, as they were too large.",
        limit_list_bytes="Instances refused, as their list or client would be too large for one call between members.",
        limit_subscribers="Subscriptions refused, as there are too many.",
        limit_subscriptions_per_connection="Subscriptions refused, as their connection has too many.",
        limit_connections_per_address="Connections refused, as their address has too many.",
        limit_writes_per_second_per_address="Writes refused, as their address makes too many.",
        limit_page_size="Pages cut to the longest one allowed.",
        limit_memory_services="New services refused near the bound of memory.",
        limit_memory_instances="New instances refused near the bound of memory.",
        limit_answers_mb="Large answers refused, as too many bytes of answers were under way.",
        dns_queries="DNS queries over UDP and TCP, whatever became of them.",
        dns_malformed="DNS queries that were none, dropped or answered so.",
        dns_limited="DNS queries over the rate of their address.",
        dns_truncated="DNS answers that did not fit into a datagram.",
        dns_unsent="DNS answers that the socket did not take.",
        dns_failed="DNS queries whose answer failed in an unforeseen way.",
        dns_connections_closed="DNS connections closed by this node.",
        dns_answered="DNS answers with records.",
        dns_empty="DNS answers for names without a record of the type.",
        dns_unknown="DNS answers that there is no such name.",
        dns_ambiguous="DNS answers for names that several services are written like.",
        dns_refused="DNS queries refused: of another domain, or of a kind that is not answered.",
        dns_not_ready="DNS queries that this node did not answer, as it did not serve.",
        beats_collected="Beats answered from a copy, and told to the responsible member in a batch.",
    ),
    "records_set_aside": _gauge(
        "records_set_aside_keys", "Durable records that a start could not read, and set aside."
    ),
    "warm_lists_unread": _gauge(
        "warm_unread_services", "Instance lists of the last run that this start could not read."
    ),
    "disk_free_bytes": _gauge("disk_free_bytes", "Bytes free at the last look at the data folder; -1 if not known."),
    "disk_low": _gauge("disk_low_state", "1 while there is little room on the disk of the data folder."),
    "disk_readonly": _gauge("disk_readonly_state", "1 while the data folder's file system is mounted read-only."),
    "wall_clock_step_ms": _gauge("wall_clock_step_seconds", "By how much the wall clock was set the last time.", 0.001),
    "draining": _gauge("draining_state", "1 while an operator drains this node."),
    "unsent_keys": _gauge("unsent_keys", "Changed keys that have not reached a member yet, counted for each member."),
    "member_lookup_failing": _gauge("member_lookup_failing_state", "Looks for a member list in a row that failed."),
    "members_held": _gauge("members_held_state", "Members missing in the last look that are kept until others agree."),
    "names_unresolved": _gauge("names_unresolved_state", "Members' host names without an address now."),
    "limit_memory_level": _gauge(
        "limit_memory_state", "How near memory is to its bound; writes are refused from 1 on."
    ),
    "limit_memory_used_bytes": _gauge("limit_memory_used_bytes", "Memory in use, as its bound counts it."),
    "limit_memory_bound_bytes": _gauge("limit_memory_bound_bytes", "The bound of memory; 0 without one."),
    "answers_bytes": _gauge("answers_bytes", "Bytes of answers that are being made, wait, or are not read yet."),
    "answers_bound_bytes": _gauge("answers_bound_bytes", "The most bytes of answers that may be under way."),
    "tls_certificate_ends_s": _gauge(
        "tls_certificate_end_timestamp_seconds", "When the certificate in use ends that ends first; 0 without one."
    ),
    "rpc_streams_ended_for_rights": CounterInfo("grpc_streams_ended", "gRPC streams ended, as a user lost the right."),
    "connections": _gauge("http_connections", "HTTP connections that are open."),
    "connections_refused": CounterInfo("http_connections_refused", "HTTP connections closed, as there were too many."),
    "requests_refused": CounterInfo("http_requests_refused", "Requests that were malformed, too slow or over a limit."),
    "pages_refused": CounterInfo("http_pages_refused", "Calls of browsers that a foreign page may have caused."),
    "pooled": CounterInfo("http_pooled", "Calls that a thread answered, and not the event loop."),
    "pool_full": CounterInfo("http_pool_full", "Calls refused, as too many waited for a thread."),
    "loop_lag_max_ms": _gauge("loop_lag_max_seconds", "Largest lag of the event loop in the last minute.", 0.001),
    "loop_late": CounterInfo("loop_late", "Measurements of the event loop's lag that were over 20 ms."),
    "stood_still": _gauge("stood_still", "1 while calls may have waited for this process, which stood still."),
    "dns_connections": _gauge("dns_connections", "DNS connections over TCP that are open."),
    "connections_free": _gauge("free_connections", "Connections that any port may still take, beside what each keeps."),
    "rpc_transports": _gauge("grpc_port_connections", "Sockets of the gRPC port for SDKs, also those without a setup."),
    "rpc_connections_refused": CounterInfo("grpc_connections_refused", "gRPC connections closed: there were too many."),
    "member_connections": _gauge("member_connections", "Connections of other members to this one."),
    "member_connections_refused": CounterInfo(
        "member_connections_refused", "Connections to the members' gRPC port closed, as there were too many."
    ),
    "rpc_connections": _gauge("grpc_connections", "gRPC connections of all kinds."),
    "rpc_sdk_connections": _gauge("grpc_sdk_connections", "gRPC connections of SDKs."),
    "rpc_pushes_sent": CounterInfo("grpc_pushes_sent", "Pushes sent over gRPC."),
    "rpc_pushes_acknowledged": CounterInfo("grpc_pushes_acknowledged", "Pushes over gRPC that were acknowledged."),
    "rpc_pushes_refused": CounterInfo("grpc_pushes_refused", "Pushes over gRPC that the client refused."),
    "rpc_pushes_timed_out": CounterInfo("grpc_pushes_timed_out", "Pushes over gRPC without a timely acknowledgement."),
    "rpc_pushes_unchanged": CounterInfo("grpc_pushes_unchanged", "Pushes over gRPC left out, as they had no news."),
}
"""By the counter's name in the node's parts."""

MEASURED_ELSEWHERE = frozenset({"cpu", "load", "mem"})
"""Counters of the machine, measured since the previous reader: Prometheus has its own of the process."""


def info_of(counter: str) -> CounterInfo:
    """Return the description of a counter. One without an entry is shown under its own name."""
    return COUNTERS.get(counter) or CounterInfo(counter, f"The counter {counter} of this node.")

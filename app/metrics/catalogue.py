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
        sync_delivered="Sends that the other member accepted.",
        sync_failed="Sends that failed or were rejected; their keys are sent again.",
        sync_keys="Keys in all sends.",
        sync_dropped="Keys that were not sent because the member could not be reached; verify rounds repair them.",
        sync_deltas="Keys sent as a delta.",
        received_keys="Keys that other members sent.",
        received_refused="Received keys that were refused because this node has a later state.",
        received_merged="Received keys that were merged with this node's data.",
        received_failed="Received keys that could not be read or stored.",
        received_deltas="Received deltas that were applied to this node's data.",
        deltas_wanted_whole="Received deltas that did not fit, so that the whole key was requested.",
        reissued="Keys that got a new version because a member held other values under the stored one.",
        verify_sent="Verify rounds sent to other members.",
        verify_failed="Verify rounds that failed.",
        verify_wanted="Keys that a verify round found missing at the other member, and then sent.",
        verify_received="Verify rounds of other members that were compared.",
        contents_differed="Keys whose content differed from that of another member in the same version.",
        query_keys="Keys that this node fetched because another member had a later state.",
        served_keys="Keys that other members fetched here one by one.",
        keys_unfit="Times that a key was too large to be sent or fetched in a single call.",
        calls_lost="Calls to members that had not ended long after their deadline.",
        claims="Keys that this node took over from another member.",
        forgotten="Removals that all members agreed to forget.",
        inbox_dropped="Events that the full mailbox of the engine dropped; verify rounds repair them.",
        pauses="Pauses of this process that exceeded the limit.",
        overruns="Equally long delays of the engine caused by this process's own work.",
        forward_answered="Calls of clients that the responsible member answered.",
        forward_held="Calls that waited until a responsible member was known.",
        forward_failed="Calls that no responsible member answered in time.",
        forward_busy="Calls refused because too many waited for other members.",
        forward_batches="Calls to members that carried several writes of clients.",
        forward_unseen="Writes that the responsible member executed, and whose outcome could not be read in time.",
        lists_held_back="Losses without a known cause, which are hidden until they are confirmed.",
        events_slow="Calls of event handlers that took too long.",
        events_failed="Calls of event handlers that failed.",
        too_late="Writes and beats refused because they were given up, or may have waited during a pause.",
        checks_refused="Health checks not made because their address is not allowed.",
        checks_unwritten="Results of health checks that could not be stored.",
        audit_lines_written="Lines written to the audit log.",
        audit_lines_dropped="Lines of the audit log that were lost: too many waited, or the disk failed.",
        audit_lines_writes_failed="Writes of the audit log that failed.",
        security_lines_written="Lines written to the security log.",
        security_lines_dropped="Lines of the security log that were lost: too many waited, or the disk failed.",
        security_lines_writes_failed="Writes of the security log that failed.",
        access_lines_written="Lines written to the access log.",
        access_lines_dropped="Lines of the access log that were lost.",
        access_lines_writes_failed="Writes of the access log that failed.",
        identity_signed="Calls of members accepted by their signature.",
        identity_plain="Calls of members accepted by the secret itself, as from real Nacos.",
        identity_proved="Connections of other members to which this one proved that it knows the secret.",
        identity_exempt="Calls of members accepted over gRPC without a secret, because a setting names the caller.",
        identity_learnt="Calls to members repeated with the clock that they named.",
        identity_refused_missing="Calls in a member's name without a secret or signature.",
        identity_refused_value="Calls in a member's name with a wrong secret.",
        identity_refused_signature="Calls in a member's name with a wrong signature.",
        identity_refused_clock="Calls signed for another run or time; their sender repeats them.",
        identity_refused_replayed="Signed calls that were replayed.",
        identity_refused_body="Calls signed for another body.",
        identity_refused_sender="Calls that named another member than their signature.",
        identity_refused_address="Calls in a member's name from another address.",
        access_unknown="Calls without a user that require one.",
        access_invalid="Calls with an invalid token.",
        access_expired="Calls with an expired token.",
        access_denied="Calls of users without the permission.",
        logins="Logins that succeeded.",
        logins_wrong="Logins with an unknown user or a wrong password.",
        logins_waited="Logins that had to wait, after too many wrong passwords.",
        logins_throttled="Logins refused without checking the password because too many waited.",
        hashes_computed="Password hashes computed.",
        hashes_refused="Passwords not checked because too many waited.",
        tls_handshakes="Connections over TLS to the HTTP port and those of gRPC.",
        tls_handshakes_failed="TLS handshakes that failed.",
        tls_handshakes_cut="Connections closed before their TLS handshake ended.",
        tls_plain_refused="Connections to a TLS port that did not speak TLS.",
        tls_plain_taken="Plain connections accepted during a migration to HTTPS.",
        tls_plain_calls="Plain connections made to members during a migration to HTTPS.",
        tls_members_refused="Connections to members not made because the certificate is not valid.",
        tls_reloads="Changed certificates that were put into use.",
        tls_reloads_failed="Changed certificates that could not be used.",
        record_commits="Transactions of durable records written to disk; a take-over writes many records in one.",
        record_writes_failed="Changes of durable records that could not be written to disk.",
        warm_writes_failed="Writes of the copy of instance lists that failed.",
        descriptors_used_up="Checks that found no free descriptor, for this process or on the machine.",
        wall_clock_steps="Times that the wall clock was set.",
        member_lists_failed="Reads of the member list that found no usable one.",
        member_lists_taken="Changed member lists that were put into use.",
        name_lookups_failed="Look-ups of members' host names that failed.",
        name_addresses_changed="Members' host names whose addresses have changed.",
        config_refused="Calls to the configuration API that were refused.",
        config_absent="Calls to the configuration API answered as for a missing configuration.",
        limit_namespaces="Writes refused because there are too many namespaces.",
        limit_services_per_namespace="Services refused because their namespace has too many.",
        limit_instances_per_namespace="Instances refused because their namespace has too many.",
        limit_instances_per_service="Instances refused because their service has too many.",
        limit_persistent_instances="Persistent instances refused because there are too many.",
        limit_metadata_bytes="Writes refused because there is too much metadata.",
        limit_overrides="Operators' changes of instances refused because there are too many.",
        limit_clusters_per_service="Settings of a cluster refused because their service has too many.",
        limit_record_bytes="Durable records refused because they were too large.",
        limit_list_bytes="Instances refused because their list or client would be too large for one call.",
        limit_subscribers="Subscriptions refused because there are too many.",
        limit_subscriptions_per_connection="Subscriptions refused because their connection has too many.",
        limit_connections_per_address="Connections refused because their address has too many.",
        limit_writes_per_second_per_address="Writes refused because their address makes too many.",
        limit_page_size="Pages cut to the maximum length.",
        limit_memory_services="New services refused near the memory limit.",
        limit_memory_instances="New instances refused near the memory limit.",
        limit_answers_mb="Large answers refused because too many bytes of answers were under way.",
        dns_queries="DNS queries over UDP and TCP, with any result.",
        dns_malformed="Malformed DNS queries, dropped or answered with that error.",
        dns_limited="DNS queries over the rate of their address.",
        dns_truncated="DNS answers that did not fit into a datagram.",
        dns_unsent="DNS answers that could not be sent.",
        dns_failed="DNS queries whose answer failed unexpectedly.",
        dns_connections_closed="DNS connections closed by this node.",
        dns_answered="DNS answers with records.",
        dns_empty="DNS answers for names without a record of the type.",
        dns_unknown="DNS answers for names that do not exist.",
        dns_ambiguous="DNS answers for names shared by several services.",
        dns_refused="DNS queries refused: of another domain, or of a kind that is not answered.",
        dns_not_ready="DNS queries that this node did not answer because it was not serving.",
        overrides_dropped="Operators' changes dropped because their instances were gone.",
        nacos_1_left_out="Datums not sent to members of Nacos 1.4, which cannot hold the names of their services.",
        link_changes="Changes of services that links to other clusters brought.",
        link_refused="Services and lines from linked clusters that were refused.",
        link_compared="Comparisons of links with their other clusters.",
        link_kept="Services that a linked cluster lacked without a word that counts, and that were kept for a while.",
        link_retired="Services whose foreign instances were removed, as their link was silent for too long.",
        link_bytes="Bytes that links read from other clusters.",
        link_connections="Connections that links opened to other clusters.",
        feed_changes="Changes of services here that were written for clusters that follow this one.",
        feed_compared="Comparisons that clusters which follow this one asked for.",
        feed_behind="Times that a follower had to compare, as the changes after its place were no longer kept.",
        beats_collected="Beats answered from a copy, and reported to the responsible member in a batch.",
    ),
    "records_set_aside": _gauge(
        "records_set_aside_keys", "Durable records that a start could not read, and set aside."
    ),
    "warm_lists_unread": _gauge(
        "warm_unread_services", "Instance lists of the last run that this start could not read."
    ),
    "overrides": _gauge("overridden_instances", "Instances with a change by an operator."),
    "links": _gauge("links", "Links to other clusters that this node follows."),
    "links_silent": _gauge("silent_links", "Links whose other cluster this node does not hear."),
    "foreign_instances": _gauge("foreign_instances", "Instances of other clusters that links brought."),
    "link_sent_instances": _gauge("link_sent_instances", "Local instances that this node registers at a Nacos."),
    "feed_followers": _gauge("feed_followers", "Members of other clusters that follow this node."),
    "disk_free_bytes": _gauge("disk_free_bytes", "Free bytes on the disk of the data folder; -1 if unknown."),
    "disk_low": _gauge("disk_low_state", "1 while there is little room on the disk of the data folder."),
    "disk_readonly": _gauge("disk_readonly_state", "1 while the data folder's file system is mounted read-only."),
    "wall_clock_step_ms": _gauge("wall_clock_step_seconds", "The last change of the wall clock.", 0.001),
    "draining": _gauge("draining_state", "1 while an operator drains this node."),
    "refused_by_switch": _gauge(
        "refused_by_switch_state", "1 while an operator's switch has this node refuse calls of clients."
    ),
    "unsent_keys": _gauge("unsent_keys", "Changed keys that have not reached a member yet, counted for each member."),
    "member_lookup_failing": _gauge("member_lookup_failing_state", "Consecutive failed reads of the member list."),
    "members_held": _gauge(
        "members_held_state", "Members missing from the last list that are kept until others agree."
    ),
    "names_unresolved": _gauge("names_unresolved_state", "Members' host names that currently have no address."),
    "limit_memory_level": _gauge(
        "limit_memory_state", "The level of memory use near the limit; writes are refused from 1 on."
    ),
    "limit_memory_used_bytes": _gauge("limit_memory_used_bytes", "Memory in use, as counted for the limit."),
    "limit_memory_bound_bytes": _gauge("limit_memory_bound_bytes", "The memory limit; 0 without one."),
    "answers_bytes": _gauge("answers_bytes", "Bytes of answers that are being made, wait, or are not read yet."),
    "answers_bound_bytes": _gauge("answers_bound_bytes", "The most bytes of answers that may be under way."),
    "tls_certificate_ends_s": _gauge(
        "tls_certificate_end_timestamp_seconds", "The earliest expiry of a certificate in use; 0 without one."
    ),
    "rpc_streams_ended_for_rights": CounterInfo(
        "grpc_streams_ended", "gRPC streams ended because a user lost the permission."
    ),
    "connections": _gauge("http_connections", "Open HTTP connections."),
    "connections_refused": CounterInfo(
        "http_connections_refused", "HTTP connections closed because there were too many."
    ),
    "requests_refused": CounterInfo("http_requests_refused", "Malformed or slow requests, and requests over a limit."),
    "pages_refused": CounterInfo(
        "http_pages_refused", "Calls of browsers that a page of another site may have caused."
    ),
    "pooled": CounterInfo("http_pooled", "Calls answered by a thread instead of the event loop."),
    "pool_full": CounterInfo("http_pool_full", "Calls refused because too many waited for a thread."),
    "loop_lag_max_ms": _gauge("loop_lag_max_seconds", "Largest lag of the event loop in the last minute.", 0.001),
    "loop_late": CounterInfo("loop_late", "Measurements of the event loop's lag that were over 20 ms."),
    "stood_still": _gauge("stood_still", "1 while calls may have waited because this process was paused."),
    "dns_exact_only": _gauge(
        "dns_exact_only_services", "Services whose names DNS cannot write, which only their exact form finds."
    ),
    "dns_connections": _gauge("dns_connections", "Open DNS connections over TCP."),
    "connections_free": _gauge(
        "free_connections", "Free connections that any port may use, in addition to the reserves."
    ),
    "rpc_transports": _gauge(
        "grpc_port_connections", "Sockets of the gRPC port for SDKs, including those without a setup."
    ),
    "rpc_connections_refused": CounterInfo("grpc_connections_refused", "gRPC connections closed: there were too many."),
    "member_connections": _gauge("member_connections", "Connections of other members to this one."),
    "member_connections_refused": CounterInfo(
        "member_connections_refused", "Connections to the members' gRPC port closed because there were too many."
    ),
    "rpc_connections": _gauge("grpc_connections", "gRPC connections of all kinds."),
    "rpc_sdk_connections": _gauge("grpc_sdk_connections", "gRPC connections of SDKs."),
    "rpc_pushes_sent": CounterInfo("grpc_pushes_sent", "Pushes sent over gRPC."),
    "rpc_pushes_acknowledged": CounterInfo("grpc_pushes_acknowledged", "Pushes over gRPC that were acknowledged."),
    "rpc_pushes_refused": CounterInfo("grpc_pushes_refused", "Pushes over gRPC that the client refused."),
    "rpc_pushes_timed_out": CounterInfo("grpc_pushes_timed_out", "Pushes over gRPC without a timely acknowledgement."),
    "rpc_pushes_unchanged": CounterInfo(
        "grpc_pushes_unchanged", "Pushes over gRPC skipped because nothing had changed."
    ),
    "rpc_fuzzy_watches": _gauge("grpc_fuzzy_watches", "Patterns of services that clients watch, for each client."),
    "rpc_fuzzy_patterns": _gauge("grpc_fuzzy_patterns", "Different patterns of services that clients watch."),
    "rpc_fuzzy_sent": CounterInfo("grpc_fuzzy_sent", "Messages of fuzzy watches sent to clients."),
    "rpc_fuzzy_acknowledged": CounterInfo(
        "grpc_fuzzy_acknowledged", "Messages of fuzzy watches that were acknowledged."
    ),
    "rpc_fuzzy_refused": CounterInfo("grpc_fuzzy_refused", "Messages of fuzzy watches that the client refused."),
    "rpc_fuzzy_timed_out": CounterInfo(
        "grpc_fuzzy_timed_out", "Messages of fuzzy watches without a timely acknowledgement."
    ),
    "rpc_fuzzy_given_up": CounterInfo(
        "grpc_fuzzy_given_up", "Messages of fuzzy watches given up after some tries, until the client asks again."
    ),
    "rpc_fuzzy_patterns_over": CounterInfo(
        "grpc_fuzzy_patterns_over_limit", "Fuzzy watches refused because there are too many patterns."
    ),
    "rpc_fuzzy_matches_over": CounterInfo(
        "grpc_fuzzy_matches_over_limit", "Fuzzy watches whose pattern matches more services than are shown."
    ),
    "rpc_fuzzy_dropped": CounterInfo(
        "grpc_fuzzy_dropped", "Changes that clients were not sent: too many waited, or too many services match."
    ),
}
"""By the counter's name in the node's parts."""

MEASURED_ELSEWHERE = frozenset({"cpu", "load", "mem"})
"""Counters of the machine, measured since the previous reader: Prometheus has its own of the process."""


def info_of(counter: str) -> CounterInfo:
    """Return the description of a counter. One without an entry is shown under its own name."""
    return COUNTERS.get(counter) or CounterInfo(counter, f"The counter {counter} of this node.")

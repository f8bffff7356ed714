"""Timings and limits of the engine, in milliseconds, bytes or a count as each name says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistroConfig:
    """The engine's settings, with defaults for a cluster on one network."""

    sync_delay_ms: int = 0
    """How long a changed key waits before it is sent. With 0 it leaves as soon as no other call to the peer runs."""
    sync_spacing_ms: int = 10
    """The shortest time between the starts of two sends to a peer. A stream of changes stretches it up to six times."""
    sync_timeout_ms: int = 3_000
    """Deadline of a send, and of a query."""
    retry_delay_ms: int = 250
    """The wait after a first failed send; doubles with each further failure up to ``retry_delay_ms_max``."""
    retry_delay_ms_max: int = 5_000
    batch_keys_max: int = 1_000
    """The most keys in one send or query. Source: Nacos 1.4, nacos.naming.distro.batchSyncKeyCount."""
    verify_interval_ms: int = 5_000
    """From one verify round with a peer to the next."""
    verify_timeout_ms: int = 3_000
    sample_ms: int = 600_000
    """The period in which rounds compare the contents of all keys, a few in each: equal versions do not prove them."""
    load_timeout_ms: int = 30_000
    """A load ends after this time without any data. It also bounds each single call of the load (R7)."""
    load_ms_max: int = 600_000
    """The longest that a load may take, even if data still arrives."""
    load_retry_delay_ms: int = 250
    """The wait before a peer that gave no snapshot is asked again."""
    load_refused_ms: int = 1_000
    """After this time, a load no longer waits for peers that refuse connections."""
    load_wait_ms_max: int = 3_000
    """After this time, a load waits only for peers that are UP or SUSPICIOUS and can answer the call."""
    report_interval_ms: int = 2_000
    """The time between two reports to a peer, and how long a view must last before keys are claimed by it (R2)."""
    report_timeout_ms: int = 1_500
    refused_down_ms: int = 4_000
    """A peer that refuses connections is DOWN this long after the last contact in which it was in service."""
    silent_down_ms: int = 8_000
    """A peer that does not answer is DOWN this long after the last contact in which it was in service."""
    steady_ms: int = 10_000
    """The rejoin delay: a peer that was DOWN must be reachable for this long before it carries keys again."""
    fail_access_max: int = 3
    """In a cluster with Nacos 1.4 a peer is DOWN after more failed reports than this. Source: MemberUtil.onFail."""
    pause_ms: int = 2_000
    """A tick that is late by more than this shows that the process stood still (R9)."""
    tombstone_slack_ms: int = 60_000
    """A tombstone is kept for its instance's delete time-out plus this."""
    claim_interval_ms: int = 2_000
    """The shortest time between two claims of single keys. It keeps members that disagree from claiming in a circle."""
    mailbox_events_max: int = 200_000
    """The most events, and changed keys, that may wait for the engine's thread. Others are dropped and counted."""
    body_bytes_max: int = 64 * 1024 * 1024
    """The longest body of datums, uncompressed."""
    drain_ms_max: int = 2_000
    """How long a stopping node keeps sending changes that are due."""

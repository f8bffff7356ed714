"""Timings and limits of the engine, in milliseconds, bytes or a count as each name says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistroConfig:
    """The engine's settings, with defaults for a cluster on one network."""

    sync_delay_ms: int = 0
    """How long a changed key waits before it is sent; 0: it leaves as soon as no call to the peer is under way."""
    sync_spacing_ms: int = 10
    """The least time between the starts of two sends to a peer, up to six times as long in a stream of changes."""
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
    """In so long, rounds have compared the contents of all keys, a few in each: equal versions do not prove these."""
    load_timeout_ms: int = 30_000
    """A load ends when nothing has come for so long; also the longest time for one call of it (R7)."""
    load_ms_max: int = 600_000
    """The longest that a load takes, whatever comes."""
    load_retry_delay_ms: int = 250
    """The wait before a peer that gave no snapshot is asked again."""
    load_refused_ms: int = 1_000
    """From this age of the load on, it does not wait for peers that refuse connections."""
    load_wait_ms_max: int = 3_000
    """From this age of the load on, it waits only for peers that are UP or SUSPICIOUS and know the call."""
    report_interval_ms: int = 2_000
    """From one report to a peer to the next; also how long a view must last before keys are claimed by it (R2)."""
    report_timeout_ms: int = 1_500
    refused_down_ms: int = 4_000
    """A peer that refuses connections is DOWN so long after the last contact in which it served."""
    silent_down_ms: int = 8_000
    """A peer that does not answer is DOWN so long after the last contact in which it served."""
    steady_ms: int = 10_000
    """The rejoin delay: how long a peer that was DOWN must be reachable before it carries keys again."""
    fail_access_max: int = 3
    """In a cluster with Nacos 1.4 a peer is DOWN after more failed reports than this. Source: MemberUtil.onFail."""
    pause_ms: int = 2_000
    """A tick that comes later than this shows that the process stood still (R9)."""
    tombstone_slack_ms: int = 60_000
    """A tombstone is kept for its instance's delete time-out and this."""
    claim_interval_ms: int = 2_000
    """Single keys are claimed at most once in so long, so that members that disagree do not claim in a circle."""
    mailbox_events_max: int = 200_000
    """Events, and changed keys, that may wait for the engine's thread; more are dropped and counted."""
    body_bytes_max: int = 64 * 1024 * 1024
    """The longest body of datums, unpacked."""
    drain_ms_max: int = 2_000
    """How long a stopping node goes on sending changes that are due."""

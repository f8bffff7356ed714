"""Timings and limits of the engine. Every figure is in milliseconds or a count."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistroConfig:
    """What an operator may tune, with the defaults that a cluster on one network wants."""

    sync_delay_ms: int = 0
    """How long a change waits for others of its key before it leaves; 0 sends at once when the peer is idle."""
    sync_spacing_ms: int = 10
    """From one send to a peer to the next: under a stream of changes each send then carries several."""
    sync_timeout_ms: int = 3_000
    retry_delay_ms: int = 250
    """First wait after a failed send; doubles up to ``retry_delay_ms_max``."""
    retry_delay_ms_max: int = 5_000
    batch_keys_max: int = 1_000
    """Keys in one PUT. Source: Nacos 1.4, nacos.naming.distro.batchSyncKeyCount."""
    verify_interval_ms: int = 5_000
    verify_timeout_ms: int = 3_000
    load_timeout_ms: int = 30_000
    """For one whole snapshot; only a member that is known to serve is waited for so long."""
    load_retry_delay_ms: int = 250
    load_refused_ms: int = 1_000
    """A peer that refused connections for so long counts as absent for the load."""
    load_wait_ms_max: int = 3_000
    """UP after so long, when no member had anything to give."""
    report_interval_ms: int = 2_000
    report_timeout_ms: int = 1_500
    refused_down_ms: int = 4_000
    silent_down_ms: int = 8_000
    steady_ms: int = 10_000
    """A member that was DOWN must be reachable for so long before keys move back to it."""
    fail_access_max: int = 3
    """Failed reports in a row before DOWN, in a cluster with Java members. Source: Nacos 1.4, MemberUtil.onFail."""
    pause_ms: int = 2_000
    """A tick later than this means that the process did not run; deadlines move by the delay (R9)."""
    tombstone_slack_ms: int = 60_000
    """A removed id is remembered for the longest delete time-out of its datum plus this."""
    claim_interval_ms: int = 2_000
    """A key is claimed at most once in so long, so that two members that disagree do not claim in a circle."""
    mailbox_events_max: int = 200_000
    body_bytes_max: int = 64 * 1024 * 1024
    drain_ms_max: int = 2_000
    """How long a stopping node waits for syncs that are due."""

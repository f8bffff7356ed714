"""The memory of a process: in use, and its peak since it was forgotten."""

import mmap
import os

from scripts.support.process_memory import forget_peak, peak_mb, rss_mb

LARGE_MB = 64


def test_the_peak_stays_until_it_is_forgotten() -> None:
    me = os.getpid()
    before_mb = rss_mb(me)
    with mmap.mmap(-1, LARGE_MB << 20) as taken:
        taken.write(b"x" * len(taken))
        taken_mb = rss_mb(me)
    assert taken_mb > before_mb + LARGE_MB / 2
    assert peak_mb([me]) >= taken_mb - 1
    assert rss_mb(me) < taken_mb - LARGE_MB / 2
    forget_peak([me])
    assert peak_mb([me]) < taken_mb - LARGE_MB / 2
    assert peak_mb([me, me]) > 1.5 * rss_mb(me)

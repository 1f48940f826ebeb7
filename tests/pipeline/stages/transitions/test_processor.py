"""What the stateful operator decides without Spark: when its timers fire."""

from __future__ import annotations

from whimbrel.pipeline.stages.transitions.processor import first_millisecond
from whimbrel.publications.dwell import DwellPairs


def test_when_a_timer_fires_the_dwell_is_over_however_its_end_is_rounded() -> None:
    for now in range(1_790_445_382_000, 1_790_445_384_000):
        pairs = DwellPairs[str, str]()
        pairs.add("slow", dwell=2.2)
        pairs.enter("slow", "car")
        pairs.exit("slow", "car", now=now / 1_000)
        assert pairs.next_due is not None
        fires = first_millisecond(pairs.next_due)
        assert now + 2_200 <= fires <= now + 2_201
        assert pairs.expire(fires / 1_000) == [("slow", "car")]

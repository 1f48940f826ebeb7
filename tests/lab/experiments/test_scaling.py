"""The scaling experiment: several indexes that are saved and opened find what one finds."""

from __future__ import annotations

import pytest

from whimbrel.lab.experiments.beyond import scaling
from whimbrel.lab.harness.experiment import Timed
from whimbrel.lab.harness.measures import Row


@pytest.mark.parametrize(("shard", "indexes"), [(10_000, 1), (3_000, 3)])
def test_shards_find_what_one_index_finds(shard: int, indexes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "SHARD", shard)
    monkeypatch.setattr(scaling, "PART", 1_000)
    found = list(scaling.measure({"n": 8_500, "p": 1.0}))
    rows = {row.measure: row.value for row in found if isinstance(row, Row)}
    assert rows["indexes"] == indexes
    assert rows["matches"] == pytest.approx(1.18, abs=0.01)
    (timed,) = (one for one in found if isinstance(one, Timed))
    timed.work()  # the files are deleted by now, but mapped


def test_the_largest_scale_fits_into_14_gigabytes() -> None:
    assert max(map(scaling.EXPERIMENT.memory, scaling.EXPERIMENT.scales["full"])) < 14e9

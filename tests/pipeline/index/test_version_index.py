"""The index of a broker's versions: what workers open matches by range, and what they opened before is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel.log.match_list import decode_all
from whimbrel.log.version_ranges import SubscriptionVersion
from whimbrel.pipeline.index import version_index, workers
from whimbrel.pipeline.index.version_index import CompiledVersions, VersionIndex


def _matched(compiled: CompiledVersions, offsets: list[int]) -> dict[int, list[int]]:
    """The numbers that an event with a = 1 matches at each of these offsets."""
    indexes, ranges = compiled.open()
    hits, lists = ranges.match(indexes, offsets, [b'{"a": 1}'] * len(offsets))
    return {offset: decode_all([coded])[1].tolist() for offset, coded in zip(hits.tolist(), lists, strict=True)}


def test_versions_match_within_their_ranges_also_when_the_base_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_index, "DELTA_VERSIONS", 2)
    index = VersionIndex(tmp_path / "versions")
    assert _matched(index.compiled, [5]) == {}
    index.follow([SubscriptionVersion(1, "a = 1", "sql", 1)], 0)
    assert _matched(index.compiled, [1, 2]) == {2: [1]}
    ended = SubscriptionVersion(1, "a = 1", "sql", 1, until=6)
    index.follow([ended, SubscriptionVersion(3, "a < 5", "sql", 3), SubscriptionVersion(4, "a = 2", "sql", 4)], 0)
    assert (index.rebuilds, len(index)) == (1, 3)
    assert _matched(index.compiled, [2, 4, 5, 6]) == {2: [1], 4: [1, 3], 5: [1, 3], 6: [3]}


def test_a_worker_keeps_only_what_is_in_use(tmp_path: Path) -> None:
    index = VersionIndex(tmp_path / "versions")
    other = VersionIndex(tmp_path / "other")
    other.follow([SubscriptionVersion(1, "a = 1", "sql", 1)], 0).open()
    for number in range(1, 5):
        compiled = index.follow([SubscriptionVersion(number, f"a = {number}", "sql", number)], 0)
        compiled.open()
    held = {path for path, _ in workers._opened if tmp_path in path.parents}
    assert {path.name for path in held if path.parent.parent == index.compiled.path} == set(compiled.shards)
    assert {path.name for path in held if path.parent.parent == other.compiled.path} == set(other.compiled.shards)
    assert all(path.is_dir() for path in held)

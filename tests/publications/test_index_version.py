"""Subscriptions of a version as codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from whimbrel import Index
from whimbrel.publications import IndexVersion, TransitionRules


def _index(filters: dict[str, str]) -> Index:
    index = Index()
    index.add_many(filters.items())
    return index


def test_a_version_of_several_shards_names_what_each_of_them_finds() -> None:
    shards = [{"low": "a < 3", "one": "a = 1"}, {}, {"high": "a > 1", "all": "a > 0"}]
    rules = TransitionRules(frozenset(["low", "high", "nobody"]), {"one": "all"})
    old = IndexVersion(1, [_index(filters) for filters in shards], "string")
    states = pa.table({"a": [1, 2, 5, None]})
    matches = old.match(states)
    found = [set(old.ids(matches.of(row)).to_pylist()) for row in range(4)]
    assert found == [{"low", "one", "all"}, {"low", "high", "all"}, {"high", "all"}, set()]
    codes_of_rules = old.rule_codes(rules)
    assert not isinstance(codes_of_rules.leave, bool)
    assert old.ids(codes_of_rules.leave).to_pylist() == ["low", "high"]
    assert set(codes_of_rules.silent_ids.values()) == {"one", "all"}
    assert old.rule_codes(TransitionRules()).silent_ids == {}
    new = IndexVersion(2, [_index({"all": "a > 0", "low": "a < 2"})], "string")
    codes = np.array([old.code_of(id) for id in ("low", "high", "all", "low")], np.int32)
    assert new.translated(old, codes).tolist() == [new.code_of("low"), len(new), new.code_of("all"), new.code_of("low")]
    assert (old.code_of("nobody"), len(old), old.match(states.slice(0, 0)).count) == (-1, 4, 0)
    assert IndexVersion(1, [], "int64").match(states).lengths.tolist() == [0] * 4

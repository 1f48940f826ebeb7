"""The engine's index against the reference evaluator, on generated filters and events."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NAMES, events, filters
from whimbrel import Filter, Index, WhimbrelError
from whimbrel.engine import parallel
from whimbrel.engine import parts as engine
from whimbrel.engine.kernel_arrays import SCRATCH_AT
from whimbrel.engine.segment import Segment
from whimbrel.engine.subscriptions import BadSubscriptions
from whimbrel.engine.workspace import Workspace
from whimbrel.matchers.checks import Check, yield_checks
from whimbrel.matchers.fragment import Fragment
from whimbrel.model import expression as x
from whimbrel.model.errors import DuplicateId, EventError, IdKindError, LimitExceeded, UnknownDialect, UnknownId
from whimbrel.model.event import Event

Id = int | str
Pair = tuple[int, Id]
many_filters = st.lists(filters, max_size=12)
many_events = st.lists(events(), min_size=1, max_size=5)

PADDING = [
    Filter.parse(f"{name} IN ({', '.join(str(10**6 + number) for number in range(300))}) AND b != 'pad'")
    for name in NAMES
]
"""Filters that dilute the others: among many constants, an equality is rare enough to be a key of a hash."""


def expected(kept: dict[Any, Filter], event: dict[str, Any]) -> list[Id]:
    return [id for id, filter in kept.items() if filter.matches(event)]


def expected_pairs(kept: dict[Any, Filter], batch: Iterable[dict[str, Any]]) -> list[Pair]:
    return [(row, id) for row, event in enumerate(batch) for id in expected(kept, event)]


def pairs(table: pa.Table) -> list[Pair]:
    rows = table["event"].to_pylist()
    assert rows == sorted(rows)
    return list(zip(rows, table["subscription"].to_pylist(), strict=True))


def block_pairs(index: Index, batch: object, threads: int | None = None) -> list[Pair]:
    """What `match_blocks` gives, named."""
    found: list[Pair] = []
    row = 0
    for offsets, slots in index.match_blocks(batch, threads):
        names = index.ids(slots)
        named = names.tolist() if isinstance(names, np.ndarray) else names.to_pylist()
        assert offsets[0] == 0 and offsets[-1] == len(slots)
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            found += [(row, id) for id in named[begin:end]]
            row += 1
    return found


def check_answers(index: Index, kept: dict[Any, Filter], batch: list[dict[str, Any]]) -> None:
    """Assert that every way to match gives what the filters say."""
    check_pairs(index, expected_pairs(kept, batch), batch)
    index._check()


def check_pairs(index: Index, wanted: list[Pair], batch: list[dict[str, Any]]) -> None:
    """Assert that every way to match gives these pairs, which are in order of addition."""
    single = [(row, id) for row, event in enumerate(batch) for id in index.match(event)]
    assert single == wanted
    assert Counter(pairs(index.match_batch(batch, threads=1))) == Counter(wanted)
    assert Counter(block_pairs(index, batch, threads=2)) == Counter(wanted)


class Conforming(Index):
    """The index in the role of a matcher."""

    name = "index"
    fragment = Fragment()


CHECKS = list(yield_checks(Conforming))  # type: ignore[arg-type]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    check(Conforming)  # type: ignore[arg-type]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance_without_a_head(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HEAD", 1)
    check(Conforming)  # type: ignore[arg-type]


@given(many_filters, many_events)
def test_the_head_matches_what_the_filters_match(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate(given_filters))
    for id, filter in kept.items():
        index.add(id, filter)
    for event in given_events:
        assert index.match(event) == expected(kept, event)


@given(many_filters, many_events)
def test_a_segment_matches_what_the_filters_match(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate(given_filters))
    index.add_many(kept.items())
    check_answers(index, kept, given_events)


@given(many_filters, many_events)
def test_filters_among_many_others_match_the_same(
    given_filters: list[Filter], given_events: list[dict[str, Any]]
) -> None:
    index = Index()
    kept = dict(enumerate([*given_filters, *PADDING]))
    index.add_many(kept.items())
    check_answers(index, kept, given_events)


@given(st.lists(many_filters, min_size=2, max_size=4), many_events, st.booleans(), st.data())
def test_merging_changes_nothing(
    batches: list[list[Filter]], given_events: list[dict[str, Any]], padded: bool, data: st.DataObject
) -> None:
    index = Index()
    kept: dict[int, Filter] = {}
    for batch in [*batches, PADDING] if padded else batches:
        added = {len(kept) + i: filter for i, filter in enumerate(batch)}
        index.add_many(added.items())
        kept |= added
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), unique=True, max_size=20)) if kept else []:
        index.remove(id)
        del kept[id]
    check_answers(index, kept, given_events)
    index.merge()
    assert len(index._parts.snapshot.segments) == 1
    check_answers(index, kept, given_events)
    index.merge()
    check_answers(index, kept, given_events)


@given(many_filters, many_events, many_events, st.booleans())
def test_a_sample_changes_plans_but_not_answers(
    given_filters: list[Filter], sample: list[dict[str, Any]], given_events: list[dict[str, Any]], padded: bool
) -> None:
    index = Index()
    kept = dict(enumerate([*given_filters, *PADDING] if padded else given_filters))
    index.add_many(kept.items())
    index.analyze(sample * 40)
    check_answers(index, kept, given_events)
    index.analyze([])
    check_answers(index, kept, given_events)


def _any_value(rng: random.Random) -> Any:
    return rng.choice([rng.randrange(60), rng.randrange(600) / 10, f"s{rng.randrange(60)}", rng.random() < 0.5])


def _literal(value: object) -> str:
    return repr(value) if not isinstance(value, bool) else str(value).upper()


def _some_predicate(rng: random.Random, name: str) -> str:
    number, other = sorted((rng.randrange(60), rng.randrange(60)))
    values = sorted({_literal(_any_value(rng)) for _ in range(rng.randrange(1, 5))})
    return rng.choice(
        [
            *(f"{name} = {_literal(_any_value(rng))}",) * 5,
            *(f"{name} > {number}", f"{name} <= {number}", f"{name} >= 's{number}'", f"{name} < 's{number}'"),
            f"{name} BETWEEN {number} AND {other}",
            f"{name} IN ({', '.join(values)})",
            f"{name} NOT IN ({', '.join(values)})",
            f"{name} CONTAINS ALL ({', '.join(values[:2])})",
            f"{name} != {number}",
            f"{name} LIKE 's{number % 10}%'",
            f"{name} IS NULL",
            f"{name} < other",
        ]
    )


WORKLOADS = {
    "few attributes": (4, 1, 3),
    "many attributes": (300, 1, 4),
    "long conjunctions": (30, 5, 10),
    "one attribute": (1, 1, 2),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_thousands_of_filters_match_what_they_say(workload: str) -> None:
    attributes, fewest, most = WORKLOADS[workload]
    rng = random.Random(workload)
    names = [f"x{number}" for number in range(attributes)]

    def text() -> str:
        chosen = rng.sample(names, min(attributes, rng.randint(fewest, most)))
        conjunction = " AND ".join(_some_predicate(rng, name) for name in chosen)
        return f"{conjunction} OR {_some_predicate(rng, rng.choice(names))}" if rng.random() < 0.1 else conjunction

    def event() -> dict[str, Any]:
        chosen = [name for name in names if rng.random() < min(0.8, 40 / attributes)]
        out: dict[str, Any] = {name: _any_value(rng) for name in chosen}
        for name in chosen[:2]:
            if rng.random() < 0.3:
                out[name] = [_any_value(rng) for _ in range(rng.randrange(4))]
        return out | {"other": rng.randrange(60)}

    kept = [Filter.parse(text()) for _ in range(1_500)]
    batch = [event() for _ in range(12)]
    wanted = [
        (row, id) for row, event in enumerate(map(Event, batch)) for id in range(1_500) if kept[id].matches(event)
    ]
    index = Index()
    index.add_many(enumerate(kept[:700]))
    for id in range(700, 800):
        index.add(id, kept[id])
    index.add_many(enumerate(kept[800:], 800))
    removed = set(rng.sample(range(1_500), 50))
    for id in removed:
        index.remove(id)
    wanted = [pair for pair in wanted if pair[1] not in removed]
    check_pairs(index, wanted, batch)
    index.merge()
    check_pairs(index, wanted, batch)
    index.analyze(batch)
    check_pairs(index, wanted, batch)
    index._check()


def test_every_kind_of_key_is_used() -> None:
    index = Index()
    texts = [f"a = {n}" for n in range(500)] + [f"b > {n}" for n in range(500)]
    texts += [f"a != {n} AND b != {n + 3} AND c != 1" for n in range(500)]
    texts += [f"rare{n} IS NOT NULL AND b != 1" for n in range(500)]
    draw = random.Random(1)
    texts += [" AND ".join(f"few{i} = {draw.randrange(3)}" for i in draw.sample(range(12), 6)) for _ in range(2_000)]
    index.add_many(enumerate(texts))
    few = [{f"few{i}": draw.randrange(3) for i in range(12)} for _ in range(200)]
    index.analyze([{"a": n, "b": n, "c": n % 5} | few[n] for n in range(200)])
    keys = index.stats()["keys"]
    assert isinstance(keys, dict) and all(keys.values()), keys
    for id in (5, 505, 1005, 1505, 2005):
        plan = index.plan(id)
        assert plan["subscription"] == id and len(plan["conjunctions"]) == 1  # type: ignore[arg-type]


def test_a_plan_says_what_share_of_the_sample_reaches_a_subscription() -> None:
    index = Index()
    index.add_many(
        [*((n, f"a = {n} AND b > 3") for n in range(1_000)), *((n, f"b > {n}") for n in range(1_000, 1_500))]
    )
    index.add(9_999, "TRUE")
    guessed: Any = index.plan(7)
    assert guessed["conjunctions"][0]["key"] == "hash" and guessed["conjunctions"][0]["attributes"] == ["a"]
    assert guessed["conjunctions"][0]["share"] == pytest.approx(1 / 2_000, rel=0.2)
    index.analyze([{"a": n % 100, "b": 10 * n} for n in range(200)])
    seen: Any = [index.plan(id) for id in (7, 500, 1_250, 9_999)]
    assert [plan["conjunctions"][0]["key"] for plan in seen] == ["hash", "hash", "sorted", "always"]
    assert [plan["conjunctions"][0]["share"] for plan in seen] == [0.01, 0.0, 74 / 200, 1.0]
    assert [plan["cost_ns"] > 0 for plan in seen] == [True, False, True, True]
    assert seen[0]["cost_ns"] > guessed["cost_ns"]


def test_stats_say_how_many_candidates_and_probes_an_event_had() -> None:
    index = Index()
    index.add_many((n, f"a = {n % 1_000} AND b = {n}") for n in range(5_000))
    assert index.stats()["candidates_per_event"] == index.stats()["probes_per_event"] == 0
    events = [{"a": n, "b": n} for n in range(500)]
    found = len(index.match_batch(events))
    after: Any = index.stats()
    assert found == 500 and after["events"] == 500
    assert 1 <= after["candidates_per_event"] <= 10 and 1 <= after["probes_per_event"] <= 10


def test_additions_after_a_removal_are_found() -> None:
    """A death is kept by slot: there must be room for slots that come after it."""
    index = Index()
    index.add(0, "a = 1")
    index.remove(0)
    for id in range(1, 1_500):
        index.add(id, "a = 1")
    assert index.match({"a": 1}) == list(range(1, 1_500))
    index.add_many((id, "a = 1") for id in range(1_500, 5_000))
    assert index.match({"a": 1}) == list(range(1, 5_000))
    index._check()


def test_an_in_filed_under_each_member_is_reported_once_after_a_merge() -> None:
    """Decoded, it is one conjunction per member, of which an event with several values may match several."""
    index = Index()
    index.add_many((id, f"a = {id}") for id in range(1_000))
    index.add_many([(1_002, "a IN (1, 2, 3)"), (1_003, "a IN (1, 2, 3) AND b < 9")])
    index.merge()
    index.analyze([{"a": [1, 2], "b": 1}] * 100)
    event = {"a": [1, 2, 3], "b": 5}
    assert index.match(event) == [1, 2, 3, 1_002, 1_003]
    assert sorted(pairs(index.match_batch([event]))) == [(0, id) for id in (1, 2, 3, 1_002, 1_003)]


def test_buffers_are_never_taken_for_those_of_another_segment() -> None:
    """A segment may lie where a dead one lay: buffers fitted to that one would be too small."""
    parts = []
    for count in (1, 1_000):
        index = Index()
        index.add_many((id, f"x{id} = 1 AND y{id} < 2") for id in range(count))
        parts.append((index._parts.snapshot.segments[0].arrays, index._parts.snapshot.segments[0].meta))
    workspace = Workspace()
    for _ in range(20):
        segment = Segment(*parts[0])
        workspace.words(segment, 5_000)
        place = id(segment)
        del segment
        segment = Segment(*parts[1])
        assert workspace.words(segment, 5_000).block[SCRATCH_AT + 1] > 2_000
        if id(segment) == place:
            return


def test_replaced_filters_keep_their_place() -> None:
    index = Index()
    for id in "abcd":
        index.add(id, "x = 1")
    for id in "ab":
        index.replace(id, "x = 2")
        index.replace(id, "x = 1")
    index.merge()
    index.replace("a", "x > 0")
    assert index.match({"x": 1}) == list(index) == ["a", "b", "c", "d"]
    index.remove("a")
    index.add("a", "x = 1")
    assert index.match({"x": 1}) == list(index) == ["b", "c", "d", "a"]


def test_places_of_dead_slots_are_forgotten() -> None:
    index = Index()
    for id in range(10):
        index.add(id, "x = 1")
    for _ in range(600):
        for id in (3, 7):
            index.replace(id, "x = 1")
    for id in range(10, 1_500):
        index.add(id, "y = 1")
    assert len(index._parts.snapshot.places) <= engine.HEAD
    assert index.match({"x": 1}) == list(range(10))


@pytest.mark.parametrize("kind", ["list", "table", "generator"])
def test_many_are_added_in_any_shape(kind: str) -> None:
    texts = ["a = 1", "a > 0", "b IS NULL"]
    shapes: dict[str, Callable[[], Any]] = {
        "list": lambda: list(enumerate(texts)),
        "table": lambda: pa.table(
            {"id": pa.array([0, 1, 2], pa.uint8()), "filter": pa.array(texts).dictionary_encode()}
        ),
        "generator": lambda: ((id, Filter.parse(text)) for id, text in enumerate(texts)),
    }
    index = Index()
    told: list[int] = []
    index.add_many(shapes[kind](), progress=told.append)
    assert index.match({"a": 1}) == [0, 1, 2] and told[-1:] == [3]
    index.add_many([])
    index.add_many(pa.table({"id": pa.array([], pa.int64()), "filter": pa.array([], pa.string())}))
    assert list(index) == [0, 1, 2]


def test_a_table_may_say_the_dialect_of_each_row() -> None:
    index = Index()
    index.add_many(pa.table({"id": ["x", "y"], "filter": ["a = 1", "b = 1"], "dialect": ["sql", None]}))
    assert index.match({"a": 1, "b": 1}) == ["x", "y"]
    with pytest.raises(BadSubscriptions) as caught:
        index.add_many(pa.table({"id": ["z", "w"], "filter": ["a = 1", "a = 1"], "dialect": ["sql", "latin"]}))
    assert [row for row, _ in caught.value.errors] == [1]
    with pytest.raises(UnknownDialect):
        index.add_many([("z", "a = 1")], dialect="latin")


REFUSED: list[tuple[list[tuple[Any, Any]] | pa.Table, type[Exception]]] = [
    ([(5, "a = 1"), (6, "a =")], BadSubscriptions),
    ([(5, "a = 1"), (6, None)], BadSubscriptions),
    ([(5, "a = 1"), (6, "a = '\ud800'")], BadSubscriptions),
    ([(5, "a = 1"), (5, "a = 2")], DuplicateId),
    ([(5, "a = 1"), (0, "a = 2")], DuplicateId),
    ([(5, "a = 1"), ("x", "a = 2")], IdKindError),
    ([(5, "a = 1"), (True, "a = 2")], IdKindError),
    ([(5, "a = 1"), (2**63, "a = 2")], IdKindError),
    (pa.table({"id": [5], "text": ["a = 1"]}), ValueError),
    (pa.table({"id": [5, None], "filter": ["a = 1", "a = 1"]}), ValueError),
    (pa.table({"id": [5, 6], "filter": ["a = 1", None]}), ValueError),
    ([(5, "a = 1"), (6, " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(11)))], BadSubscriptions),
]


@pytest.mark.parametrize(("load", "error"), REFUSED, ids=range(len(REFUSED)))
def test_a_load_that_is_refused_changes_nothing(load: Any, error: type[Exception]) -> None:
    index = Index()
    index.add(0, "a = 1")
    with pytest.raises(error):
        index.add_many(load)
    assert list(index) == [0] and index.match({"a": 1}) == [0]
    index._check()
    index.add_many([(5, "a = 1"), (6, "a = 1")])
    assert index.match({"a": 1}) == [0, 5, 6]


SCRIPT = """
from whimbrel import Index
from whimbrel.engine import parallel
parallel.PARALLEL_FROM, parallel.PARSE_AT_ONCE = 100, 50
index = Index()
told = []
index.add_many(((id, f"a = {id % 7} AND b > {id}") for id in range(1_000)), progress=told.append)
assert index.match({"a": 3, "b": 100}) == [id for id in range(100) if id % 7 == 3] and told[-1] == 1_000, told
print("done")
"""


def test_a_plain_script_may_load_many(tmp_path: Path) -> None:
    """Helper processes must not run the main module of the program again."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize("helper", ["", "raise SystemExit", "import sys; sys.stdin.buffer.read(9); print('x' * 99)"])
def test_texts_that_a_helper_fails_to_parse_are_parsed_here(helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PARALLEL_FROM", 10)
    monkeypatch.setattr(parallel, "PARSE_AT_ONCE", 10)
    monkeypatch.setattr(
        parallel, "_HELPER" if helper else "sys", helper or SimpleNamespace(executable="/none", path=[])
    )
    texts = [f"a = {n}" if n % 10 else "a =" for n in range(95)]
    told: list[int] = []
    parsed = parallel.parse_in_parallel(texts, "sql", told.append, workers=3)
    found = [row for group in parsed.groups for row in group.rows.tolist()]
    found += [row for one in parsed.conjunctions for row in one.rows.tolist()]
    assert sorted(found) == [row for row in range(95) if row % 10]
    assert [row for row, _ in parsed.errors] == list(range(0, 95, 10)) and told[-1] == 95


def test_a_refused_load_names_every_bad_row() -> None:
    with pytest.raises(BadSubscriptions, match=r"row 1 has a bad one \(and 1 more\)") as caught:
        Index().add_many([(0, "a = 1"), (1, "a ="), (2, "b = 1"), (3, "= b")])
    assert [row for row, _ in caught.value.errors] == [1, 3]


def test_errors_are_typed_and_change_nothing() -> None:
    index = Index()
    index.add("x", "a = 1")
    calls: list[tuple[Callable[[], object], type[WhimbrelError]]] = [
        (lambda: index.add("x", "b = 1"), DuplicateId),
        (lambda: index.add(1, "b = 1"), IdKindError),
        (lambda: index.add("y", "b ="), WhimbrelError),
        (lambda: index.add("y", "b = 1", dialect="latin"), UnknownDialect),
        (lambda: index.add("y", " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(11))), LimitExceeded),
        (lambda: index.add("y", Filter(x.Compare("a", "=", "x" * (1 << 20)))), LimitExceeded),
        (lambda: index.replace("y", "b = 1"), UnknownId),
        (lambda: index.replace("x", "b ="), WhimbrelError),
        (lambda: index.remove("y"), UnknownId),
        (lambda: index["y"], UnknownId),
        (lambda: index.plan("y"), UnknownId),
        (lambda: index.explain("y", {}), UnknownId),
        (lambda: index.match({"a": b"1"}), EventError),
        (lambda: index.match_batch([{"a": 1}, {"a": b"1"}]), EventError),
        (lambda: index.match_batch({"a": 1}), EventError),
        (lambda: index.match_batch(7), EventError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
        index._check()
        assert index.match({"a": 1}) == ["x"] and len(index) == 1
    assert "y" not in index and 1 not in index and None not in index


def test_events_are_named_by_row_where_they_are_bad() -> None:
    index = Index()
    index.add(0, "a = 1")
    with pytest.raises(EventError, match="event 40"):
        index.match_batch([{"a": 1}] * 40 + [{"a": object()}] + [{"a": 1}] * 40)


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_results_of_many_units_come_in_event_order(threads: int | None) -> None:
    index = Index()
    index.add_many((id, f"a >= {id}") for id in range(50))
    batch = [{"a": row % 60} for row in range(5_000)]
    wanted = [(row, id) for row in range(5_000) for id in range(min(50, row % 60 + 1))]
    assert sorted(pairs(index.match_batch(batch, threads))) == wanted
    assert sorted(block_pairs(index, pa.Table.from_pylist(batch), threads)) == wanted
    assert sorted(pairs(index.match_batch(iter(batch), threads))) == wanted


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_may_be_left_early(threads: int) -> None:
    index = Index()
    index.add_many((id, "a >= 0") for id in range(10))
    for stop in range(3):
        blocks = index.match_blocks([{"a": row} for row in range(500)], threads)
        for _ in range(stop):
            next(blocks)
        blocks.close()
    assert len(block_pairs(index, [{"a": 1}], threads)) == 10


def test_string_ids_come_as_one_dictionary() -> None:
    index = Index()
    index.add_many((f"id{n}", f"a >= {n}") for n in range(10))
    table = index.match_batch([{"a": 3}, {"a": 0}, {"a": -1}, {"a": 3}])
    assert table.schema == pa.schema({"event": pa.int64(), "subscription": pa.dictionary(pa.int32(), pa.string())})
    assert sorted(pairs(table)) == [*[(0, f"id{n}") for n in range(4)], (1, "id0"), *[(3, f"id{n}") for n in range(4)]]
    assert index.match_batch([{"a": -1}]).schema == table.schema


def test_timestamps_are_read_where_they_are_named() -> None:
    index = Index(timestamps=["t"])
    index.add(0, "t < TIMESTAMP '2026-01-02'")
    index.add(1, "u = '2026-01-01'")
    event = {"t": "2026-01-01", "u": "2026-01-01"}
    assert index.match(event) == [0, 1]
    for batch in ([event], pa.Table.from_pylist([event])):
        assert sorted(pairs(index.match_batch(batch))) == [(0, 0), (0, 1)]
    index.analyze(pa.Table.from_pylist([event]))
    assert index.match(event) == [0, 1]
    assert index.near_misses({"t": "2026-02-01"})[0].failed == 1
    assert index.explain(0, event).matched


def test_stats_count_what_is_held_and_done() -> None:
    index = Index()
    index.add_many((id, f"a = {id} AND b > 3") for id in range(100))
    index.add(100, "TRUE")
    index.add(101, "a = 1 AND a = 2")
    index.remove(7)
    before = index.stats()
    assert before["subscriptions"] == 101 and before["head"] == 2
    assert index.match({"a": 5, "b": 4}) == [5, 100]
    assert len(pairs(index.match_batch([{"a": 5, "b": 4}] * 10))) == 20
    after = index.stats()
    assert after["events"] == 11 and after["head"] == 0 and after["always_true"] == 1
    assert sum(after["segment_sizes"]) == 101 and after["slots"] == 102  # type: ignore[call-overload]
    assert after["bytes"] > 0 and after["text_bytes"] > 0  # type: ignore[operator]
    assert index.plan(100)["conjunctions"] == [{"segment": 1, "key": "always", "attributes": [], "share": 1.0}]
    assert index.plan(101)["conjunctions"] == []


def test_the_index_is_a_collection() -> None:
    index = Index()
    assert len(index) == 0 and list(index) == [] and "x" not in index and index.attributes() == frozenset()
    index.add("x", "a = 1 OR d.x > 3")
    assert len(index) == 1 and list(index) == ["x"] and "x" in index
    assert index["x"].id == "x" and index["x"].filter == Filter.parse("a = 1 OR d.x > 3")
    assert index.attributes() == {"a", "d.x"}
    index.merge()
    assert index.attributes() == {"a", "d.x"}
    assert index["x"].filter.text == "a = 1 OR d.x > 3"


def test_filters_that_need_verifying_match_columns_that_cannot_be_taken_from() -> None:
    index = Index()
    index.add(1, "a LIKE '%x%'")
    texts = pa.array(["axb", "y", None, "x"])
    for column in (texts.cast(pa.string_view()), pa.compute.run_end_encode(texts)):
        assert pairs(index.match_batch(pa.table({"a": column}))) == [(0, 1), (3, 1)]

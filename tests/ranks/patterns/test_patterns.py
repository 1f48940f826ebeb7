"""Patterns in the index, against the filters themselves: every shape of event, every way to match."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_index import pairs
from whimbrel import Filter, Index
from whimbrel.engine.live.subscription_set import SubscriptionSet
from whimbrel.model import expression as x
from whimbrel.model.constraint import Constraint
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.intervals import STRINGS
from whimbrel.model.limits import EVENT_VALUES
from whimbrel.model.near_misses import near_misses
from whimbrel.model.patterns import Substring, Suffix
from whimbrel.model.subscription import Subscription
from whimbrel.ranks.encoding import event_encoder as encoder
from whimbrel.ranks.patterns import pattern_fragments as patterns
from whimbrel.ranks.patterns.pattern_fragments import fragments_of
from whimbrel.ranks.patterns.pattern_rules import LONGEST_LIKE

LETTERS = "ab%_\\é\0"
TEXTS = ["", "a", "b", "ab", "ba", "aba", "bab", "aab", "abab", "%", "_", "a%b", "é", "aéb", "\0", "a\0", "\U0001f600"]
TEXTS += ["A", "aB", "BAB", "É", "AÉB", "Aa"]

names = st.sampled_from(["x", "x", "d.x"])
likes = st.text(alphabet=LETTERS, max_size=6).map(lambda text: re.sub(r"\\(?=$|[^%_\\])", "", text))
fragments = st.text(alphabet="abé\0", max_size=3)
wanted = st.one_of(
    fragments.map(lambda text: "%" + text),
    fragments.map(lambda text: f"%{text}%"),
    st.tuples(fragments, fragments).map("%".join),
    st.tuples(fragments, fragments, fragments).map("%".join),
    likes.filter(lambda text: not re.search(r"(^|[^\\])(\\\\)*\\$", text)),
)
tests = st.one_of(
    st.builds(x.Like, names, wanted),
    st.builds(x.Like, names, wanted),
    st.builds(x.ILike, names, wanted.map(str.upper)),
    st.builds(x.ILike, names, wanted),
    st.builds(x.ILike, names, fragments.map(str.title)),
    st.builds(x.EndsWith, names, fragments),
    st.builds(x.RLike, names, st.sampled_from(["ab+a", "^a.b", "a(b|c)", "(?i)B", r"a\%b", "é?b", "a{2}b|b", "ab|é"])),
    st.builds(x.StartsWith, names, fragments),
    st.builds(x.Compare, names, st.sampled_from(["=", "!=", "<", ">"]), st.sampled_from(["a", "ab", 1])),
    st.builds(x.Compare, st.just("n"), st.just("="), st.integers(0, 2)),
    st.builds(x.IsNull, names),
    st.builds(x.Contains, names, st.sampled_from(["ALL", "NONE"]), st.just(("a",))),
)


def nested(inner: st.SearchStrategy[x.Expression]) -> st.SearchStrategy[x.Expression]:
    terms = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(st.builds(x.Not, inner), st.builds(x.And, terms), st.builds(x.And, terms), st.builds(x.Or, terms))


filters = st.recursive(tests, nested, max_leaves=4).map(Filter)
scalars = st.one_of(
    st.sampled_from(TEXTS), st.text(alphabet="abéAÉ", max_size=6), st.sampled_from([None, 1, True, 0.5])
)
values = st.one_of(scalars, scalars, st.lists(scalars, max_size=3), st.lists(st.lists(scalars, max_size=2), max_size=2))
inner = st.one_of(
    st.fixed_dictionaries({}, optional={"x": values, "y": scalars}),
    st.lists(st.fixed_dictionaries({}, optional={"x": values, "y": scalars}), max_size=2),
)
events = st.fixed_dictionaries({}, optional={"x": values, "n": st.integers(0, 2), "d": inner, "d.x": values})


def expected(kept: dict[int, Filter], given_events: list[dict[str, Any]]) -> list[tuple[int, int | str]]:
    read = [Event(event) for event in given_events]
    return [(row, id) for row, event in enumerate(read) for id, filter in kept.items() if filter.matches(event)]


def check(index: Index, kept: dict[int, Filter], given_events: list[dict[str, Any]]) -> None:
    wanted = expected(kept, given_events)
    assert [(row, id) for row, event in enumerate(given_events) for id in index.match(event)] == wanted
    assert Counter(pairs(index.match_batch(given_events, threads=1))) == Counter(wanted)


def check_table(index: Index, kept: dict[int, Filter], table: pa.Table, rows: list[dict[str, Any]]) -> None:
    assert Counter(pairs(index.match_batch(table, threads=1))) == Counter(expected(kept, rows))


@given(st.lists(filters, min_size=1, max_size=12), st.lists(events, min_size=1, max_size=5), st.data())
def test_patterns_match_what_filters_say(
    given_filters: list[Filter], given_events: list[dict[str, Any]], data: st.DataObject
) -> None:
    kept = dict(enumerate(given_filters))
    index = Index()
    half = data.draw(st.integers(0, len(kept)))
    index.add_many(list(kept.items())[:half])
    for id in range(half, len(kept)):
        index.add(id, kept[id])
    check(index, kept, given_events)
    for id in data.draw(st.lists(st.sampled_from(sorted(kept)), max_size=3, unique=True)):
        index.remove(id)
        del kept[id]
    index.merge()
    check(index, kept, given_events)
    if data.draw(st.integers(0, 5)) == 0:  # a save waits for the disk
        with tempfile.TemporaryDirectory() as folder:
            index.save(Path(folder) / "index")
            check(Index.open(Path(folder) / "index"), kept, given_events)
    index.analyze(given_events)
    check(index, kept, given_events)
    for event in given_events:
        plain = near_misses((Subscription(id, filter) for id, filter in kept.items()), Event(event), 5)
        assert index.near_misses(event, 5) == plain


KINDS: dict[str, pa.DataType] = {
    "text": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "list": pa.list_(pa.string()),
    "list of dictionary": pa.large_list(pa.dictionary(pa.int32(), pa.large_string())),
    "fixed": pa.list_(pa.string(), 2),
    "lists": pa.list_(pa.list_(pa.string())),
    "number": pa.float64(),
}


@given(st.lists(filters, min_size=1, max_size=8), st.sampled_from(sorted(KINDS)), st.data())
def test_columns_of_all_kinds_match_what_filters_say(
    given_filters: list[Filter], kind: str, data: st.DataObject
) -> None:
    text = st.one_of(st.none(), st.sampled_from(TEXTS))
    cell: st.SearchStrategy[Any] = {
        "list": st.lists(text, max_size=3),
        "list of dictionary": st.lists(text, max_size=3),
        "fixed": st.lists(text, min_size=2, max_size=2),
        "lists": st.lists(st.lists(text, max_size=2), max_size=2),
        "number": st.sampled_from([0.5, float("nan"), 1.0]),
    }.get(kind, text)
    rows = data.draw(st.integers(1, 6))
    cells = data.draw(st.lists(st.one_of(st.none(), cell), min_size=rows + 1, max_size=rows + 1))
    others = data.draw(st.lists(text, min_size=rows, max_size=rows))
    column = pa.array(cells, KINDS[kind]).slice(1)
    objects = [[{"x": a}, {"x": b}] if a else None for a, b in zip(others, reversed(others), strict=True)]
    maps = [[("x", a), ("y", "a"), ("x", b)] for a, b in zip(others, reversed(others), strict=True)]
    shapes: list[tuple[list[str], list[pa.Array], list[dict[str, Any]]]] = [
        (["x"], [column], [{"x": cell} for cell in cells[1:]]),
        (
            ["x", "x"],
            [column, pa.array(others)],
            [
                {"x": [cell, other] if other is not None else cell}
                for cell, other in zip(cells[1:], others, strict=True)
            ],
        ),
        (
            ["d", "x"],
            [pa.array(objects, pa.list_(pa.struct([("x", pa.string())]))), column],
            [{"d": d, "x": cell} for d, cell in zip(objects, cells[1:], strict=True)],
        ),
        (
            ["d", "d.x"],
            [pa.array(maps, pa.map_(pa.string(), pa.string())), column],
            [
                {"d": {"x": both[-1][1]}, "d.x": [] if cell is None else cell}
                for both, cell in zip(maps, cells[1:], strict=True)
            ],
        ),
        (
            ["d"],
            [pa.StructArray.from_arrays([column], ["x"])],
            [{"d": {"x": [] if cell is None else cell}} for cell in cells[1:]],
        ),
    ]
    kept = dict(enumerate(given_filters))
    index = Index()
    index.add_many(kept.items())
    for labels, arrays, plain in shapes:
        without = [{key: [] if value is None else value for key, value in event.items()} for event in plain]
        for event, cell in zip(without, cells[1:], strict=True):  # a cell that is NaN is missing, not null
            if isinstance(cell, float) and cell != cell:  # noqa: PLR0124
                event.update({key: [] for key in ("x", "d.x") if event.get(key) is cell})
                if isinstance(event.get("x"), list):
                    event["x"] = [one for one in event["x"] if one is not cell]
                if isinstance(event.get("d"), dict) and event["d"].get("x") is cell:
                    event["d"] = {}
            elif cell is None and isinstance(event.get("x"), list):
                event["x"] = [one for one in event["x"] if one is not None]
        check_table(index, kept, pa.table(arrays, names=labels), without)


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted", "is_exact", "is_joined"),
    [
        ("x LIKE '%.pdf'", [".pdfe"], [], True, False),
        ("x LIKE '%a%'", ["ai"], [], True, False),
        ("x ENDS WITH ''", [], [], True, False),
        ("x NOT LIKE '%a'", [], ["aE"], True, False),
        ("x NOT LIKE '%a' AND x NOT LIKE '%b%'", [], ["bI", "aE"], True, True),
        ("x NOT ENDS WITH ''", [], [], True, False),
        ("x LIKE '%a%' AND x LIKE '%b'", ["ai", "be"], [], True, True),
        ("x LIKE '%a%' AND x NOT LIKE '%b'", ["ai"], ["bE"], True, True),
        ("x LIKE 'a%b'", ["a%bl"], [], True, False),
        ("x LIKE 'ab%ba' AND x > 'abc'", ["ab%bal"], [], True, True),
        ("x LIKE '%a%bc%'", ["%a%bc%l"], [], True, False),
        ("x LIKE '_a\\__b'", ["_a\\__bl"], [], True, False),
        ("x NOT LIKE 'a%b'", [], ["a%bL"], True, False),
        ("x NOT ILIKE 'A%b'", [], ["a%bK"], True, False),
        ("x ILIKE 'A%'", ["Aag"], [], True, False),
        ("x RLIKE 'err(or)? [0-9]+: full'", ["err(or)? [0-9]+: fullr"], [], True, False),
        (r"x RLIKE '\berr(or)? [0-9]+: full'", [": fulli", "erri"], [], False, False),
        ("x > 'b' AND x LIKE '%a'", ["ae"], [], True, True),
        (r"x RLIKE 'error\b|warn(ing)?|fatal: '", ["error|warn|fatal: "], [], False, False),
        (r"x RLIKE 'error|warn|.*\b'", [], [], False, False),
        (r"x NOT RLIKE 'error\b'", [], [], False, False),
        ("x IN CIDR '10.0.0.0/8'", ["40a000000008n"], [], True, False),
        ("x NOT IN CIDR 'fe80::/10'", [], ["6fe80" + 28 * "0" + "010N"], True, False),
    ],
)
def test_what_a_constraint_looks_for(
    text: str, wanted: list[str], unwanted: list[str], is_exact: bool, is_joined: bool
) -> None:
    (conjunction,) = Filter.parse(text).conjunctions
    found = fragments_of(conjunction.by_attribute["x"])
    groups = [tuple(part + "i" for part in one.split("|")) if "|" in one else (one,) for one in sorted(wanted)]
    assert (sorted(found.wanted), sorted(found.unwanted)) == (groups, sorted(unwanted))
    assert (found.is_exact, found.is_joined) == (is_exact, is_joined)


def test_a_pattern_without_text_has_no_fragment() -> None:
    for pattern in (Suffix(""), Substring("")):
        assert fragments_of(Constraint(values=STRINGS, include=(pattern,)))[:4] == ([], [], True, False)
        assert fragments_of(Constraint(exclude=(pattern,)))[:4] == ([], [], False, False)


def test_of_many_fragments_the_longest_are_looked_for() -> None:
    long = "f" * LONGEST_LIKE
    (conjunction,) = Filter.parse(f"x LIKE '%a%bb%ccc%dddd%ee%{long}'").conjunctions
    assert fragments_of(conjunction.by_attribute["x"]).wanted == [
        (f"{long}e",), ("ddddi",), ("ccci",), ("bbi",), ("eei",)
    ]  # fmt: skip
    assert patterns.MOST == 4


def test_many_patterns_are_looked_up_and_none_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(8)
    words = sorted({"".join(rng.choices("abcdefgh", k=7)) for _ in range(3_000)})
    shapes = ["url LIKE '%{}'", "url LIKE '%{}%'", "url NOT LIKE '%{}'", "n = 1 AND url LIKE '/%{}' AND url != '/'"]
    shapes += ["url LIKE '%{}%a'", "url RLIKE '{}.?$'", "url ILIKE '_{}'"]
    kept = {id: Filter.parse(shapes[id % len(shapes)].format(word)) for id, word in enumerate(words)}
    index = Index()
    index.add_many(kept.items())
    index.merge()
    assert not index._subscriptions.segments.snapshot.segments[0].meta.verified
    monkeypatch.setattr(SubscriptionSet, "verify", lambda *_: pytest.fail("a filter is verified"))
    texts = [rng.choice("a/") + "".join(rng.choices("abcdefgh", k=5)) + rng.choice(words) for _ in range(30)]
    check(index, kept, [{"url": text, "n": rng.randrange(2)} for text in texts])
    check(index, kept, [{"url": [text]} for text in texts])
    plan = index.plan(0)
    assert isinstance(plan["conjunctions"], list)
    assert {"key": "hash", "attributes": ["url"], "patterns": ["url"]}.items() <= plan["conjunctions"][0].items()
    assert index.attributes() == {"url", "n"} and index.stats()["attributes"] == 2


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_suffixes(count: int) -> None:
    index = Index()
    index.add_many((n, f"a ENDS WITH '/{n}'") for n in range(count))
    assert index.match({"a": "x/7777"}) == [7_777] and index.match({"a": ["/3", 5, "/9999"]}) == [3, 9_999]
    table = pa.table({"a": ["/1", None, "1", "/01", f"/{count}", "//5"]})
    assert pairs(index.match_batch(table)) == [(0, 1), (5, 5)]


def test_a_long_text_with_many_hits() -> None:
    kept = {n: f"a LIKE '%{'a' * n}%'" for n in range(1, 1_500)}
    kept |= {1_500: f"a LIKE '%{'a' * 900}b%'", 1_501: f"a LIKE '%{'a' * 1_499}'", 1_502: "a NOT LIKE '%a%'"}
    index = Index()
    index.add_many(kept.items())
    assert index.match({"a": "a" * 1_000_000}) == [*range(1, 1_500), 1_501]
    assert index.match({"a": ["b" * 1_000_000, "aab"]}) == [1, 2, 1_502]
    assert index.match_batch(pa.table({"a": ["a" * 1_000_000 + "b", "b"]})).num_rows == 1_500 + 1


def test_fragments_do_not_count_as_values_of_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    index.add_many((n, f"a LIKE '%{'a' * n}%'") for n in range(1, 21))
    monkeypatch.setattr(encoder, "EVENT_VALUES", replace(EVENT_VALUES, value=10))
    assert index.match_batch(pa.table({"a": [["a" * 30]] * 3})).num_rows == 60
    with pytest.raises(LimitExceeded):
        index.match_batch(pa.table({"a": [["a"] * 11]}))


def test_texts_that_are_timestamps_have_no_fragments() -> None:
    index = Index(timestamps=["at"])
    index.add_many([(0, "at LIKE '%1'"), (1, "at NOT LIKE '%1'"), (2, "at LIKE '2%1'")])
    plain = [{"at": "2026-01-31"}, {"at": ["2026-01-31", "2026-01-01"]}]
    assert [index.match(event) for event in plain] == [[1], [1]]
    assert pairs(index.match_batch(pa.table({"at": [event["at"] for event in plain[:1]]}))) == [(0, 1)]
    assert pairs(index.match_batch(pa.table({"at": [plain[1]["at"]]}))) == [(0, 1)]


def test_values_of_json_that_are_no_strings_have_no_fragments_not_even_empty_ones() -> None:
    texts = ["a NOT LIKE '%'", "a RLIKE '^$'", "NOT a RLIKE '^$'", *(f"b = {n}" for n in range(70))]
    kept = dict(enumerate(map(Filter.parse, texts)))
    index = Index()
    index.add_many(kept.items())
    events = [{"a": a} for a in (True, 1, "", "x", [], [1, ""], ["", "x"], None)]
    expected = [(row, id) for row, event in enumerate(events) for id in kept if kept[id].matches(event)]
    assert pairs(index.match_batch([json.dumps(event) for event in events])) == expected


def test_a_name_may_look_like_that_of_a_derived_attribute() -> None:
    kept = {0: Filter.parse("x LIKE '%a'"), 1: Filter.parse("\"\0x\" = 'ae'"), 2: Filter.parse("x = 'ae'")}
    index = Index()
    index.add_many(kept.items())
    check(index, kept, [{"x": "a"}, {"x": "ae"}, {"\0x": "ae"}, {"x": 1, "\0x": "a"}])


def test_segments_with_and_without_patterns_are_merged() -> None:
    kept: dict[int, Filter] = {}
    index = Index()
    for load in range(4):
        texts = [f"x = 'a{load}'", f"y > {load}"] if load % 2 else [f"x LIKE '%{load}'", f"x NOT LIKE '%a{load}%'"]
        new = {2 * load + n: Filter.parse(text) for n, text in enumerate(texts)}
        index.add_many(new.items())
        kept |= new
    given_events = [{"x": f"a{n}", "y": n} for n in range(5)] + [{"x": ["a0", "a2"]}, {"y": 9}]
    check(index, kept, given_events)
    index.merge()
    assert index.segments == 1
    check(index, kept, given_events)

"""Workloads are frozen, have the shape that their definitions give, and the matches per event that the papers count on.

Matches are counted by brute force on the filter text, read here by a regular expression: nothing is shared with the
generators or with Whimbrel's own parser, and the reference evaluator has to agree.
"""

import csv
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from whimbrel import Filter
from whimbrel.lab.workloads import WORKLOADS, Workload, make
from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.lab.workloads.gryphon import decay
from whimbrel.lab.workloads.lesubscribe import expected_matches
from whimbrel.lab.workloads.stocks import find_quotes
from whimbrel.lab.workloads.text import BLOCK_ROWS, float_text
from whimbrel.matchers import make as make_matcher

PREDICATE = re.compile(
    r"(?P<name>\w+) (?:(?P<sign>[<>]=?|=) (?P<bound>\S+)"
    r"|BETWEEN (?P<low>\S+) AND (?P<high>\S+)|IN \((?P<members>[^)]*)\))"
)

# The digest covers the workload of 50 subscriptions and 20 events, then that of two blocks of subscriptions.
PINNED = {
    "lesubscribe": (
        "a2 = 'v111' AND a4 <= 4699 AND a5 = 362",
        "24a6d7d970e0b14c",
        "a29129df1c7e1624",
    ),
    "gryphon": (
        "a1 = 2",
        "9c033ad8ccf0e987",
        "1432a436d4d2f468",
    ),
    "ranges": (
        "a2 BETWEEN 0.8396592229817698 AND 0.9396592229817697 AND a3 BETWEEN 0.7448914669127604"
        " AND 0.8448914669127604 AND a4 BETWEEN 0.17198128209975755 AND 0.2719812820997576"
        " AND a10 BETWEEN 0.1872291046396585 AND 0.2872291046396585 AND a19 BETWEEN 0.58948458296996"
        " AND 0.68948458296996",
        "d8573e1973827a83",
        "81f97ca5c1485d94",
    ),
    "mixed": (
        "a0 = 'v15' AND a1 BETWEEN 309 AND 3116 AND a12 = 'v07' AND a79 <= 7142",
        "1c2234285f17b0de",
        "f8a692567ce07853",
    ),
    "hm": (
        "env = 'prod' AND number = 0 AND tags CONTAINS ALL ('tag1', 'tag2')"
        " AND region != 'moon' AND type IN ('app', 'database')",
        "55b00aab74edc662",
        "139bd7039380ae78",
    ),
    "stocks": (
        "symbol = 'S08' AND close BETWEEN 8.89 AND 9.37 AND volume >= 165800",
        "4107de06f3ad2003",
        "38cd2e4feb77632e",
    ),
    "properties": (
        "p4 = 0 AND p7 = 1 AND p12 = 0 AND p15 = 1 AND p18 = 1 AND p37 = 1 AND p40 = 1 AND p44 = 1 AND p47 = 0",
        "920e269658aa0616",
        "0ea7ec5aa04929e5",
    ),
}


def small(name: str, n: int = 50, events: int = 20, **more: int | float) -> Workload:
    if name == "stocks":
        more.setdefault("real", 0)
    return make(name, n=n, events=events, **more)


def filters(workload: Workload) -> list[str]:
    texts: list[str] = workload.subscriptions["filter"].to_pylist()
    return texts


def digest(workload: Workload) -> str:
    """A hash of every value; `repr` of a float tells all binary64 apart."""
    state = hashlib.blake2b(digest_size=8)
    for table in (workload.subscriptions, workload.events):
        for field in table.schema:
            state.update(f"{field.name} {field.type} {table[field.name].to_pylist()!r}\n".encode())
    return state.hexdigest()


def matches_per_event(workload: Workload) -> np.ndarray:
    """Brute force: every predicate as closed intervals of numbers, strings as codes, all tested on every event."""
    codes: dict[str, float] = {}

    def number(literal: str) -> float:
        return codes.setdefault(literal[1:-1], len(codes)) if literal.startswith("'") else float(literal)

    column = {name: place for place, name in enumerate(workload.events.column_names)}
    intervals: list[tuple[int, int, float, float]] = []
    needed = []
    for row, text in enumerate(filters(workload)):
        found = list(PREDICATE.finditer(text))
        assert text == "TRUE" or " AND ".join(match.group() for match in found) == text
        needed.append(len(found))
        for match in found:
            if match["members"]:
                points = {number(member) for member in match["members"].split(", ")}
                assert len(points) == match["members"].count(",") + 1
                bounds = [(point, point) for point in points]
            elif match["sign"]:
                bounds = [interval(match["sign"], number(match["bound"]))]
            else:
                bounds = [(float(match["low"]), float(match["high"]))]
            intervals += [(row, column[match["name"]], *bound) for bound in bounds]
    row_of, column_of, low, high = (np.array(part) for part in zip(*intervals, strict=True))
    counts = []
    for event in workload.events.to_pylist():
        values = [codes.get(value, -1.0) if isinstance(value, str) else value for value in event.values()]
        seen = np.array([float(value) if isinstance(value, int | float) else np.nan for value in values])[column_of]
        hits = np.bincount(row_of[(low <= seen) & (seen <= high)], minlength=len(needed))
        counts.append(np.count_nonzero(hits == needed))
    return np.array(counts)


def interval(sign: str, bound: float) -> tuple[float, float]:
    return {
        "=": (bound, bound),
        "<": (-np.inf, np.nextafter(bound, -np.inf)),
        "<=": (-np.inf, bound),
        ">": (np.nextafter(bound, np.inf), np.inf),
        ">=": (bound, np.inf),
    }[sign]


def predicates(workload: Workload) -> list[list[re.Match[str]]]:
    return [list(PREDICATE.finditer(text)) for text in filters(workload)]


@pytest.mark.parametrize("name", WORKLOADS)
class TestEveryWorkload:
    def test_has_as_many_subscriptions_and_events_as_asked_for_and_ids_from_zero(self, name: str) -> None:
        workload = small(name, n=130, events=70)
        assert workload.subscriptions.schema == pa.schema({"id": pa.int64(), "filter": pa.string()})
        assert workload.subscriptions["id"].to_pylist() == list(range(130))
        assert workload.subscriptions["filter"].null_count == 0
        assert workload.events.num_rows == 70
        workload.subscriptions.validate(full=True)
        workload.events.validate(full=True)

    def test_is_made_again_from_its_own_name_parameters_and_seed(self, name: str) -> None:
        workload = small(name, seed=7)
        assert make(workload.name, seed=workload.seed, **workload.parameters) == workload

    def test_changes_with_the_seed(self, name: str) -> None:
        one, other = small(name, seed=1), small(name, seed=2)
        assert one.events != other.events
        assert name == "hm" or one.subscriptions != other.subscriptions

    def test_is_frozen(self, name: str) -> None:
        one, two_blocks = small(name), small(name, n=BLOCK_ROWS + 4)
        assert (filters(one)[0], digest(one), digest(two_blocks)) == PINNED[name]

    def test_has_the_same_events_for_any_number_of_subscriptions(self, name: str) -> None:
        if name == "hm":
            pytest.skip("its events name one of n / 10 numbers")
        assert small(name, n=10).events == small(name, n=50).events

    def test_means_the_same_to_the_reference_evaluator(self, name: str) -> None:
        workload = small(name, n=300)
        parsed = [Filter.parse(text) for text in filters(workload)]
        rows = [{k: v for k, v in row.items() if v is not None and k != "date"} for row in workload.events.to_pylist()]
        counts = [sum(one.matches(row) for one in parsed) for row in rows]
        assert counts == ([10] * 20 if name == "hm" else matches_per_event(workload).tolist())

    @pytest.mark.parametrize("argument", ["n", "events"])
    @pytest.mark.parametrize("value", [0, -10, 2.5, True, "10"])
    def test_refuses_what_is_not_a_count(self, name: str, argument: str, value: int) -> None:
        with pytest.raises(ValueError, match=f"{name}: .*expected {argument} to be an integer of at least 1, but got"):
            make(name, **{"n": 10, "events": 10, argument: value})

    def test_refuses_a_negative_seed(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name}: expected seed to be an integer of at least 0, but got -1"):
            make(name, n=10, seed=-1)

    def test_comes_back_from_parquet_as_it_was(self, name: str, tmp_path: Path) -> None:
        workload = small(name)
        subscriptions, events = workload.write(tmp_path / "new" / "directory")
        assert (subscriptions.name, events.name) == ("subscriptions.parquet", "events.parquet")
        assert pa.parquet.read_table(subscriptions) == workload.subscriptions
        assert pa.parquet.read_table(events) == workload.events

    def test_comes_back_from_json_lines_without_the_nulls(self, name: str, tmp_path: Path) -> None:
        workload = small(name)
        subscriptions, events = workload.write(tmp_path, "jsonl")
        read = [json.loads(line) for line in subscriptions.read_text("utf-8").splitlines()]
        assert read == workload.subscriptions.to_pylist()
        expected = [{k: v for k, v in row.items() if v is not None} for row in workload.events.to_pylist()]
        read = [json.loads(line) for line in events.read_text("utf-8").splitlines()]
        assert read == [{k: v.isoformat() if k == "date" else v for k, v in row.items()} for row in expected]

    def test_comes_back_from_csv_unless_it_has_lists(self, name: str, tmp_path: Path) -> None:
        workload = small(name)
        if name == "hm":
            with pytest.raises(ValueError, match="CSV has no lists, but hm has some in tags: use parquet or jsonl"):
                workload.write(tmp_path, "csv")
            assert list(tmp_path.iterdir()) == []
            return
        subscriptions, events = workload.write(tmp_path, "csv")
        with subscriptions.open(newline="", encoding="utf-8") as file:
            assert [(int(row["id"]), row["filter"]) for row in csv.DictReader(file)] == [
                tuple(row.values()) for row in workload.subscriptions.to_pylist()
            ]
        options = pa.csv.ConvertOptions(column_types=workload.events.schema, strings_can_be_null=True)
        assert pa.csv.read_csv(events, convert_options=options) == workload.events


class TestLesubscribe:
    @pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
    def test_matches_as_many_as_expected(self, p: float) -> None:
        means = [
            matches_per_event(make("lesubscribe", n=5_000, p=p, events=300, seed=seed)).mean() for seed in range(8)
        ]
        assert np.mean(means) == pytest.approx(expected_matches(5_000, p), rel=0.1)

    def test_expects_what_the_paper_s_setting_gives(self) -> None:
        assert expected_matches(1_000_000, 0.5) == pytest.approx(6_900, abs=1)
        assert expected_matches(1_000_000, 1) == pytest.approx(124, abs=1)

    def test_has_no_empty_subscription_and_half_of_each_attribute(self) -> None:
        workload = make("lesubscribe", n=20_000, events=20_000)
        found = predicates(workload)
        assert all(found)
        for name in workload.events.column_names:
            share = sum(match["name"] == name for row in found for match in row) / len(found)
            assert share == pytest.approx(0.5 * 64 / 63, abs=0.015)
            assert workload.events[name].null_count / 20_000 == pytest.approx(0.5, abs=0.015)

    def test_mixes_operators_on_numbers_only(self) -> None:
        signs: dict[str, list[str]] = {"strings": [], "numbers": []}
        for row in predicates(make("lesubscribe", n=20_000, p=0.6, events=1)):
            for match in row:
                signs["strings" if match["name"] in {"a1", "a2", "a3"} else "numbers"].append(match["sign"])
        assert set(signs["strings"]) == {"="}
        for sign, share in {"=": 0.6, "<": 0.1, "<=": 0.1, ">": 0.1, ">=": 0.1}.items():
            assert signs["numbers"].count(sign) / len(signs["numbers"]) == pytest.approx(share, abs=0.01)

    @pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "x"])
    def test_refuses_what_is_not_a_probability(self, p: float) -> None:
        with pytest.raises(ValueError, match=r"lesubscribe: expected p in \[0, 1\], but got"):
            make("lesubscribe", n=10, p=p)

    def test_names_all_bad_arguments_at_once(self) -> None:
        with pytest.raises(ValueError, match=r"expected n .* got 0; expected events .* got -1; expected p .* got 2"):
            make("lesubscribe", n=0, events=-1, p=2)


class TestGryphon:
    @pytest.mark.parametrize(
        ("n", "expected"),
        [(500, 0.4294), (1_000, 0.6206), (5_000, 0.7847), (25_000, 0.8502), (100_000, 0.8825), (1_000_000, 0.9158)],
    )
    def test_decays_as_the_digest_says(self, n: int, expected: float) -> None:
        assert decay(n) == pytest.approx(expected, abs=5e-5)

    @pytest.mark.parametrize("n", [500, 5_000])
    def test_holds_matches_at_a_hundred(self, n: int) -> None:
        means = [matches_per_event(make("gryphon", n=n, events=200, seed=seed)).mean() for seed in range(8)]
        assert np.mean(means) == pytest.approx(100, rel=0.05)

    def test_tests_only_the_first_attribute_where_a_hundred_is_out_of_reach(self) -> None:
        assert decay(288) == 0
        assert set(filters(make("gryphon", n=288, events=1))) == {"a1 = 0", "a1 = 1", "a1 = 2", "TRUE"}

    def test_prefers_small_constants_as_zipf_does(self) -> None:
        constants = [match["bound"] for row in predicates(make("gryphon", n=5_000, events=1)) for match in row]
        for constant, share in {"0": 6 / 11, "1": 3 / 11, "2": 2 / 11}.items():
            assert constants.count(constant) / len(constants) == pytest.approx(share, abs=0.01)

    def test_binds_every_attribute_evenly(self) -> None:
        events = make("gryphon", n=1, events=9_000).events
        assert events.column_names == [f"a{i}" for i in range(1, 31)]
        for column in events.columns:
            assert np.bincount(column.to_numpy()) == pytest.approx([3_000] * 3, rel=0.06)


class TestRanges:
    def test_matches_width_to_the_power_of_predicates(self) -> None:
        workload = make("ranges", n=20_000, attributes=6, predicates=2, width=0.3, events=500)
        assert matches_per_event(workload).mean() == pytest.approx(20_000 * 0.3**2, rel=0.03)

    def test_takes_distinct_attributes_and_intervals_of_one_width(self) -> None:
        workload = make("ranges", n=5_000, attributes=7, predicates=4, width=0.25, events=10)
        used: list[str] = []
        for row in predicates(workload):
            names = [match["name"] for match in row]
            assert names == sorted(set(names))
            assert len(names) == 4
            used += names
            for match in row:
                low, high = float(match["low"]), float(match["high"])
                assert 0 <= low <= 0.75
                assert high == low + 0.25
        assert sorted(set(used)) == workload.events.column_names
        assert min(map(used.count, set(used))) / 5_000 == pytest.approx(4 / 7, abs=0.03)

    def test_may_use_every_attribute(self) -> None:
        assert all(len(row) == 8 for row in predicates(make("ranges", n=100, attributes=8, predicates=8, events=1)))

    @pytest.mark.parametrize("width", [0, 1])
    def test_allows_points_and_the_whole_domain(self, width: float) -> None:
        counts = matches_per_event(make("ranges", n=100, width=width, events=20))
        assert set(counts) == {100 * width}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"attributes": 3, "predicates": 4}, r"expected at most as many predicates as attributes \(3\), but got 4"),
            ({"predicates": 0}, "expected predicates to be an integer of at least 1, but got 0"),
            ({"width": 1.5}, r"expected width in \[0, 1\], but got 1.5"),
            ({"width": float("nan")}, r"expected width in \[0, 1\], but got nan"),
        ],
    )
    def test_refuses_what_does_not_fit(self, arguments: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make("ranges", n=10, **arguments)


class TestMixed:
    def test_matches_about_forty_eight_per_hundred_thousand(self) -> None:
        counts = matches_per_event(make("mixed", n=30_000, events=600))
        assert counts.mean() / 0.3 == pytest.approx(47.7, rel=0.1)

    def test_draws_attributes_by_popularity_without_repeating_one(self) -> None:
        found = predicates(make("mixed", n=20_000, events=1))
        sizes = [len(row) for row in found]
        assert np.bincount(sizes)[3:] == pytest.approx([4_000] * 5, rel=0.06)
        assert all(len({match["name"] for match in row}) == len(row) for row in found)
        names = [match["name"] for row in found for match in row]
        assert names.count("a0") > 1.5 * names.count("a1") > 2 * names.count("a9") > 4 * names.count("a99") > 0

    def test_mixes_operators_by_the_kind_of_attribute(self) -> None:
        kinds: dict[int, list[str]] = {0: [], 1: []}
        for row in predicates(make("mixed", n=20_000, events=1)):
            for match in row:
                kind = match["sign"] or ("IN" if match["members"] else "BETWEEN")
                kinds[int(match["name"][1:]) % 2].append(kind)
                if kind == "BETWEEN":
                    assert 200 <= int(match["high"]) - int(match["low"]) <= 4_000
                if kind == "IN":
                    assert len(set(match["members"].split(", "))) == 4
        for parity, shares in {0: {"=": 0.7, "IN": 0.3}, 1: {"<=": 0.3, ">=": 0.3, "BETWEEN": 0.4}}.items():
            assert {kind: kinds[parity].count(kind) / len(kinds[parity]) for kind in shares} == pytest.approx(
                shares, abs=0.01
            )
            assert set(kinds[parity]) == set(shares)

    def test_binds_thirty_to_forty_nine_attributes_per_event(self) -> None:
        events = make("mixed", n=1, events=2_000).events
        bound = sum(pc.is_valid(column).to_numpy().astype(int) for column in events.columns)
        assert (bound.min(), bound.max()) == (30, 49)
        assert bound.mean() == pytest.approx(39.5, abs=0.5)
        assert [events.schema.field(name).type for name in ("a0", "a1")] == [pa.string(), pa.int64()]
        values = events["a0"].drop_null().to_pylist()
        assert values.count("v00") / values.count("v63") == pytest.approx(64**0.7, rel=0.6)


class TestHm:
    def test_matches_exactly_ten_rules_per_event(self) -> None:
        workload = make("hm", n=300, events=100)
        rule = re.compile(
            r"env = 'prod' AND number = (\d+) AND tags CONTAINS ALL \('tag1', 'tag2'\)"
            r" AND region != 'moon' AND type IN \('app', 'database'\)"
        )
        numbers = []
        for text in filters(workload):
            match = rule.fullmatch(text)
            assert match
            numbers.append(int(match[1]))
        for event in workload.events.to_pylist():
            assert event["env"] == "prod"
            assert {"tag1", "tag2"} <= set(event["tags"])
            assert event["region"] != "moon"
            assert event["type"] in {"app", "database"}
            assert numbers.count(event["number"]) == 10
        assert workload.events.schema.field("tags").type == pa.list_(pa.string())

    def test_refuses_a_number_of_rules_that_is_no_multiple_of_ten(self) -> None:
        with pytest.raises(ValueError, match="hm: expected n to be a multiple of 10, but got 15"):
            make("hm", n=15)


class TestStocks:
    @pytest.fixture
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("WHIMBREL_DATA", str(tmp_path))
        return tmp_path

    def test_uses_a_stand_in_and_says_so_where_there_are_no_quotes(self, elsewhere: Path) -> None:
        workload = make("stocks", n=20)
        assert workload.parameters == {"n": 20, "events": 245_200, "real": 0}
        assert workload.events == make("stocks", n=20, real=0).events
        with pytest.raises(FileNotFoundError, match=r"expected stock_quotes.parquet in the directory WHIMBREL_DATA"):
            make("stocks", n=20, real=1)

    def test_reads_the_quotes_from_the_directory_in_the_environment(self, elsewhere: Path) -> None:
        quotes = make("stocks", n=1, events=1_000, seed=5, real=0).events
        pa.parquet.write_table(quotes, elsewhere / "stock_quotes.parquet")
        workload = make("stocks", n=20)
        assert workload.parameters == {"n": 20, "events": 1_000, "real": 1}
        assert workload.events == quotes
        with pytest.raises(ValueError, match="stocks: expected at most 1000 events, but got 1001"):
            make("stocks", n=20, events=1_001)

    def test_stand_in_has_quotes_that_could_be_real(self) -> None:
        quotes = make("stocks", n=1, real=0).events
        low, high = quotes["low"].to_numpy(), quotes["high"].to_numpy()
        for name in ("open", "close"):
            assert (low <= quotes[name].to_numpy()).all()
            assert (quotes[name].to_numpy() <= high).all()
        assert low.min() > 0
        assert quotes["volume"].to_numpy().min() > 0
        dates = quotes["date"].cast(pa.int32()).to_numpy()
        assert (np.diff(dates) >= 0).all()
        assert len(pc.unique(quotes["symbol"])) == 100

    def test_always_asks_for_a_price_or_a_volume_and_rarely_for_any_symbol(self) -> None:
        found = [[match["name"] for match in row] for row in predicates(small("stocks", n=5_000))]
        assert all(len(set(names)) == len(names) for names in found)
        assert all({"close", "volume"} & set(names) for names in found)
        unnamed = [names for names in found if "symbol" not in names]
        assert all(names == ["close", "volume"] for names in unnamed)
        assert len(unnamed) / 5_000 == pytest.approx(0.1, abs=0.015)

    def test_stand_in_matches_one_in_six_hundred(self) -> None:
        counts = matches_per_event(small("stocks", n=20_000, events=1_000))
        assert counts.mean() / 20_000 == pytest.approx(0.00163, rel=0.1)

    @pytest.mark.skipif(find_quotes() is None, reason="the real quotes are not on this machine")
    def test_real_quotes_match_one_in_five_hundred(self) -> None:
        workload = make("stocks", n=20_000, events=1_000)
        assert workload.parameters["real"] == 1
        assert matches_per_event(workload).mean() / 20_000 == pytest.approx(0.00204, rel=0.1)


class TestProperties:
    @pytest.mark.parametrize("ones", [0.06, 0.5, 0.94])
    def test_an_event_matches_one_in_194_whatever_its_share_of_ones(self, ones: float) -> None:
        workload = make("properties", n=20_000, events=200, ones=ones)
        assert matches_per_event(workload).mean() == pytest.approx(20_000 * 0.9**50, rel=0.1)
        bits = np.array([column.to_numpy() for column in workload.events.columns])
        assert bits.mean() == pytest.approx(ones, abs=0.02) and set(np.unique(bits)) <= {0, 1}

    def test_a_fifth_of_the_properties_is_tested_for_0_and_1_alike(self) -> None:
        tested = [match["bound"] for found in predicates(small("properties", n=2_000)) for match in found]
        assert len(tested) / 2_000 == pytest.approx(10, rel=0.05)
        assert tested.count("1") / len(tested) == pytest.approx(0.5, abs=0.02)

    def test_the_rapid_matchers_visit_what_the_survey_says(self) -> None:
        """On light events modified = rapid < tree, on heavy events modified < rapid = tree."""
        nodes = {}
        for ones in (0.06, 0.94):
            workload = make("properties", n=1_000, events=100, ones=ones)
            for title, name, options in (
                ("tree", "rapid", {"c": 0}), ("rapid", "rapid", {}), ("modified", "modified_rapid", {}),
            ):  # fmt: skip
                matcher = make_matcher(name, **options)
                for row in workload.subscriptions.to_pylist():
                    matcher.add(row["id"], row["filter"])
                counts = [len(matcher.match(event)) for event in workload.events.to_pylist()]
                assert counts == matches_per_event(workload).tolist()
                nodes[title, ones] = matcher.stats()["nodes_visited"]
        assert nodes["modified", 0.06] == nodes["rapid", 0.06] < nodes["tree", 0.06] / 2
        assert nodes["modified", 0.94] < nodes["rapid", 0.94] / 2
        assert nodes["rapid", 0.94] == nodes["tree", 0.94]

    def test_refuses_a_share_of_ones_that_is_none(self) -> None:
        with pytest.raises(ValueError, match=r"properties: expected ones in \[0, 1\], but got 2"):
            make("properties", n=5, ones=2)


class TestMake:
    def test_names_the_workloads_there_are(self) -> None:
        with pytest.raises(
            ValueError, match="of lesubscribe, gryphon, ranges, mixed, hm, stocks, properties, but got 'lesub'"
        ):
            make("lesub", n=10)

    def test_names_the_parameters_there_are(self) -> None:
        with pytest.raises(ValueError, match=r"gryphon: expected the parameters n, events, seed, but .*'width'"):
            make("gryphon", n=10, width=3)
        with pytest.raises(ValueError, match=r"hm: expected the parameters n, events, seed, but .*'n'"):
            make("hm")

    def test_refuses_an_unknown_format(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="Expected a format of parquet, jsonl, csv, but got 'xml'"):
            small("hm").write(tmp_path, "xml")  # type: ignore[arg-type]


class TestDraws:
    def test_uniform_numbers_are_those_of_numpy(self) -> None:
        bits = np.random.PCG64(np.random.SeedSequence(3, spawn_key=(1,)))
        assert (Draws(3, 1).uniform(1_000) == np.random.Generator(bits).random(1_000)).all()

    def test_integers_reach_both_ends(self) -> None:
        assert np.bincount(Draws(0, 0).integers(2, 4, 9_000)) == pytest.approx([0, 0, 3_000, 3_000, 3_000], rel=0.05)

    def test_distinct_draws_follow_the_weights_that_are_left(self) -> None:
        drawn = Draws(0, 0).weighted_distinct(zipf(3, 1), 60_000, 2)
        shares = {
            (first, second): np.mean((drawn == (first, second)).all(axis=1))
            for first in range(3)
            for second in range(3)
        }
        weights = np.array([6, 3, 2]) / 11
        for (first, second), share in shares.items():
            expected = 0.0 if first == second else weights[first] * weights[second] / (1 - weights[first])
            assert share == pytest.approx(expected, abs=0.006)


def test_float_text_is_repr() -> None:
    edges = [0.0, -0.0, 1.0, 0.5, 7.0, -0.1, 0.1 + 0.2, 1e-4, 9.999999999999999e-05, 1e-7, 5e-324, 1e6, 1e16, 1e300]
    values = np.array([*edges, *Draws(0, 0).uniform(20_000), *(Draws(0, 1).uniform(2_000) * 1e-3)])
    assert float_text(values).to_pylist() == [repr(value) for value in values.tolist()]

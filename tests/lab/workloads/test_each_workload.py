"""What each workload promises: its distributions, its matches per event, its texts."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.lab.workloads.test_workloads import PREDICATE, filters, matches_per_event, small
from whimbrel.lab.workloads import Workload, make
from whimbrel.lab.workloads.gryphon import decay
from whimbrel.lab.workloads.lesubscribe import NUMBER_VALUES, NUMBERS, PRESENT, STRING_VALUES, STRINGS
from whimbrel.lab.workloads.stocks import find_quotes
from whimbrel.matchers import make as make_matcher


def predicates(workload: Workload) -> list[list[re.Match[str]]]:
    return [list(PREDICATE.finditer(text)) for text in filters(workload)]


def expected_matches(n: int, p: float) -> float:
    """Matches per event in expectation: every attribute is untested, or tested, present and satisfied."""
    below, at_most = (NUMBER_VALUES - 1) / 2 / NUMBER_VALUES, (NUMBER_VALUES + 1) / 2 / NUMBER_VALUES
    satisfied = p / NUMBER_VALUES + (1 - p) * (below + at_most) / 2
    string = 1 - PRESENT + PRESENT * PRESENT / len(STRING_VALUES)
    number = 1 - PRESENT + PRESENT * PRESENT * satisfied
    empty = (1 - PRESENT) ** (len(STRINGS) + len(NUMBERS))
    return n * (string ** len(STRINGS) * number ** len(NUMBERS) - empty) / (1 - empty)


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
        monkeypatch.setenv("WHIMBREL_QUOTES", str(tmp_path))
        return tmp_path

    def test_uses_a_stand_in_and_says_so_where_there_are_no_quotes(self, elsewhere: Path) -> None:
        workload = make("stocks", n=20)
        assert workload.parameters == {"n": 20, "events": 245_200, "real": 0}
        assert workload.events == make("stocks", n=20, real=0).events
        with pytest.raises(FileNotFoundError, match=r"expected stock_quotes.parquet in the directory WHIMBREL_QUOTES"):
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


class TestSkewed:
    def test_prefers_low_values_by_zipf_s_law_in_subscriptions_and_events(self) -> None:
        workload = make("skewed", n=5_000, skew=1.0, events=5_000)
        share = pc.mean(pc.equal(workload.events["a7"], 0).cast("int64")).as_py()
        assert share == pytest.approx(1 / 7.485, abs=0.02)  # the sum of 1/i up to 1,000
        constants = [int(match["bound"]) for row in predicates(workload) for match in row if match["sign"]]
        assert constants.count(0) / len(constants) == pytest.approx(1 / 7.485, abs=0.02)

    def test_repeats_the_first_value_where_attributes_go_together(self) -> None:
        events = make("skewed", n=1, correlation=0.5, events=5_000).events
        assert pc.mean(pc.equal(events["a1"], events["a9"]).cast("int64")).as_py() == pytest.approx(0.5, abs=0.03)

    def test_drifts_on_the_first_five_attributes_only(self) -> None:
        still, moved = (make("skewed", n=1, drift=drift, events=2_000).events for drift in (0.0, 1.0))
        assert pc.count_distinct(moved["a5"]).as_py() < 60 < pc.count_distinct(still["a5"]).as_py()
        assert moved["a6"] == still["a6"]

    @pytest.mark.parametrize("bad", [{"skew": -1}, {"correlation": 2}, {"drift": "x"}])
    def test_refuses_what_it_cannot_draw(self, bad: dict[str, float]) -> None:
        with pytest.raises(ValueError, match=rf"skewed: expected {next(iter(bad))} in \[0, "):
            make("skewed", n=10, **bad)


class TestUnselective:
    def test_matches_as_many_as_expected(self) -> None:
        workload = make("unselective", n=4_000, selectivity=0.01, events=4_000)
        assert matches_per_event(workload).mean() == pytest.approx(20, rel=0.2)

    @pytest.mark.parametrize("selectivity", [0, 0.6, "x"])
    def test_refuses_a_share_that_it_cannot_give(self, selectivity: float) -> None:
        with pytest.raises(ValueError, match=r"unselective: expected selectivity in \(0, 0.5\], but got"):
            make("unselective", n=10, selectivity=selectivity)


def test_gryphon_s_footnote_has_values_attributes_and_stars_of_its_own() -> None:
    workload = make("gryphon", n=2_000, events=10, values=30, attributes=20, stars=0.65)
    found = predicates(workload)
    assert sum(map(len, found)) / 2_000 == pytest.approx(7, abs=0.3)
    assert {int(match["bound"]) for row in found for match in row} == set(range(30))
    assert len(workload.events.column_names) == 20
    with pytest.raises(ValueError, match=r"gryphon: expected stars in \[0, 1\], but got 2"):
        make("gryphon", n=10, stars=2)

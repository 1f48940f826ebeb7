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
import pyarrow.csv
import pyarrow.parquet
import pytest

from whimbrel import Filter
from whimbrel.lab.workloads import WORKLOADS, Workload, make
from whimbrel.lab.workloads.text import BLOCK_ROWS

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
    "skewed": (
        "a10 = 607 AND a2 = 383 AND a8 = 292 AND x BETWEEN 3443 AND 5443",
        "3ffe6663f9b5d228",
        "ed65e1d073497cf6",
    ),
    "unselective": (
        "a1 = 1 AND a2 < 361",
        "fb497b5603f3199a",
        "fd3a922d57e991ef",
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


class TestMake:
    def test_names_the_workloads_there_are(self) -> None:
        with pytest.raises(ValueError, match=r"of lesubscribe, gryphon, .*, unselective, but got 'lesub'"):
            make("lesub", n=10)

    def test_names_the_parameters_there_are(self) -> None:
        with pytest.raises(
            ValueError,
            match=r"gryphon: expected the parameters n, events, seed, values, attributes, stars, but .*'width'",
        ):
            make("gryphon", n=10, width=3)
        with pytest.raises(ValueError, match=r"hm: expected the parameters n, events, seed, but .*'n'"):
            make("hm")

    def test_refuses_an_unknown_format(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="Expected a format of parquet, jsonl, csv, but got 'xml'"):
            small("hm").write(tmp_path, "xml")  # type: ignore[arg-type]

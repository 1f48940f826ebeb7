"""How fast filters are parsed, and how long `import whimbrel` takes.

The texts resemble the `mixed` workload: 3 to 7 attributes, half of them categories (=, IN of 4), half numbers (one-
and two-sided ranges). Rates are per CPU second of one core, because machines are shared. The import, in a new process
with its files in the page cache, is timed by both clocks. Bias: the texts are short and well formed.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from whimbrel.lab.measure.timing import Times

SHAPES = 300
_IMPORT = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import whimbrel
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


class Figure(NamedTuple):
    """One measurement: the median of several runs with the lowest and the highest, and the target (`aim`)."""

    name: str
    unit: str
    aim: str
    median: float
    lowest: float
    highest: float


def run(count: int = 1_000_000, repeats: int = 3) -> list[Figure]:
    """Measure all figures; `count` is the number of texts that `parse_many` gets."""
    from whimbrel.language import parse
    from whimbrel.language.columnar.terms import parse_many

    def parse_each(sources: Iterable[str]) -> None:
        for source in sources:
            parse(source)

    many = texts(count, SHAPES)
    some = many[:50_000]
    new = [texts(len(some), len(some), seed=seed) for seed in range(1, repeats + 1)]
    return [
        _rate("parse_many, 300 shapes", 100_000, [lambda: parse_many(many)] * repeats, count),
        _rate("Filter.parse, known shapes", 30_000, [lambda: parse_each(some)] * repeats, len(some)),
        _rate("Filter.parse, every shape new", 15_000, [lambda s=s: parse_each(s) for s in new], len(some)),  # type: ignore[misc]
        *_import_times(2 * repeats + 1),
    ]


def texts(count: int, shapes: int, seed: int = 0) -> list[str]:
    """Texts of filters with `shapes` different shapes and random literals."""
    source = random.Random(seed)
    forms = [_form(source, f"_{seed}_{number}" if shapes > SHAPES else "") for number in range(shapes)]
    number = source.randrange
    return [
        form % tuple([f"v{number(64)}" if is_text else number(10_000) for is_text in kinds])
        for form, kinds in (forms[i % shapes] for i in range(count))
    ]


def _form(source: random.Random, mark: str) -> tuple[str, list[bool]]:
    """A text with placeholders for literals, and whether each is a string; `mark` makes its attribute names unique."""
    parts: list[str] = []
    kinds: list[bool] = []
    for attribute in sorted(source.sample(range(100), source.randint(3, 7))):
        name = f"a{attribute}{mark}"
        if attribute % 2:
            part, its_kinds = source.choice(_NUMERIC)
        else:
            part, its_kinds = source.choices(_CATEGORIES, weights=(7, 3))[0]
        parts.append(part.replace("name", name))
        kinds += its_kinds
    return " AND ".join(parts), kinds


_CATEGORIES = [("name = '%s'", [True]), ("name IN ('%s', '%s', '%s', '%s')", [True] * 4)]
_NUMERIC = [
    ("name <= %d", [False]),
    ("name >= %d", [False]),
    ("name BETWEEN %d AND %d", [False] * 2),
    ("name >= %d AND name < %d", [False] * 2),
]


def _rate(name: str, aim: int, runs: list[Callable[[], object]], count: int) -> Figure:
    times = Times()
    for work in runs:
        times.of(work)
    return _figure(name, "texts/s", f">= {aim:,}", [count / seconds for seconds in times.cpu])


def _import_times(repeats: int) -> list[Figure]:
    command = [sys.executable, "-c", _IMPORT]
    subprocess.run(command, check=True, capture_output=True)  # compiles, and fills the page cache
    printed = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(repeats)]
    wall, cpu = ([float(line.split()[column]) * 1_000 for line in printed] for column in range(2))
    return [_figure("import whimbrel, CPU", "ms", "< 150", cpu), _figure("import whimbrel, wall", "ms", "< 150", wall)]


def _figure(name: str, unit: str, aim: str, measured: list[float]) -> Figure:
    return Figure(name, unit, aim, *(round(of(measured), 1) for of in (statistics.median, min, max)))

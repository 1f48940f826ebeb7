"""Many SQL texts to their columnar form, without a filter object per text.

Texts are grouped by their skeletons in one pass; each skeleton is parsed once, and the literals of each slot are
converted in bulk. A text without a columnar form becomes a filter, a bad one an error: every row is in exactly one of
the three. On request, rows with a rare skeleton come as conjunctions of predicates that many of them share.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from whimbrel.language.columnar import Column, ColumnarShape, Int64s, ParsedMany, ShapeGroup, exact, joined
from whimbrel.language.sql.lexer import check_text
from whimbrel.language.sql.shape_cache import ShapeCache, cut_literals
from whimbrel.language.sql.skeletons import columnar_shape
from whimbrel.language.sql.split_rows import SplitRows, numbers_column
from whimbrel.language.sql.template import FIRST_NUMBER, Template
from whimbrel.model.errors import LimitExceeded, WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.values import Timestamp

CHUNK = 1 << 16
"""Rows whose literals are held as text at one time: enough for long columns, little enough for memory."""
RARE = 8
"""Rows of a chunk below which a skeleton is split into predicates, on request."""


def parse_columns(texts: Sequence[str], cache: ShapeCache, split: bool) -> ParsedMany:
    """Parse every text; with `split`, rare skeletons that are conjunctions come as `Conjunctions`."""
    collector = _Collector(texts, cache)
    for start in range(0, len(texts), CHUNK):
        collector.take_chunk(start, split)
    return collector.result()


@dataclass(slots=True)
class _Rows:
    """Rows whose texts have one skeleton: their numbers, and their strings and numbers, row after row."""

    rows: list[int]
    strings: list[str]
    numbers: list[str]

    def each(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Each row with its strings and numbers."""
        strings, numbers = len(self.strings) // len(self.rows), len(self.numbers) // len(self.rows)
        for index, row in enumerate(self.rows):
            start, first = index * strings, index * numbers
            yield row, self.strings[start : start + strings], self.numbers[first : first + numbers]


class _Collector:
    """Parses chunk by chunk and collects the results; `pending` has the parts of each column until they are joined."""

    def __init__(self, texts: Sequence[str], cache: ShapeCache) -> None:
        self.texts = texts
        self.cache = cache
        self.shared: dict[str, str] = {}
        self.parsed = ParsedMany(len(texts))
        self.pending: dict[ColumnarShape, list[tuple[Int64s, tuple[Column, ...]]]] = {}

    def take_chunk(self, start: int, split: bool) -> None:
        """Parse the rows of a chunk."""
        gathered = SplitRows()
        for skeleton, rows in self._by_skeleton(start).items():
            rare = split and isinstance(skeleton, str) and len(rows.rows) < RARE
            if not (rare and gathered.add(str(skeleton), rows.rows, rows.strings, rows.numbers)):
                self._take_rows(rows)
        if gathered.rows:
            self.parsed.conjunctions.append(gathered.conjunctions())

    def _by_skeleton(self, start: int) -> dict[Hashable, _Rows]:
        """The rows of a chunk by skeleton; what is not text becomes an error."""
        found: dict[Hashable, _Rows] = {}
        for row, text in enumerate(self.texts[start : start + CHUNK], start):
            try:
                check_text(text)
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))
                continue
            skeleton, strings, numbers = cut_literals(text)
            same = found.get(skeleton)
            if same is None:
                found[skeleton] = _Rows([row], strings, numbers)
            else:
                same.rows.append(row)
                same.strings += strings
                same.numbers += numbers
        return found

    def _take_rows(self, found: _Rows) -> None:
        """Parse the skeleton of some rows, and bind their literals in bulk where that is possible."""
        try:
            template, _ = self.cache.template(self.texts[found.rows[0]])
        except WhimbrelError:
            self._parse_each(found.rows)
            return
        shape = columnar_shape(template)
        if shape is None or not self._add_columns(template, shape, found):
            self._bind_each(template, shape, found)

    def _add_columns(self, template: Template, shape: ColumnarShape, found: _Rows) -> bool:
        """Convert the literals of each slot to a column; False, and nothing changes, if one of them is bad."""
        columns: list[Column] = []
        try:
            for slot, kind in enumerate(template.strings):
                strings = found.strings[slot :: len(template.strings)]
                if kind == "timestamp":
                    moments = {text: Timestamp.parse(text).nanoseconds for text in set(strings)}
                    columns.append(exact([moments[text] for text in strings]))
                else:  # one object for equal strings: a million filters repeat a few values
                    columns.append([self.shared.setdefault(text, text) for text in strings])
            for slot in range(template.numbers):
                numbers = found.numbers[slot :: template.numbers]
                columns.append(numbers_column(numbers, FIRST_NUMBER - slot in template.negatives))
        except (LimitExceeded, ValueError):
            return False
        self.pending.setdefault(shape, []).append((np.array(found.rows, dtype=np.int64), tuple(columns)))
        return True

    def _bind_each(self, template: Template, shape: ColumnarShape | None, found: _Rows) -> None:
        """Bind row by row: to filters if there is no columnar form, else to find the rows with a bad literal."""
        good = _Rows([], [], [])
        for row, strings, numbers in found.each():
            try:
                expression = template.bind(strings, numbers, self.texts[row])
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))
                continue
            if shape is None:
                self.parsed.filters[row] = Filter(expression, self.texts[row], "sql")
            else:
                good.rows.append(row)
                good.strings += strings
                good.numbers += numbers
        if shape is not None and good.rows:
            self._add_columns(template, shape, good)

    def _parse_each(self, rows: Iterable[int]) -> None:
        """Parse rows one by one."""
        for row in rows:
            try:
                self.parsed.filters[row] = Filter(self.cache.parse(self.texts[row]), self.texts[row], "sql")
            except WhimbrelError as error:
                self.parsed.errors.append((row, error))

    def result(self) -> ParsedMany:
        """All results, with the parts of each column joined."""
        for shape, parts in self.pending.items():
            columns = zip(*(columns for _, columns in parts), strict=True)
            rows = np.concatenate([rows for rows, _ in parts])
            self.parsed.groups.append(ShapeGroup(shape, rows, tuple(map(joined, columns))))
        self.parsed.errors.sort(key=itemgetter(0))
        return self.parsed

"""A segment: an immutable, compiled part of the index, with the arrays of all access keys.

To build one, filters, parsed texts or smaller segments become clauses, every conjunction gets the access key that costs
an event least, and each key lays out its arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from whimbrel.compiled.views import words_of
from whimbrel.compiled.warm_up import tell_if_cold
from whimbrel.engine.access.decoding import IsDead, SegmentSource
from whimbrel.engine.access.kernel import match
from whimbrel.engine.access.registry import GROUPS, KEYS, KINDS
from whimbrel.engine.access.shared.plan import Plan, Weights, guess_weights, item_shares, sample_weights
from whimbrel.language.columnar.terms import ParsedMany, scan_many
from whimbrel.model.filter import Filter
from whimbrel.ranks.clauses.clauses import VERIFY, Clauses
from whimbrel.ranks.clauses.column_source import ColumnSource
from whimbrel.ranks.clauses.compiler import FilterSource, Source, compile_clauses
from whimbrel.ranks.dictionary import Dictionary, DictionaryMeta
from whimbrel.ranks.distinct import distinct
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.kernel_arrays import NUMBERS, READING

BLOCK = 4_096
"""Events that a kernel takes at once, at most: a chunk's bits are read once for all of them."""
CELLS = 81_920
"""A block has at most so many cells (attributes x events), so that it stays in the cache."""


class SegmentMeta(DictionaryMeta, frozen=True, kw_only=True):
    """The facts that the file of a segment stores beside its arrays, those of its dictionary included."""

    subscriptions: int
    """How many rows it has."""
    conjunctions: int
    """How many conjunctions its filters have, always-true ones not counted."""
    verified: bool
    """Whether some filters must be evaluated because ranks do not decide them."""
    keys: dict[str, int]
    """How many conjunctions each kind of access key holds."""


class Segment:
    """The arrays of a segment by their stored names, and what is derived from them. Safe for many threads."""

    def __init__(self, arrays: Mapping[str, np.ndarray], meta: SegmentMeta) -> None:
        self.arrays = arrays
        self.meta = meta
        self.dictionary = Dictionary(arrays, meta)
        self.rows_within: dict[str, np.ndarray] = {}
        """Rows with several attributes below an array of objects, by its name; `matching.array_rows` fills it."""
        self._opening = threading.Lock()

    def open(self) -> None:
        """Make the event encoder and the addresses of all arrays now; else the first event does."""
        with self._opening:
            if "words" in self.__dict__:
                return
            encoder = EventEncoder(self.dictionary)
            self.kernel_arrays = [group.of(self.arrays) for group in GROUPS]  # keeps alive what `words` points to
            words = [*words_of(NUMBERS, encoder.numbers), *words_of(READING, encoder.reading)]
            for group, its_arrays in zip(GROUPS, self.kernel_arrays, strict=True):
                words += words_of(group.kind, its_arrays)
            self.__dict__.update(encoder=encoder, words=words)

    @cached_property
    def encoder(self) -> EventEncoder:
        """Encodes events in the ranks of the segment."""
        self.open()
        encoder: EventEncoder = self.__dict__["encoder"]
        return encoder

    @cached_property
    def words(self) -> list[int]:
        """The addresses and shapes of all arrays, as `match` takes them."""
        self.open()
        words: list[int] = self.__dict__["words"]
        return words

    @staticmethod
    def stored(arrays: Mapping[str, np.ndarray], facts: Mapping[str, object]) -> Segment:
        """A segment from the arrays and facts of its file."""
        return Segment(arrays, msgspec.convert(dict(facts), SegmentMeta))

    def facts(self) -> dict[str, object]:
        """The facts that its file stores beside the arrays."""
        facts: dict[str, object] = msgspec.to_builtins(self.meta)
        return facts

    @staticmethod
    def of_filters(rows: Sequence[int], filters: Sequence[Filter], sample: object = None) -> Segment:
        """A segment of filters. Compiled loops scan their texts again, a microsecond for each."""
        parsed = ParsedMany(len(filters))
        by_dialect: dict[str, list[int]] = {}
        for number, filter in enumerate(filters):
            if filter.schema is None and filter.text is not None:
                by_dialect.setdefault(filter.dialect, []).append(number)
            else:
                parsed.filters[number] = filter
        for dialect, numbers in by_dialect.items():
            scanned, left = scan_many([str(filters[number].text) for number in numbers], dialect)
            places = np.array(numbers)
            parsed.take(scanned, places)
            parsed.filters |= {number: filters[number] for number in places[left].tolist()}
        return Segment.of_parsed(parsed, np.array(rows, np.int32), sample)

    @staticmethod
    def of_parsed(parsed: ParsedMany, rows: np.ndarray, sample: object = None) -> Segment:
        """A segment of parsed texts; text n is row rows[n]. Empties `parsed`, to free memory early."""
        sources: list[Source] = []
        if parsed.conjunctions:
            sources.append(ColumnSource(parsed.conjunctions, rows))
        if parsed.filters:
            own = [int(rows[number]) for number in parsed.filters]
            sources.append(FilterSource(own, list(parsed.filters.values())))
        parsed.conjunctions = []  # so that literals are freed as they are ranked
        return _build(compile_clauses(sources), sample)

    @staticmethod
    def merged(segments: Sequence[Segment], is_dead: IsDead, sample: object = None) -> Segment:
        """One segment of several, without their dead rows; `is_dead` masks an array of rows."""
        sources = [SegmentSource(segment.dictionary, is_dead) for segment in segments]
        return _build(compile_clauses(sources), sample)

    @property
    def attributes(self) -> list[str]:
        """The attributes that its filters mention; a derived attribute has the name of its source."""
        return self.dictionary.names

    @property
    def derived(self) -> dict[int, tuple[int, bool]]:
        """The attributes of fragments: the source of each, and whether other tests need the same value of it."""
        return {attr: (source, is_joined) for attr, source, is_joined in self.meta.derived}

    @property
    def rows(self) -> np.ndarray:
        """The rows of its subscriptions, sorted."""
        return self.arrays["slots"]  # the name that files have for rows

    @property
    def block(self) -> int:
        """Events that a kernel takes at once."""
        return max(64, min(BLOCK, CELLS // max(1, len(self.arrays["bits_attrs"]))))

    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


def _build(clauses: Clauses, sample: object) -> Segment:
    """Make a segment of clauses, planned for events like `sample`, a list or a table of events, or None."""
    tell_if_cold(match)
    weights = guess_weights(clauses)
    if sample is not None:
        encoded = EventEncoder(clauses.dictionary).encode(sample)
        weights = sample_weights(clauses, encoded.count, encoded.attrs, encoded.ranks)
    plan = make_plan(clauses, weights)
    rows = distinct(np.concatenate([clauses.row, clauses.always]))
    arrays = {**clauses.dictionary.arrays, **_lay_out(plan), "slots": rows.astype(np.int32)}
    kinds = np.bincount(plan.kind, minlength=len(KINDS)).tolist()
    facts = clauses.dictionary.meta
    meta = SegmentMeta(
        attributes=facts.attributes,
        exact_numbers=facts.exact_numbers,
        exact_times=facts.exact_times,
        derived=facts.derived,
        links=facts.links,
        subscriptions=len(rows),
        conjunctions=len(clauses.row),
        verified=bool((clauses.flags & VERIFY).any()),
        keys=dict(zip(KINDS, kinds, strict=True)),
    )
    return Segment(arrays, meta)


def make_plan(clauses: Clauses, weights: Weights) -> Plan:
    """Give every conjunction the key that costs an event least."""
    plan = Plan(clauses, weights, item_shares(clauses, weights), KINDS)
    for key in KEYS:
        key.claim(plan)
    for key in KEYS:
        if plan.open.any():
            key.bid(plan)
    return plan


def _lay_out(plan: Plan) -> dict[str, np.ndarray]:
    """The arrays of planned conjunctions, by their stored names."""
    clauses = plan.clauses
    arrays = {
        "set_start": clauses.set_start.astype(np.int32),
        "set_low": clauses.set_low,
        "set_high": clauses.set_high,
        "always": clauses.always,
    }
    for key in KEYS:
        arrays |= key.lay_out(plan)
    arrays["hash_records"] = np.concatenate(plan.records)
    return arrays

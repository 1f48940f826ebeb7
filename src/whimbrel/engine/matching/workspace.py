"""A workspace: the buffers with which one thread matches events against segments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from weakref import ref

import numpy as np

from whimbrel.compiled.jit import entry_for
from whimbrel.compiled.views import words_of
from whimbrel.engine.access.kernel import TASK_AT, match
from whimbrel.engine.access.segment import BLOCK, Segment
from whimbrel.engine.access.shared.arrays import SCRATCH, TASK, Scratch, Task
from whimbrel.engine.access.shared.packing import VERIFY_BIT
from whimbrel.engine.live.check_table import CheckTable, search_checks
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.element_checks import CoupledEntries
from whimbrel.model.event import AnyEvent
from whimbrel.ranks.encoding.encoded_events import EncodedEvents
from whimbrel.ranks.encoding.json_reader import JsonText, make_state
from whimbrel.ranks.encoding.json_state import JsonState
from whimbrel.ranks.encoding.single_events import ITEMS
from whimbrel.ranks.kernel_arrays import ENTRIES, FULL, IN_ARRAYS, make_entries

USUAL_BLOCK, BLOCK_PAIRS = 1_024, 1 << 19
"""Events of a usual block, and pairs that a larger block may have: with more, sorting pairs costs more than reading
chunks again."""
PAIRS = 1 << 21
"""Pairs (event, row) of one call, about. Buffers hold twice as many, and more only if a single event has more."""

TEXT_TYPES = (bytes, str)
"""The types of an event that is JSON text. A tuple: a union would be built in each call."""
_NONE: Collection[str] | None = ()
WORDS_KEPT = 64
"""From so many kept `Words` on, those of segments that no longer exist are dropped."""


class Words:
    """The addresses and shapes of the arrays that `match` uses for one segment: for blocks, and for single events."""

    __slots__ = ("block", "single", "texts")

    def __init__(self, block: np.ndarray) -> None:
        self.block = block
        self.single = block.copy()
        self.texts: JsonText | None = None
        """Reads single JSON texts; made when the first one comes."""


class Workspace:
    """The buffers of one thread: what kernels write, reused from block to block and from segment to segment."""

    def __init__(self) -> None:
        self._values = np.full(0, -1, np.int32)
        self._coarse = np.full(0, -1, np.int32)
        self._codes = np.full(0, -1, np.int32)
        self._present = np.empty(0, np.int32)
        self._stamp = np.zeros(0, np.uint32)
        self._epoch = np.zeros(1, np.uint32)
        self._cells = (np.empty(0, np.int32), np.empty(0, np.int32))
        self._alive = np.empty(BLOCK + 1, np.int32)
        self._pair_event = np.empty(1 << 16, np.int32)  # as long as `out`, as one block may fill it
        self._pair_row = np.empty(1 << 16, np.int32)
        self._run = np.empty(1 << 12, np.int64)
        self.counts = np.zeros(4, np.int64)
        self.out = np.empty(1 << 16, np.int32)
        self.offsets = np.zeros(BLOCK + 1, np.int64)
        self._one = np.zeros((2, 2), np.int64)  # the offsets of the entries of a single event, and of its rows
        self._fitted: dict[int, tuple[ref[Segment], Words]] = {}
        self._state: JsonState | None = None
        self._head_ends, self._head_rows = np.zeros(2, np.int64), np.empty(64, np.int32)
        self._make_entries(256)
        self._density = BLOCK_PAIRS  # pairs per event in the last block
        self._has_elements = False  # whether `coupled_entries` can return the entries of the last event

    def words(self, segment: Segment, rows: int) -> Words:
        """The words of a segment; buffers are made large enough for it, in an index with so many rows."""
        fitted = self._fitted.get(id(segment))
        if fitted is not None and fitted[0]() is segment and len(self._stamp) >= rows:
            return fitted[1]
        grid, cells = self._fit_buffers(segment, rows)
        scratch = Scratch(
            self._values, self._coarse, self._codes, self._present, self._stamp, self._epoch, grid, cells, self._alive,
            self._pair_event, self._pair_row, self._run, self.counts,
        )  # fmt: skip
        single = Task(self._one[0], self._ranked[0], self._ranked[1], self._one[1], self.out)
        parts = words_of(ENTRIES, self._entries), words_of(SCRATCH, scratch), words_of(TASK, single)
        words = Words(np.array([*parts[0], *segment.words, *parts[1], *parts[2]], np.int64))
        self._fitted[id(segment)] = (ref(segment), words)
        return words

    @cached_property
    def _match(self) -> Callable[[np.ndarray, int, int, bool], int]:
        """The kernel `match`, looked up only after the first event is read: this process compiles the readers of events
        while the second one compiles `match`."""
        return entry_for(match, np.empty(0, np.int64), 0, 0, True)

    def _fit_buffers(self, segment: Segment, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Make the buffers large enough for a segment. New buffers make all kept words stale: they are dropped."""
        attributes, used = len(segment.attributes) + 1, len(segment.arrays["bits_attrs"])
        cells, width = used * segment.block, 2 * used + 1
        is_cramped = len(self._cells[0]) < cells or len(self._cells[1]) < width * segment.block
        if len(self._values) < attributes or len(self._stamp) < rows or is_cramped:
            self._fitted.clear()
        elif len(self._fitted) >= WORDS_KEPT:  # some of these segments may have been merged away
            self._fitted = {key: fitted for key, fitted in self._fitted.items() if fitted[0]() is not None}
        if len(self._values) < attributes:
            self._values = np.full(attributes, -1, np.int32)
            self._coarse = np.full(attributes, -1, np.int32)
            self._codes = np.full(2 * attributes, -1, np.int32)
            self._coarse[0] = self._codes[0] = 0
            self._present = np.empty(attributes, np.int32)
        if len(self._stamp) < rows:
            self._stamp = np.zeros(max(rows, 2 * len(self._stamp)), np.uint32)
        if is_cramped:
            self._cells = (np.empty(cells, np.int32), np.empty(width * segment.block, np.int32))
        grid = self._cells[0][:cells].reshape(used, segment.block)
        return grid, self._cells[1][: width * segment.block].reshape(segment.block, width)

    def _make_entries(self, size: int) -> None:
        """Make buffers for a single event of `size` values."""
        self._entries = make_entries(size, ITEMS, size)
        self._ranked = np.empty((2, size), np.int32)
        self._fitted.clear()

    def _grow(self, used: int) -> None:
        """Double the buffers of results, and keep the first `used` rows."""
        larger = np.empty(2 * len(self.out), np.int32)
        larger[:used] = self.out[:used]
        self.out = larger
        self._pair_event = np.empty(2 * len(self._pair_event), np.int32)
        self._pair_row = np.empty(2 * len(self._pair_row), np.int32)
        self._run = np.empty(2 * len(self._run), np.int64)
        self._fitted.clear()

    def match_one(
        self, segment: Segment, event: AnyEvent, timestamps: frozenset[str], rows: int
    ) -> tuple[np.ndarray, int, Collection[str] | None]:
        """Match one event: return its rows, a view of the reused buffer, and its `coupled` and `arrays`.

        `EncodedEvents` explains the last two. `rows` is the number of rows of the index.
        """
        fitted = self._fitted.get(id(segment))
        if fitted is not None and fitted[0]() is segment and len(self._stamp) >= rows:
            words = fitted[1]
        else:
            words = self.words(segment, rows)
        left: dict[str, object] = {}
        if isinstance(event, TEXT_TYPES):
            texts = words.texts
            if texts is None or texts.timestamps is not timestamps:
                texts = words.texts = self._text_reader(segment, timestamps)
            count = texts.read(event, words.single)
        else:
            count = segment.encoder.single_events.read(event, timestamps, words.single, left)
        coupled, arrays = 0, _NONE
        if left or not 0 <= count < IN_ARRAYS:
            read = self._read_rest(segment, event, timestamps, words, count, left)
            if read is None:
                return self.match_one(segment, event, timestamps, rows)
            count, coupled, arrays = read
        while (found := self._match(words.single, 0, count, True)) < 0:
            self._grow(0)
            words = self.words(segment, rows)
        return self.out[:found], coupled, arrays

    def coupled_entries(self) -> CoupledEntries | None:
        """The entries of the last event of `match_one`, if it was coupled; None if their elements are not known."""
        if not self._has_elements:
            return None
        return CoupledEntries(self._one[0], self._ranked[0], self._ranked[1], self._entries.elements)

    def _text_reader(self, segment: Segment, timestamps: frozenset[str]) -> JsonText:
        if self._state is None:
            self._state = make_state()
        return segment.encoder.single_events.text_reader(timestamps, self._state)

    def _read_rest(
        self,
        segment: Segment,
        event: AnyEvent,
        timestamps: frozenset[str],
        words: Words,
        count: int,
        left: dict[str, object],
    ) -> tuple[int, int, Collection[str] | None] | None:
        """Read what compiled readers left of an event; return the number of entries, `coupled` and `arrays`.

        None if the buffers were too small: they are larger now.
        """
        entries = self._entries
        texts = words.texts if isinstance(event, TEXT_TYPES) else None
        read = segment.encoder.single_events.read_rest(event, timestamps, words.single, texts, entries, count, left)
        end = read.written + len(read.attrs)
        if read.written == FULL or end > len(entries.attrs):
            self._make_entries(2 * max(end, len(entries.attrs)))
            if isinstance(event, TEXT_TYPES):
                self._state = make_state(4 * len(event), 2 * len(entries.attrs))  # a character has up to four bytes
            return None
        if read.coupled:
            table = segment.encoder.single_events.names_for(timestamps).table
            self._has_elements = not read.attrs and table.has_elements and (texts is None or texts.has_elements)
        if read.attrs:
            entries.attrs[read.written : end] = read.attrs
            entries.cells[read.written : end] = read.cells
        return end, read.coupled, read.arrays

    def match_some(
        self, segment: Segment, encoded: EncodedEvents, rows: int, stop: int, pairs: int = PAIRS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Match events up to number `stop`, at least one of them, until there are about `pairs` pairs.

        Returns the offsets and the rows of the events that were matched; views of the reused buffers.
        """
        if len(self.offsets) <= stop:
            self.offsets = np.zeros(stop + 1, np.int64)
        used = first = 0
        block = min(segment.block, max(USUAL_BLOCK, BLOCK_PAIRS // max(1, self._density)))
        self.offsets[0] = 0
        while first < stop and (used < pairs or not first):
            blocks = max(1, round((stop - first) / block))  # as few as possible, of equal size: each reads all chunks
            count = min(segment.block, -(-(stop - first) // blocks))
            words = self.words(segment, rows).block
            words[TASK_AT:] = words_of(
                TASK, (encoded.offsets, encoded.attrs, encoded.ranks, self.offsets[first:], self.out[used:])
            )
            found = self._match(words, first, count, False)
            if found < 0:
                self.offsets[first] = used
                if len(self.out) < 2 * PAIRS or (first == 0 and count == 1):
                    self._grow(used)
                elif count > 1:
                    block = count // 2
                else:
                    break
                continue
            self.offsets[first : first + count + 1] += used
            used += int(found)
            first += count
            self._density = int(found) // count
        return self.offsets[: first + 1], self.out[:used]

    def search_one(self, table: CheckTable, segment: Segment, snapshot: Snapshot) -> np.ndarray:
        """The rows of the head, with flags, that the event of the last `match_one` with this segment may match.

        Returns a view of a reused buffer.
        """
        words, _, count = table.shown
        if len(self._head_rows) < snapshot.head_size:
            self._head_rows = np.empty(2 * snapshot.head_size, np.int32)
        task = self.words(segment, snapshot.rows).single
        found = search_checks(words, task, count, snapshot.head_size, 1, self._head_ends, self._head_rows)
        return self._head_rows[:found]

    def search_some(
        self, table: CheckTable, segment: Segment, encoded: EncodedEvents, snapshot: Snapshot, stop: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The offsets, and the rows of the head, with flags, that events up to number `stop` may match."""
        words, _, count = table.shown
        offsets, rows = np.zeros(stop + 1, np.int64), np.empty(max(1_024, 4 * stop), np.int32)
        task = self.words(segment, snapshot.rows).block
        task[TASK_AT:] = words_of(TASK, (encoded.offsets, encoded.attrs, encoded.ranks, offsets, rows))
        while (found := search_checks(words, task, count, snapshot.head_size, stop, offsets, rows)) < 0:
            rows = np.empty(8 * len(rows), np.int32)
        if encoded.coupled.any():
            rows[:found][np.repeat(encoded.coupled[:stop] != 0, np.diff(offsets))] |= np.int32(VERIFY_BIT)
        return offsets, rows[:found]


class Workspaces:
    """The pool of workspaces of an index; a thread takes one and gives it back. Safe for many threads."""

    def __init__(self) -> None:
        self._free: list[Workspace] = []
        self._all: list[Workspace] = []

    def take(self) -> Workspace:
        """A workspace that nobody uses."""
        try:
            return self._free.pop()
        except IndexError:
            workspace = Workspace()
            self._all.append(workspace)
            return workspace

    def give_back(self, workspace: Workspace) -> None:
        """Let others use a workspace."""
        self._free.append(workspace)

    def counts(self) -> np.ndarray:
        """The work counted in all workspaces: candidates, probes, chunks opened, verifications."""
        return sum((workspace.counts for workspace in self._all.copy()), np.zeros(4, np.int64))

"""The regions of one role with their ordered lists: write them, and ask which of them match.

Writes go to rows only. Lists are brought up to date when somebody searches, or when an eighth of all slots has changed:
few entries one by one through the tail, many by a merge that leaves out the old ones. So a stream of writes without
searches costs next to nothing, and each entry is merged a bounded number of times.

One writer at a time and no searches beside it; searches may run beside each other, each with its own scratch.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from whimbrel.engine.warmup import tell_if_cold
from whimbrel.spaces import search_kernels, write_kernels
from whimbrel.spaces.layout import (
    CELLS_LOST,
    CELLS_USED,
    FEW_DIMENSIONS,
    HIGH,
    PENDING_USED,
    TAIL_USED,
    WHOLE,
    Dimensions,
    Ends,
    Index,
    Int32s,
    Int64s,
    Pending,
    Regions,
    Rows,
    Tail,
    empty_ends,
)
from whimbrel.spaces.search_kernels import Scratch

TAIL = 2_048
"""A search passes at most so many entries in no order."""
SHARE = 8
"""The run, and the tail while nobody searches, may be so large a part of the base."""
SPACES = 62
_MANY = 64
"""From this part of all entries on, changed ones are replaced by a merge rather than one by one."""
_THREADS = 2
_WORTH_A_THREAD = 256


class DimensionIndex:
    """Regions by slot, and two ordered lists of their cuts per dimension."""

    def __init__(self) -> None:
        self.dimensions = Dimensions(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self.rows = _empty_rows()
        self.tail = _empty_tail(0)
        self.pending = _empty_pending()
        self.lows, self.highs = empty_ends(0), empty_ends(0)
        self.run_lows, self.run_highs = empty_ends(0), empty_ends(0)
        self.slots = 0
        self._free: list[int] = []
        self._scratch = [_scratch(0, 0) for _ in range(_THREADS)]
        self._stamp = 0
        self._index: Index | None = None

    def __len__(self) -> int:
        return self.slots - len(self._free)

    @property
    def index(self) -> Index:
        """The arrays as kernels take them."""
        if self._index is None:
            lists = (self.lows, self.highs, self.run_lows, self.run_highs)
            self._index = Index(self.rows, *lists, self.tail, self.dimensions)
        return self._index

    def define(self, spaces: list[list[int]], dimensions: int) -> None:
        """The spaces, each as its dimensions by number. No region may say anything of a dimension that is new."""
        masks, small = np.zeros(dimensions, np.int64), np.zeros(dimensions, np.int64)
        for position, members in enumerate(spaces):
            masks[members] |= 1 << position
            if len(members) <= FEW_DIMENSIONS:
                small[members] |= 1 << position
        self.dimensions = Dimensions(masks, small)
        constrains = np.zeros(dimensions, np.int64)
        constrains[: len(self.rows.constrains)] = self.rows.constrains
        self.rows = self.rows._replace(constrains=constrains)
        self.lows, self.highs, self.run_lows, self.run_highs = (
            _widened(ends, dimensions) for ends in (self.lows, self.highs, self.run_lows, self.run_highs)
        )
        self._index = None

    def take(self, count: int) -> Int32s:
        """Slots for so many new regions."""
        reused = min(count, len(self._free))
        first = self._free[len(self._free) - reused :]
        del self._free[len(self._free) - reused :]
        fresh = range(self.slots, self.slots + count - reused)
        self.slots += count - reused
        if self.slots > len(self.rows.at):
            self._grow_slots()
        return np.array([*first, *fresh], np.int32)

    def free(self, slots: Int32s) -> None:
        """Empty slots, to be used again."""
        self.write(slots, Regions.none(len(slots)))
        self.rows.flags[slots] = 0
        self._free += slots.tolist()

    def write(self, slots: Int32s, regions: Regions) -> None:
        """Give slots new regions."""
        most = int(regions.start[-1]) + len(slots) * min(len(self.dimensions.spaces), FEW_DIMENSIONS * SPACES)
        if self.rows.counts[PENDING_USED] > max(TAIL, self.slots // SHARE):
            self.merge()
        self._make_room(most)
        self._grow_pending(slots)
        spaces, small = self.dimensions
        write_kernels.write_rows(self.rows, self.pending, spaces, small, slots, regions)

    def read(self, slots: Int32s) -> Regions:
        """The regions of slots."""
        return write_kernels.read_rows(self.rows, slots)

    def search(self, olds: Regions, news: Regions, need: int = 0) -> tuple[Int64s, Int32s]:
        """For each region the slots that match its new content and did not match its old.

        Returns where the slots of each region begin, and the slots.
        """
        tell_if_cold(search_kernels.search)
        self._update()
        if self.rows.counts[TAIL_USED] > TAIL:
            self._sort_tail()
        self._prepare_scratch()
        count = len(news.start) - 1
        first_stamp = self._stamp + 1
        if first_stamp + count >= 1 << 31:
            for scratch in self._scratch:
                scratch.stamps[:] = 0
            first_stamp = 1
        self._stamp = first_stamp + count - 1
        if count < 2 * _WORTH_A_THREAD:
            return self._search(olds, news, 0, count, need, 0, first_stamp)
        order = _by_place(news)
        begins, slots = self._search_sorted(olds.take(order), news.take(order), need, first_stamp)
        lengths = np.diff(begins)
        where = np.argsort(order)
        found = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[where])])
        source = np.repeat(begins[:-1][where] - found[:-1], lengths[where]) + np.arange(found[-1])
        return found, slots[source]

    def _search_sorted(self, olds: Regions, news: Regions, need: int, stamp: int) -> tuple[Int64s, Int32s]:
        """Search with two threads."""
        count = len(news.start) - 1
        middle = count // 2
        with ThreadPoolExecutor(1) as other:
            later = other.submit(self._search, olds, news, middle, count, need, 1, stamp)
            begins, slots = self._search(olds, news, 0, middle, need, 0, stamp)
            more, others = later.result()
        return np.concatenate([begins, more[1:] + begins[-1]]), np.concatenate([slots, others])

    def matrix(self, regions: Regions, slots: Int32s) -> np.ndarray:
        """Which of some regions match which of some slots."""
        return search_kernels.matrix(self.rows, self.dimensions.spaces, regions, slots)

    def rename(self, dimension: int, old: Int64s, new: Int64s) -> None:
        """Replace the cuts of a dimension by others in the same order."""
        self._update()
        self._sort_tail(whole=True)  # dead entries would keep their cuts: leave them out
        chosen = self.rows.cells[:, 0] == dimension
        for part in (1, 2):
            _replace(self.rows.cells[:, part], chosen, old, new)
        for ends in (self.lows, self.highs):
            own = np.zeros(len(ends.cut), bool)
            own[ends.start[dimension] : ends.start[dimension + 1]] = True
            _replace(ends.cut, own, old, new)
            _replace(ends.other, own, old, new)
            peers = ends.peer & ~WHOLE == dimension
            _replace(ends.peer_low, peers, old, new)
            _replace(ends.peer_high, peers, old, new)
            own_zones = slice(ends.zone_start[dimension], ends.zone_start[dimension + 1])
            for zones in (ends.zone[own_zones], ends.reach[own_zones]):
                _replace(zones, np.ones(len(zones), bool), old, new)

    def cuts_in_use(self, dimension: int) -> Int64s:
        """All cuts of a dimension that some row has, or once had."""
        used = self.rows.cells[: self.rows.counts[CELLS_USED]]
        return np.unique(used[used[:, 0] == dimension, 1:])

    def merge(self) -> None:
        """Bring everything into the base."""
        self._update()
        self._sort_tail()
        self._merge_run()

    def _update(self) -> None:
        """Bring the lists up to date with the rows."""
        count = int(self.rows.counts[PENDING_USED])
        if not count:
            return
        cells = int(self.rows.length[self.pending.slot[:count]].sum())
        used = int(self.rows.counts[TAIL_USED])
        if used + cells > len(self.tail.slot):
            self._grow_tail(used + cells)
        if cells < max(TAIL, len(self.lows.cut) // _MANY):
            write_kernels.enter_pending(self.index, self.pending)
            return
        write_kernels.replace_pending(self.rows, self.tail, self.pending)
        self._sort_tail(whole=True)
        write_kernels.clear_pending(self.rows, self.pending)

    def _sort_tail(self, whole: bool = False) -> None:
        """Merge the tail into the run, or with the run into the base."""
        used, dirty = int(self.rows.counts[TAIL_USED]), self.rows.dirty
        if used or whole:
            live = np.flatnonzero(self.tail.slot[:used] >= 0)
            lows = self._sorted(live, self.tail.low, self.tail.high)
            self.run_lows = write_kernels.merge(self.run_lows, lows, dirty, True)
            bounded = live[self.tail.high[live] != HIGH]
            highs = self._sorted(bounded, self.tail.high, self.tail.low)
            self.run_highs = write_kernels.merge(self.run_highs, highs, dirty, False)
            write_kernels.settle(self.rows, self.tail.slot[live])
            self.rows.counts[TAIL_USED] = 0
            self._index = None
        if whole or len(self.run_lows.cut) > max(TAIL, len(self.lows.cut) // SHARE):
            self._merge_run(whole)

    def _merge_run(self, always: bool = False) -> None:
        if always or len(self.run_lows.cut):
            none = empty_ends(len(self.dimensions.spaces))
            self.lows = write_kernels.merge(self.lows, self.run_lows, self.rows.dirty, True)
            self.highs = write_kernels.merge(self.highs, self.run_highs, self.rows.dirty, False)
            self.run_lows, self.run_highs = none, none
            self._index = None
        if self.rows.counts[CELLS_LOST] > max(TAIL, self.rows.counts[CELLS_USED] // 2):
            self._pack()

    def _sorted(self, places: Int64s, cut: Int64s, other: Int64s) -> Ends:
        """Entries of the tail as a list."""
        tail = self.tail
        order = np.lexsort((tail.slot[places], cut[places], tail.dimension[places]))
        places = places[order]
        count = len(self.dimensions.spaces)
        start = np.searchsorted(tail.dimension[places], np.arange(count + 1)).astype(np.int64)
        none = np.zeros(0, np.int64)
        peers = (tail.peer[places], tail.peer_low[places], tail.peer_high[places])
        return Ends(
            start,
            cut[places],
            other[places],
            tail.slot[places],
            *peers,
            np.zeros(count + 1, np.int64),
            none,
            none,
            none,
        )

    def _pack(self) -> None:
        """Leave the cells out that no row has any more. Only where the tail is empty."""
        live = np.arange(self.slots, dtype=np.int32)
        rows = self.rows
        lengths = rows.length[: self.slots].astype(np.int64)
        at = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        cells = np.empty((max(int(at[-1]), 1), 3), np.int64)
        source = np.repeat(rows.at[live] - at[:-1], lengths) + np.arange(at[-1])
        cells[: at[-1]] = rows.cells[source]
        rows.at[: self.slots] = at[:-1]
        rows.room[: self.slots] = rows.length[: self.slots]
        rows.counts[CELLS_USED], rows.counts[CELLS_LOST] = at[-1], 0
        self.rows = rows._replace(cells=cells, place=np.full(len(cells), -1, np.int32))
        self._index = None

    def _grow_slots(self) -> None:
        rows, size = self.rows, max(2 * len(self.rows.at), self.slots, 64)
        grown = {
            name: _resized(getattr(rows, name), size)
            for name in ("at", "room", "real", "length", "valid", "flags", "dirty")
        }
        self.rows = rows._replace(**grown)
        self._index = None

    def _make_room(self, cells: int) -> None:
        needed = int(self.rows.counts[CELLS_USED]) + cells
        if needed > len(self.rows.cells):
            size = max(needed, 3 * len(self.rows.cells) // 2)
            self.rows = self.rows._replace(cells=_resized(self.rows.cells, size), place=_resized(self.rows.place, size))
            self._index = None

    def _grow_pending(self, slots: Int32s) -> None:
        """Make room for these slots, and for the cells that they have now."""
        used = int(self.rows.counts[PENDING_USED])
        cells = int(self.pending.start[used]) if used else 0
        cells += int(self.rows.length[slots].sum())
        if used + len(slots) >= len(self.pending.slot):
            size = max(used + len(slots) + 1, 2 * len(self.pending.slot))
            grown = {name: _resized(getattr(self.pending, name), size) for name in ("slot", "real", "start")}
            self.pending = self.pending._replace(**grown)
        if cells > len(self.pending.cells):
            size = max(cells, 2 * len(self.pending.cells))
            self.pending = self.pending._replace(
                cells=_resized(self.pending.cells, size), place=_resized(self.pending.place, size)
            )

    def _grow_tail(self, needed: int) -> None:
        size = max(needed, 2 * len(self.tail.slot), TAIL)
        self.tail = Tail(*(_resized(array, size) for array in self.tail))
        self._index = None

    def _prepare_scratch(self) -> None:
        zones = max(len(self.lows.zone), len(self.run_lows.zone))
        for number, scratch in enumerate(self._scratch):
            if len(scratch.stamps) < len(self.rows.at) or len(scratch.zones) < zones:
                self._scratch[number] = _scratch(len(self.rows.at), zones)

    def _search(
        self, olds: Regions, news: Regions, first: int, last: int, need: int, thread: int, stamp: int
    ) -> tuple[Int64s, Int32s]:
        scratch = self._scratch[thread]
        return search_kernels.search(self.index, self.slots, olds, news, first, last, need, scratch, stamp)

    def _check(self) -> None:
        """Assert that rows, lists and counts say the same."""
        self._update()
        rows, index = self.rows, self.index
        assert not rows.dirty.any()
        expected_lows, expected_highs = [], []
        free = set(self._free)
        for slot in range(self.slots):
            at, length = int(rows.at[slot]), int(rows.length[slot])
            assert (slot in free) == (rows.valid[slot] == 0) == (length == 0)
            for cell, (d, low, high) in enumerate(rows.cells[at : at + length].tolist()):
                real = int(rows.real[slot])
                peer = rows.cells[at + (cell + 1) % real if cell < real else at].tolist()
                peer[0] |= WHOLE if real == 1 or (real == 2 and cell < real) else 0
                expected_lows.append((d, low, slot, high, *peer))
                if high != HIGH:
                    expected_highs.append((d, high, slot, low, *peer))
        used = int(rows.counts[TAIL_USED])
        tail = [row for row in zip(*(array[:used].tolist() for array in index.tail), strict=True) if row[1] >= 0]
        lows = [(d, low, slot, high, *peer) for d, slot, low, high, *peer in tail]
        highs = [(d, high, slot, low, *peer) for d, slot, low, high, *peer in tail if high != HIGH]
        lows += _entries(index.lows) + _entries(index.run_lows)
        highs += _entries(index.highs) + _entries(index.run_highs)
        assert sorted(lows) == sorted(expected_lows)
        assert sorted(highs) == sorted(expected_highs)
        for scratch in self._scratch:
            assert not scratch.disjoint.any()


def _by_place(regions: Regions) -> Int64s:
    """Regions in an order in which neighbours touch the same entries: by their first constraint."""
    first = np.minimum(regions.start[:-1], max(len(regions.cells) - 1, 0))
    cells = regions.cells[first] if len(regions.cells) else np.zeros((len(first), 3), np.int64)
    return np.lexsort((cells[:, 1], cells[:, 0]))


def _entries(ends: Ends) -> list[tuple[int, ...]]:
    """The live entries of a list, checked to be in order."""
    dimension = np.repeat(np.arange(len(ends.start) - 1), np.diff(ends.start)).tolist()
    slots = [slot if slot >= 0 else ~slot for slot in ends.slot.tolist()]
    keys = list(zip(dimension, ends.cut.tolist(), slots, strict=True))
    assert keys == sorted(set(keys))
    peers = zip(ends.peer.tolist(), ends.peer_low.tolist(), ends.peer_high.tolist(), strict=True)
    entries = zip(keys, ends.slot.tolist(), ends.other.tolist(), peers, strict=True)
    return [(*key, other, *peer) for key, slot, other, peer in entries if slot >= 0]


def _empty_rows() -> Rows:
    longs, ints = np.zeros(0, np.int64), np.zeros(0, np.int32)
    cells = np.zeros((0, 3), np.int64)
    counts, valid_in = np.zeros(4, np.int64), np.zeros(64, np.int64)
    bytes_ = np.zeros(0, np.uint8)
    return Rows(longs, ints, ints, ints, longs, bytes_, bytes_, cells, ints, counts, valid_in, longs)


def _empty_tail(size: int) -> Tail:
    ints, longs = np.zeros(size, np.int32), np.zeros(size, np.int64)
    return Tail(ints, ints, longs, longs, ints, longs, longs)


def _empty_pending() -> Pending:
    ints, longs = np.zeros(1, np.int32), np.zeros(1, np.int64)
    return Pending(ints, ints.copy(), longs, np.zeros((1, 3), np.int64), ints.copy())


def _scratch(slots: int, zones: int) -> Scratch:
    return Scratch(
        np.zeros(slots, np.int32), np.zeros(slots, np.int64), np.zeros(zones, np.int64), np.zeros(64, np.int64)
    )


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    """The array with room for `size`, zeros where it is new."""
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _widened(ends: Ends, dimensions: int) -> Ends:
    """The list for more dimensions, none of them with entries."""
    more = dimensions + 1 - len(ends.start)
    start, zone_start = (np.append(each, np.repeat(each[-1:], more)) for each in (ends.start, ends.zone_start))
    return ends._replace(start=start, zone_start=zone_start)


def _replace(values: Int64s, chosen: np.ndarray, old: Int64s, new: Int64s) -> None:
    """Replace, in place, the chosen values that are in `old`; others are left (no bound, or of a free slot)."""
    places = np.flatnonzero(chosen)
    found = np.searchsorted(old, values[places])
    known = found < len(old)
    known[known] = old[found[known]] == values[places[known]]
    values[places[known]] = new[found[known]]

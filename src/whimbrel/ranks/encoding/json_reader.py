"""Reads JSON events to entries: attributes with cells (`ranks.cells`).

A kernel reads nearly all texts (`json_kernels`), many at once into buffers that are kept and used again, or one at a
time into buffers of the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Bytes, Int64Matrix, Int64s
from whimbrel.compiled.jit import entry_for, kernel
from whimbrel.compiled.python_objects import BYTES_AT, READABLE
from whimbrel.compiled.views import words_of
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.json_events import JsonEvents
from whimbrel.ranks.encoding.json_kernels import read_json
from whimbrel.ranks.encoding.json_names import NAMES, JsonNames, build_names
from whimbrel.ranks.encoding.json_state import COUPLED, JSON_STATE, LEFT, NOTES, OTHERS, UNREAD_FLOATS, JsonState
from whimbrel.ranks.encoding.name_table import name_flags
from whimbrel.ranks.kernel_arrays import (
    ARRAY_BITS,
    END_AT,
    ENTRIES,
    FOR_PYTHON,
    NUMBERS,
    READING,
    Numbers,
    Reading,
    make_entries,
)

_KEPT = 1 << 20
"""Buffers with more entries are not kept for the next batch."""


class JsonNotes(NamedTuple):
    """Values of attributes with patterns: the entry of each, whether it is a string, and its text, or an empty one."""

    entries: np.ndarray
    are_texts: np.ndarray
    texts: pa.LargeStringArray


class JsonEntries(NamedTuple):
    """The entries of events: event e has offsets[e]:offsets[e + 1]. Valid until the buffers are given back."""

    attrs: np.ndarray
    cells: np.ndarray
    offsets: np.ndarray
    left: np.ndarray
    """The numbers of the events that Python must read; they have no entries."""
    coupled: np.ndarray
    """1 for the events that have values in arrays of objects, else 0."""
    arrays: Collection[str]
    """The names of these arrays, and perhaps others."""
    elements: np.ndarray | None
    """The element of each value (`Entries.elements`), if some lie in arrays, and the arrays can be told apart."""
    notes: JsonNotes | None


def make_state(longest: int = 1 << 12, notes: int = 256) -> JsonState:
    """The buffers of a reader, except the arrays that depend on names."""
    none = np.empty(0, np.int64)
    return JsonState(
        begins=none,
        ends=none,
        offsets=none,
        states=np.empty(0, np.uint8),
        counters=np.zeros(6, np.int64),
        seen=none,
        arrays=np.empty(0, np.uint8),
        stack=np.zeros((66, 5), np.int64),
        stamps=np.zeros(OTHERS, np.int64),
        others=np.zeros(OTHERS, np.int64),
        texts=np.empty(longest, np.uint8),
        notes=np.empty((notes, 3), np.int64),
        unread=np.empty((notes, 3), np.int64),
    )


def encoded(text: bytes | str) -> bytes:
    """A text as bytes. Lone surrogates become bytes that no reader takes for UTF-8."""
    return bytes(text) if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


class JsonText:
    """Reads one text at a time, for one thread, one dictionary and the attributes whose strings are timestamps."""

    def __init__(self, reader: JsonReader, timestamps: frozenset[str], state: JsonState, mark: int) -> None:
        self.timestamps = timestamps
        self._reader = reader
        self._state = reader.own(state)
        self._mark = mark
        self._is_able = reader.is_able
        self._seen, self._arrays = b"", tuple[str, ...]()
        self._words = np.array([*reader.words, *words_of(JSON_STATE, self._state)], np.int64)
        self._read = entry_for(read_json, self._words, self._words, 0, 0, 0, -1)

    def read(self, text: bytes | str, words: np.ndarray) -> int:
        """Read a text to the entries among the `words`: what `read_json` returns for one, with the mark."""
        data = text if type(text) is bytes else encoded(text)
        if not self._is_able:
            return FOR_PYTHON
        address = id(data) + BYTES_AT if READABLE else np.frombuffer(data, np.uint8).ctypes.data
        return self._read(words, self._words, address, len(data), 0, -1) | self._mark  # leaves -1 and -2 as they are

    @property
    def has_elements(self) -> bool:
        """Whether the elements of entries are known."""
        return self._reader.has_elements

    @property
    def arrays(self) -> Collection[str]:
        """The names of the arrays of objects that some text had."""
        seen = self._state.arrays.tobytes()
        if seen != self._seen:
            self._seen, self._arrays = seen, self._reader.arrays(self._state)
        return self._arrays


class JsonBuffers:
    """The buffers of one thread that reads JSON by the same names."""

    def __init__(self, reader: JsonReader, numbers: Numbers, reading: Reading) -> None:
        self._fixed = [*words_of(NUMBERS, numbers), *words_of(READING, reading)]
        self._reader = reader
        self.words = np.zeros(END_AT, np.int64)
        self._state = reader.own(make_state())
        self._make_entries(1 << 10)

    def _make_entries(self, size: int) -> None:
        self.entries = make_entries(size, 0)
        self.words[:] = [*words_of(ENTRIES, self.entries), *self._fixed]

    @property
    def size(self) -> int:
        """The number of entries that fit."""
        return len(self.entries.attrs)

    def read(self, events: JsonEvents) -> JsonEntries:
        """Read events; buffers grow as needed."""
        count = len(events)
        state = self._state._replace(
            begins=np.ascontiguousarray(events.begins),
            ends=np.ascontiguousarray(events.ends),
            offsets=np.zeros(count + 1, np.int64),
            states=np.empty(count, np.uint8),
        )
        longest = int((events.ends - events.begins).max(initial=0))
        if longest > len(state.texts):
            state = state._replace(texts=np.empty(longest, np.uint8))
        address, done = events.data.ctypes.data, 0
        while True:
            json_words = np.array([*self._reader.words, *words_of(JSON_STATE, state)], np.int64)
            done = read_json(self.words, json_words, address, events.data.size, done, count)
            if done == count:
                break
            state = self._grown(state, int(state.offsets[done]))
        self._state = state
        used = int(state.offsets[count])
        attrs, cells = self.entries.attrs[:used], self.entries.cells[:used]
        for entry, begin, end in state.unread[: state.counters[UNREAD_FLOATS]].tolist():
            cells[entry] = float(events.data[begin:end].tobytes())
        notes = _notes(state, events.data) if state.counters[NOTES] else None
        left, coupled = np.flatnonzero(state.states == LEFT), (state.states == COUPLED).astype(np.uint8)
        elements = self.entries.elements[:used].copy() if coupled.any() and self._reader.has_elements else None
        return JsonEntries(attrs, cells, state.offsets, left, coupled, self._reader.arrays(state), elements, notes)

    def _grown(self, state: JsonState, used: int) -> JsonState:
        """Double the buffers that may be full, and keep what they hold."""
        old = self.entries
        self._make_entries(2 * len(old.attrs))
        self.entries.attrs[:used], self.entries.cells[:used] = old.attrs[:used], old.cells[:used]
        self.entries.elements[:used] = old.elements[:used]
        texts, notes, unread = (np.concatenate([a, np.empty_like(a)]) for a in (state.texts, state.notes, state.unread))
        return state._replace(texts=texts, notes=notes, unread=unread)


class JsonReader:
    """Reads JSON for one dictionary and the attributes whose strings are timestamps. Safe to use from many threads."""

    def __init__(
        self,
        dictionary: Dictionary,
        timestamps: frozenset[str],
        sources: Collection[str],
        numbers: Numbers,
        reading: Reading,
    ) -> None:
        """`sources` are the attributes from whose texts others are derived."""
        self.timestamps = timestamps
        built = build_names(dictionary.sources, name_flags(dictionary, timestamps, sources))
        self._names: JsonNames | None = None if built is None else built[0]
        self._targets: Sequence[str] = () if built is None else built[1]
        self.words: Sequence[int] = () if built is None else words_of(NAMES, built[0])
        self._numbers, self._reading = numbers, reading
        self._free: list[JsonBuffers] = []

    @property
    def is_able(self) -> bool:
        """Whether it can read texts at all: Python must, if some name has many dots."""
        return self._names is not None

    @property
    def has_elements(self) -> bool:
        """Whether the elements of different arrays have different numbers."""
        return len(self._targets) <= 1 << ARRAY_BITS

    def own(self, state: JsonState) -> JsonState:
        """The state with arrays for these names."""
        count = len(self._targets)
        return state._replace(seen=np.zeros(count, np.int64), arrays=np.zeros(count, np.uint8))

    def arrays(self, state: JsonState) -> tuple[str, ...]:
        """The names of the arrays of objects that have been read with a state."""
        return tuple(self._targets[target] for target in np.flatnonzero(state.arrays).tolist())

    def take(self) -> JsonBuffers:
        """Buffers that no other thread uses."""
        try:
            return self._free.pop()
        except IndexError:
            return JsonBuffers(self, self._numbers, self._reading)

    def give_back(self, buffers: JsonBuffers) -> None:
        """Let others use the buffers."""
        if buffers.size <= _KEPT:
            self._free.append(buffers)


def _notes(state: JsonState, data: np.ndarray) -> JsonNotes:
    notes = state.notes[: state.counters[NOTES]]
    offsets = np.zeros(len(notes) + 1, np.int64)
    np.cumsum(np.maximum(notes[:, 2], 0), out=offsets[1:])
    texts = np.empty(int(offsets[-1]), np.uint8)
    _gather(notes, data, state.texts, offsets, texts)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    strings = pa.Array.from_buffers(pa.large_string(), len(notes), buffers)
    return JsonNotes(notes[:, 0].copy(), notes[:, 2] >= 0, strings)


@kernel
def _gather(notes: Int64Matrix, data: Bytes, texts: Bytes, offsets: Int64s, out: Bytes) -> None:
    """Copy the texts that notes point to, one after the other."""
    for i in range(notes.shape[0]):
        begin = notes[i, 1]
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = data[begin + j] if begin >= 0 else texts[j - 1 - begin]

"""The reader of JSON events: texts to entries, which are attributes with cells (`ranks.cells`).

A kernel reads nearly all texts (`json_kernels`). The buffers that it writes to are kept and used again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from whimbrel.compiled.jit import kernel
from whimbrel.compiled.python_objects import BYTES_AT, READABLE
from whimbrel.compiled.views import words_of
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.encoding.json_events import JsonEvents
from whimbrel.ranks.encoding.json_kernels import (
    FOR_PYTHON,
    FULL,
    JSON_STATE,
    LEFT,
    NOTES,
    OTHERS,
    UNREAD_FLOATS,
    JsonState,
    read_json,
)
from whimbrel.ranks.encoding.json_names import (
    NAMES,
    NOTED,
    PYTHON_NUMBERS,
    PYTHON_TEXTS,
    TIME,
    JsonNames,
    build_names,
)
from whimbrel.ranks.kernel_arrays import END_AT, ENTRIES, NUMBERS, READING, Entries, Numbers, Reading, make_entries

_KEPT = 1 << 20
"""Entries of buffers that are kept for the next batch, at most."""


class JsonNotes(NamedTuple):
    """Values that patterns look at: the entry of each, and its text, which is empty if it is no string."""

    entries: np.ndarray
    texts: pa.LargeStringArray


class JsonEntries(NamedTuple):
    """What a reader has read: event e has the entries offsets[e]:offsets[e + 1]. Valid until the buffers are kept."""

    attrs: np.ndarray
    cells: np.ndarray
    offsets: np.ndarray
    left: np.ndarray
    """The numbers of the events that Python must read; they have no entries."""
    notes: JsonNotes | None


class JsonBuffers:
    """The buffers of one thread that reads JSON by the same names."""

    def __init__(self, names: JsonNames, numbers: Numbers, reading: Reading) -> None:
        self._targets = len(names.attr)
        self._fixed = [*words_of(NUMBERS, numbers), *words_of(READING, reading)]
        self._name_words = words_of(NAMES, names)
        self.words = np.zeros(END_AT, np.int64)
        none = np.empty(0, np.int64)
        self._single: tuple[JsonState, np.ndarray] | None = None
        self._state = JsonState(
            begins=none,
            ends=none,
            offsets=none,
            states=np.empty(0, np.uint8),
            counters=np.zeros(5, np.int64),
            seen=np.zeros(self._targets, np.int64),
            stack=np.zeros((66, 3), np.int64),
            stamps=np.zeros(OTHERS, np.int64),
            others=np.zeros(OTHERS, np.int64),
            texts=np.empty(1 << 12, np.uint8),
            notes=np.empty((256, 3), np.int64),
            unread=np.empty((64, 3), np.int64),
        )
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
        state.counters[NOTES:] = 0
        longest = int((events.ends - events.begins).max(initial=0))
        if longest > len(state.texts):
            state = state._replace(texts=np.empty(longest, np.uint8))
        address, done = events.data.ctypes.data, 0
        while True:
            json_words = np.array([*self._name_words, *words_of(JSON_STATE, state)], np.int64)
            done = read_json(self.words, json_words, address, events.data.size, done, count)
            if done == count:
                break
            state = self._grown(state, int(state.offsets[done]))
        self._state, self._single = state, None
        used = int(state.offsets[count])
        attrs, cells = self.entries.attrs[:used], self.entries.cells[:used]
        for entry, begin, end in state.unread[: state.counters[UNREAD_FLOATS]].tolist():
            cells[entry] = float(events.data[begin:end].tobytes())
        notes = _notes(state, events.data) if state.counters[NOTES] else None
        return JsonEntries(attrs, cells, state.offsets, np.flatnonzero(state.states == LEFT), notes)

    def read_one(self, text: bytes, words: np.ndarray, entries: Entries) -> int:
        """Read one text to `entries`, which are among the `words`. Returns their number, FULL or FOR_PYTHON.

        FULL: larger entries may help.
        """
        state, json_words = self._single or self._make_single()
        state.ends[0] = len(text)
        state.counters[NOTES:] = 0
        address = id(text) + BYTES_AT if READABLE else np.frombuffer(text, np.uint8).ctypes.data
        if not read_json(words, json_words, address, len(text), 0, 1):
            larger = self._grown(self._state, 0, max(2, len(text) // len(self._state.texts) + 1))
            self._state, self._single = larger, None
            return FULL
        if state.states.item(0) == LEFT:
            return FOR_PYTHON
        if state.counters.item(UNREAD_FLOATS):
            for entry, begin, end in state.unread[: state.counters[UNREAD_FLOATS]].tolist():
                entries.cells[entry] = float(text[begin:end])
        return int(state.offsets.item(1))

    def _make_single(self) -> tuple[JsonState, np.ndarray]:
        """The state, with its words, in which one text is read."""
        one = np.zeros((2, 2), np.int64)
        state = self._state._replace(begins=one[0, :1], ends=one[0, 1:], offsets=one[1], states=np.zeros(1, np.uint8))
        self._single = state, np.array([*self._name_words, *words_of(JSON_STATE, state)], np.int64)
        return self._single

    @property
    def has_notes(self) -> bool:
        """Whether patterns look at some value of the text that was read last."""
        return bool(self._state.counters.item(NOTES))

    def noted_texts(self, text: bytes) -> list[tuple[int, str]]:
        """The strings of the text read last that patterns look at, each with its entry."""
        state = self._state
        found = []
        for entry, begin, size in state.notes[: state.counters[NOTES]].tolist():
            if size >= 0:
                data = text[begin : begin + size] if begin >= 0 else state.texts[-1 - begin :][:size].tobytes()
                found.append((entry, data.decode()))
        return found

    def _grown(self, state: JsonState, used: int, times: int = 2) -> JsonState:
        """Double the buffers that may be full, and keep what they hold; texts become so many times as large."""
        old = self.entries
        self._make_entries(2 * len(old.attrs))
        self.entries.attrs[:used], self.entries.cells[:used] = old.attrs[:used], old.cells[:used]
        texts = np.concatenate([state.texts, *[np.empty_like(state.texts)] * (times - 1)])
        notes, unread = (np.concatenate([rows, np.empty_like(rows)]) for rows in (state.notes, state.unread))
        return state._replace(texts=texts, notes=notes, unread=unread)


class JsonReader:
    """Reads JSON for one dictionary and the attributes whose strings are timestamps. Safe to use from many threads."""

    def __init__(
        self,
        dictionary: Dictionary,
        timestamps: frozenset[str],
        noted: Collection[int],
        numbers: Numbers,
        reading: Reading,
    ) -> None:
        self.timestamps = timestamps
        flags = dict.fromkeys(timestamps, TIME)
        for marked, flag in (
            (map(int, dictionary.meta.exact_numbers), PYTHON_NUMBERS),
            (map(int, dictionary.meta.exact_times), PYTHON_TEXTS),
            (noted, NOTED),
        ):
            for attr in marked:
                name = dictionary.names[attr]
                flags[name] = flags.get(name, 0) | flag
        self._names = build_names(dictionary.sources, flags)
        self._numbers, self._reading = numbers, reading
        self._free: list[JsonBuffers] = []

    @property
    def is_able(self) -> bool:
        """Whether it reads anything: names with many dots are left to Python."""
        return self._names is not None

    def take(self) -> JsonBuffers:
        """Buffers that no other thread uses."""
        assert self._names is not None
        try:
            return self._free.pop()
        except IndexError:
            return JsonBuffers(self._names, self._numbers, self._reading)

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
    return JsonNotes(notes[:, 0].copy(), pa.Array.from_buffers(pa.large_string(), len(notes), buffers))


@kernel
def _gather(
    notes: np.ndarray, data: np.ndarray, texts: np.ndarray, offsets: np.ndarray, out: np.ndarray
) -> None:  # pragma: no cover
    """Copy the texts that notes point to, one after the other."""
    for i in range(notes.shape[0]):
        begin = notes[i, 1]
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = data[begin + j] if begin >= 0 else texts[j - 1 - begin]

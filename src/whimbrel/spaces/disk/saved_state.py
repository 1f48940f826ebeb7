"""The whole state as arrays, and back: what a snapshot of the journal and a saved file hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whimbrel.spaces.dimensions.space_definitions import Key
from whimbrel.spaces.index.region_arrays import Regions, offsets
from whimbrel.spaces.state.dwell_subscriptions import SubscriptionOptions
from whimbrel.spaces.state.members import ALL, WANTS_LEAVES, Members, NewMembers
from whimbrel.spaces.state.notifications import NotificationBuilder
from whimbrel.spaces.state.space_state import SpaceState
from whimbrel.spaces.state.validation import CallValidator
from whimbrel.storage.array_file import open_file, write_file
from whimbrel.storage.errors import ForeignFile, NewerFormat
from whimbrel.storage.facts import Facts

_FORMAT = "whimbrel spaces"
_VERSION = 1
_THING = "file of saved spaces"


class _SavedDwell(msgspec.Struct, array_like=True):
    """A subscription with hysteresis or dwell, and the publications inside. One that is out has the time it leaves."""

    key: Key
    leave: bool
    hysteresis: dict[str, float]
    dwell: float
    inside: list[tuple[Key, float | None]]


class _SavedContent(msgspec.Struct):
    """The saved parts that are no arrays: the spaces in order, the labels of each dimension of strings, and pairs."""

    spaces: list[tuple[str, dict[str, str | dict[str, Any]]]]
    labels: list[list[tuple[Any, int]]]
    inside: list[_SavedDwell]


def dump_state(state: SpaceState, sequence: int, moment: float) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the description of the whole state. They share no memory with it."""
    definitions, dwell = state.definitions, state.dwell
    content = _SavedContent(
        [(name, definitions.dimensions(name)) for name in definitions.spaces],
        [domain.labels.dump() for _, domain in definitions.strings],
        [
            _SavedDwell(
                state.subscriptions.names[number],
                options.leave,
                dict(options.hysteresis),
                options.dwell,
                [(state.publications.names[each], due) for each, due in dwell.pairs.inside(number).items()],
            )
            for number, options in dwell.options.items()
        ],
    )
    arrays = {"content": np.frombuffer(msgspec.msgpack.encode(content), np.uint8)}
    for members in (state.publications, state.subscriptions):
        arrays |= {f"{members.role}.{name}": array for name, array in _dump(members).items()}
    return arrays, {"sequence": sequence, "moment": moment if np.isfinite(moment) else None}


def load_state(
    state: SpaceState, validator: CallValidator, arrays: dict[str, np.ndarray], description: dict[str, Any]
) -> tuple[int, float]:
    """Fill an empty state from what `dump_state` returned. Returns its sequence number and time."""
    content = msgspec.msgpack.decode(arrays["content"].tobytes(), type=_SavedContent)
    for name, dimensions in content.spaces:
        state.define(name, dimensions)
    for (_, domain), labels in zip(state.definitions.strings, content.labels, strict=True):
        domain.labels.load((tuple(cut), code) for cut, code in labels)
    for new, filter, flags in _load(arrays, state.publications, set()):
        state.publications.add_many(new, state.filters.check(filter), flags)
    saved_dwell = {saved.key: saved for saved in content.inside}
    for new, filter, flags in _load(arrays, state.subscriptions, set(saved_dwell)):
        state.filters.check(filter)
        saved = saved_dwell.get(new.keys[0])
        if saved is None:
            state.subscriptions.add_many(new, filter, flags)
            continue
        options = SubscriptionOptions(saved.leave, saved.hysteresis, saved.dwell)
        outer = validator.outer(new.regions, options)
        number = state.add_subscription(saved.key, new.regions, filter, options, outer, NotificationBuilder())
        number_of = state.publications.number_of
        state.dwell.restore(number, {number_of[publication]: due for publication, due in saved.inside})
    moment = description["moment"]
    return description["sequence"], -np.inf if moment is None else moment


def write_saved(path: Path, arrays: dict[str, np.ndarray], description: dict[str, Any], facts: Facts) -> None:
    """Write a state and the caller's facts to one file, atomically."""
    own = {"format": _FORMAT, "version": _VERSION, "facts": dict(facts)}
    write_file(path, arrays, {**description, **own})


def read_saved(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, object]]:
    """The arrays, the description and the facts of a file that `write_saved` wrote; a SavedIndexError for any other."""
    arrays, description = open_file(path, thing=_THING)
    if description.get("format") != _FORMAT:
        raise ForeignFile(path, "an array file of something else", _THING)
    if description["version"] > _VERSION:
        raise NewerFormat(path, description["version"], _VERSION)
    return arrays, description, description["facts"]


def _dump(members: Members) -> dict[str, np.ndarray]:
    """Keys, filters, counts of regions, flags and regions of all members. Hidden members are made again by a load."""
    numbers = list(members.number_of.values())
    rows = [members.rows(number) for number in numbers]
    regions = members.regions.read(np.concatenate([np.zeros(0, np.int32), *rows]))
    keys = [[members.names[number], members.filters.get(number, ALL)] for number in numbers]
    return {
        "keys": np.frombuffer(msgspec.msgpack.encode(keys), np.uint8),
        "counts": np.array([len(each) for each in rows], np.int32),
        "told": members.flags[np.array(numbers, np.int32)] & WANTS_LEAVES,
        "start": regions.start,
        "cells": regions.cells,
    }


def _load(arrays: dict[str, np.ndarray], members: Members, alone: set[Key]) -> Iterator[tuple[NewMembers, str, int]]:
    """The saved members of a role with filter and flags: simple ones in groups of equal flags, others one by one."""
    counts, flags, start, cells = (arrays[f"{members.role}.{name}"] for name in ("counts", "told", "start", "cells"))
    keys: list[tuple[Key, str]] = msgspec.msgpack.decode(
        arrays[f"{members.role}.keys"].tobytes(), type=list[tuple[Key, str]]
    )
    regions = Regions(start, cells)
    first = offsets(counts)
    simple: dict[int, list[int]] = {}
    others: list[int] = []
    for place, (key, filter) in enumerate(keys):
        if counts[place] == 1 and filter == ALL and key not in alone:
            simple.setdefault(int(flags[place]), []).append(place)
        else:
            others.append(place)
    for flag, places in simple.items():
        simple_keys = [keys[place][0] for place in places]
        yield NewMembers(simple_keys, regions.take(first[places]), [1] * len(places)), ALL, flag
    for place in others:
        key, filter = keys[place]
        rows = np.arange(first[place], first[place + 1])
        yield NewMembers([key], regions.take(rows), [len(rows)]), filter, int(flags[place])

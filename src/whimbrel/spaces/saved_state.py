"""The whole state as arrays, and back: what a snapshot of the journal and a saved file hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from whimbrel.spaces.dwell import SubscriptionOptions
from whimbrel.spaces.index.layout import Regions
from whimbrel.spaces.matching import ALL
from whimbrel.spaces.members import WANTS_LEAVES, Members
from whimbrel.spaces.notifications import NotificationBuilder
from whimbrel.spaces.state import SpaceState
from whimbrel.spaces.validation import CallValidator
from whimbrel.storage.array_file import open_file, write_file
from whimbrel.storage.errors import ForeignFile, NewerFormat
from whimbrel.storage.facts import Facts

_FORMAT = "whimbrel spaces"
_VERSION = 1
_THING = "file of saved spaces"


def dump_state(state: SpaceState, sequence: int, moment: float) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the description of the whole state. They share no memory with it."""
    definitions = state.definitions
    labels = [domain.labels.dump() for _, domain in definitions.strings]
    dwell = state.dwell
    content = {
        "spaces": [(name, definitions.dimensions(name)) for name in definitions.spaces],
        "labels": labels,
        "inside": [
            (
                state.subscriptions.names[number],
                options.leave,
                dict(options.hysteresis),
                options.dwell,
                [(state.publications.names[each], due) for each, due in dwell.pairs.inside(number).items()],
            )
            for number, options in dwell.options.items()
        ],
    }
    arrays = {"content": np.frombuffer(msgspec.msgpack.encode(content), np.uint8)}
    for members in (state.publications, state.subscriptions):
        arrays |= {f"{members.role}.{name}": array for name, array in _dump(members).items()}
    return arrays, {"sequence": sequence, "moment": moment if np.isfinite(moment) else None}


def load_state(
    state: SpaceState, validator: CallValidator, arrays: dict[str, np.ndarray], description: dict[str, Any]
) -> tuple[int, float]:
    """Fill an empty state from what `dump_state` returned. Returns its sequence number and time."""
    content = msgspec.msgpack.decode(arrays["content"].tobytes())
    for name, dimensions in content["spaces"]:
        state.define(name, dimensions)
    for (_, domain), labels in zip(state.definitions.strings, content["labels"], strict=True):
        domain.labels.load((tuple(cut), code) for cut, code in labels)
    kept = {row[0]: row for row in content["inside"]}
    for key, regions, filter, flags in _load(arrays, state.publications):
        _restore(state, state.publications, key, regions, filter, flags)
    for key, regions, filter, flags in _load(arrays, state.subscriptions):
        if isinstance(key, list) or key not in kept:
            _restore(state, state.subscriptions, key, regions, filter, flags)
            continue
        _, leave, hysteresis, dwell, inside = kept[key]
        options = SubscriptionOptions(leave, hysteresis, dwell)
        state.filters.check(filter)
        outer = validator.outer(regions, options)
        number = state.add_subscription(key, regions, filter, options, outer, NotificationBuilder())
        number_of = state.publications.number_of
        state.dwell.restore(number, {number_of[publication]: due for publication, due in inside})
    moment = description["moment"]
    return description["sequence"], -np.inf if moment is None else moment


def _dump(members: Members) -> dict[str, np.ndarray]:
    """Keys, filters, counts of regions, flags and regions of all members. Hidden members are made again by a load."""
    numbers = list(members.number_of.values())
    slots = [members.slots(number) for number in numbers]
    regions = members.regions.read(np.concatenate([np.zeros(0, np.int32), *slots]))
    keys = [[members.names[number], members.filters.get(number, ALL)] for number in numbers]
    return {
        "keys": np.frombuffer(msgspec.msgpack.encode(keys), np.uint8),
        "counts": np.array([len(each) for each in slots], np.int32),
        "told": members.flags[np.array(numbers, np.int32)] & WANTS_LEAVES,
        "start": regions.start,
        "cells": regions.cells,
    }


def _load(arrays: dict[str, np.ndarray], members: Members) -> list[tuple[Any, Regions, str, int]]:
    """First the simple members in groups of equal flags, each with a list of keys; then the others one by one."""
    part = {name: arrays[f"{members.role}.{name}"] for name in ("counts", "told", "start", "cells")}
    keys = msgspec.msgpack.decode(arrays[f"{members.role}.keys"].tobytes())
    is_kept = _kept_keys(arrays) if members.role == "subscription" else set()
    regions = Regions(part["start"], part["cells"])
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(part["counts"])])
    groups: dict[int, list[int]] = {}
    found: list[tuple[Any, Regions, str, int]] = []
    for place, (key, filter) in enumerate(keys):
        told = int(part["told"][place])
        if part["counts"][place] == 1 and filter == ALL and key not in is_kept:
            groups.setdefault(told, []).append(place)
        else:
            rows = np.arange(first[place], first[place + 1])
            found.append((key, regions.take(rows), filter, told))
    singles: list[tuple[Any, Regions, str, int]] = [
        ([keys[place][0] for place in places], regions.take(first[places]), ALL, told)
        for told, places in groups.items()
    ]
    return singles + found


def _kept_keys(arrays: dict[str, np.ndarray]) -> set[Any]:
    """The keys of subscriptions with hysteresis or dwell."""
    return {row[0] for row in msgspec.msgpack.decode(arrays["content"].tobytes())["inside"]}


def _restore(state: SpaceState, members: Members, key: Any, regions: Regions, filter: str, flags: int) -> None:
    """Add one member, or a group of simple ones, without a search for matches."""
    keys = key if isinstance(key, list) else [key]
    counts = [1] * len(keys) if isinstance(key, list) else [len(regions.start) - 1]
    state.filters.check(filter)
    state.add(members, keys, regions, counts, filter, flags)


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

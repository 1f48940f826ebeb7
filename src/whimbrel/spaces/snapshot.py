"""The whole state as arrays and back: what a snapshot holds."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from whimbrel.spaces.filters import ALL
from whimbrel.spaces.layout import Regions
from whimbrel.spaces.members import TOLD_OF_LEAVES, Members
from whimbrel.spaces.notices import Collected
from whimbrel.spaces.operations import State
from whimbrel.spaces.preparation import Preparation
from whimbrel.spaces.sticky import Options


def dump_state(state: State, sequence: int, moment: float) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the description of everything."""
    definitions = state.definitions
    labels = [domain.labels.dump() for _, domain in definitions.strings]
    sticky = state.sticky
    content = {
        "spaces": [(name, definitions.dimensions(name)) for name in definitions.spaces],
        "labels": labels,
        "inside": [
            (
                state.subscriptions.names[number],
                options.leave,
                dict(options.hysteresis),
                options.dwell,
                [(state.publications.names[each], due) for each, due in sticky.inside[number].items()],
            )
            for number, options in sticky.options.items()
        ],
    }
    arrays = {"content": np.frombuffer(msgspec.msgpack.encode(content), np.uint8)}
    for members in (state.publications, state.subscriptions):
        arrays |= {f"{members.role}.{name}": array for name, array in _dump(members).items()}
    return arrays, {"sequence": sequence, "moment": moment if np.isfinite(moment) else None}


def load_state(
    state: State, preparation: Preparation, arrays: dict[str, np.ndarray], description: dict[str, Any]
) -> tuple[int, float]:
    """Fill an empty state with a snapshot; gives its sequence number and moment."""
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
        options = Options(leave, hysteresis, dwell)
        state.filters.check(filter)
        outer = preparation.outer(regions, options)
        number = state.add_subscription(key, regions, filter, options, outer, Collected())
        pairs = {state.publications.number_of[publication]: due for publication, due in inside}
        state.sticky.restore(number, pairs)
    moment = description["moment"]
    return description["sequence"], -np.inf if moment is None else moment


def _dump(members: Members) -> dict[str, np.ndarray]:
    """Keys, numbers of regions, regions, flags and filters; hidden members are made again."""
    numbers = list(members.number_of.values())
    slots = [members.slots(number) for number in numbers]
    regions = members.regions.read(np.concatenate([np.zeros(0, np.int32), *slots]))
    keys = [[members.names[number], members.filters.get(number, ALL)] for number in numbers]
    return {
        "keys": np.frombuffer(msgspec.msgpack.encode(keys), np.uint8),
        "counts": np.array([len(each) for each in slots], np.int32),
        "told": members.flags[np.array(numbers, np.int32)] & TOLD_OF_LEAVES,
        "start": regions.start,
        "cells": regions.cells,
    }


def _load(arrays: dict[str, np.ndarray], members: Members) -> list[tuple[Any, Regions, str, int]]:
    """Groups of simple members with the same flags, as lists of keys, then the others one by one."""
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
    return {row[0] for row in msgspec.msgpack.decode(arrays["content"].tobytes())["inside"]}


def _restore(state: State, members: Members, key: Any, regions: Regions, filter: str, flags: int) -> None:
    keys = key if isinstance(key, list) else [key]
    counts = [1] * len(keys) if isinstance(key, list) else [len(regions.start) - 1]
    state.filters.check(filter)
    state.add(members, keys, regions, counts, filter, flags)

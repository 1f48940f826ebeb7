"""Ordered domains: enumerations with a partial order, and hierarchies, whose values are matched as codes.

A code is the place of a value in a list that extends the order, so that what lies below or above a value is a few
runs of codes: one run for `<` in a total order and in a hierarchy, where the list is the Euler tour of the tree (Le
Subscribe; docs/papers.md). Codes depend on the definition alone, not on the order in which it is written: equal domains
have equal codes.
"""

from __future__ import annotations

import heapq
import itertools
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from whimbrel.model.expression import Comparison
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.limits import DOMAIN_VALUES, ORDERED_VALUES
from whimbrel.model.schema.canonical_sets import runs_of, within_integers
from whimbrel.model.schema.domains import EQUAL, ORDER, Domain, check_values, one_of
from whimbrel.model.schema.errors import SchemaError
from whimbrel.model.values import NUMBER, STRING, SortKey, is_text

CodeRun: TypeAlias = tuple[int, int]
"""The codes from the first to the last."""


class Ordered(Domain):
    """A domain with an order of its own: its values are matched as codes."""

    rank = NUMBER
    operators = EQUAL | ORDER
    words: tuple[str, ...]
    """The value of each code."""

    @cached_property
    def codes(self) -> dict[str, int]:
        """The code of each value."""
        return {word: code for code, word in enumerate(self.words)}

    @property
    @abstractmethod
    def is_total(self) -> bool:
        """Whether the codes themselves are the order."""

    @abstractmethod
    def runs(self, op: Comparison, code: int) -> list[CodeRun]:
        """The codes c for which `c op code` holds, as runs, lowest first; `op` is an order comparison."""

    @abstractmethod
    def described(self, runs: Sequence[CodeRun]) -> tuple[Comparison, int] | None:
        """The order comparison that holds for exactly these codes, if there is one."""

    @abstractmethod
    def comparable(self, one: int, two: int) -> bool:
        """Whether one is below the other, or they are the same."""

    def code(self, key: SortKey) -> SortKey | None:
        rank, value = key
        code = self.codes.get(value) if rank == STRING else None  # type: ignore[arg-type]
        return None if code is None else (NUMBER, code)

    def word(self, key: SortKey) -> SortKey:
        """The value of a code, as a key."""
        return STRING, self.words[int(key[1])]

    def is_of_type(self, key: SortKey) -> bool:
        return key[0] == STRING

    def suggestions(self) -> Iterable[str]:
        return self.words

    def canonical(self, values: IntervalSet) -> IntervalSet:
        return within_integers(values, 0, len(self.words) - 1)

    def code_runs(self, values: IntervalSet) -> list[CodeRun]:
        """The codes in a set, as runs."""
        return [
            (first, last)
            for first, last in runs_of(values, 0, len(self.words) - 1)
            if first is not None and last is not None
        ]


@dataclass(frozen=True)
class OrderedEnumeration(Ordered):
    """Listed texts with a partial order: `order` has chains, each from its lowest value upwards."""

    values: tuple[str, ...] = field(compare=False)
    order: tuple[tuple[str, ...], ...] = field(compare=False)
    words: tuple[str, ...] = field(init=False)
    covers: tuple[CodeRun, ...] = field(init=False)
    """The pairs (lower, upper) of codes with nothing between them."""
    kind = "enumerated"

    def __post_init__(self) -> None:
        values = check_values(self.values)
        ORDERED_VALUES.check(len(values), "values")
        object.__setattr__(self, "values", values)
        chains = _check_chains(self.order, frozenset(values))
        object.__setattr__(self, "order", chains)
        object.__setattr__(self, "words", _linear(values, chains))
        covers: list[CodeRun] = []
        for high, lows in sorted(self._lower.items()):
            between = 0  # what lies below another of the codes
            for low in lows:
                between |= self._below[low]
            covers += ((low, high) for low in sorted(lows) if not between >> low & 1)
        object.__setattr__(self, "covers", tuple(covers))

    @property
    def expected(self) -> str:
        return one_of(self.values)

    @cached_property
    def _lower(self) -> dict[int, set[int]]:
        """For each code the codes that some chain lists directly below it."""
        lower: dict[int, set[int]] = {}
        for chain in self.order:
            for low, high in itertools.pairwise(chain):
                lower.setdefault(self.codes[high], set()).add(self.codes[low])
        return lower

    @cached_property
    def _below(self) -> list[int]:
        """For each code the codes strictly below it, as bits."""
        below = [0] * len(self.words)
        for code in range(len(self.words)):  # what lies below has lower codes
            for low in self._lower.get(code, ()):
                below[code] |= below[low] | 1 << low
        return below

    @cached_property
    def _above(self) -> list[int]:
        """For each code the codes strictly above it, as bits."""
        above = [0] * len(self.words)
        for code in reversed(range(len(self.words))):
            for low in self._lower.get(code, ()):
                above[low] |= above[code] | 1 << code
        return above

    @cached_property
    def is_total(self) -> bool:
        return all(bits == (1 << code) - 1 for code, bits in enumerate(self._below))

    def _bits(self, op: Comparison, code: int) -> int:
        bits = self._below[code] if op in ("<", "<=") else self._above[code]
        return bits | 1 << code if op in ("<=", ">=") else bits

    def comparable(self, one: int, two: int) -> bool:
        return one == two or bool(self._below[max(one, two)] >> min(one, two) & 1)

    def runs(self, op: Comparison, code: int) -> list[CodeRun]:
        return _runs_in(self._bits(op, code))

    def described(self, runs: Sequence[CodeRun]) -> tuple[Comparison, int] | None:
        wanted = sum((1 << last + 1) - (1 << first) for first, last in runs)
        for op in _ORDERS:
            for code in range(len(self.words)):
                if self._bits(op, code) == wanted:
                    return op, code
        return None

    def definition(self) -> dict[str, object]:
        return {"kind": self.kind, "values": list(self.values), "order": [list(chain) for chain in self.order]}


@dataclass(frozen=True)
class Hierarchy(Ordered):
    """One or more trees of texts: `children` of each value that has some. `x < y` means that x is a kind of y."""

    children: Mapping[str, tuple[str, ...]] = field(compare=False)
    words: tuple[str, ...] = field(init=False)
    ends: tuple[int, ...] = field(init=False)
    """For each code the first code behind its descendants."""
    kind = "hierarchical"

    def __post_init__(self) -> None:
        children = _check_tree(self.children)
        object.__setattr__(self, "children", children)
        words, ends = _tour(children)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "ends", ends)

    def __hash__(self) -> int:
        return hash((self.words, self.ends))

    @property
    def expected(self) -> str:
        return one_of(self.words)

    @cached_property
    def _parents(self) -> list[int]:
        """The code of each value's parent, or -1."""
        parents: list[int] = []
        open_: list[int] = []
        for code in range(len(self.words)):
            while open_ and self.ends[open_[-1]] <= code:
                open_.pop()
            parents.append(open_[-1] if open_ else -1)
            open_.append(code)
        return parents

    @property
    def is_total(self) -> bool:
        return len(self.words) == 1

    def comparable(self, one: int, two: int) -> bool:
        return max(one, two) < self.ends[min(one, two)]

    def runs(self, op: Comparison, code: int) -> list[CodeRun]:
        if op in ("<", "<="):
            first = code if op == "<=" else code + 1
            return [(first, self.ends[code] - 1)] if first < self.ends[code] else []
        return _runs_of(reversed(list(self._upwards(code, op == ">="))))

    def _upwards(self, code: int, itself: bool) -> Iterable[int]:
        if itself:
            yield code
        while (code := self._parents[code]) >= 0:
            yield code

    def described(self, runs: Sequence[CodeRun]) -> tuple[Comparison, int] | None:
        first, last = runs[0]
        if len(runs) == 1:
            if self.ends[first] == last + 1:
                return "<=", first
            if first and self.ends[first - 1] == last + 1:
                return "<", first - 1
        lowest = runs[-1][1]
        return (">=", lowest) if self.runs(">=", lowest) == list(runs) else None

    def definition(self) -> dict[str, object]:
        return {"kind": self.kind, "children": {name: list(below) for name, below in self.children.items()}}


_ORDERS: tuple[Comparison, ...] = ("<=", ">=", "<", ">")


def _runs_in(bits: int) -> list[CodeRun]:
    """The runs of bits that are 1."""
    runs: list[CodeRun] = []
    first = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ones
        runs.append((first + zeros, first + zeros + ones - 1))
        first += zeros + ones
    return runs


def _runs_of(codes: Iterable[int]) -> list[CodeRun]:
    """The runs of ascending codes."""
    runs: list[CodeRun] = []
    for code in codes:
        if runs and runs[-1][1] + 1 == code:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return runs


def _check_chains(order: object, values: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    if not isinstance(order, list | tuple) or not order:
        raise SchemaError(f"Expected a list of chains, each from its lowest value upwards, but got {order!r}", "order")
    chains: list[tuple[str, ...]] = []
    for chain in order:
        if not isinstance(chain, list | tuple) or len(chain) < 2:
            raise SchemaError(f"Expected a chain of at least two values, but got {chain!r}", "order")
        for value in chain:
            if not isinstance(value, str) or value not in values:
                raise SchemaError(f"Expected {one_of(tuple(sorted(values)))}, but got {value!r}", "order")
        chains.append(tuple(chain))
    return tuple(chains)


def _linear(values: Sequence[str], chains: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The values in topological order, each after all below it, else by name; SchemaError for a cycle."""
    above: dict[str, set[str]] = {value: set() for value in values}
    for chain in chains:
        for low, high in itertools.pairwise(chain):
            above[low].add(high)
    waiting = dict.fromkeys(values, 0)
    for highs in above.values():
        for high in highs:
            waiting[high] += 1
    ready = [value for value, count in waiting.items() if not count]
    heapq.heapify(ready)
    words: list[str] = []
    while ready:
        word = heapq.heappop(ready)
        words.append(word)
        for high in above[word]:
            waiting[high] -= 1
            if not waiting[high]:
                heapq.heappush(ready, high)
    if len(words) < len(values):
        stuck = sorted(set(values) - set(words))
        raise SchemaError(f"Expected an order, but {one_of(tuple(stuck))} lie in a cycle or above one", "order")
    return tuple(words)


def _check_tree(children: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(children, Mapping) or not children:
        raise SchemaError(f"Expected the children of each value, but got {children!r}", "children")
    out: dict[str, tuple[str, ...]] = {}
    parents: dict[str, str] = {}
    for parent, below in children.items():
        if not is_text(parent):
            raise SchemaError(f"Expected text, but got {parent!r}", "children")
        if not isinstance(below, list | tuple) or not all(map(is_text, below)):
            raise SchemaError(f"Expected a list of texts, but got {below!r}", f"children.{parent}")
        for child in below:
            if child in parents:
                raise SchemaError(
                    f"Expected one parent of {child!r}, but got {parents[child]!r} and {parent!r}", f"children.{parent}"
                )
            parents[child] = parent
        out[parent] = tuple(below)
    DOMAIN_VALUES.check(len(out.keys() | parents.keys()), "children")
    return out


def _tour(children: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The values in the order of the Euler tour, siblings by name, and for each the end of its descendants."""
    inner = {child for below in children.values() for child in below}
    names = children.keys() | inner
    words: list[str] = []
    ends: dict[str, int] = {}
    stack = [(name, False) for name in sorted(names - inner, reverse=True)]
    while stack:
        name, left = stack.pop()
        if left:
            ends[name] = len(words)
            continue
        words.append(name)
        stack.append((name, True))
        stack += ((child, False) for child in sorted(children.get(name, ()), reverse=True))
    if len(words) < len(names):
        raise SchemaError(
            f"Expected a tree, but {one_of(tuple(sorted(names - set(words))))} lie in a cycle", "children"
        )
    return tuple(words), tuple(ends[word] for word in words)

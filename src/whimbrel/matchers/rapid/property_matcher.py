"""What rapid and modified_rapid share: subscriptions over {0, 1, *} and events over {0, 1}, as bits.

A property is an attribute with a type: compared with 0 or 1 it is a number, with FALSE or TRUE a boolean, and an
attribute compared with both is two properties, because 1 and TRUE are different values. Properties are discovered on
add; when one appears or goes, the trees are built anew at the next match, and otherwise they change in place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.options import check_integer
from whimbrel.matchers.rapid.forests import FULL, Forests, PropertyBlock
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.errors import EventError, UnsupportedFilter
from whimbrel.model.event import Event
from whimbrel.model.subscription import Id
from whimbrel.model.values import BOOLEAN, NUMBER, TYPE_NAMES, SortKey

Property = tuple[str, int]
"""An attribute and the type, BOOLEAN or NUMBER, of what it is compared with."""

Choice = tuple[str, list[PropertyBlock], int]
"""A forest, the blocks of it that may answer, and the bits that the block must be free of; the full tree has none."""

FULL_TREE: Choice = ("full", [], 0)

_BITS: dict[SortKey, int] = {(BOOLEAN, False): 0, (BOOLEAN, True): 1, (NUMBER, 0): 0, (NUMBER, 1): 1}
_LARGEST_C = 63  # (c + 1) (c + 2) / 2 trees: 2,080
_DEFAULT_C = 6
_LARGEST_LEAF = 1 << 20


class PropertyMatcher(BaseMatcher):
    """A matcher over binary properties; a member says which trees there are and which one answers an event."""

    capabilities = Capabilities(
        ranges=False, exclusions=False, unions=False, patterns=False, members=False, states=False, links=False
    )
    remark = "equality with 0, 1, FALSE and TRUE only"
    mirrored = False
    """Whether there is a zeros-forest beside the ones-forest."""

    def __init__(self, timestamps: Iterable[str] = (), c: int | None = None, leaf: int = 8, count: bool = True) -> None:
        super().__init__(timestamps)
        self._most = None if c is None else check_integer(self.name, "c", c, 0, _LARGEST_C)
        self._leaf = check_integer(self.name, "leaf", leaf, 1, _LARGEST_LEAF)
        self._count = count
        self._properties: dict[Property, int] = {}  # how many conjunctions have each, in order of discovery
        self._rows: dict[int, int] = {}
        self._free: list[int] = []
        self._tallies = np.zeros(2, np.int64)
        self._answered = {"ones": 0, "zeros": 0, "full": 0}
        self._stale = True
        self._build()

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """The properties, as attribute and name of the type, in the order of the bits of `match_vector`."""
        return tuple((attribute, TYPE_NAMES[kind]) for attribute, kind in self._properties)

    @property
    def c(self) -> int:
        """The largest number of ones (or zeros) that has trees of its own: the option, but less than k."""
        k = len(self._properties)
        if self._most is not None:
            return min(self._most, max(0, k - 1))
        return max(t for t in range(_DEFAULT_C + 1) if t * (t + 1) <= k)

    def match_vector(self, vector: Sequence[int]) -> list[Id]:
        """The ids that an event in {0, 1}^k matches, its bits in the order of `properties`; EventError otherwise."""
        k = len(self._properties)
        if len(vector) != k:
            raise EventError(f"a vector of {k} bits", f"one of {len(vector)}", self.name)
        ones = 0
        for place, bit in enumerate(vector):
            if bit not in (0, 1):
                raise EventError("0 or 1", repr(bit), f"{self.name}[{place}]")
            ones |= int(bit) << place
        places = set(self._always)
        for number in self._find(ones, ~ones & ((1 << k) - 1)):
            places |= self._holders[number]
        return [self._subscriptions[place].id for place in sorted(places)]

    @abstractmethod
    def _choose(self, ones: int, zeros: int) -> Choice:
        """What answers an event that has every property."""

    def _accept(self, conjunction: Conjunction) -> None:
        for _, key in _points(conjunction):
            if key not in _BITS:
                from whimbrel.matchers import MATCHERS, supporting

                others = [m for m in supporting(conjunction) if not issubclass(MATCHERS[m], PropertyMatcher)]
                raise UnsupportedFilter(self.name, "equality with anything but 0, 1, FALSE and TRUE", others)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for key, _ in _literals(conjunction):
            self._stale |= key not in self._properties
            self._properties[key] = self._properties.get(key, 0) + 1
        if not self._stale:
            row = self._free.pop() if self._free else len(self._numbered)
            self._rows[number] = row
            self._numbered[row : row + 1] = [number]
            ones, zeros = self._masks(conjunction)
            self._trees.insert([row], [ones], [zeros])

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        for key, _ in _literals(conjunction):
            self._properties[key] -= 1
            if not self._properties[key]:
                del self._properties[key]
                self._stale = True
        if not self._stale:
            row = self._rows.pop(number)
            self._trees.remove(row)
            self._free.append(row)

    def _build(self) -> None:
        """Build trees over the properties that there are now, with all conjunctions in them."""
        self._places_of = {key: place for place, key in enumerate(self._properties)}
        self._bits_of: dict[str, dict[SortKey, tuple[int, int]]] = {}
        for (attribute, kind), place in self._places_of.items():
            values = self._bits_of.setdefault(attribute, {})
            for key, bit in _BITS.items():
                if key[0] == kind:
                    values[key] = (1 << place, 0) if bit else (0, 1 << place)
        self._trees = Forests(len(self._properties), self.c, self.mirrored, self._leaf)
        self._numbered = list(self._conjunctions)  # row -> number
        self._rows = {number: row for row, number in enumerate(self._numbered)}
        self._free = []
        masks = [self._masks(conjunction) for conjunction in self._conjunctions.values()]
        self._trees.insert(list(range(len(masks))), [ones for ones, _ in masks], [zeros for _, zeros in masks])
        self._stale = False

    def _masks(self, conjunction: Conjunction) -> tuple[int, int]:
        ones = zeros = 0
        for key, bit in _literals(conjunction):
            if bit:
                ones |= 1 << self._places_of[key]
            else:
                zeros |= 1 << self._places_of[key]
        return ones, zeros

    def _search(self, event: Event) -> Iterable[int]:
        if self._stale:
            self._build()
        ones = zeros = 0
        for attribute in event.attributes:
            values = self._bits_of.get(attribute)
            if values is not None:
                for key in event.keys(attribute):
                    one, zero = values.get(key, (0, 0))
                    ones |= one
                    zeros |= zero
        found = self._find(ones, zeros)
        if event.has_elements:  # values from one element: more than bits can say
            return [number for number in found if self._conjunctions[number].matches(event)]
        return found

    def _find(self, ones: int, zeros: int) -> list[int]:
        if self._stale:
            self._build()
        tree = self._tree(ones, zeros)
        counts = self._tallies if self._count else np.zeros(2, np.int64)
        numbered = self._numbered
        return [numbered[row] for row in self._trees.search(tree, ones, zeros, counts)]

    def _tree(self, ones: int, zeros: int) -> int:
        """The smallest tree that can answer; the full one if a property is absent, in a list, or too many are set."""
        if ones & zeros or ones | zeros != (1 << len(self._properties)) - 1:
            forest, blocks, taken = FULL_TREE
        else:
            forest, blocks, taken = self._choose(ones, zeros)
        if self._count:
            self._answered[forest] += 1
        if not blocks:
            return FULL
        return min((self._trees.nodes(block.tree), block.tree) for block in blocks if not block.mask & taken)[1]

    def _member_stats(self) -> Stats:
        if self._stale:
            self._build()
        nodes, entries, size = self._trees.size()
        return {
            "properties": len(self._properties),
            "c": self.c,
            "trees": 1 + sum(len(blocks) for forest in self._trees.forests for blocks in forest),
            "nodes": nodes,
            "full_tree_nodes": self._trees.nodes(FULL),
            "entries": entries,
            "bytes": size,
            "nodes_visited": int(self._tallies[0]),
            "candidates": int(self._tallies[1]),
            **{f"{forest}_searches": count for forest, count in self._answered.items()},
        }

    def _check(self) -> None:
        super()._check()
        assert sum(self._properties.values()) == sum(len(c.constraints) for c in self._conjunctions.values())
        if not self._stale:
            assert self._rows.keys() == self._conjunctions.keys()
            assert all(self._numbered[row] == number for number, row in self._rows.items())
            assert len(self._rows) + len(self._free) == len(self._numbered)
            self._trees.check({self._rows[n]: self._masks(c) for n, c in self._conjunctions.items()})


def _points(conjunction: Conjunction) -> Iterator[tuple[str, SortKey]]:
    """The one value that each attribute is compared with."""
    for attribute, constraint in conjunction.constraints:
        yield from ((attribute, key) for key in constraint.values.as_points() or ())


def _literals(conjunction: Conjunction) -> list[tuple[Property, int]]:
    return [((attribute, key[0]), _BITS[key]) for attribute, key in _points(conjunction)]

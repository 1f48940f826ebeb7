"""RAPIDMatch, after Kale, Hazan, Cao and Singh, DEBS 2005, and Modified RAPIDMatch.

Subscriptions are over {0, 1, *} and events over {0, 1}, as bits. Compiled loops run on flat arrays that change in
place: `forests` says which trees there are, `rapid_kernels` changes and searches them.

A property is an attribute with a type: compared with 0 or 1 it is a number, with FALSE or TRUE a boolean, and an
attribute compared with both is two properties, because 1 and TRUE are different values. Properties are discovered on
add; when one appears or goes, the trees are built anew at the next match, and otherwise they change in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from whimbrel.matchers.rapid.forests import FULL, Forests, PropertyBlock
from whimbrel.matchers.shared.base import BaseMatcher, Stats, all_matchers, supporting
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.option_checks import check_integer
from whimbrel.matchers.shared.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.errors import EventError, UnsupportedFilter
from whimbrel.model.event import Event
from whimbrel.model.subscription import Id
from whimbrel.model.values import BOOLEAN, NUMBER, TYPE_NAMES, SortKey

Property = tuple[str, int]
"""An attribute and the type, BOOLEAN or NUMBER, of what it is compared with."""

ONES, ZEROS, ALL = 2, 3, 4
"""The counters of searches: in the ones-forest, in the zeros-forest, in the tree over all properties."""

Choice = tuple[int, list[PropertyBlock], int]
"""The counter of a forest, the blocks of it that may answer, and the bits that the block must be free of."""

FULL_TREE: Choice = (ALL, [], 0)

_BITS: dict[SortKey, int] = {(BOOLEAN, False): 0, (BOOLEAN, True): 1, (NUMBER, 0): 0, (NUMBER, 1): 1}
_LARGEST_C = 63  # (c + 1) (c + 2) / 2 trees: 2,080
_DEFAULT_C = 6
_LARGEST_LEAF = 1 << 20


class Rapid(BaseMatcher):
    """RAPIDMatch: trees that leave out the properties which a light event cannot have.

    An event with t <= c ones leaves at least one of t + 1 blocks of properties without a 1. What it can match has no 1
    in that block either, so the block's tree need not test it; of the blocks without a 1 the one with the smallest tree
    is searched. An event with more ones, or one that lacks a property or holds several values or another value of it,
    is answered by the tree over all properties, in which an absent property follows * only. Cost: an add visits at most
    (c + 1) (c + 2) / 2 + 1 trees, a match one. Corrected: ERR-7a, ERR-7b, ERR-7c, AMB-7d.

    `c`: the largest number of ones that has trees of its own, at most k - 1; without it, the largest t up to 6 whose
    blocks are at least t long, which is how the garbled efficiency condition is read (AMB-7d). `leaf`: how many
    subscriptions a leaf holds before it is split; a leaf compares bit masks.

    >>> from whimbrel.matchers import make
    >>> rapid = make("rapid")
    >>> rapid.add("sports", "sports = 1 AND politics = 0")
    >>> rapid.add("quiet", "politics = 0")
    >>> rapid.match({"sports": 0, "politics": 0}), rapid.match_vector([0, 1])
    (['quiet'], ['sports', 'quiet'])
    """

    name = "rapid"
    paper = Paper.SURVEY
    section = "III.B and III.C"
    capabilities = Capabilities(
        ranges=False, exclusions=False, unions=False, patterns=False, members=False, nonmembers=False, states=False,
        links=False,
    )  # fmt: skip
    counted = ("nodes_visited", "candidates", "ones_searches", "zeros_searches", "full_searches")
    reuses_numbers = True
    remark = "equality with 0, 1, FALSE and TRUE only"
    mirrored = False
    """Whether there is a zeros-forest beside the ones-forest."""

    def __init__(self, timestamps: Iterable[str] = (), c: int | None = None, leaf: int = 8, count: bool = True) -> None:
        super().__init__(timestamps, count)
        self._most = None if c is None else check_integer(self.name, "c", c, 0, _LARGEST_C)
        self._leaf = check_integer(self.name, "leaf", leaf, 1, _LARGEST_LEAF)
        self._properties: dict[Property, int] = {}  # how many conjunctions have each, in order of discovery
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
        return self.ids(sorted(self._holding(self._find(ones, ~ones & ((1 << k) - 1)))))

    def _choose(self, ones: int, zeros: int) -> Choice:
        """Choose the forest and the blocks of it for an event that has every property."""
        light = self._trees.forests[0]
        t = ones.bit_count()
        return (ONES, light[t], ones) if t < len(light) else FULL_TREE

    def _accept(self, conjunction: Conjunction) -> None:
        for _, constraint in conjunction.constraints:
            if constraint.values.single() not in _BITS:
                others = [m for m in supporting(conjunction) if not issubclass(all_matchers()[m], Rapid)]
                raise UnsupportedFilter(self.name, "equality with anything but 0, 1, FALSE and TRUE", others)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for key, _ in _literals(conjunction):
            self._stale |= key not in self._properties
            self._properties[key] = self._properties.get(key, 0) + 1
        if not self._stale:
            self._trees.insert({number: self._masks(conjunction)})

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        for key, _ in _literals(conjunction):
            self._properties[key] -= 1
            if not self._properties[key]:
                del self._properties[key]
                self._stale = True
        if not self._stale:
            self._trees.remove(number)

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
        self._trees.insert({number: self._masks(held) for number, held in self._conjunctions.items()})
        self._stale = False

    def _masks(self, conjunction: Conjunction) -> tuple[int, int]:
        masks = [0, 0]
        for key, bit in _literals(conjunction):
            masks[1 - bit] |= 1 << self._places_of[key]
        return masks[0], masks[1]

    def _search(self, event: Event) -> Iterable[int]:
        if self._stale:
            self._build()  # it gives properties their bits
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
        return self._trees.search(self._tree(ones, zeros), ones, zeros, self._counters)

    def _tree(self, ones: int, zeros: int) -> int:
        """The smallest tree that can answer; the full one if a property is absent, in a list, or too many are set."""
        if ones & zeros or ones | zeros != (1 << len(self._properties)) - 1:
            counter, blocks, taken = FULL_TREE
        else:
            counter, blocks, taken = self._choose(ones, zeros)
        if self._counters is not None:
            self._counters[counter] += 1
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
        }

    def _check(self) -> None:
        super()._check()
        assert sum(self._properties.values()) == sum(len(c.constraints) for c in self._conjunctions.values())
        if not self._stale:
            self._trees.check({number: self._masks(held) for number, held in self._conjunctions.items()})


class ModifiedRapid(Rapid):
    """Modified RAPIDMatch: an event is light by its ones or by its zeros, whichever it has fewer of.

    The ones-forest is that of `rapid`; the zeros-forest swaps the roles of 0 and 1. An event with at most as many ones
    as zeros asks the first, any other the second, and one whose rarer bit occurs more than c times the tree over all
    properties; with c = k // 2 no complete event does. Cost: twice the trees of `rapid`, one of them searched per
    event. Corrected: ERR-8a, ERR-8b, ERR-8c.

    >>> from whimbrel.matchers import make
    >>> matcher = make("modified_rapid")
    >>> for number, text in enumerate(["00111", "01101", "*11*1", "00000", "01*01", "01000", "10*01"], 1):
    ...     literals = [f"p{i} = {bit}" for i, bit in enumerate(text, 1) if bit != "*"]
    ...     matcher.add(f"S{number}", " AND ".join(literals))
    >>> matcher.match_vector([0, 1, 1, 0, 1])
    ['S2', 'S3', 'S5']
    """

    name = "modified_rapid"
    section = "III.D"
    mirrored = True

    def _choose(self, ones: int, zeros: int) -> Choice:
        rarer = min(ones.bit_count(), zeros.bit_count())
        light, dark = self._trees.forests
        if rarer >= len(light):
            return FULL_TREE
        return (ONES, light[rarer], ones) if ones.bit_count() == rarer else (ZEROS, dark[rarer], zeros)


def _literals(conjunction: Conjunction) -> Iterator[tuple[Property, int]]:
    """The properties of a conjunction, each with the bit that it must be."""
    for attribute, constraint in conjunction.constraints:
        key = constraint.values.single()
        assert key is not None, "only equalities are accepted"
        yield (attribute, key[0]), _BITS[key]

"""The equality tree of Gryphon.

Compiled loops (`level_kernels`) search flat arrays that are built in batches (`level_tree`). Subscriptions that were
added since the last batch are in a small tree of Python objects that is searched as well, the general tree of the same
paper. A removed subscription stays as a leaf that nobody holds until the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.matchers.equality_tree.factoring import COPIES, Factoring, copies
from whimbrel.matchers.equality_tree.level_kernels import STAR
from whimbrel.matchers.equality_tree.level_tree import FrozenTree, check_tree
from whimbrel.matchers.gryphon_tree.general_tree import GeneralTree
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import ATTR, LOW, ConjunctionRows
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import FrozenMatcher
from whimbrel.matchers.shared.option_checks import check_names
from whimbrel.matchers.shared.papers import Paper
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.errors import UnsupportedEvent
from whimbrel.model.event import Event

_LEAST_BATCH, _LARGEST_OVERLAY = 4, 4_096


class EqualityTree(FrozenMatcher):
    """A tree with a level per attribute, an edge per value, a leaf per conjunction, and four ways to visit less.

    At a node of level i an event follows the edge of its i-th value and the `*` edge. The options, each of which can be
    switched off, change how many nodes that visits, never the answer:

    - `collapse` leaves out nodes whose only edge is `*` (5.1);
    - `successors` follows `*` edges only where the walk is blocked, through lists made beforehand that lead to each
      other node at most once (5.2, AMB-5a); lists of more than 64 entries per node are not made;
    - `aggressive` takes successors off those lists that must be blocked too (5.3; nothing without `successors`);
    - `index_attributes` factor the tree: one tree per combination of their values, each without these levels (AMB-5b).
      Only as many take part, from the first on, as make at most 4,000,000 copies of conjunctions;
    - `closed` says that every event has, of each index attribute, a value that some subscription tests, as in the
      paper's experiment: V**m trees instead of (V + 1)**m. Any other event is refused with `UnsupportedEvent`.

    `order` names the attributes of the first levels; the others follow, those that most conjunctions test first.
    `stats()` shows what was built.

    >>> from whimbrel.matchers import make
    >>> tree = make("equality_tree", count=True)
    >>> tree.add("toys in Oslo", "category = 'Toy' AND city = 'Oslo'")
    >>> tree.add("Oslo", "city = 'Oslo'")
    >>> tree.match({"category": "Toy", "city": "Oslo"}), tree.match({"city": "Oslo"})
    (['toys in Oslo', 'Oslo'], ['Oslo'])
    """

    name = "equality_tree"
    paper = Paper.GRYPHON
    section = "sections 4 and 5 and appendix B"
    capabilities = Capabilities(
        ranges=False, exclusions=False, unions=False, patterns=False, members=False, nonmembers=False, states=False,
        links=False, lists=False, elements=False,
    )  # fmt: skip
    counted = ("nodes_visited", "comparisons")

    def __init__(
        self,
        timestamps: Iterable[str] = (),
        collapse: bool = True,
        successors: bool = True,
        aggressive: bool = True,
        index_attributes: Sequence[str] = (),
        closed: bool = False,
        order: Sequence[str] = (),
        count: bool = False,
    ) -> None:
        self._options = (collapse, successors, aggressive)
        self._order = check_names(self.name, "order", order)
        self.index_attributes = check_names(self.name, "index_attributes", index_attributes)
        self._closed = closed
        super().__init__(timestamps, count)

    def freeze(self) -> None:
        super().freeze()
        self._overlay = GeneralTree()
        self._late: dict[int, Conjunction] = {}  # of what is not compiled, that which is not yet in the overlay

    def _build(self, rows: ConjunctionRows) -> None:
        table, numbers = _table(rows), {name: number for number, name in enumerate(rows.dictionary.names)}
        uses = np.count_nonzero(table != STAR, axis=0)
        index = [numbers[name] for name in self.index_attributes if name in numbers and uses[numbers[name]]]
        while copies(table, index, self._closed) > COPIES.value:
            index.pop()
        given = [numbers[name] for name in self._order if name in numbers]
        rest = sorted(set(numbers.values()) - set(given), key=lambda number: (-uses[number], number))
        levels = [number for number in (*given, *rest) if number not in index and uses[number]]
        factoring = Factoring(table, index, rows.dictionary.rank_base[:, 4].tolist(), self._closed)
        self._tree = FrozenTree(table, levels, factoring, *self._options)
        self._rows = rows

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        outside = self._tree.factoring.outside(block.first[event:])
        if outside is not None:
            name = self._rows.dictionary.names[outside[1]]
            raise UnsupportedEvent(
                self.name, "a missing value, or one that no subscription tests, with closed=True", name
            )
        return self._tree.run(block.first, event, len(self._rows), out, ends, self._counters)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        super()._insert(number, conjunction)
        self._late[number] = conjunction

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        super()._delete(number, conjunction)
        if self._late.pop(number, None) is None and number in self._overlay.leaves:
            self._overlay.delete(number)

    def _settle(self) -> None:
        """Put what is new into the overlay, or everything into a new tree where that is worth it."""
        stored = self._stored()
        batch = min(max(_LEAST_BATCH, stored // 16), _LARGEST_OVERLAY)
        widened = self._closed and any(c.attributes.intersection(self.index_attributes) for c in self._late.values())
        if self._loaded or widened or len(self._fresh) >= batch or len(self._owners) > 2 * stored:
            self.freeze()
        while self._late:
            self._overlay.insert(*self._late.popitem())

    def _search(self, event: Event) -> Iterable[int]:
        found, visited, _ = self._overlay.search(event)
        if self._counters is not None:
            self._counters[0] += visited
        return found

    def _sizes(self) -> Stats:
        tree = self._tree
        return {
            "levels": len(tree.levels),
            "index_attributes": len(tree.factoring.attributes),
            "subtrees": len(tree.roots),
            "nodes": len(tree.nodes),
            "edges": len(tree.nodes) - len(tree.roots),
            "successor_entries": len(tree.lists) if tree.successors else 0,
            "bytes": tree.nbytes,
            "overlay_nodes": self._overlay.nodes,
        }

    def _check_structure(self) -> None:
        check_tree(self._tree, _table(self._rows))
        self._overlay.check({number: held for number, held in self._fresh.items() if number not in self._late})
        assert self._late.keys() <= self._fresh.keys()


def _table(rows: ConjunctionRows) -> Int32s:
    """A row of ranks for each conjunction, `STAR` where it does not test the attribute of the column."""
    table = np.full((len(rows), len(rows.dictionary.names)), STAR, dtype=np.int32)
    table[rows.item_rows(), rows.items[:, ATTR]] = rows.items[:, LOW]
    return table

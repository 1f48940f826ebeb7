"""The equality tree: a level per attribute, an edge per value, a leaf per subscription, and four ways to visit less.

Compiled loops (`level_kernels`) search flat arrays that are built in batches (`level_tree`). Subscriptions that were
added since the last batch are in a small tree of Python objects that is searched as well (`overlay_tree`). A removed
subscription stays as a leaf that nobody holds until the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import ATTR, LOW, ConjunctionRows
from whimbrel.matchers.equality_tree.factoring import COPIES, Factoring, copies
from whimbrel.matchers.equality_tree.invariants import check_tree
from whimbrel.matchers.equality_tree.level_kernels import STAR
from whimbrel.matchers.equality_tree.level_tree import FrozenTree
from whimbrel.matchers.equality_tree.overlay_tree import Overlay, Tests
from whimbrel.matchers.frozen import FrozenMatcher
from whimbrel.matchers.options import MatcherOptionError, check_names
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.ranks.encoding.event_grid import EventGrid

_LEAST_BATCH, _LARGEST_OVERLAY = 4, 4_096


class EqualityTree(FrozenMatcher):
    """Conjunctions of equalities, matched by walking down a tree whose levels are the attributes.

    At a node of level i an event follows the edge of its i-th value and the `*` edge. The options, each of which can be
    switched off, change how many nodes that visits, never the answer:

    - `collapse` leaves out nodes whose only edge is `*` (5.1);
    - `successors` follows `*` edges only where the walk is blocked, through lists made beforehand that lead to each
      other node at most once (5.2, with the trailing-run definition; the paper's general one would visit nodes again,
      AMB-5a);
    - `aggressive` takes successors off those lists that must be blocked too (5.3; nothing without `successors`);
    - `index_attributes` factor the tree: one tree per combination of their values, each without these levels. Unseen
      and missing values have a bucket of their own, which the paper's closed domain does not need (AMB-5b).

    `order` names the attributes of the first levels; the others follow, those that most subscriptions test first.
    `count` counts visited nodes and comparisons for `stats()`.

    Successor lists of more than 64 entries per node are not made, and of `index_attributes` only as many take part,
    from the first on, as make at most 4,000,000 copies of subscriptions: `stats()` shows what was built.

    Measured on the gryphon workload at 25,000, in one process, medians of CPU time per event of a table: 43 us with
    every option off; 14 us with `collapse`, which is 68 % less (the paper: about 60 %); 11 us with all options and
    a1, a2, a3 as index attributes, a factor of 3.8. Nodes visited: 2,031, 449 and 222. One claim does not reproduce:
    successor sets with aggressive refinement visit a fifth fewer nodes than `collapse` alone (363), as the paper's 20 %
    more speed suggests, but take the same time, because on a machine with caches to read the lists costs what the
    visits did. To read a single event from Python objects takes some 300 us, in which these differences drown.

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
        ranges=False, exclusions=False, unions=False, patterns=False, members=False, states=False, links=False,
        lists=False, elements=False,
    )  # fmt: skip
    counted = ("nodes_visited", "comparisons")

    def __init__(
        self,
        timestamps: Iterable[str] = (),
        collapse: bool = True,
        successors: bool = True,
        aggressive: bool = True,
        index_attributes: Sequence[str] = (),
        order: Sequence[str] = (),
        count: bool = False,
    ) -> None:
        self._options = (collapse, successors, aggressive)
        self._order = check_names(self.name, "order", order)
        self.index_attributes = check_names(self.name, "index_attributes", index_attributes)
        self._overlay = Overlay()
        self._late: dict[int, Tests] = {}  # of what is not compiled, that which is not yet in the overlay
        super().__init__(timestamps, count)

    @property
    def levels(self) -> tuple[str, ...]:
        """The attributes of the compiled levels, from the root down."""
        return tuple(self._rows.dictionary.names[level] for level in self._tree.levels)

    def index_on(self, *attributes: str) -> None:
        """Factor the tree on other attributes; MatcherOptionError for one that no subscription tests.

        Nothing changes on an error, which is LimitExceeded if factoring would make too many copies.
        """
        names = check_names(self.name, "index_attributes", attributes)
        unknown = [name for name in names if name not in self.attributes()]
        if unknown:
            raise MatcherOptionError(
                self.name, "index_attributes", "attributes that subscriptions test", ", ".join(unknown)
            )
        self.freeze()
        numbers = {name: number for number, name in enumerate(self._rows.dictionary.names)}
        COPIES.check(copies(_table(self._rows), [numbers[name] for name in names]), ", ".join(names))
        self.index_attributes = names
        self.freeze()

    def freeze(self) -> None:
        """Compile everything that is stored."""
        super().freeze()
        self._overlay = Overlay()
        self._late = {}

    def _build(self, rows: ConjunctionRows) -> None:
        table, numbers = _table(rows), {name: number for number, name in enumerate(rows.dictionary.names)}
        index = [numbers[name] for name in self.index_attributes if name in numbers]
        while copies(table, index) > COPIES.value:
            index.pop()
        uses = np.count_nonzero(table != STAR, axis=0)
        given = [numbers[name] for name in self._order if name in numbers]
        rest = sorted(set(numbers.values()) - set(given), key=lambda number: (-uses[number], number))
        levels = [number for number in (*given, *rest) if number not in index and uses[number]]
        factoring = Factoring(table, index, rows.dictionary.rank_base[:, 4].tolist())
        self._tree = FrozenTree(table, levels, factoring, *self._options)
        self._rows = rows

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        return self._tree.run(block.first, event, len(self._rows), out, ends, self._counters)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        super()._insert(number, conjunction)
        self._late[number] = tuple(
            (name, (constraint.values.as_points() or [])[0]) for name, constraint in conjunction.constraints
        )

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        super()._delete(number, conjunction)
        if self._late.pop(number, None) is None and number in self._overlay.tests:
            self._overlay.remove(number)

    def _settle(self) -> None:
        """Put what is new into the overlay, or everything into a new tree where that is worth it."""
        stored = self._stored()
        batch = min(max(_LEAST_BATCH, stored // 16), _LARGEST_OVERLAY)
        if self._loaded or len(self._fresh) >= batch or len(self._owners) > 2 * stored:
            self.freeze()
        while self._late:
            self._overlay.add(*self._late.popitem())

    def _search(self, event: Event) -> Iterable[int]:
        if not self._overlay.tests:
            return []
        found, visited = self._overlay.search(event)
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
            "overlay_nodes": self._overlay.nodes(),
        }

    def _check_structure(self) -> None:
        check_tree(self._tree, _table(self._rows))
        self._overlay.check()
        assert not self._late.keys() & set(self._overlay.tests)
        assert self._late.keys() | set(self._overlay.tests) == self._fresh.keys()


def _table(rows: ConjunctionRows) -> Int32s:
    """A row of ranks for each conjunction, `STAR` where it does not test the attribute of the column."""
    table = np.full((len(rows), len(rows.dictionary.names)), STAR, dtype=np.int32)
    table[rows.item_rows(), rows.items[:, ATTR]] = rows.items[:, LOW]
    return table

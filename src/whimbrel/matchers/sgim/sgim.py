"""SGIM, statistical group index matching: whole groups of predicates are chosen or deleted by four bounds.

After Hassan, Song and Huh. Dynamic Python objects (`predicate_groups`) with a compiled form for matching
(`frozen_groups`): an attribute whose predicates changed is compiled anew at the next match.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from whimbrel.matchers.base import BaseMatcher, Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.options import check_choice
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.sgim.frozen_groups import (
    CHOSEN,
    DELETED,
    EVALUATED,
    OPENED,
    SKIPPED,
    FrozenGroups,
    FrozenPredicates,
    freeze_table,
)
from whimbrel.matchers.sgim.predicate_groups import PredicateTable
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event


class Sgim(BaseMatcher):
    """Equalities, ranges, exclusions and unions, on events with lists too.

    A predicate is stored once with the subscriptions that share it. For every attribute, a group whose bounds exclude
    the event's values is deleted, with all its subscriptions; one that all of them must include is chosen; in any other
    the predicates are evaluated, but for those whose subscriptions are all ruled out already. What is left at the end
    matches. With several values an attribute satisfies a predicate if one does: a group is deleted if all values lie
    outside, chosen if one lies within. Attributes that rule out the most subscriptions come first.

    Parameters: `grouping`, "equal_width" (SGIM) or "dynamic" (equal frequencies, DGIM); `count`, whether work is
    counted.

    The survey names neither the number of groups nor what the index holds, and the original is not at hand, so this is
    a reconstruction (AMB-9, docs/papers.md): ceil(log2 n) classes for n predicates, regrouped when n doubles or halves,
    and when a group holds four times its share, though with equal widths not before n has grown by an eighth.

    Measured: a group of one-sided ranges reaches to the end of the domain and is hardly ever deleted or chosen. On
    lesubscribe with 40,000 subscriptions and p = 0.5, 7 % of the groups are deleted and none chosen; with p = 1, 85 %
    are deleted. With 20,000 and p = 0.5 dynamic groups are deleted six times as often as those of equal width, which
    saves a tenth of the evaluations. On {0, 1, *} data, the survey's experiment, an attribute has two predicates in one
    group, and the index says nothing that evaluating two predicates does not. There the survey has it behind for few
    and ahead for many of 250 to 1,000 subscriptions; that did not reproduce: on 50 properties it was slower than rapid
    from 250 to 5,000, and at 20,000 level on events of uniform bits only (one run on a busy machine).

    Cost: a match is linear in the subscriptions, as in the survey; an add is O(1) but for regrouping, and the next
    match freezes the attributes that it touched.

    >>> from whimbrel.matchers import make
    >>> sgim = make("sgim", grouping="dynamic")
    >>> sgim.add("cheap", "price < 5")
    >>> sgim.add("mid", "price BETWEEN 4 AND 9 AND color != 'red'")
    >>> sgim.match({"price": 4, "color": "blue"}), sgim.match({"price": 4})
    (['cheap', 'mid'], ['cheap'])
    """

    name = "sgim"
    paper = Paper.SURVEY
    section = "III.E"
    capabilities = Capabilities(patterns=False, members=False, states=False, links=False)

    def __init__(self, timestamps: Iterable[str] = (), grouping: str = "equal_width", count: bool = True) -> None:
        super().__init__(timestamps)
        self.grouping = check_choice(self.name, "grouping", grouping, ("equal_width", "dynamic"))
        self._count = count
        self._tables: dict[str, PredicateTable] = {}
        self._rows: dict[int, int] = {}
        self._numbered: list[int] = []  # row -> number
        self._free: list[int] = []
        self._gone = np.zeros(0, np.uint8)
        self._frozen_tables: dict[str, FrozenPredicates] = {}
        self._frozen: FrozenGroups | None = None
        self._counts = np.zeros(5, np.int64)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        row = self._free.pop() if self._free else len(self._numbered)
        self._numbered[row : row + 1] = [number]
        self._rows[number] = row
        for attribute, constraint in conjunction.constraints:
            table = self._tables.get(attribute)
            if table is None:
                table = self._tables[attribute] = PredicateTable(self.grouping == "dynamic")
            table.add(constraint.values, row)
            self._thaw(attribute)

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        row = self._rows.pop(number)
        self._free.append(row)
        for attribute, constraint in conjunction.constraints:
            table = self._tables[attribute]
            table.remove(constraint.values, row)
            self._thaw(attribute)
            if not table.predicates:
                del self._tables[attribute]

    def _thaw(self, attribute: str) -> None:
        self._frozen = None
        self._frozen_tables.pop(attribute, None)

    def _freeze(self) -> FrozenGroups:
        if self._frozen is None:
            for attribute, table in self._tables.items():
                if attribute not in self._frozen_tables:
                    self._frozen_tables[attribute] = freeze_table(table)
            self._frozen = FrozenGroups(self._frozen_tables)
            self._gone = np.zeros(len(self._numbered), np.uint8)
            self._gone[self._free] = 1
        return self._frozen

    def _search(self, event: Event) -> Iterable[int]:
        frozen = self._freeze()
        counts = self._counts if self._count else np.zeros(5, np.int64)
        held = {name: event.keys(name) for name in event.attributes if name in frozen.attributes}
        found = [self._numbered[row] for row in frozen.search(held, self._gone, counts)]
        if event.has_elements:  # values from one element: more than one attribute at a time can say
            return [number for number in found if self._conjunctions[number].matches(event)]
        return found

    def _member_stats(self) -> Stats:
        frozen = self._freeze()
        classes = [classes for table in self._tables.values() for classes in table.classes.values()]
        return {
            "attributes": len(self._tables),
            "predicates": sum(len(table.predicates) for table in self._tables.values()),
            "groups": sum(len(table.groups()) for table in self._tables.values()),
            "regroupings": sum(found.regroupings for found in classes),
            "bytes": frozen.nbytes,
            "groups_deleted": int(self._counts[DELETED]),
            "groups_chosen": int(self._counts[CHOSEN]),
            "groups_evaluated": int(self._counts[OPENED]),
            "predicate_evaluations": int(self._counts[EVALUATED]),
            "predicates_skipped": int(self._counts[SKIPPED]),
        }

    def _check(self) -> None:
        super()._check()
        assert self._rows.keys() == self._conjunctions.keys()
        assert sorted([*self._rows.values(), *self._free]) == list(range(len(self._numbered)))
        assert self._tables.keys() == self._uses.keys()
        for attribute, table in self._tables.items():
            table.check()
            assert sum(len(predicate.rows) for predicate in table.predicates.values()) == self._uses[attribute]
        for number, conjunction in self._conjunctions.items():
            for attribute, constraint in conjunction.constraints:
                assert self._rows[number] in self._tables[attribute].predicates[constraint.values].rows

"""The normal form of an expression: a bounded OR of conjunctions.

NOT is pushed to the predicates, which is exact because each has a true-set and a false-set; AND multiplies, OR
collects and merges conjunctions that differ in one attribute only, so that `a = 1 OR a = 2` is one conjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from whimbrel.model import expression as ex
from whimbrel.model.conjunction import TRUE, Conjunction, all_of
from whimbrel.model.constraint import NULL_KEY, Constraint, Group, unite
from whimbrel.model.expression import NEGATED, Expression
from whimbrel.model.intervals import ALL, EMPTY, ORDERED, STRINGS, IntervalSet, compare_set
from whimbrel.model.limits import (
    EXPRESSION_DEPTH,
    FILTER_CONJUNCTIONS,
    FILTER_CONSTRAINTS,
    FILTER_PREDICATES,
    FILTER_VALUES,
)
from whimbrel.model.patterns import Cidr, Pattern, Regex, Suffix, parse_ilike, parse_like
from whimbrel.model.values import SortKey, Value, canonical_number, sort_key

Refine: TypeAlias = Callable[[Conjunction], Conjunction | None]

ABSORB_UP_TO = 64
"""Conjunctions up to which covered ones are dropped: the check is quadratic."""
ABSORB_STEPS = 1 << 20
"""Steps that this check may take, about: two long lists are compared member by member."""

_SURELY_SMALL = 256
_ONE_CONSTRAINT = (ex.Compare, ex.In, ex.StartsWith, ex.EndsWith, ex.IsNull, ex.IsMissing)
"""Predicates that are one constraint each."""

_IS_NULL = Constraint(missing=True, null=True, values=EMPTY)
_IS_NOT_NULL = Constraint(bound=False)
_IS_MISSING = Constraint(missing=True, values=EMPTY)
_IS_NOT_MISSING = Constraint(null=True, bound=False)


def normal_form(expression: Expression, refine: Refine | None = None) -> tuple[Conjunction, ...]:
    """The canonical OR of conjunctions; empty if unsatisfiable, (TRUE,) if always true.

    `refine` gives a conjunction the canonical form that it has in a schema, or None if nothing satisfies it.
    """
    check_size(expression)
    expanded = _expand(expression, positive=True)
    conjunctions = _simplified(expanded, refine)
    return tuple(sorted(conjunctions, key=lambda c: c.sort_key)) if len(conjunctions) > 1 else tuple(conjunctions)


def _simplified(conjunctions: list[Conjunction], refine: Refine | None) -> list[Conjunction]:
    """Drop what is needless and merge until nothing changes: each of them may let the other do more."""
    while True:
        if refine is not None:
            conjunctions = _refined(conjunctions, refine)
        simpler = _absorb([_unbound(c) for c in conjunctions])
        if len(simpler) < 2 or set(simpler) == set(conjunctions):
            return simpler
        conjunctions = _merge(simpler)


def _refined(conjunctions: list[Conjunction], refine: Refine) -> list[Conjunction]:
    """Refine and merge until nothing changes: a union of refined sets may have a shorter form."""
    while True:
        refined = _collect([[c for one in conjunctions if (c := refine(one)) is not None]])
        if len(refined) < 2 or set(refined) == set(conjunctions):
            return refined
        conjunctions = refined


def check_size(expression: Expression) -> None:
    """Raise `LimitExceeded` if the tree is too deep or has too many predicates. Runs without recursion."""
    level: list[Expression] = [expression]
    depth = predicates = 0
    while level:
        EXPRESSION_DEPTH.check(depth)
        following: list[Expression] = []
        for node in level:
            if isinstance(node, ex.And | ex.Or):
                following += node.terms
            elif isinstance(node, ex.Not):
                following.append(node.term)
            else:
                predicates += 1
        FILTER_PREDICATES.check(predicates)
        level, depth = following, depth + 1


def is_surely_small(expression: Expression) -> bool:
    """Whether the normal form surely is within the limits, so that it need not be made to know."""
    terms = expression.terms if isinstance(expression, ex.And) else (expression,)
    return len(terms) <= _SURELY_SMALL and all(isinstance(term, _ONE_CONSTRAINT) for term in terms)


def _expand(node: Expression, positive: bool) -> list[Conjunction]:
    if isinstance(node, ex.Not):
        return _expand(node.term, not positive)
    if isinstance(node, ex.And | ex.Or):
        parts: list[list[Conjunction]] = []
        for term in node.terms:  # a loop, not a comprehension: one frame per level
            parts.append(_expand(term, positive))
        return _product(parts) if isinstance(node, ex.And) == positive else _collect(parts)
    return _predicate(node, positive)


def _product(parts: list[list[Conjunction]]) -> list[Conjunction]:
    if not all(parts):
        return []
    common = all_of([part[0] for part in parts if len(part) == 1])
    if common is None:
        return []
    out = [TRUE]
    for part in sorted((part for part in parts if len(part) > 1), key=len):
        FILTER_CONJUNCTIONS.check(len(out) * len(part))
        out = part if out == [TRUE] else _pairwise(out, part)
    if common.is_true():
        return _merge(out)
    FILTER_CONSTRAINTS.check(len(out) * len(common.constraints))
    return [common] if out == [TRUE] else _merge(_pairwise([common], out))


def _pairwise(left: list[Conjunction], right: list[Conjunction]) -> list[Conjunction]:
    FILTER_VALUES.check(len(left) * sum(c.size for c in right) + len(right) * sum(c.size for c in left))
    both = (all_of([one, two]) for one in left for two in right)
    return list(dict.fromkeys(c for c in both if c is not None))


def _collect(parts: list[list[Conjunction]]) -> list[Conjunction]:
    out = _merge(list(dict.fromkeys(c for part in parts for c in part)))
    FILTER_CONJUNCTIONS.check(len(out))
    return out


def _merge(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Unite conjunctions that differ in one attribute only, until there are none; their order does not matter."""
    if len(conjunctions) < 2:
        return conjunctions
    FILTER_CONSTRAINTS.check(sum(len(c.constraints) for c in conjunctions))
    while True:
        groups = _equal_but_for_one(conjunctions)
        if not groups:
            return conjunctions
        merged = _merge_once(conjunctions, groups)
        if merged == set(conjunctions):
            return conjunctions
        conjunctions = list(merged)


def _merge_once(conjunctions: list[Conjunction], groups: list[tuple[str, list[Conjunction]]]) -> set[Conjunction]:
    """One round: every conjunction is united at most once, by the first attribute that allows it."""
    done: set[Conjunction] = set()
    merged: set[Conjunction] = set()
    for name, group in groups:
        if done.isdisjoint(group):
            done.update(group)
            merged.update(_unite(name, group))
    merged.update(c for c in conjunctions if c not in done)
    return merged


def _equal_but_for_one(conjunctions: list[Conjunction]) -> list[tuple[str, list[Conjunction]]]:
    """Groups of conjunctions that differ in one attribute's constraint only, in a fixed order."""
    alike: dict[object, list[Conjunction]] = {}
    for c in conjunctions:
        alike.setdefault((tuple([name for name, _ in c.constraints]), c.links), []).append(c)
    groups: list[tuple[str, list[Conjunction]]] = []
    for bucket in alike.values():
        if len(bucket) > 1:
            groups += _differing_in_one(bucket)
    return sorted(groups, key=lambda found: (found[0], [c.sort_key for c in found[1]]))


def _differing_in_one(conjunctions: list[Conjunction]) -> Iterator[tuple[str, list[Conjunction]]]:
    """The groups among conjunctions of the same attributes and links; equal sums of hashes tell which to compare."""
    buckets: dict[tuple[str, int], list[Conjunction]] = {}
    for c in conjunctions:
        hashes = [hash(item) for item in c.constraints]
        total = sum(hashes)
        for (name, _), part in zip(c.constraints, hashes, strict=True):
            buckets.setdefault((name, total - part), []).append(c)
    for (name, _), bucket in buckets.items():
        if len(bucket) > 1:
            exact: dict[object, list[Conjunction]] = {}
            for c in bucket:
                exact.setdefault(tuple(item for item in c.constraints if item[0] != name), []).append(c)
            yield from ((name, sorted(group, key=lambda c: c.sort_key)) for group in exact.values() if len(group) > 1)


def _unite(name: str, group: list[Conjunction]) -> list[Conjunction]:
    rest, links = {k: v for k, v in group[0].constraints if k != name}, group[0].links
    constraints = unite([c.by_attribute[name] for c in group])
    united = (Conjunction.of({**rest, name: constraint}, links) for constraint in constraints)
    return [c for c in united if c is not None]


def _unbound(conjunction: Conjunction) -> Conjunction:
    """A conjunction of nothing but `a = a` is `a IS NOT NULL`: with no other attribute the pick is free."""
    if len(conjunction.constraints) != 1 or conjunction.links:
        return conjunction
    name, constraint = conjunction.constraints[0]
    if not constraint.bound or constraint.values != ALL or constraint.include or constraint.exclude:
        return conjunction
    return Conjunction.of({name: replace(constraint, bound=False)}) or conjunction


def _absorb(conjunctions: list[Conjunction]) -> list[Conjunction]:
    if any(c.is_true() for c in conjunctions):
        return [TRUE]
    if not 1 < len(conjunctions) <= ABSORB_UP_TO or not _are_quickly_compared(conjunctions):
        return conjunctions
    kept: list[Conjunction] = []
    for c in sorted(conjunctions, key=lambda c: (len(c.constraints) + len(c.links), c.sort_key)):
        if not any(other.covers(c) for other in kept):
            kept = [other for other in kept if not c.covers(other)]
            kept.append(c)
    return kept


def _are_quickly_compared(conjunctions: list[Conjunction]) -> bool:
    """Whether comparing all pairs takes at most ABSORB_STEPS: groups of members and patterns are compared in pairs."""
    constraints = [constraint for c in conjunctions for _, constraint in c.constraints]
    paired = (len(c.include) + len(c.exclude) + len(c.required) for c in constraints)
    return len(conjunctions) * sum(c.size + n * n for c, n in zip(constraints, paired, strict=True)) <= ABSORB_STEPS


def key_of(value: Value) -> SortKey:
    """The sort key of a literal, numbers in canonical form."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = canonical_number(value)
    return sort_key(value)


def _one(name: str, constraint: Constraint) -> list[Conjunction]:
    conjunction = Conjunction.of({name: constraint})
    return [] if conjunction is None else [conjunction]


def _predicate(node: ex.Predicate, positive: bool) -> list[Conjunction]:
    match node:
        case ex.Constant(value):
            return [TRUE] if value is positive else []
        case ex.Compare(name, op, value):
            if value is None:
                return []
            return _one(name, Constraint.of(compare_set(op if positive else NEGATED[op], key_of(value))))
        case ex.CompareAttributes():
            return _link(node, positive)
        case ex.In(name, members):
            points = IntervalSet.points(key_of(m) for m in members if m is not None)
            if not positive:
                points = EMPTY if None in members else points.complement()
            return _one(name, Constraint.of(points))
        case ex.Like(name, pattern, escape):
            return _one(name, _pattern(*parse_like(pattern, escape), positive))
        case ex.ILike(name, pattern, escape):
            return _one(name, _pattern(*parse_ilike(pattern, escape), positive))
        case ex.StartsWith(name, text):
            return _one(name, _pattern(IntervalSet.prefix(text), None, positive))
        case ex.EndsWith(name, text):
            return _one(name, _pattern(STRINGS, Suffix(text) if text else None, positive))
        case ex.RLike(name, regex):
            return _one(name, _pattern(STRINGS, Regex(regex), positive))
        case ex.InCidr(name, network):
            return _one(name, _pattern(STRINGS, Cidr(network), positive))
        case ex.Contains():
            return _contains(node, positive)
        case ex.IsNull(name):
            return _one(name, _IS_NULL if positive else _IS_NOT_NULL)
        case ex.IsMissing(name):
            return _one(name, _IS_MISSING if positive else _IS_NOT_MISSING)


def _pattern(values: IntervalSet, pattern: Pattern | None, positive: bool) -> Constraint:
    if pattern is None:
        return Constraint.of(values if positive else values.complement())
    return Constraint.of(values, include=[pattern]) if positive else Constraint.of(ALL, exclude=[pattern])


def _contains(node: ex.Contains, positive: bool) -> list[Conjunction]:
    keys: Group = frozenset(NULL_KEY if value is None else key_of(value) for value in node.values)
    every = node.quantifier == "ALL"
    if not every and (node.quantifier == "NONE") == positive:  # none of them
        return _one(node.attribute, Constraint(bound=False, forbidden=keys).simplified())
    if every and not positive:  # some of them is not there
        FILTER_CONJUNCTIONS.check(len(keys))
        parts = [_one(node.attribute, Constraint(bound=False, forbidden=frozenset([key]))) for key in keys]
        return _collect(parts)
    groups = frozenset(frozenset([key]) for key in keys) if every else frozenset([keys])
    null = all(NULL_KEY in group for group in groups)
    return _one(node.attribute, Constraint(null=null, bound=False, required=groups).simplified())


def _link(node: ex.CompareAttributes, positive: bool) -> list[Conjunction]:
    op = node.op if positive else NEGATED[node.op]
    if node.left == node.right:
        if op in ("!=", "<", ">"):
            return []
        return _one(node.left, Constraint.of(ALL if op == "=" else ORDERED))
    conjunction = Conjunction.of({}, [ex.CompareAttributes(node.left, op, node.right)])
    assert conjunction is not None
    return [conjunction]

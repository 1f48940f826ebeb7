"""Trees and changes of trees as bytes.

Changes are what routers usually get: they apply them, in order, to the version before, and come to the same tree
because inserting and removing are deterministic. A tree as a whole is for routers that lack the version before.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import msgspec

from whimbrel.model.constraint import Constraint
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.intervals import Cut, IntervalSet
from whimbrel.model.limits import Limit
from whimbrel.model.patterns import Substring, Suffix
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP
from whimbrel.overlay.tree.paths import KEY_BYTES, Interest
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot

TREE_BYTES = Limit("tree bytes", 1 << 30, "bytes", "a tree is decoded whole, in memory")

_LARGE = 1 << 63
_TYPES = {BOOLEAN: bool, NUMBER: int | float, STRING: str, TIMESTAMP: int}
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_tree = msgspec.msgpack.Decoder(
    tuple[bytes, list[bytes], list[str], list[tuple[_Place, _Place, list[Any], list[tuple[str, str]], list[_Place]]]]
)
"""Digest, keys, names, and nodes: depth, name, cuts, patterns, and which of the keys end there."""


class MalformedTree(WhimbrelError):
    """Bytes that are no tree."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(f"Expected a routing tree, but got {found}")


def encode_changes(changes: Iterable[Interest | bytes]) -> bytes:
    """Filters to insert as their tenants and texts, filters to remove as their keys."""
    return msgspec.msgpack.encode(
        [change if isinstance(change, bytes) else [change.tenant, change.text] for change in changes]
    )


def chained(digest: bytes, changes: bytes) -> bytes:
    """The digest of a tree after changes, from the digest before.

    `person` stands for the way of inserting filters: a router with another one would come to another tree under the
    same digest. So it finds another digest, and asks for the whole tree.
    """
    return blake2b(digest + changes, digest_size=KEY_BYTES, person=b"tree 3").digest()


def encode_tree(snapshot: TreeSnapshot) -> bytes:
    """The nodes of a tree in preorder: depth, attribute, values, patterns, and the filters that end there."""
    names: dict[str, int] = {}
    rows: list[object] = []
    ends, filters = snapshot.forwarding.ends.tolist(), snapshot.forwarding.end_filter.tolist()
    for node, depth in enumerate(snapshot.forwarding.depth.tolist()):
        name = names.setdefault(snapshot.attributes[node], len(names))
        constraint = snapshot.constraints[node]
        values = constraint if isinstance(constraint, IntervalSet) else constraint.values
        cuts = [_plain(part) for cut in values.cuts for part in cut]
        included = () if isinstance(constraint, IntervalSet) else constraint.include
        patterns = [[type(one).__name__, one.text] for one in included if isinstance(one, Suffix | Substring)]
        rows.append([depth, name, cuts, patterns, filters[ends[node] : ends[node + 1]]])
    return msgspec.msgpack.encode([snapshot.digest, snapshot.keys, list(names), rows])


def decode_tree(data: bytes, decay: float) -> tuple[RoutingTree, bytes]:
    """The tree that these bytes are, and its digest; MalformedTree if they are none."""
    TREE_BYTES.check(len(data))
    try:
        digest, keys, names, rows = _tree.decode(data)
        nodes = [(depth, *_node(names[name], cuts, patterns), ends) for depth, name, cuts, patterns, ends in rows]
        return RoutingTree.rebuilt(decay, keys, nodes), digest
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise MalformedTree(str(error)) from None


def _node(name: str, cuts: list[Any], patterns: list[tuple[str, str]]) -> tuple[str, IntervalSet, Constraint | None]:
    parts = list(map(_value, cuts))
    read: list[Cut] = [(parts[at], parts[at + 1], parts[at + 2], parts[at + 3]) for at in range(0, len(parts), 4)]
    if not read or len(read) % 2 or not all(one < two for one, two in pairwise(read)):
        raise ValueError("a node without an increasing list of bounds")
    if not all(isinstance(value, _TYPES[kind]) for kind, is_finite, value, _ in read if is_finite):
        raise ValueError("a bound of another type")
    values = IntervalSet(tuple(read))
    include = tuple(Suffix(text) if kind == "Suffix" else Substring(text) for kind, text in patterns)
    return name, values, Constraint(values=values, include=include) if include else None


def _plain(part: object) -> object:
    """A part of a cut as MessagePack takes it: an integer that is too large becomes a list with its digits."""
    return [str(part)] if isinstance(part, int) and not -_LARGE <= part < _LARGE else part


def _value(part: Any) -> Any:
    return int(part[0]) if isinstance(part, list) else part

"""What a router counts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_KEPT = 65_536


@dataclass(slots=True)
class Counters:
    """Sums over the life of a router. Work is `visited` + `tested`: nodes and filters read, and bounds compared."""

    arrived: int = 0
    """Events that came, from publishers and over links."""
    repeated: int = 0
    """Events that had come before, and were dropped."""
    content_matches: int = 0
    """Events that were matched by their content because it is the router's part."""
    fallbacks: int = 0
    """Events that were matched by their content because their prefix could not be used."""
    malformed: int = 0
    """Prefixes that were refused."""
    edge_checks: int = 0
    """Filters of local subscriptions that were compared with an event."""
    false_positives: int = 0
    """Events that came over a link in vain, or were wrongly selected for local subscriptions."""
    visited: int = 0
    tested: int = 0
    forward_visited: int = 0
    """The part of `visited` that forwarding by prefix took."""
    filter_messages: int = 0
    suppressed_filters: int = 0
    """Filters that were not sent to a neighbour because one that covers them was."""
    refused_filters: int = 0
    """Filters of neighbours that have too many."""
    tree_updates: int = 0
    tree_update_bytes: int = 0
    prefix_bytes: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """The sizes of the last prefixes that were made here."""
    prefix_nodes: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def work(self) -> int:
        """All matching work: nodes visited and comparisons made."""
        return self.visited + self.tested

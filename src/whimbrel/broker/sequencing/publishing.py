"""Publish a group of events: recognise repeats, match, apply the rules of tokens, give offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whimbrel.broker.lists.event_ids import EventIds
from whimbrel.broker.requests import entries
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import BrokerError, Forbidden, refusal
from whimbrel.broker.sequencing.request_group import Forwarding, Publish, Published, RequestGroup, unexpected
from whimbrel.broker.sequencing.watermark import Watermark
from whimbrel.engine.index import Index
from whimbrel.log import EVENT, LogError
from whimbrel.log.match_list import encode_all
from whimbrel.log.matched_numbers import MatchedNumbers, apply_rules, keep_pairs, match_events
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules, allows_text


class LiveIndex:
    """The index with the rules of its subscriptions. Only the sequencer changes it; others may read.

    Durable subscriptions have the numbers of their versions; ephemeral ones have numbers below zero. If events are
    `deferred`, another engine matches them against durable subscriptions later; here they are checked, and matched
    against ephemeral ones, which have an index of their own.
    """

    def __init__(self, index: Index, constrained: dict[int, Rules], deferred: bool = False) -> None:
        self.index = index
        self.constrained = constrained
        self.ephemeral: dict[int, str] = {}
        """The filters of ephemeral subscriptions, by their numbers."""
        self.on_ephemeral: Callable[[int], None] = lambda _: None
        """Called in the sequencer with the number of one that comes or goes; set by the broker."""
        self.deferred = deferred
        self._matched_now = Index(index.timestamps, index.schema) if deferred else index
        self._ephemeral = 0  # how many there were so far

    def add(self, number: int, filter: Filter | str, dialect: str, rules: Rules) -> None:
        """Add a version; what it matches must also satisfy the rules."""
        self.index.add(number, filter, dialect)
        self.constrain(number, rules)

    def constrain(self, number: int, rules: Rules) -> None:
        """Set the rules of a version."""
        if rules:
            self.constrained[number] = rules

    def add_ephemeral(self, text: str, rules: Rules) -> int:
        """Add an ephemeral subscription and return its number."""
        self._ephemeral += 1
        self._matched_now.add(-self._ephemeral, text, "sql")
        self.constrain(-self._ephemeral, rules)
        self.ephemeral[-self._ephemeral] = text
        self.on_ephemeral(-self._ephemeral)
        return -self._ephemeral

    def remove(self, number: int) -> None:
        """Take a version out, if it is there."""
        index = self.index if number >= 0 else self._matched_now
        if number in index:
            index.remove(number)
        self.constrained.pop(number, None)
        if self.ephemeral.pop(number, None) is not None:
            self.on_ephemeral(number)

    def match(self, events: list[bytes]) -> MatchedNumbers:
        """Match events; pairs of subscriptions with rules that the event does not satisfy are left out."""
        matched = match_events(self._matched_now, events)
        return apply_rules(matched, self.constrained, events, self.index.timestamps)


class _ReadEvents(NamedTuple):
    """What is known of the events of some requests before any of them gets an offset."""

    digests: list[int]
    known: dict[int, int]  # offsets of events that were published before, by place
    refused: dict[int, BrokerError]  # by place
    fresh: list[int]  # the places of the events that were matched
    matched: MatchedNumbers  # of the fresh ones


@dataclass(eq=False)
class Publishing:
    """Decides events: recognises repeats, matches, refuses or gives an offset."""

    _live: LiveIndex
    _ids: EventIds
    _watermark: Watermark
    _origins: dict[str, int]  # the last event of every other log that is here

    def publish(self, group: RequestGroup, requests: list[Publish]) -> None:
        """Add the events of some requests to a group, in their order, and the answers.

        If reading them raises what nobody expected, they are published one by one, and the one that raises is refused.
        A log that fails is no fault of a request: LogError.
        """
        try:
            read = self._read(requests)
        except LogError:
            raise
        except Exception as error:
            if len(requests) == 1:
                group.answers.append((requests[0].result, unexpected(error)))
            for request in requests if len(requests) > 1 else ():
                self.publish(group, [request])
        else:
            self._place(group, requests, read)

    def _read(self, requests: list[Publish]) -> _ReadEvents:
        """Recognise and match the events of some requests. Changes nothing."""
        events = [event for request in requests for event in request.events]
        digest = self._ids.digest
        digests = [digest(request.tenant, event.source, event.id) for request in requests for event in request.events]
        known = self._known(digests, events)
        self._recognise_forwarded(requests, known)
        fresh = [place for place in range(len(events)) if place not in known]
        matched = self._live.match([events[place].raw for place in fresh])
        refused = {fresh[row]: refusal(error, "invalid-event") for row, error in matched.errors.items()}
        self._refuse_foreign(requests, known, refused)
        return _ReadEvents(digests, known, refused, fresh, matched)

    def _known(self, digests: list[int], events: list[Incoming]) -> dict[int, int]:
        """The offsets of events that were published before, by their position among `events`."""
        found = self._ids.look_up(digests)
        if not found:
            return {}
        known: dict[int, int] = {}
        for place, digest in enumerate(digests):
            if digest in found:
                offset = self._ids.verified(found[digest], events[place].source, events[place].id)
                if offset is not None:
                    known[place] = offset
        return known

    def _recognise_forwarded(self, requests: list[Publish], known: dict[int, int]) -> None:
        """Note which events of peers were received before, by their offsets in the log of their origin, not by ids."""
        place = 0
        reached: dict[str, int] = {}
        for request in requests:
            if request.forwarding is None:
                place += len(request.events)
                continue
            origin = request.forwarding.origin
            last = reached.get(origin, self._origins.get(origin, -1))
            for offset in request.forwarding.offsets:
                if offset <= last:
                    known[place] = -1
                else:
                    known.pop(place, None)
                    last = offset
                place += 1
            reached[origin] = last

    def _refuse_foreign(self, requests: list[Publish], known: dict[int, int], refused: dict[int, BrokerError]) -> None:
        """Refuse events that the rules of their publisher's token do not allow."""
        place = 0
        for request in requests:
            for event in request.events if request.rules else ():
                if place not in refused and not allows_text(request.rules, event.raw, self._live.index.timestamps):
                    known.pop(place, None)
                    refused[place] = Forbidden("Expected an event that the token's rules allow")
                place += 1
            if not request.rules:
                place += len(request.events)

    def _place(self, group: RequestGroup, requests: list[Publish], read: _ReadEvents) -> None:
        """Give offsets to the events that are new, and write their rows."""
        digests, known, refused, fresh, matched = read
        coded: Sequence[bytes | None] = [None] * len(fresh) if self._live.deferred else _coded_lists(matched)
        rows_of = None if len(fresh) == len(digests) else {place: row for row, place in enumerate(fresh)}
        placed: dict[int, int] = {}  # digest to offset, of this call
        offsets = np.full(len(fresh), -1, np.int64)
        place = -1
        for request in requests:
            results: list[Published | BrokerError] = []
            rows: list[tuple[int, bytes, bytes | None]] = []
            forwarding = request.forwarding
            offset = first = group.next + (1 if request.tenant else 0) + (1 if forwarding else 0)
            taken: list[int] = []  # those of the request that become rows
            for at, event in enumerate(request.events):
                place += 1
                digest = digests[place]
                if place in refused:
                    results.append(refused[place])
                    group.refused.append((request.publisher, event.raw, refused[place]))
                elif place in known:
                    results.append(Published(known[place], True))
                elif digest in placed and forwarding is None:
                    results.append(Published(placed[digest], True))
                else:
                    row = place if rows_of is None else rows_of[place]
                    placed[digest] = offset
                    offsets[row] = offset
                    rows.append((EVENT, event.raw, coded[row]))
                    group.events[offset] = event.raw
                    results.append(Published(offset))
                    taken.append(at)
                    offset += 1
            if rows and forwarding is not None:
                self._enter_forwarded(group, forwarding, taken)
            if rows and request.tenant:
                group.rows.append(entries.encode(entries.TenantEvents(request.tenant, offset - first)))
            group.rows += rows
            group.answers.append((request.result, results))
        self._ids.remember(placed)
        entered = offsets[offsets >= 0]
        if self._live.deferred and len(entered):
            self._watermark.append(int(entered.min()), int(entered.max()) + 1)
        pairs = np.repeat(offsets, np.diff(matched.offsets))
        kept = pairs >= 0
        group.numbers.append(matched.numbers[kept])
        group.offsets.append(pairs[kept])

    def _enter_forwarded(self, group: RequestGroup, forwarding: Forwarding, taken: list[int]) -> None:
        """Append the entry that says where the next events come from."""
        offsets = [forwarding.offsets[at] for at in taken]
        prefixes = [forwarding.prefixes[at] for at in taken]
        last = forwarding.positions[taken[-1]]
        entry = entries.ForwardedEvents(forwarding.origin, forwarding.peer, last, offsets, prefixes)
        self._origins[forwarding.origin] = offsets[-1]
        group.append(entry)


def _coded_lists(matched: MatchedNumbers) -> Sequence[bytes | None]:
    """The match lists for the log: only durable subscriptions, whose numbers are not negative."""
    if len(matched.numbers) and matched.numbers.min() < 0:
        matched = keep_pairs(matched, matched.numbers >= 0)
    return encode_all(matched.offsets, matched.numbers)

"""Publications as the sequencer sees them: updates of all tenants in, entries of the log and who is told out.

Everything runs in the sequencer, but for `next_due` and `counts`, which any thread may read. What is decided here is
appended to the log in the same group, so that states in memory are never behind the log; a failed append ends the
process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from whimbrel.broker.publications.rendering import EXPIRED_AT_ONCE, change_message, watched_message
from whimbrel.broker.publications.tenant_states import HeldState, StateFilter, TenantStates, Transition
from whimbrel.broker.publications.update_requests import PublicationUpdate, UpdateKind, Updates, check_target, merged
from whimbrel.broker.publications.watchers import FIRST_NUMBER, WatchedUpdate, Watchers
from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import DwellExpiry, PublicationChange, SubscriptionPut
from whimbrel.broker.requests.errors import (
    QUOTA_SECONDS,
    BrokerError,
    Forbidden,
    TooLarge,
    TooManyRequests,
    Unprocessable,
    refusal,
)
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.requests.subscriptions import outer_of, read_spec
from whimbrel.broker.sequencing.request_group import Batch, FirstTold, Published, RequestGroup, unexpected
from whimbrel.broker.store import Store, StoredSubscription
from whimbrel.log.match_list import encode_all
from whimbrel.log.matched_numbers import MatchedNumbers
from whimbrel.model.filter import Filter
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.token_rules import Rules, allows_text

ON = "publications"
REMEMBERED_PUBLICATIONS = 100_000
"""A subscription with outer or dwell is taken only where a tenant has no more: its entry holds the keys inside."""


_NOBODY: frozenset[int] = frozenset()


class _Item(NamedTuple):
    """One update, with the place of its result."""

    update: PublicationUpdate
    rules: Rules
    results: list[Published | BrokerError | None]
    place: int


_GoodItem: TypeAlias = tuple[_Item, bytes | None, HeldState | None]
"""An update that is not refused, the new state (None if the publication is deleted), and the one before."""


class PublicationTopic:
    """The publications of all tenants and the subscriptions on them."""

    def __init__(self, settings: Settings, timestamps: Iterable[str], store: Store) -> None:
        self.next_due: float | None = None
        """When the next dwell is over, in seconds since 1970."""
        self.updated = self.notified = 0
        """Updates, and notifications of them, since the start."""
        self._settings = settings
        self._timestamps = frozenset(timestamps)
        self._tenants: dict[str, TenantStates] = {}
        self._now = 0.0
        self._new: dict[int, tuple[str, StateFilter, StateFilter | None]] = {}  # to be evaluated, by first
        self._evaluated: dict[int, FirstTold] = {}
        self._watchers: dict[str, Watchers] = defaultdict(lambda: Watchers(self._timestamps))
        self._watched = 0  # watchers so far
        self._load(store)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Publications, bytes of their states, and subscriptions on them."""
        tenants = list(self._tenants.values())
        filters = sum(len(each.filters) for each in tenants)
        return sum(map(len, tenants)), sum(each.bytes for each in tenants), filters

    def admit(self, number: int, first: int, put: SubscriptionPut, filter: Filter | None) -> None:
        """Add a version of a subscription, or raise. `complete` then evaluates it against all publications."""
        tenant = self._tenant(put.tenant)
        new = _state_filter(
            number, first, put, put.rules, Filter.parse(put.text, put.dialect) if filter is None else filter
        )
        if new.remembered and len(tenant) > REMEMBERED_PUBLICATIONS:
            limit = f"at most {REMEMBERED_PUBLICATIONS:,} publications for a subscription with outer or dwell"
            raise Unprocessable(f"Expected {limit}, but there are {len(tenant):,}", "limit-exceeded")
        if first in self._new:
            self._evaluate()
        old = tenant.filters.get(first)
        tenant.admit(new)
        for other in self._tenants.values():
            if other is not tenant:
                other.end(first)
        self._new[first] = put.tenant, new, old

    def end(self, held: StoredSubscription) -> None:
        """Remove a subscription. One that was admitted in the same group is evaluated no more."""
        self._new.pop(held.first, None)
        self._tenant(held.tenant).end(held.first)

    def watch(self, tenant: str, filter: Filter, rules: Rules, leave: bool) -> tuple[int, list[int]]:
        """Add a watcher: its number, and the offsets of the entries whose states it matches now."""
        self._watched += 1
        number = FIRST_NUMBER - self._watched
        self._watchers[tenant].add(number, filter, rules, leave)
        return number, self._tenant(tenant).matching(filter, rules)

    def unwatch(self, tenant: str, number: int) -> None:
        """Remove a watcher."""
        self._watchers[tenant].remove(number)
        if not len(self._watchers[tenant]):
            del self._watchers[tenant]

    def complete(self, group: RequestGroup) -> None:
        """Evaluate the new versions of a group against all publications, and put what they are told into entries."""
        self._evaluate()
        group.complete(self._evaluated)
        self._evaluated.clear()
        self._note_due()

    def update(self, group: RequestGroup, batches: list[Batch]) -> None:
        """Decide updates: updates of one key in the order in which they came, updates of many keys together."""
        by_tenant: dict[str, list[_Item]] = defaultdict(list)
        for batch in batches:
            asked: Updates = batch.content
            results: list[Published | BrokerError | None] = [None] * len(asked.updates)
            group.answers.append((batch.result, results))
            by_tenant[asked.tenant] += [
                _Item(update, asked.rules, results, place) for place, update in enumerate(asked.updates)
            ]
        for name, items in by_tenant.items():
            rounds: list[list[_Item]] = []
            seen: dict[str, int] = defaultdict(int)
            for item in items:
                turn = seen[item.update.key]
                seen[item.update.key] += 1
                if turn == len(rounds):
                    rounds.append([])
                rounds[turn].append(item)
            for each in rounds:
                self._round(group, name, each)
        self._note_due()

    def _round(self, group: RequestGroup, name: str, items: list[_Item]) -> None:
        """Apply updates, no two of which have the same key.

        If reading them raises what nobody expected, they are applied one by one, and the one that raises is refused.
        """
        tenant = self._tenant(name)
        try:
            good, matched = self._read(name, tenant, items)
        except Exception as error:
            if len(items) == 1:
                items[0].results[items[0].place] = unexpected(error)
            for item in items if len(items) > 1 else ():
                self._round(group, name, [item])
            return
        base = group.next
        updates = [(item.update.key, base + at, state) for at, (item, state, _) in enumerate(good)]
        if updates:
            transitions = tenant.apply(updates, matched, self._now)
            self.notified += len(transitions)
            tenant.bytes += sum(len(state or b"") - len(held.state if held else b"") for _, state, held in good)
            watched = [
                WatchedUpdate(base + at, None if held is None else held.state, state)
                for at, (_, state, held) in enumerate(good)
            ]
            self._write(group, name, tenant, updates, transitions)
            self._tell_watchers(group, name, watched)
        for at, (item, _, _) in enumerate(good):
            item.results[item.place] = Published(base + at)
        self.updated += len(good)

    def _read(self, name: str, tenant: TenantStates, items: list[_Item]) -> tuple[list[_GoodItem], MatchedNumbers]:
        """The updates that are not refused, and what their states match. Changes nothing but the results of others."""
        good: list[_GoodItem] = []
        count, size = len(tenant), tenant.bytes
        for item, held in zip(items, tenant.find([item.update.key for item in items]), strict=True):
            try:
                state = self._decided(item, held)
                new, more = (held is None) - (state is None), len(state or b"") - len(held.state if held else b"")
                if more > 0:
                    self._check_limits(name, count + new, size + more)
            except BrokerError as error:
                item.results[item.place] = error
                continue
            count, size = count + new, size + more
            good.append((item, state, held))
        matched = tenant.match([b"{}" if state is None else state for _, state, _ in good])
        return _without_refused(good, matched) if matched.errors else (good, matched)

    def _decided(self, item: _Item, held: HeldState | None) -> bytes | None:
        """The new state; None if the publication is deleted."""
        update = item.update
        allowed = held is None or allows_text(item.rules, held.state, self._timestamps)
        check_target(update, None if held is None else held.offset, allowed)
        if update.kind is UpdateKind.DELETE:
            return None
        state = update.content
        if update.kind is UpdateKind.PATCH:
            assert held is not None
            state = merged(held.state, update.content)
            if len(state) > EVENT_BYTES.value:
                raise TooLarge(f"Expected a state of at most {EVENT_BYTES.value:,} bytes, but got {len(state):,}")
        if not allows_text(item.rules, state, self._timestamps):
            raise Forbidden("Expected a publication that the token's rules allow")
        return state

    def _check_limits(self, tenant: str, count: int, size: int) -> None:
        most, largest = self._settings.publications_per_tenant, self._settings.publication_bytes_per_tenant
        if count > most:
            raise TooManyRequests(f"Expected at most {most:,} publications of tenant {tenant!r}", QUOTA_SECONDS)
        if size > largest:
            raise TooManyRequests(
                f"Expected at most {largest:,} bytes of publications of tenant {tenant!r}", QUOTA_SECONDS
            )

    def _write(
        self, group: RequestGroup, name: str, tenant: TenantStates, updates: list[tuple[str, int, bytes | None]],
        transitions: list[Transition],
    ) -> None:  # fmt: skip
        """Append the entries of updates, and say who is told."""
        told: dict[int, list[tuple[int, str]]] = {}
        hidden: dict[int, set[int]] = defaultdict(set)
        for offset, number, kind, is_hidden in transitions:
            told.setdefault(offset, []).append((number, kind))
            if is_hidden:
                hidden[offset].add(number)
        pairs = tenant.changed_pairs()
        time_us = int(self._now * 1e6)
        numbers: list[int] = []
        ends = [0]
        changes: list[PublicationChange] = []
        for key, offset, state in updates:
            mine = sorted(told.get(offset, ()))
            numbers += [number for number, _ in mine]
            ends.append(len(numbers))
            kinds = "".join(kind[0] for _, kind in mine)
            kinds = kinds[:1] if len(set(kinds)) == 1 else kinds
            inside = [(first, due) for first, due, is_inside in pairs.get(key, ()) if is_inside]
            outside = [first for first, _, is_inside in pairs.get(key, ()) if not is_inside]
            raw = msgspec.Raw(b"null" if state is None else state)
            change = PublicationChange(key, name, raw, time_us, kinds, inside, outside)
            changes.append(change)
            if mine:
                group.notices[offset] = partial(change_message, offset, change, dict(mine), hidden.get(offset, _NOBODY))
        coded = encode_all(np.array(ends, np.int64), np.array(numbers, np.int64))
        offsets = np.array([offset for _, offset, _ in updates], np.int64)
        for offset, change, list_ in zip(offsets.tolist(), changes, coded, strict=True):
            group.changes.append((offset, change))
            group.rows.append(entries.encode(change, list_))
        group.numbers.append(np.array(numbers, np.int64))
        group.offsets.append(np.repeat(offsets, np.diff(ends)))

    def _tell_watchers(self, group: RequestGroup, name: str, updates: list[WatchedUpdate]) -> None:
        """Say which watchers are told of updates, whose entries are written."""
        watchers = self._watchers.get(name)
        told: dict[int, dict[int, str]] = defaultdict(dict)
        for offset, number, kind in [] if watchers is None else watchers.transitions(updates):
            told[offset][number] = kind
        changes = dict(group.changes) if told else {}
        for offset, kinds in told.items():
            assert watchers is not None
            change = changes[offset]
            assert isinstance(change, PublicationChange)
            durable = group.notices.get(offset)
            group.notices[offset] = partial(watched_message, offset, change, kinds, watchers.constrained, durable)
            group.tell(list(kinds), offset)

    def expire(self, group: RequestGroup, now: float) -> None:
        """Set the time, and append entries for publications whose dwell is over now."""
        self._now = now
        if self.next_due is None or self.next_due > now:
            return
        for name, tenant in self._tenants.items():
            if tenant.next_due is None or tenant.next_due > self._now:
                continue
            pairs = tenant.expire(self._now)
            for start in range(0, len(pairs), EXPIRED_AT_ONCE):
                self._write_expired(group, name, tenant, pairs[start : start + EXPIRED_AT_ONCE])
        self._note_due()

    def _write_expired(
        self, group: RequestGroup, name: str, tenant: TenantStates, pairs: list[tuple[int, str]]
    ) -> None:
        held = tenant.find([key for _, key in pairs])
        listed: list[tuple[int, str, int, int]] = []
        for (first, key), state in zip(pairs, held, strict=True):
            filter = tenant.filters[first]
            listed.append((first, key, -1 if state is None else state.offset, filter.number if filter.leave else -1))
        told = sorted({number for _, _, _, number in listed if number >= 0})
        group.append(DwellExpiry(listed, name), told)

    def _evaluate(self) -> None:
        by_tenant: dict[str, list[tuple[StateFilter, StateFilter | None]]] = defaultdict(list)
        for name, new, old in self._new.values():
            by_tenant[name].append((new, old))
        self._new.clear()
        for name, pairs in by_tenant.items():
            found = self._tenant(name).evaluate(pairs, self._now)
            self._evaluated |= {new.number: one for (new, _), one in zip(pairs, found, strict=True)}

    def _note_due(self) -> None:
        due = [tenant.next_due for tenant in self._tenants.values() if tenant.next_due is not None]
        self.next_due = min(due, default=None)

    def _tenant(self, name: str) -> TenantStates:
        if name not in self._tenants:
            self._tenants[name] = TenantStates(self._timestamps)
        return self._tenants[name]

    def _load(self, store: Store) -> None:
        states: dict[str, list[tuple[str, int, bytes]]] = defaultdict(list)
        for name, space, key, offset, state in store.all_publications():
            if not space:
                states[name].append((key, offset, state))
        filters: dict[str, list[StateFilter]] = defaultdict(list)
        homes: dict[int, str] = {}
        for held in store.subscriptions_on(ON):
            version = _state_filter(held.number, held.first, held, held.decode_rules(), held.parse())
            filters[held.tenant].append(version)
            homes[held.first] = held.tenant
        pairs: dict[str, list[tuple[int, str, float | None]]] = defaultdict(list)
        for first, key, due in store.pairs():
            if first in homes:
                pairs[homes[first]].append((first, key, due))
        for name in {*states, *filters}:
            self._tenant(name).load(states[name], filters[name], pairs[name])
        self._note_due()


def _state_filter(
    number: int, first: int, held: SubscriptionPut | StoredSubscription, rules: Rules, filter: Filter
) -> StateFilter:
    """A version of a subscription on publications."""
    request = read_spec(held.spec)
    return StateFilter(number, first, filter, rules, request.leave, outer_of(request, rules), request.dwell)


def _without_refused(good: list[_GoodItem], matched: MatchedNumbers) -> tuple[list[_GoodItem], MatchedNumbers]:
    """Leave out the states that could not be matched, which have an error as their result."""
    for row, error in matched.errors.items():
        item = good[row][0]
        item.results[item.place] = refusal(error, "invalid-publication")
    kept = [row for row in range(len(good)) if row not in matched.errors]
    counts = np.diff(matched.offsets)[kept]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    return [good[row] for row in kept], MatchedNumbers(offsets, matched.numbers, {})

"""Subject spaces as the sequencer sees them: the five operations in, entries of the log and who is told out.

A space belongs to one tenant. The state of `whimbrel.spaces` is in memory and follows from what the store holds:
definitions, the regions of publications and of subscriptions, and the pairs of hysteresis and dwell.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any, NamedTuple

import msgspec

from whimbrel.broker.publications.region_bodies import Regions, allows_regions, constrained, patched, read_regions
from whimbrel.broker.publications.rendering import EXPIRED_AT_ONCE, change_message
from whimbrel.broker.publications.update_requests import PublicationUpdate, UpdateKind, Updates, check_target
from whimbrel.broker.requests.entries import DwellExpiry, PublicationChange, SpaceChange, SubscriptionPut
from whimbrel.broker.requests.errors import (
    QUOTA_SECONDS,
    BrokerError,
    Conflict,
    Forbidden,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unprocessable,
)
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.requests.subscriptions import read_spec
from whimbrel.broker.sequencing.request_group import Batch, FirstTold, Published, RequestGroup, unexpected
from whimbrel.broker.store import Store, StoredSubscription
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.token_rules import Rules
from whimbrel.spaces import Notifications, SubjectSpaces
from whimbrel.spaces.state.stored_pairs import ChangedPair

PREFIX = "spaces/"
INSIDE_BYTES = 48 << 20
"""A subscription with hysteresis or dwell is taken only where the keys of a space have no more: its entry in the log,
which is bounded, holds the keys inside."""
_PAIR_BYTES = 32  # of a key inside, besides the key
_encode = msgspec.json.Encoder().encode


class _Version(NamedTuple):
    """The present version of a subscription."""

    id: str
    number: int
    options: tuple[bool, dict[str, float], float]
    rules: Rules

    @property
    def leave(self) -> bool:
        """Whether it is told of leaves."""
        return self.options[0]


class _Space:
    """One space: its members, the entries that gave the publications their regions, and the subscriptions."""

    def __init__(self, name: str, dimensions: dict[str, Any]) -> None:
        self.dimensions = dimensions
        self.members = SubjectSpaces()
        self.members.define(name, dimensions)
        self.members.pairs.track()
        self.held: dict[str, tuple[int, bytes]] = {}
        self.versions: dict[int, _Version] = {}
        self.bytes = 0

    def constrained(self, regions: Regions, rules: Rules) -> Regions:
        """Regions with the point that each rule asks for; Forbidden if there is no such dimension, or another point."""
        for name in rules:
            if name not in self.dimensions:
                raise Forbidden(f"Expected a space with the dimension {name!r}, which the token's rules name")
        return constrained(regions, rules)

    def inside_bytes(self) -> int:
        """The bytes that all keys would take in the entry of a subscription that has them inside."""
        return len(_encode(list(self.held))) + _PAIR_BYTES * len(self.held)


class SpaceTopic:
    """All spaces. Only the sequencer uses it, but for `next_due` and `counts`."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.next_due: float | None = None
        """When the next dwell is over, in seconds since 1970."""
        self.updated = self.notified = 0
        """Updates, and notifications of them, since the start."""
        self._settings = settings
        self._now = 0.0
        self._spaces: dict[tuple[str, str], _Space] = {}
        self._told: dict[int, FirstTold] = {}
        self._load(store)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of spaces, of publications and of subscriptions in them."""
        spaces = list(self._spaces.values())
        return len(spaces), sum(len(each.held) for each in spaces), sum(len(each.versions) for each in spaces)

    def define(self, tenant: str, name: str, dimensions: dict[str, Any]) -> list[SpaceChange]:
        """Define a space: the entry to append, or none if it is there already with the same dimensions."""
        known = self._spaces.get((tenant, name))
        if known is not None:
            if known.dimensions == dimensions:
                return []
            raise Conflict(f"Expected a new space, but {name!r} is there with other dimensions")
        most = self._settings.spaces_per_tenant
        if sum(owner == tenant for owner, _ in self._spaces) >= most:
            raise TooManyRequests(f"Expected at most {most:,} spaces of tenant {tenant!r}", QUOTA_SECONDS)
        if len(dimensions) > self._settings.dimensions_per_space:
            raise TooLarge(f"Expected at most {self._settings.dimensions_per_space:,} dimensions of a space")
        try:
            self._spaces[tenant, name] = _Space(name, dimensions)
        except WhimbrelError as error:
            raise Unprocessable(str(error), "invalid-space") from None
        return [SpaceChange(name, tenant, dimensions)]

    def drop(self, tenant: str, name: str) -> tuple[SpaceChange, list[str]]:
        """Drop a space: the entry to append, and the ids of the subscriptions, which must end with it."""
        space = self._find(tenant, name)
        ids = [version.id for version in space.versions.values()]
        return SpaceChange(name, tenant), ids

    def dropped(self, tenant: str, name: str) -> None:
        """Forget a space whose subscriptions have ended."""
        del self._spaces[tenant, name]

    def admit(self, number: int, first: int, put: SubscriptionPut, _: Filter | None) -> None:
        """Add a version of a subscription, or raise."""
        space = self._find(put.tenant, put.on.removeprefix(PREFIX))
        members, known = space.members, space.versions.get(first)
        before = set(members.matched_by(first)) if known is not None else set()
        told = self._subscribe(space, number, first, put)
        for other in self._spaces.values():
            if other is not space and first in other.versions:  # its token has another tenant now
                del other.versions[first]
                other.members.unsubscribe(first, now=self._now)
                other.members.pairs.take_changed()
        entered = {one.publication for one in told if one.kind == "enter"} - before
        left = {one.publication for one in told if one.kind == "leave"}
        if known is not None and known.options != space.versions[first].options:  # it was added anew
            left = before - set(members.matched_by(first)) if space.versions[first].leave else set()
        inside = [(str(key), due) for key, due in members.pairs.of(first).items()]
        members.pairs.take_changed()
        into, out = ([space.held[str(key)][0] for key in keys] for keys in (entered, left))
        self._told[number] = FirstTold(into, out, inside)

    def _subscribe(self, space: _Space, number: int, first: int, put: SubscriptionPut) -> Notifications:
        request = read_spec(put.spec)
        most = self._settings.regions_per_object
        if len(request.regions or ()) > most:
            raise TooLarge(f"Expected at most {most:,} regions, but got {len(request.regions or ()):,}")
        regions = space.constrained(request.regions or [], put.rules)
        options = request.leave, request.hysteresis or {}, request.dwell
        if (any(options[1].values()) or request.dwell > 0) and space.inside_bytes() > INSIDE_BYTES:
            limit = f"at most {INSIDE_BYTES:,} bytes of keys for a subscription with hysteresis or dwell"
            raise Unprocessable(f"Expected {limit}, but there are {len(space.held):,} keys", "limit-exceeded")
        known = space.versions.get(first)
        members = space.members
        try:
            if known is not None and known.options == options:
                found = members.update_subscription(first, regions, now=self._now)
            else:
                leave, hysteresis, dwell = options
                if known is not None:
                    members.check_subscription(regions, hysteresis, dwell)
                    members.unsubscribe(first, now=self._now)
                found = members.subscribe(
                    first, regions, leave=leave, hysteresis=hysteresis, dwell=dwell, now=self._now
                )
        except WhimbrelError as error:
            raise Unprocessable(str(error), "invalid-region") from None
        space.versions[first] = _Version(put.id, number, options, put.rules)
        return found

    def end(self, held: StoredSubscription) -> None:
        """Remove a subscription."""
        space = self._spaces.get((held.tenant, held.on.removeprefix(PREFIX)))
        if space is not None and space.versions.pop(held.first, None) is not None:
            space.members.unsubscribe(held.first, now=self._now)
            space.members.pairs.take_changed()

    def complete(self, group: RequestGroup) -> None:
        """Put into the entries of new versions what each is told first."""
        group.complete(self._told)
        self._told.clear()
        self._note_due()

    def update(self, group: RequestGroup, batches: list[Batch]) -> None:
        """Decide updates of publications, in the order in which they came."""
        for batch in batches:
            asked: Updates = batch.content
            results: list[Published | BrokerError] = []
            for update in asked.updates:
                try:
                    space, regions = self._read(asked, update)
                except BrokerError as error:
                    results.append(error)
                except Exception as error:  # reading an update changes nothing
                    results.append(unexpected(error))
                else:
                    results.append(self._apply(group, asked, update.key, space, regions))
            group.answers.append((batch.result, results))
        self._note_due()

    def _read(self, asked: Updates, update: PublicationUpdate) -> tuple[_Space, Regions | None]:
        """The space of an update and the new regions, None if the publication is deleted. Changes nothing."""
        space = self._find(asked.tenant, asked.space)
        held = space.held.get(update.key)
        allowed = held is None or allows_regions(asked.rules, held[1])
        check_target(update, None if held is None else held[0], allowed)
        if update.kind is UpdateKind.DELETE:
            return space, None
        old, most = b"" if held is None else held[1], self._settings.regions_per_object
        if update.kind is UpdateKind.PUT:
            regions = read_regions(update.content, most)
        else:
            regions = patched(read_regions(old, most), update.content)
        regions = space.constrained(regions, asked.rules)
        size = len(_encode({"regions": regions}))
        self._check_limits(asked.tenant, held is None, size - len(old), size)
        return space, regions

    def _apply(
        self, group: RequestGroup, asked: Updates, key: str, space: _Space, regions: Regions | None
    ) -> Published | BrokerError:
        """Give a publication regions, or delete it, and write the entry; the error if the space refuses the regions."""
        members, held = space.members, space.held.get(key)
        try:
            if regions is None:
                found = members.delete_publication(key, now=self._now)
            elif held is None:
                found = members.publish(key, regions, now=self._now)
            else:
                found = members.update_publication(key, regions, now=self._now)
        except WhimbrelError as error:
            return Unprocessable(str(error), "invalid-region")
        state = b"" if regions is None else _encode({"regions": regions})
        space.bytes += len(state) - (0 if held is None else len(held[1]))
        offset = group.next
        if state:
            space.held[key] = offset, state
        else:
            del space.held[key]
        self._write(group, asked, key, state, space, found)
        self.updated += 1
        self.notified += len(found)
        return Published(offset)

    def _check_limits(self, tenant: str, is_new: bool, more: int, size: int) -> None:
        if size > EVENT_BYTES.value:
            raise TooLarge(f"Expected regions of at most {EVENT_BYTES.value:,} bytes, but got {size:,}")
        most, largest = self._settings.publications_per_tenant, self._settings.publication_bytes_per_tenant
        own = [each for (owner, _), each in self._spaces.items() if owner == tenant]
        if is_new and sum(len(each.held) for each in own) >= most:
            raise TooManyRequests(f"Expected at most {most:,} publications in spaces of {tenant!r}", QUOTA_SECONDS)
        if more > 0 and sum(each.bytes for each in own) + more > largest:
            raise TooManyRequests(f"Expected at most {largest:,} bytes of regions of {tenant!r}", QUOTA_SECONDS)

    def _write(
        self, group: RequestGroup, asked: Updates, key: str, state: bytes, space: _Space, found: Notifications
    ) -> None:
        """Append the entry of an update, and say who is told."""
        offset = group.next
        told: list[tuple[int, str, bool]] = []
        for one in found:
            version = space.versions[int(one.subscription)]
            told.append((version.number, one.kind, bool(version.rules)))
        told.sort()
        numbers = [number for number, _, _ in told]
        kinds = "".join(kind[0] for _, kind, _ in told)
        inside, outside = _deltas(space.members.pairs.take_changed(), key)
        raw = msgspec.Raw(state or b"null")
        change = PublicationChange(
            key,
            asked.tenant,
            raw,
            int(self._now * 1e6),
            kinds[:1] if len(set(kinds)) == 1 else kinds,
            inside,
            outside,
            asked.space,
        )
        if told:
            hidden = {number for number, _, is_hidden in told if is_hidden}
            by_number = {number: kind for number, kind, _ in told}
            group.notices[offset] = partial(change_message, offset, change, by_number, hidden)
        group.append(change, numbers)

    def expire(self, group: RequestGroup, now: float) -> None:
        """Set the time, and append entries for publications whose dwell is over now."""
        self._now = now
        if self.next_due is None or self.next_due > now:
            return
        for (tenant, name), space in self._spaces.items():
            due = space.members.pairs.next_due
            if due is None or due > self._now:
                continue
            left = {(int(one.subscription), str(one.publication)) for one in space.members.advance(self._now)}
            listed: list[tuple[int, str, int, int]] = []
            for pair in space.members.pairs.take_changed():
                first, key = int(pair.subscription), str(pair.publication)
                number = space.versions[first].number if (first, key) in left else -1
                listed.append((first, key, space.held[key][0], number))
            listed.sort()
            for start in range(0, len(listed), EXPIRED_AT_ONCE):
                part = listed[start : start + EXPIRED_AT_ONCE]
                group.append(DwellExpiry(part, tenant, name), sorted({told for _, _, _, told in part if told >= 0}))
        self._note_due()

    def _note_due(self) -> None:
        due = [each.members.pairs.next_due for each in self._spaces.values()]
        self.next_due = min((one for one in due if one is not None), default=None)

    def _find(self, tenant: str, name: str) -> _Space:
        space = self._spaces.get((tenant, name))
        if space is None:
            raise NotFound(f"Expected the name of a space, but {name[:80]!r} is none")
        return space

    def _load(self, store: Store) -> None:
        for tenant, name, _, dimensions in store.spaces():
            self._spaces[tenant, name] = _Space(name, msgspec.json.decode(dimensions))
        states: dict[tuple[str, str], list[tuple[str, int, bytes]]] = defaultdict(list)
        for tenant, name, key, offset, state in store.all_publications():
            if name:
                states[tenant, name].append((key, offset, state))
        for place, listed in states.items():
            space = self._spaces[place]
            space.held = {key: (offset, state) for key, offset, state in listed}
            space.bytes = sum(len(state) for _, _, state in listed)
            most = self._settings.regions_per_object
            space.members.publish_many(
                [(key, read_regions(state, max(most, 1 << 20))) for key, _, state in listed], quiet=True, now=0.0
            )
        pairs: dict[int, dict[int | str, float | None]] = defaultdict(dict)
        for first, key, due in store.pairs():
            pairs[first][key] = due
        for held in store.subscriptions_on(PREFIX):
            space = self._spaces[held.tenant, held.on.removeprefix(PREFIX)]
            self._load_subscription(space, held, pairs[held.first])
        self._note_due()

    @staticmethod
    def _load_subscription(space: _Space, held: StoredSubscription, inside: dict[int | str, float | None]) -> None:
        request = read_spec(held.spec)
        rules = held.decode_rules()
        regions = constrained(request.regions or [], rules)
        hysteresis = request.hysteresis or {}
        space.members.subscribe(
            held.first, regions, leave=request.leave, hysteresis=hysteresis, dwell=request.dwell, now=0.0
        )
        if any(hysteresis.values()) or request.dwell > 0:
            space.members.pairs.restore(held.first, inside)
        space.members.pairs.take_changed()
        options = request.leave, hysteresis, request.dwell
        space.versions[held.first] = _Version(held.id, held.number, options, rules)


def _deltas(pairs: list[ChangedPair], key: str) -> tuple[list[tuple[int, float | None]], list[int]]:
    """The pairs of a publication that changed: the ones that are inside now, and the ones that are outside."""
    newest = {int(pair.subscription): pair for pair in pairs if pair.publication == key}
    inside = [(first, pair.due) for first, pair in newest.items() if pair.is_inside]
    return inside, [first for first, pair in newest.items() if not pair.is_inside]

"""The schema of a broker: read it, extend it, and announce extensions.

The index, filters and checks of events use one `Schema` object, which grows in the sequencer: what comes after an
extension in the log is checked by it, and what came before stays valid. An extension is announced by an event of type
`whimbrel.schema.extended` that the broker publishes itself. Its id follows from the extension's offset, so that it can
be published again after a crash without being there twice.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from whimbrel.broker.requests.context_schema import ANNOUNCEMENT
from whimbrel.broker.requests.entries import Change, SchemaExtension
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import Conflict, NotFound, Unavailable, Unprocessable
from whimbrel.broker.requests.schema_extensions import SCHEMA_NAMES, Extension, apply_all, decode_extension, rule_of
from whimbrel.broker.sequencing.request_group import IgnoredResult, Publish, RequestGroup
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.store import Store
from whimbrel.model.schema import Schema, SchemaError

SOURCE = "whimbrel"
"""The source of announcements."""


class SchemaService:
    """Reads and extends the schema; None if the broker has none."""

    def __init__(self, runtime: Runtime, schema: Schema | None, store: Store, floor: int) -> None:
        self.extended = len(store.schema_extensions())
        """Extensions in the log, so far."""
        self._runtime = runtime
        self._schema = schema
        self._announcing = threading.Lock()  # guards what waits: upkeep and the writer of the log announce
        # What is on disk and not announced yet; after a crash the last ones are announced again.
        self._waiting = [(offset, entry) for offset, entry in store.schema_extensions() if offset >= floor]

    @property
    def schema(self) -> Schema:
        """The schema; NotFound if there is none."""
        if self._schema is None:
            raise NotFound("Expected a broker with a schema, but this one was started without --schema")
        return self._schema

    def document(self) -> tuple[dict[str, object], str]:
        """The whole schema as a document, and its ETag. The version is the number of extensions."""
        document = {**self.schema.to_document(), "version": self.extended}
        return document, etag_of(document)

    def view(self, types: Iterable[str]) -> dict[str, object]:
        """What an event of all of these types must and may have."""
        schema, names = self.schema, list(types)
        try:
            uses = schema.view(names)
        except SchemaError as error:
            raise Unprocessable(str(error), "unknown-type") from None
        domains = schema.to_document()["attributes"]
        assert isinstance(domains, dict)
        attributes = [
            {"name": name, "domain": domains[name], "mandatory": use.mandatory, "multiple": use.multiple}
            for name, use in uses.items()
        ]
        return {"types": names, "type_attribute": schema.type_attribute, "attributes": attributes}

    async def extend(self, extensions: list[Extension], principal: Principal) -> list[int | None]:
        """Extend the schema by all of these, or by none. Each gets an offset, or None if it was there already."""
        principal.require_no_rules("the schema is everybody's")
        schema = self.schema

        def decide(offset: int) -> tuple[list[Change], object]:
            trial = copy.copy(schema)
            changed = apply_all(trial, extensions)
            names = len(trial.domains) + len(trial.attributes) + len(trial.types)
            if names > SCHEMA_NAMES:
                raise Conflict(f"Expected a schema of at most {SCHEMA_NAMES:,} names, but it would have {names:,}")
            apply_all(schema, extensions)
            entries: list[Change] = []
            offsets: list[int | None] = []
            for extension, is_new in zip(extensions, changed, strict=True):
                offsets.append(offset + len(entries) if is_new else None)
                if is_new:
                    entries.append(SchemaExtension(msgspec.Raw(msgspec.json.encode(extension)), principal.name))
            return entries, offsets

        answer: list[int | None] = await self._runtime.decide(decide)
        return answer

    def on_disk(self, group: RequestGroup) -> None:
        """Queue the announcements of extensions that are on disk. Called in the writer of the log."""
        found = [(offset, change) for offset, change in group.changes if isinstance(change, SchemaExtension)]
        if found:
            self.extended += len(found)
            with self._announcing:
                self._waiting = [*self._waiting, *found]
            self.announce()

    def announce(self) -> None:
        """Publish the events that announce extensions. What the queue does not take now is tried again by upkeep."""
        if not self._waiting or self._schema is None:
            return
        with self._announcing, contextlib.suppress(Unavailable):
            if self._waiting:
                self._runtime.submit(Publish([announcement(*one) for one in self._waiting], IgnoredResult(), SOURCE))
                self._waiting = []


def announcement(offset: int, entry: SchemaExtension) -> Incoming:
    """The event that announces an extension."""
    extension = decode_extension(entry.definition)
    id = f"schema-{offset}"
    event = {
        "specversion": "1.0",
        "id": id,
        "source": SOURCE,
        "type": ANNOUNCEMENT,
        "whimbreloffset": offset,
        "whimbrelrule": rule_of(extension),
        "whimbrelname": extension.name,
    }
    return Incoming(msgspec.json.encode(event), SOURCE, id)


def etag_of(document: object) -> str:
    """The ETag of something that is answered as JSON."""
    return f'"{sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()[:32]}"'

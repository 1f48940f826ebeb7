"""The schema as a fold: the file of --schema is its base, extensions come from the log.

The store keeps the base, so that a broker that is restored from a backup, or started without --schema, goes on with it.
A file that was changed since the last extension must contain all extensions: whoever edits it has seen them. The whole
schema as it stands is a file that does (`whimbrel schema fetch`).
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from whimbrel.broker.requests.schema_extensions import decode_extension, rule_of
from whimbrel.broker.store import Store
from whimbrel.broker.store.rows import SchemaBase
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.schema import Schema, SchemaError


class SchemaFileChanged(WhimbrelError):
    """The file of the schema does not contain what the log says: `missing` are the extensions."""

    def __init__(self, sentence: str, missing: list[str]) -> None:
        self.missing = missing
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
        super().__init__(f"{sentence}: {shown}. `whimbrel schema fetch` gives the whole schema of a running broker")


def grow(base: Schema | None, store: Store) -> Schema | None:
    """The schema of the file, or of the last start, with the extensions of the log; or say why they do not fit."""
    stored = [(offset, decode_extension(entry.definition)) for offset, entry in store.schema_extensions()]
    kept = store.schema_base()
    if base is None:
        if kept is None and stored:
            names = [f"{rule_of(extension)} {extension.name}" for _, extension in stored]
            raise SchemaFileChanged("Expected a schema, because the log has extensions of one", names)
        if kept is None:
            return None
        base = Schema.from_document(msgspec.json.decode(kept.document))
    document = {**base.to_document(), "version": 0}
    used = SchemaBase(
        sha256(msgspec.json.encode(document, order="deterministic")).hexdigest(), msgspec.json.encode(document)
    )
    is_changed = kept is not None and kept.digest != used.digest
    missing: list[str] = []
    for offset, extension in stored:
        try:
            is_new = extension.apply(base)
        except SchemaError as error:
            missing.append(f"{rule_of(extension)} {extension.name} (offset {offset}: {error})")
            continue
        if is_new and is_changed:
            missing.append(f"{rule_of(extension)} {extension.name} (offset {offset})")
    if missing:
        raise SchemaFileChanged("Expected the changed file of the schema to contain the extensions of the log", missing)
    if used != kept:
        store.set_schema_base(used)
    return base

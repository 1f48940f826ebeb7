"""The schema in the store: its extensions by offset, and which file was their base."""

from __future__ import annotations

import sqlite3

import msgspec

from whimbrel.broker.requests.entries import SchemaExtension


def apply_extension(connection: sqlite3.Connection, offset: int, entry: SchemaExtension) -> None:
    """Keep an extension; a second time it changes nothing."""
    values = (offset, bytes(entry.definition), entry.by)
    connection.execute("INSERT OR IGNORE INTO schema_extension VALUES (?, ?, ?)", values)


def extension_of(row: tuple[int, bytes, str]) -> tuple[int, SchemaExtension]:
    """The offset and the entry of a row."""
    offset, definition, by = row
    return offset, SchemaExtension(msgspec.Raw(definition), by)

"""The schema in the store: its extensions by offset, and the schema that they extend."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import msgspec

from whimbrel.broker.requests.entries import SchemaExtension


class SchemaBase(NamedTuple):
    """The schema of --schema as it was last used: its document as JSON, and a digest that tells whether it changed."""

    digest: str
    document: bytes


def apply_extension(connection: sqlite3.Connection, offset: int, entry: SchemaExtension) -> None:
    """Keep an extension; a second time it changes nothing."""
    values = (offset, bytes(entry.definition), entry.by)
    connection.execute("INSERT OR IGNORE INTO schema_extension VALUES (?, ?, ?)", values)


def extension_of(row: tuple[int, bytes, str]) -> tuple[int, SchemaExtension]:
    """The offset and the entry of a row."""
    offset, definition, by = row
    return offset, SchemaExtension(msgspec.Raw(definition), by)

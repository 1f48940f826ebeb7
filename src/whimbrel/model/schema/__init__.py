"""The integrated event schema: what values attributes may have, and which attributes events of each type have.

One idea per module: `domains` and `ordered` (values, their operators and codes), `discrete` (sets of them), `structure`
(event types and views), `state` (definitions and the four extension rules), `events` (the consistency rules),
`filters` (typing), `documents`, `toml` and `diff`, and ways to get a schema from elsewhere.
"""

from whimbrel.model.schema.diff import Change
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import (
    ConflictingExtension,
    FilterTypeError,
    InvalidEvent,
    InvalidSchema,
    SchemaError,
    Violation,
)
from whimbrel.model.schema.events import TypedEvent
from whimbrel.model.schema.ordered import Hierarchy, Ordered, OrderedEnumeration
from whimbrel.model.schema.schema import Schema
from whimbrel.model.schema.structure import Use

__all__ = [
    "Boolean",
    "Change",
    "ConflictingExtension",
    "Domain",
    "Enumeration",
    "FilterTypeError",
    "Hierarchy",
    "Instant",
    "InvalidEvent",
    "InvalidSchema",
    "Number",
    "Ordered",
    "OrderedEnumeration",
    "Schema",
    "SchemaError",
    "String",
    "TypedEvent",
    "Use",
    "Violation",
]

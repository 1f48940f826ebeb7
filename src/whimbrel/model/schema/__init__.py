"""The integrated event schema: what values attributes may have, and which attributes events of each type have.

`domains` and `ordered` have the values, their operators and codes, `canonical_sets` the sets of them, `definitions` how
types use attributes and the four extension rules, `declared_views` what several types say together, `typed_event` the
consistency rules for events, `filter_check` and `filter_codes` the typing of filters. `documents` and `diff` are files
and versions; `other_systems` and `infer` make schemas of what is there.
"""

from whimbrel.model.schema.declared_views import DeclaredView, attribute_set, mandatory_set, unique_set
from whimbrel.model.schema.definitions import Use
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
from whimbrel.model.schema.ordered import Hierarchy, Ordered, OrderedEnumeration
from whimbrel.model.schema.schema import Schema
from whimbrel.model.schema.typed_event import TypedEvent

__all__ = [
    "Boolean", "Change", "ConflictingExtension", "DeclaredView", "Domain", "Enumeration", "FilterTypeError",
    "Hierarchy", "Instant", "InvalidEvent", "InvalidSchema", "Number", "Ordered", "OrderedEnumeration", "Schema",
    "SchemaError", "String", "TypedEvent", "Use", "Violation", "attribute_set", "mandatory_set", "unique_set",
]  # fmt: skip

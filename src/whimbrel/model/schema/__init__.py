"""The integrated event schema: what values attributes may have, and which attributes events of each type have.

domains, ordered, canonical_sets  values with their operators and codes; sets of them in one canonical form
definitions                       how types use attributes, the four extension rules, views of several types
typed_event, quick_check          the consistency rules for events; a quick look that finds most of them valid
typed_filter                      the check of filters, and codes in the place of their values
documents, diff                   a schema in files, and what differs between two versions
other_systems, infer              schemas from those of other systems, or from a sample of events
schema, errors                    the schema itself, which grows while it is used; what it refuses
"""

from whimbrel.model.schema.definitions import DeclaredView, Use, attribute_set, mandatory_set, unique_set
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

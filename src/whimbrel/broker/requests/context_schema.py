"""A schema for CloudEvents: that of the broker, in which every event type may have the context attributes, too."""

from __future__ import annotations

from pathlib import Path

from whimbrel.model.schema import Schema, documents

CONTEXT = {
    "specversion": "string",
    "id": "string",
    "source": "string",
    "type": "string",
    "subject": "string",
    "time": "timestamp",
    "datacontenttype": "string",
    "dataschema": "string",
    "data_base64": "string",
    "traceparent": "string",
    "tracestate": "string",
}
"""The context attributes of CloudEvents and of traces, and their domains. Other extensions must be declared."""


ANNOUNCEMENT = "whimbrel.schema.extended"
"""The type of the events that announce extensions of the schema."""
_ANNOUNCED = {"whimbreloffset": "integer", "whimbrelrule": "string", "whimbrelname": "string"}


def load_schema(path: str | Path) -> Schema:
    """Load a schema and let every event type have the context attributes, where it does not say how.

    The type of an event in the sense of CloudEvents is one of its types. The broker's own announcements have a type.
    """
    document = documents.load(path)
    schema = Schema.from_document(document)
    if schema.type_attribute != "type" and schema.own_type_attribute is None:
        schema = Schema.from_document({**schema.to_document(), "own_type_attribute": "type"})
    for name, domain in (CONTEXT | _ANNOUNCED).items():
        if name != schema.type_attribute and schema.domain_of(name) is None:
            schema.create_attribute(name, domain)
    if ANNOUNCEMENT not in schema.types:
        schema.create_type(ANNOUNCEMENT, dict.fromkeys(_ANNOUNCED, "mandatory"))
    for type, uses in list(schema.types.items()):
        for name in CONTEXT:
            if name != schema.type_attribute and name not in uses:
                schema.extend_type(type, name, "optional")
    return schema

"""A schema for CloudEvents: that of the broker, in which every event type may have the context attributes, too."""

from __future__ import annotations

from pathlib import Path

from whimbrel.model.schema import Schema

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


def load_schema(path: str | Path) -> Schema:
    """Load a schema and let every event type have the context attributes, where it does not say how."""
    schema = Schema.load(path)
    for name, domain in CONTEXT.items():
        if schema.domain_of(name) is None:
            schema.create_attribute(name, domain)
    for type, uses in list(schema.types.items()):
        for name in CONTEXT:
            if name != schema.type_attribute and name not in uses:
                schema.extend_type(type, name, "optional")
    return schema

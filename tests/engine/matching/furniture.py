"""A schema of furniture that is sold and rented, for tests of an index that has one."""

from __future__ import annotations

import pyarrow as pa

from whimbrel import Schema


def furniture() -> Schema:
    return Schema.from_document(
        {
            "default_type": "sale",
            "domains": {
                "kind": {"kind": "hierarchical", "children": {"any": ["dining", "bedroom"], "dining": ["table"]}},
                "percent": {"kind": "integer", "minimum": 0, "maximum": 100},
                "money": {"kind": "decimal", "scale": 2},
            },
            "attributes": {"kind": "kind", "share": "percent", "price": "money", "tags": "string", "when": "timestamp"},
            "types": {
                "sale": {"kind": "mandatory", "share": "optional", "tags": "optional multiple", "when": "optional"},
                "rent": {"price": "mandatory", "kind": "optional multiple"},
            },
        }
    )


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))

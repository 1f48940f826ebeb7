"""The schema of the paper, which several tests use."""

from __future__ import annotations

import pytest

from whimbrel import Schema
from whimbrel.model.schema import (
    Enumeration,
    Hierarchy,
)


@pytest.fixture
def paper() -> Schema:
    """The antiques and furniture of the paper ([LeSub] s.2)."""
    schema = Schema()
    schema.create_domain("period", Enumeration(("XV", "XVI", "XVII")))
    schema.create_domain("furniture_category", Hierarchy({"furniture": ("table", "chair")}))
    for name, domain in {
        "price": "float",
        "quantity": "integer",
        "period": "period",
        "furniture_category": "furniture_category",
        "dealer": "string",
    }.items():
        schema.create_attribute(name, domain)
    schema.create_type("antiques", {"price": "mandatory", "quantity": "optional", "period": "mandatory"})
    schema.create_type(
        "furniture", {"price": "optional multiple", "furniture_category": "mandatory", "quantity": "mandatory"}
    )
    return schema

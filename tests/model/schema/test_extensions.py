"""The four rules of extension: what changes a schema, what is refused, and many publishers at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from whimbrel import Schema
from whimbrel.model.schema import (
    ConflictingExtension,
    Enumeration,
    Number,
    SchemaError,
)

CONFLICTS = [
    (lambda s: s.create_domain("period", Enumeration(("XV",))), "'XV', 'XVI', 'XVII'.*makes it enumerated .*'XV'"),
    (lambda s: s.create_domain("integer", Number("float")), "to stay integer, but the extension makes it float"),
    (lambda s: s.create_attribute("price", "integer"), "of domain 'float', but .* of domain 'integer'"),
    (lambda s: s.create_type("antiques", {"price": "optional"}), "price: mandatory.*makes it {price: optional}"),
    (lambda s: s.extend_type("furniture", "price", "optional"), "stay optional multiple.*makes it optional"),
]  # fmt: skip

REFUSED = [
    (lambda s: s.create_attribute("weight", "kilograms"), "Expected a domain, but got 'kilograms'"),
    (lambda s: s.create_attribute("weight", "flaot"), "did you mean 'float'"),
    (lambda s: s.create_attribute("weight", ["float"]), "Expected a domain"),
    (lambda s: s.create_attribute(None, "float"), "Expected a name"),
    (lambda s: s.create_attribute("event_type", "string"), "holds the types"),
    (lambda s: s.create_type("cars", {"wheels": "mandatory"}), "Expected an attribute, but got 'wheels'"),
    (lambda s: s.create_type("cars", {"prise": "mandatory"}), "did you mean 'price'"),
    (lambda s: s.create_type("cars", {"price": "always"}), "but got 'always'"),
    (lambda s: s.extend_type("antiques", "dealer", "mandatory"), "Expected an optional attribute"),
    (lambda s: s.extend_type("antique", "dealer"), "did you mean 'antiques'"),
    (lambda s: s.extend_type("antiques", "sealer"), "did you mean 'dealer'"),
    (lambda s: s.create_domain("x", {"kind": "enumerated", "values": []}), "at domains.x.values"),
]


@pytest.mark.parametrize(("step", "message"), [*CONFLICTS, *REFUSED], ids=[m for _, m in [*CONFLICTS, *REFUSED]])
def test_a_refused_extension_changes_nothing(paper: Schema, step: Any, message: str) -> None:
    before, version = paper.to_document(), paper.version
    with pytest.raises(SchemaError, match=message) as caught:
        step(paper)
    assert isinstance(caught.value, ConflictingExtension) == ((step, message) in CONFLICTS)
    assert (paper.to_document(), paper.version) == (before, version)


def test_the_four_rules_count_versions_and_repetition_does_not(paper: Schema) -> None:
    version = paper.version
    for step in (
        lambda: paper.create_domain("colour", Enumeration(("red", "green"))),
        lambda: paper.create_attribute("colour", "colour"),
        lambda: paper.extend_type("antiques", "colour", "optional multiple"),
        lambda: paper.create_type("paintings", {"colour": "mandatory", "price": "optional"}),
    ):
        assert step()
        version += 1
        assert paper.version == version
        assert not step(), "the same definition is no change"
        assert paper.version == version
    assert not paper.create_domain("colour", Enumeration(("green", "red"))), "in another order, but the same"


def test_a_whole_schema_is_added_or_nothing_of_it(paper: Schema) -> None:
    before = paper.to_document()
    with pytest.raises(SchemaError) as caught:
        paper.extend(
            {
                "attributes": {"price": "integer", "colour": "string"},
                "types": {"antiques": {"colour": "mandatory"}, "cars": {"colour": "mandatory"}},
            }
        )
    assert "2 problems" in str(caught.value)
    assert "'float'" in str(caught.value)
    assert "Expected an optional attribute" in str(caught.value)
    assert paper.to_document() == before
    assert paper.extend({"attributes": {"colour": "string"}, "types": {"antiques": {"price": "mandatory"}, "cars": {}}})
    assert paper.violations({"event_type": "cars"}) == []
    with pytest.raises(SchemaError, match="type_attribute"):
        paper.extend(Schema("type"))


EVENT = {
    "event_type": ["antiques", "furniture"],
    "price": 200,
    "quantity": 2,
    "period": "XVI",
    "furniture_category": "table",
}


def test_publishers_extend_at_the_same_time(paper: Schema) -> None:
    version = paper.version

    def publish(number: int) -> None:
        for step in range(50):
            paper.create_attribute(f"a{number}.{step}", "float")
            paper.extend_type("antiques", f"a{number}.{step}")
            paper.read({**EVENT, f"a{number}.{step}": 1})

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paper.version == version + 400
    assert len(paper.view(["antiques"])) == 203

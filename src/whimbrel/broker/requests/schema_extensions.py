"""Extensions of the schema as requests ask for them and as the log holds them: the four rules of Le Subscribe.

A domain is created, an attribute is created, an event type gets one more attribute, which must be optional, or an event
type is created. So nothing that was valid becomes invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from whimbrel.broker.requests.context_schema import CONTEXT
from whimbrel.broker.requests.errors import BrokerError, TooLarge, decode_body
from whimbrel.model.schema import ConflictingExtension, Schema, SchemaError

EXTENSION_BYTES = 256 << 10
"""A request to extend the schema, at most."""
EXTENSIONS = 1_000
"""Extensions of one request, at most."""
SCHEMA_NAMES = 20_000
"""Domains, attributes and event types of a schema together, at most."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule"):
    """What all extensions have: a tag, which is the name of the rule, and `apply`, which extends a schema.

    `apply` returns False if the extension was there already.
    """


class CreateDomain(_Rule, frozen=True, tag="create-domain"):
    """A new domain, defined as in a schema's document."""

    name: Name
    definition: dict[str, Any]

    def apply(self, schema: Schema) -> bool:
        return schema.create_domain(self.name, self.definition)


class CreateAttribute(_Rule, frozen=True, tag="create-attribute"):
    """A new attribute of a domain, for all types to use."""

    name: Name
    domain: Name

    def apply(self, schema: Schema) -> bool:
        return schema.create_attribute(self.name, self.domain)


class ExtendType(_Rule, frozen=True, tag="extend-type"):
    """One more attribute for an event type: `optional`, perhaps `optional multiple`."""

    type: Name
    attribute: Name
    use: str = "optional"

    @property
    def name(self) -> str:
        """The type and the attribute that are extended, with a dot between them."""
        return f"{self.type}.{self.attribute}"

    def apply(self, schema: Schema) -> bool:
        return schema.extend_type(self.type, self.attribute, self.use)


class CreateType(_Rule, frozen=True, tag="create-type"):
    """A new event type. It may have the context attributes of CloudEvents without naming them."""

    name: Name
    attributes: dict[str, str]

    def apply(self, schema: Schema) -> bool:
        context = {name: "optional" for name in CONTEXT if name != schema.type_attribute}
        return schema.create_type(self.name, context | self.attributes)


Extension: TypeAlias = CreateDomain | CreateAttribute | ExtendType | CreateType


class ExtensionsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /schema/extensions: all of them, or none."""

    extensions: Annotated[list[Extension], msgspec.Meta(min_length=1, max_length=EXTENSIONS)]


class ExtensionRefused(BrokerError):
    """An extension breaks a `rule`; `place` is its place in the request."""

    status = 422
    code = "extension-refused"

    def __init__(self, place: int, rule: str, error: SchemaError) -> None:
        self.place, self.rule = place, rule
        if isinstance(error, ConflictingExtension):
            self.status, self.code = 409, "extension-conflicts"
        super().__init__(f"{rule}: {error} - at $.extensions[{place}]")


_extension: msgspec.json.Decoder[Extension] = msgspec.json.Decoder(Extension)


def rule_of(extension: Extension) -> str:
    """The name of the rule that an extension follows."""
    return str(type(extension).__struct_config__.tag)


def read_extensions(body: bytes) -> list[Extension]:
    """The extensions of a body; Unprocessable says what is wrong and where."""
    if len(body) > EXTENSION_BYTES:
        raise TooLarge(f"Expected extensions of at most {EXTENSION_BYTES:,} bytes, but got {len(body):,}")
    return decode_body(body, ExtensionsRequest, "invalid-extension").extensions


def decode_extension(definition: bytes) -> Extension:
    """An extension as the log holds it."""
    return _extension.decode(definition)


def apply_all(schema: Schema, extensions: Sequence[Extension]) -> list[bool]:
    """Extend a schema by all of them; ExtensionRefused names the first that breaks a rule."""
    changed: list[bool] = []
    for place, extension in enumerate(extensions):
        try:
            changed.append(extension.apply(schema))
        except SchemaError as error:
            raise ExtensionRefused(place, rule_of(extension), error) from None
    return changed

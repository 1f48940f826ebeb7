"""The options of `match` and `match_stream`, and the job that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

from whimbrel.model.event import attribute_names
from whimbrel.pipeline.connectors.files import DEFAULT_KEYS
from whimbrel.pipeline.errors import BadOption, ColumnError, KeyMissing, check_integer, check_type
from whimbrel.pipeline.spark.transfer import ColumnTransfer, FieldPath, plan_transfer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SUBSCRIPTION, SUBSCRIPTIONS = "subscription", "subscriptions"
"""The output column with form `pairs`, and with form `lists`."""
FORMS = ("pairs", "lists")


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """The options of `match`, which documents them."""

    key: str | Sequence[str] | None = None
    form: str = "pairs"
    plan: str = "auto"
    version: int | None = None
    json: str | None = None
    timestamps: Collection[str] = ()
    budget: int | None = None

    def __post_init__(self) -> None:
        check_type("timestamps", self.timestamps, Iterable, "names of attributes")
        check_type("json", self.json, (str, NoneType), "the name of a column")
        object.__setattr__(self, "timestamps", attribute_names(self.timestamps, "timestamps"))
        if self.version is not None:
            check_integer("version", self.version, 1)

    def key_columns(self, columns: Sequence[str]) -> tuple[int, ...]:
        """The numbers of the key columns; an error if the options and columns do not go together."""
        if self.form not in FORMS:
            raise BadOption("form", self.form, f"one of {', '.join(FORMS)}")
        if self.key is None:
            found = [name for name in DEFAULT_KEYS if name in columns][:1]
            if not found:
                raise KeyMissing(DEFAULT_KEYS, columns)
        else:
            names = self.key if isinstance(self.key, Iterable) else ()
            found = [self.key] if isinstance(self.key, str) else list(names)
            if not found or not all(isinstance(name, str) for name in found):
                raise BadOption("key", self.key, "the name of a column, or several")
        for name in found:
            if name not in columns:
                raise KeyMissing([name], columns)
            if columns.count(name) > 1:
                raise ColumnError(name, "one column of this name as key", f"{columns.count(name)}")
        output = SUBSCRIPTION if self.form == "pairs" else SUBSCRIPTIONS
        for name in found:
            if name.lower() == output:  # Spark would not tell the two apart
                raise BadOption("key", name, "another name than that of the output column")
        return tuple(columns.index(name) for name in found)

    def transfer(self, schema: StructType, attributes: Collection[str] | None) -> ColumnTransfer:
        """The columns that workers need: the JSON column alone, or those of these attributes (None: all)."""
        from pyspark.sql.types import StringType

        if self.json is None:
            return plan_transfer(schema, attributes)
        numbers = [number for number, field in enumerate(schema.fields) if field.name == self.json]
        if len(numbers) != 1:
            raise ColumnError(self.json, "one column of JSON texts", f"the columns {', '.join(schema.fieldNames())}")
        kind = schema.fields[numbers[0]].dataType
        if not isinstance(kind, StringType):
            raise ColumnError(self.json, "text, as it is to be read as JSON", kind.simpleString())
        return ColumnTransfer((FieldPath(self.json, (numbers[0],)),), {})


@dataclass(frozen=True, slots=True)
class MatchJob:
    """A call of `match` or `match_stream`, checked; it is sent to the workers. A stream has no fixed version."""

    index: Path
    id_kind: str
    """The type of the ids in all versions: int64 or string."""
    version: int | Callable[[], int]
    """The version of the index to match against; or a function that gives it, which each task calls once."""
    keys: tuple[int, ...]
    """The numbers of the key columns."""
    transfer: ColumnTransfer
    options: MatchOptions

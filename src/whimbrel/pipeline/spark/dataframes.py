"""DataFrames as arguments: what they must be, columns by position, names that Spark takes for the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from whimbrel.pipeline.errors import BadOption, check_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIELDS_DIFFER = "another name for each field of the struct"
"""What is expected of a struct whose fields Spark cannot tell apart, for a ColumnError."""


def check_frame(option: str, value: object, streaming: bool | None = None) -> None:
    """BadOption if the value of an option is no DataFrame, or not one at rest or streaming, as it should be."""
    from pyspark.sql import DataFrame

    wanted = {None: "a DataFrame", True: "a streaming DataFrame", False: "a DataFrame at rest"}
    check_type(option, value, DataFrame, wanted[streaming])
    assert isinstance(value, DataFrame)
    if streaming is not None and value.isStreaming != streaming:
        raise BadOption(option, wanted[value.isStreaming], wanted[streaming])


def repeated(names: Iterable[str]) -> list[str]:
    """The names that come more than once; names that differ in case only are the same for Spark."""
    names = list(names)
    counts = Counter(name.lower() for name in names)
    return [name for name in names if counts[name.lower()] > 1]


def positional(frame: DataFrame) -> tuple[DataFrame, list[Column]]:
    """The frame with columns named c0, c1 and so on, because names may be equal or differ in case only."""
    renamed = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    return renamed, [renamed[name] for name in renamed.columns]

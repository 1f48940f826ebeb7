"""The columnar form of many filters: what bulk loads are made of, in any dialect.

A columnar shape is a filter whose literals are slots: an OR of conjunctions with one set of values per attribute, each
set given by its literals alone. Filters that differ in their literals only share a shape, and each slot has a column
with the literals of all of them. No filter objects are made. A filter that has no such form stays a filter.
"""

from whimbrel.language.columnar.columns import Column, DictionaryStrings, Int64s
from whimbrel.language.columnar.parsed import Columnar, Conjunctions, ParsedMany, ShapeGroup, parse_many
from whimbrel.language.columnar.shapes import ColumnarShape, Operand, Term

__all__ = [
    "Column",
    "Columnar",
    "ColumnarShape",
    "Conjunctions",
    "DictionaryStrings",
    "Int64s",
    "Operand",
    "ParsedMany",
    "ShapeGroup",
    "Term",
    "parse_many",
]

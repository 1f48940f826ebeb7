"""Plain dicts, lists, texts, numbers and booleans as TOML: what `tomllib` reads back, tables after plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_toml(document: Mapping[str, object]) -> str:
    """The text of a document.

    >>> print(to_toml({"version": 1, "types": {"bid": {"a.b": ["x"]}}}), end="")
    version = 1
    <BLANKLINE>
    [types.bid]
    "a.b" = ["x"]
    """
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    nested = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lines: list[str] = []
    if path and (plain or not nested):
        lines += ["", f"[{'.'.join(map(_name, path))}]"]
    lines += [f"{_name(name)} = {_value(value)}" for name, value in plain.items()]
    for name, value in nested.items():
        lines += _table(value, (*path, name))
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    shown = (_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}") for c in text)
    return f'"{"".join(shown)}"'

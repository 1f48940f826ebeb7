"""Options of a wrong type are refused at the call, by an error that names the option."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whimbrel import Filter, Index, Schema, WhimbrelError
from whimbrel.matchers import make
from whimbrel.matchers.shared.option_checks import MatcherOptionError, UnknownMatcher
from whimbrel.model.errors import NamesError, OptionError, UnknownDialect

ANY: Any = None
EVENT = {"a": 2}
TEXT = "a = 1"
PARSED = Filter.parse(TEXT)

WRONG: list[tuple[Callable[[], object], type[WhimbrelError], str]] = [
    (lambda: Index().match_batch([EVENT], threads="2"), OptionError, "a whole number from 1, but got str '2' - at t"),  # type: ignore[arg-type]
    (lambda: Index().match_blocks([EVENT], threads=1.5), OptionError, "but got float 1.5 - at threads"),  # type: ignore[arg-type]
    (lambda: Index().match_blocks([EVENT], threads=0), OptionError, "but got int 0 - at threads"),
    (lambda: Index().match_blocks([EVENT], threads=True), OptionError, "but got bool True - at threads"),
    (lambda: Index().match_blocks([EVENT], errors=()), OptionError, r"a list, but got tuple \(\) - at errors"),  # type: ignore[arg-type]
    (lambda: make("naive").match_batch([EVENT], errors={}), OptionError, "a list, but got dict {} - at errors"),  # type: ignore[arg-type]
    (lambda: Index().near_misses(EVENT, limit="x"), OptionError, "a whole number, but got str 'x' - at limit"),  # type: ignore[arg-type]
    (lambda: make("naive").near_misses(EVENT, limit=1.5), OptionError, "but got float 1.5 - at limit"),  # type: ignore[arg-type]
    (lambda: Index(timestamps="a"), NamesError, "a list of attribute names, but got the text 'a' - at timestamps"),
    (lambda: Index(timestamps=5), NamesError, "but got int 5 - at timestamps"),  # type: ignore[arg-type]
    (lambda: PARSED.matches(EVENT, timestamps=ANY), NamesError, "but got None - at timestamps"),
    (lambda: Index(schema={}), OptionError, "a Schema, but got dict {} - at schema"),  # type: ignore[arg-type]
    (lambda: Index(schema=Schema), OptionError, "a Schema, but got type"),  # type: ignore[arg-type]
    (lambda: Filter.parse(TEXT, schema=5), OptionError, "a Schema, but got int 5 - at schema"),  # type: ignore[arg-type]
    (lambda: Filter.parse(TEXT, ["sql"]), UnknownDialect, r"but got \['sql'\]"),  # type: ignore[arg-type]
    (lambda: Index().add(1, TEXT, dialect={}), UnknownDialect, "but got {}"),  # type: ignore[arg-type]
    (lambda: Index().add_many([(1, TEXT)], dialect=5), UnknownDialect, "but got 5"),  # type: ignore[arg-type]
    (lambda: Index().add_many([(1, TEXT)], dialect=b"sql"), UnknownDialect, "but got b'sql'"),  # type: ignore[arg-type]
    (lambda: Index().add_many([(1, TEXT)], progress=5), OptionError, "a function, but got int 5 - at progress"),  # type: ignore[arg-type]
    (lambda: Index().save(5), OptionError, "a path, but got int 5 - at path"),  # type: ignore[arg-type]
    (lambda: Index.open(b"x"), OptionError, "a path, but got bytes b'x' - at path"),  # type: ignore[arg-type]
    (lambda: PARSED.covers(TEXT), OptionError, "a Filter, but got str 'a = 1' - at other"),  # type: ignore[arg-type]
    (lambda: PARSED.intersects(ANY), OptionError, "a Filter, but got None - at other"),
    (lambda: Index().costs([TEXT]), OptionError, "a list of Filters, but got str 'a = 1' - at filters"),  # type: ignore[list-item]
    (lambda: make(["naive"]), UnknownMatcher, r"but got \['naive'\]"),  # type: ignore[arg-type]
    (lambda: make("naive", depth=5), MatcherOptionError, "options to be some of timestamps, count, types, but got 'd"),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=[message[-30:] for _, _, message in WRONG])
def test_a_wrong_option_is_refused_at_the_call(
    call: Callable[[], object], kind: type[WhimbrelError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_whole_numbers_of_numpy_are_good_options() -> None:
    index = Index()
    index.add_many([(1, TEXT), (2, TEXT)])
    assert len(index.near_misses(EVENT, limit=np.int64(1))) == 1  # type: ignore[arg-type]
    assert index.match_batch([{"a": 1}], threads=np.int32(1)).num_rows == 2  # type: ignore[arg-type]


def test_what_is_no_id_is_in_no_matcher() -> None:
    for matcher in (Index(), make("naive")):
        matcher.add(1, TEXT)
        assert [id in matcher for id in (1, np.int64(1), [1], True, None, "1")] == [True, True, *[False] * 4]

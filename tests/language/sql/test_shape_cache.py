from __future__ import annotations

import threading

from hypothesis import example, given
from hypothesis import strategies as st

from tests.language import texts as sql
from whimbrel.language.sql.lexer import check_text
from whimbrel.language.sql.parser import SqlParser
from whimbrel.language.sql.shape_cache import SHAPE_LENGTH, ShapeCache, cut_literals, cut_tokens
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.expression import Compare, Expression
from whimbrel.model.filter import Filter


def outcome(parse, text: str) -> tuple[str, str]:
    """The expression, or the error with its place: both as text, so that 5 and 5.0 differ."""
    try:
        found = parse(text)
        return "good", repr(found.expression if isinstance(found, Filter) else found)
    except WhimbrelError as error:
        return type(error).__name__, str(error)


def parse_uncached(text: str) -> Expression:
    check_text(text)
    _, strings, numbers = cut_tokens(text)
    return SqlParser(text).template().bind(strings, numbers, text)


def known(cache: ShapeCache, text: str) -> bool:
    return cache.get(cut_literals(text)[0]) is not None


@given(st.lists(sql.anything, min_size=1, max_size=5))
@example(["a = \0", "a = 5", "a = '5'"])
@example(["a = 5'x'", "a = 'x'5", "a = 5 'x'"])
@example(["1 < 2", "2 < 1", "'1' < 2"])
@example(["a = '''' OR b = ''", "a = '' OR b = ''"])
@example(['a = "5"', "a = '5'", 'a = "5" OR b = 6', "a = `5` OR b = 7"])
@example(["\"x\" = 5 AND y = 'a'", "\"x\" = 'a' AND y = 5"])
@example(["a LIKE 'x'", "a LIKE 5", "a LIKE 'x\\'"])
@example(["a.5 = 5", "a = .5", "a.b = 5.", "a5 = 5"])
def test_a_text_means_the_same_with_the_cache_as_without(batch):
    cache = ShapeCache()
    for text in batch * 3:
        assert outcome(cache.parse, text) == outcome(parse_uncached, text)
    cache._check()


@given(sql.texts, st.data())
def test_other_literals_in_a_known_shape_mean_what_they_mean_alone(text, data):
    cache = ShapeCache()
    for _ in range(2):
        outcome(cache.parse, text)
    other = data.draw(sql.numbers)
    changed = text
    for number in cut_tokens(text)[2]:
        changed = changed.replace(f" {number}", f" {other}")
    assert outcome(cache.parse, changed) == outcome(parse_uncached, changed)


@given(sql.texts)
def test_both_ways_to_take_a_text_apart_find_the_same_literals(text):
    assert cut_literals(text)[1:] == cut_tokens(text)[1:]


def test_a_shape_is_kept_when_it_is_met_again_and_then_serves_other_literals():
    cache = ShapeCache()
    cache.parse("a = 5")
    assert len(cache) == 0
    cache.parse("a = 6")
    assert len(cache) == 1
    assert cache.parse("a = 7").expression == Compare("a", "=", 7)
    assert known(cache, "a = 8")
    assert not known(cache, "a = 'x'")
    assert not known(cache, "a = -5")


def test_a_shape_in_use_outlives_those_that_are_not():
    cache = ShapeCache(size=8)
    for number in range(100):
        for _ in range(2):
            cache.parse(f"b{number} = 1")
            cache.parse("a = 5")
        cache._check()
    assert known(cache, "a = 5")
    assert len(cache) <= 8
    assert not known(cache, "b1 = 1")


def test_shapes_that_never_come_again_are_not_kept():
    cache = ShapeCache(size=8)
    for number in range(100):
        cache.parse(f"b{number} = 1")
    assert len(cache) == 0
    cache._check()


def test_a_huge_text_is_not_kept():
    cache = ShapeCache()
    text = " OR ".join(["a = 5"] * SHAPE_LENGTH.value)
    for _ in range(3):
        cache.parse(text)
    assert len(cache) == 0


def test_a_bad_text_is_not_kept():
    cache = ShapeCache()
    for _ in range(3):
        assert outcome(cache.parse, "a = = 5")[0] == "FilterSyntaxError"
    assert len(cache) == 0


def test_a_literal_that_is_refused_is_refused_at_once():
    cache = ShapeCache()
    for text in ("a = 5", "a = 6"):
        assert cache.parse(text).is_surely_small()
    assert outcome(cache.parse, f"a = {'9' * 1_001}")[0] == "LimitExceeded"


def test_threads_share_a_cache():
    cache = ShapeCache(size=4)
    wrong: list[Expression] = []

    def work(start: int) -> None:
        for number in range(start, start + 400):
            found = cache.parse(f"a{number % 7} = {number}").expression
            if found != Compare(f"a{number % 7}", "=", number):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(1_000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    cache._check()

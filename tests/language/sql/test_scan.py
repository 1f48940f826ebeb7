"""Texts that are scanned mean what they mean when they are parsed one by one, however they are written."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import texts as sql
from tests.language.columnar.test_columnar import check
from whimbrel.lab.workloads import mixed
from whimbrel.language.columnar import terms as columnar
from whimbrel.language.columnar.terms import parse_many, scan_many
from whimbrel.language.sql import scan, scan_kernels
from whimbrel.language.sql.leaves import read_leaf
from whimbrel.language.sql.lexer import RESERVED, tokens
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.filter import Filter


@pytest.fixture(autouse=True, scope="module")
def _scan_all() -> Iterator[None]:
    before = columnar.SCANNED_FROM, scan.LONGEST, scan.SKELETON_BYTES
    columnar.SCANNED_FROM, scan.LONGEST, scan.SKELETON_BYTES = 1, 1 << 12, 1 << 14  # small ones are made faster
    yield
    columnar.SCANNED_FROM, scan.LONGEST, scan.SKELETON_BYTES = before


def agrees(batch: list[str]) -> None:
    check(parse_many(batch), batch)


@st.composite
def restyled(draw: st.DrawFn) -> str:
    """A good text with other spaces and another case of its reserved words."""
    out: list[str] = []
    for word in tokens(draw(sql.texts)):
        cases = [word.upper(), word.lower(), word.title()] if word.upper() in RESERVED else [word]
        token = draw(st.sampled_from(cases))
        needs_space = bool(out) and (out[-1][-1:].isalnum() or out[-1][-1:] in "_\"`'.") and token[:1] not in "(),=<>!"
        out.append(
            draw(st.sampled_from([" ", "\t", "\n ", "  "] if needs_space else ["", " ", "\r\n", "\x0b"])) + token
        )
    return "".join(out)


plain = st.lists(sql.simple_predicates, min_size=1, max_size=4).map(" AND ".join)
_decimals = st.builds("{}.{}".format, st.integers(0, 10**17), st.text("0123456789", min_size=1, max_size=25))
numbers = st.one_of(
    st.floats(0, 2**60).map(repr),
    st.floats(0, 1).map(repr),
    st.integers(0, 2**60).map(str),
    _decimals,
    st.builds("{}e{}".format, _decimals, st.integers(-330, 20)),
    st.builds("{}e{}".format, st.integers(0, 10**6), st.integers(-30, 30)),
    st.builds("{}{}".format, _decimals, st.sampled_from(["e-", "E-5", "e-5x", "e-400", ".", "x", "é", "e5", "'", "_"])),
)


@given(st.lists(plain, min_size=1, max_size=6))
def test_conjunctions_are_what_they_are_alone(batch: list[str]) -> None:
    agrees(batch * 2)


@given(st.lists(restyled(), min_size=1, max_size=5))
def test_spaces_and_case_make_no_difference(batch: list[str]) -> None:
    agrees(batch)


@given(st.lists(sql.anything, min_size=1, max_size=5))
def test_nothing_is_lost_whatever_the_texts(batch: list[str]) -> None:
    agrees(batch)


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from(["", "-", "- ", "+"]))
def test_numbers_have_their_exact_values(literals: list[str], sign: str) -> None:
    agrees([f"a = {sign}{literal} AND b < {literal}" for literal in literals])


@given(
    st.lists(
        st.sampled_from(
            ["é", "\u00a0", "\u0661", "ſ", "ıN", "x\u0301", "a", "=", "'é'", "1", " ", "AND", "<", "`ü `", "."]
        ),
        max_size=9,
    )
)
def test_letters_beyond_ascii_may_stand_anywhere(parts: list[str]) -> None:
    agrees([f"a = 1 AND {''.join(parts)} AND b = 'x'", f"{' '.join(parts)} OR c > 5"])


@given(st.lists(st.one_of(sql.strings, sql.literals), min_size=1, max_size=8))
def test_literals_of_one_slot_may_be_anything(literals: list[str]) -> None:
    agrees([f"a = {literal} AND b IN ({literal}, 'x')" for literal in literals])


@given(st.lists(st.text("ab%_\\'\0\U0010ffff", max_size=6), min_size=1, max_size=8), st.sampled_from(["", "NOT "]))
def test_patterns_of_one_slot_may_be_anything(patterns: list[str], negation: str) -> None:
    quoted = [pattern.replace("'", "''") for pattern in patterns]
    agrees(
        [f"a {negation}{test} '{text}'" for text in quoted for test in ("LIKE", "STARTS WITH", "ENDS WITH", "RLIKE")]
    )


@given(st.lists(st.text("abA%_\\!ßéÉ\0", max_size=6), min_size=1, max_size=8), st.sampled_from(["", "NOT "]))
def test_folded_patterns_of_one_slot_may_be_anything(patterns: list[str], negation: str) -> None:
    tests = [
        "a ILIKE '{}'",
        "a LIKE '{}' ESCAPE '!'",
        "lower(a) = '{}'",
        "upper(a) LIKE '{}'",
        "lower(a) IN ('{}', 'b')",
    ]
    tests += ["upper(a) STARTS WITH '{}'", "endswith(lower(a), '{}')", "contains(upper(a), '{}')"]
    agrees([negation + test.format(text) for text in patterns for test in tests])


@given(st.lists(st.sampled_from([*"123", "1.5", str(2**60), str(2**60 + 1), str(2**63), "1e30", "NULL"]), max_size=4))
def test_wide_integers_may_stand_beside_any_number(literals: list[str]) -> None:
    both = ", ".join([*literals, "7"])
    agrees([f"a = {one} AND b BETWEEN {one} AND 9 AND b BETWEEN 2.5 AND {one}" for one in literals])
    agrees([f"a IN ({both})", f"NOT a IN ({both})", "a IN (5)"])


def test_floats_as_python_prints_them_are_read_by_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(scan, "number_value", lambda raw: read.append(raw) or float(raw))
    texts = [f"a > {value!r}" for value in (0.1, 0.30000000000000004, 1.7976931348623157e308, 2.2250738585072014e-308)]
    parsed, left = scan.scan_columns(pa.array(texts, pa.large_string()))
    assert not len(left) and not read
    assert list(parsed.conjunctions[0].groups[0].columns[0]) == [float(text.split()[-1]) for text in texts]


@given(st.lists(st.sampled_from(["a", "b", "c", "b.d"]), min_size=2, max_size=2), st.sampled_from(["", "NOT "]))
def test_attributes_may_be_compared_either_way(names: list[str], negation: str) -> None:
    signs = ["=", "!=", "<>", "<", "<=", ">", ">=", "=="]
    agrees([f"{negation}({names[0]} {sign} {names[1]} AND c > 1 OR b = c)" for sign in signs])


@given(st.lists(st.sampled_from(["1", "2.5", "'x'", "'it''s'", "NULL", "TRUE", "-3", "1e30", "(4)"]), min_size=1))
def test_members_of_a_list_may_be_anything(members: list[str]) -> None:
    both = ", ".join(members)
    tests = ["a IN ({})", "a NOT IN ({})", "a CONTAINS ALL ({})", "a NOT CONTAINS ALL ({})", "a CONTAINS ANY ({})"]
    agrees([test.format(both) for test in (*tests, "a CONTAINS NONE ({})", "lower(a) IN ({})")])


def test_members_of_a_list_may_be_in_parentheses() -> None:
    agrees(["b IN ('x', 'y', ('z'), 'v', 'w')", "b NOT IN (1, 2, (3), -4, ('x'), 5)", "b CONTAINS ANY (('x'), 1, 2)"])


def test_members_of_a_folded_list_may_be_of_several_types() -> None:
    agrees(["lower(a) IN ('x', 'y', NULL)", "lower(a) IN ('x', 1)", "upper(a) NOT IN (2.5, 'Y', 'Z')"])


@given(
    st.lists(
        st.sampled_from(["a", "b", "1", "'x'", "NULL", "TRUE", "1.5", str(2**70), "DATE '9999-01-01'"]), min_size=3
    )
)
def test_operands_may_be_names_or_literals(operands: list[str]) -> None:
    one, two, three, *_ = operands
    tests = [f"{one} BETWEEN {two} AND {three}", f"{one} NOT BETWEEN {two} AND {three}", f"{one} <=> {two}"]
    tests += [f"NOT {one} {sign} {two} AND c = {three}" for sign in ("<", "=", "!=", ">=", "<=>")]
    agrees([f"d > 1 AND ({test} OR e = 2)" for test in tests])


@pytest.mark.parametrize(
    "text",
    [
        "lower(a) IN ({0})",
        "lower(a) IN ({1}) AND upper(b) IN ({1})",
        "lower(a) NOT IN ({0}) AND lower(b) NOT IN ({0}) AND lower(c) NOT IN ({0})",
        "NOT a CONTAINS ALL ({1}) AND ({2})",
        "contains(a, '{3}')",
    ],
)
def test_what_is_too_large_alone_is_too_large_among_many(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST", 1 << 16)
    many, some = (", ".join(f"'{number}'" for number in range(count)) for count in (4_000, 400))
    text = text.format(many, some, " AND ".join(f"a{number} = 1" for number in range(300)), "x" * 8_191)
    with pytest.raises(LimitExceeded):
        Filter.parse(text)
    assert scan_many([text], "sql")[1].tolist() == [0]


def test_alternatives_beyond_the_limit_are_left() -> None:
    several = scan_kernels.CONJUNCTIONS
    many = ", ".join(map(str, range(several // 2)))
    assert left(f"NOT t CONTAINS ALL ({many}) AND a IS NOT TRUE") == []
    assert scan_many([f"NOT t CONTAINS ALL ({many}, 'x') AND a IS NOT TRUE"] * 2, "sql")[1].tolist() == [0, 1]


def left(*batch: str) -> list[int]:
    """The rows that are left to the parser; all are what they should be."""
    check(parse_many(batch), list(batch))
    return scan_many(batch, "sql")[1].tolist()


@pytest.mark.parametrize(
    "text",
    [
        "TRUE",
        "a = 1 AND b BETWEEN 2 AND 3 AND c IN ('x', 'y')",
        "a BETWEEN -5 AND -2 AND b BETWEEN 1 AND +3 AND c NOT BETWEEN 'x' AND 'y'",
        "5 < d AND 'x' >= e AND (5) = (d)",
        "a = 0.30000000000000004 AND b > 3.6647972860570643e-05 AND c < 123456789012345.25 AND d = .5e3",
        "flag AND NOT other AND t CONTAINS 'x' AND u NOT IN (1, TRUE, 'it is')",
        "a = ' AND ' AND b = 'x AND y' AND c = 'ü' AND d = 'it''s'",
        "a  =  1  and  b=2 AND\n c\t=3",
        "a > 1 AND a < 5 AND a != 3 AND a NOT IN (2, 4)",
        "a = 1 OR b = 2 AND c = 'x'",
        "((a = 1) AND (b = 2 OR c = 3)) OR NOT (a = 5 AND NOT b = 6)",
        "(a = 1 OR b = 2) AND (c = 3 OR d = 4) AND (e = 5 OR f = 6)",
        "t CONTAINS ALL ('x', 'y') AND t CONTAINS ANY (1, 2) AND NOT t CONTAINS NONE (3) AND t NOT CONTAINS ANY (4, 5)",
        "a IS NULL OR b IS NOT NULL OR c IS MISSING OR d is not missing",
        "a STARTS WITH 'x' AND b ENDS WITH 'y' AND a NOT LIKE '%z%'",
        "c LIKE 'x%y' AND d LIKE '_x%' AND d RLIKE 'a+b' AND e NOT RLIKE 'c'",
        "ip IN CIDR '10.1.2.3/8' AND ip NOT IN CIDR '10.1.0.0/16' OR ip IN CIDR '::1'",
        "at > TIMESTAMP '2026-01-01' AND at IN (TIMESTAMP '2026-01-02', TIMESTAMP '2026-01-03')",
        "a IN (TIMESTAMP '2026-01-01', '2026-01-02')",
        "a == 1 AND !b AND !(c = 1 OR d = 2) AND e IS TRUE AND f IS NOT NULL AND NOT !g",
        "startswith(a, 'x') AND endswith(b, 'y') AND contains(c, '5%') AND d > DATE '2026-01-31'",
        "a = b AND c < a AND NOT b >= c AND d != d AND NOT e != e",
        "a = 1234567890123456 AND b < 9223372036854775807 AND c IN (-9223372036854775807, 1) AND d > 5.0",
        "a IN (1, NULL) AND b IN (NULL, 'x', 'y') AND c NOT IN (1, 2, NULL) AND d IN (NULL)",
        "a LIKE '%' AND b LIKE '' AND c LIKE 'x!%' ESCAPE '!' AND d LIKE '%\\_x%' AND e LIKE '_' AND f STARTS WITH ''",
        "lower(a) = 'x' AND upper(b) LIKE 'X%' AND lower(c) IN ('x', 'y') AND lower(d) = 'X' AND upper(e) != 'x'",
        "a ILIKE 'X%' AND b NOT ILIKE '%y_z' AND c ILIKE '%' AND d ILIKE 'a!_' ESCAPE '!' AND e <=> 5 AND f <=> NULL",
        '"a b" = 1 AND `c` = 2 AND d."e.f".g = 3 AND all = 4',
        "größe = 1 AND x.日本 > 2 AND lower(é) = 'é' AND `ü b`.c IS NULL",
        "1 = 1 AND a = 1 AND 2.5 >= -3 AND NOT 1 > 2 OR 1 <> 1",
        "a RLIKE '(?i)x' AND b RLIKE 'a{2,3}|[^b]\\d' AND c RLIKE '(?P<n>x)'",
        "a LIKE '%" + "x" * 500 + "%' AND b IN CIDR '2001:db8::/32' AND c NOT IN CIDR '2001:db8::1/32'",
        "(" * 60 + "a" + ")" * 60,
        "a LIKE '%"
        + "x" * 300
        + "%"
        + "y" * 300
        + "' AND NOT b ILIKE '"
        + "é" * 300
        + "_z' AND c ILIKE '%"
        + "x" * 300
        + "'",
        r"a RLIKE '\bx\b' AND b RLIKE '(?i)x|y' AND c NOT RLIKE '(?ms)^x\B.y$' AND d LIKE 'x\%y%' AND e LIKE '%\\_'",
        "a <= a AND NOT b < b AND c <=> c",
        "'a' < 'b' AND 1 != 'x' AND NOT 'x' = 5 AND TRUE = TRUE OR 'a' >= 5 OR NOT NULL = 'x'",
        "a\u00a0= 1\u3000AND\u2003\u0085b\u2028>\u20297\u1680 AND `c\u00a0d` = '\u2003e'",
        "a = 9223372036854775808 AND b > -9223372036854775808 AND c IN (18446744073709551616, 1.5, 3)",
        "a BETWEEN 0.5 AND 9223372036854775807 AND b = -170141183460469231731687303715884105728",
        "a = 1e999 AND b > -1e999 AND c < 66e15 AND d != 1.5e300 AND e = 4184328395817438.5 AND f = 1e00001",
        "a = 0." + "0" * 100 + "1 AND b < " + "9" * 40 + ".5 AND c = 1e-400 AND d = " + "9" * 300,
        "a = TIMESTAMP '0001-01-01' OR a > DATE '9999-12-31' OR b IN (TIMESTAMP '2500-01-01', 5)",
        "a IS NOT TRUE AND b IS NOT FALSE AND NOT c IS TRUE AND d IS TRUE",
        "a <=> b AND NOT c <=> d AND NOT e <=> 5 AND NOT f <=> NULL AND lower(g) <=> 'x'",
        "a BETWEEN b AND c AND d NOT BETWEEN e AND 5 AND 7 BETWEEN f AND g AND h NOT BETWEEN 1 AND 'x'",
        "a BETWEEN 1 AND NULL OR NOT b BETWEEN NULL AND 2 OR 5 BETWEEN 3 AND 7 OR 5 BETWEEN 3 AND TRUE",
        "a IN (1, 2, 'x', 'y') AND b NOT IN ('x', 'y', 'z', 5, 6, TRUE) AND c IN (1, 2, NULL, 3, 4)",
        "NOT t CONTAINS ALL (1, 2) AND NOT u CONTAINS ALL ('x', 5, TRUE) AND v NOT CONTAINS ALL ('x')",
        "t CONTAINS NULL AND u CONTAINS ANY ('x', NULL) AND v CONTAINS NONE (NULL, 1) AND NOT w CONTAINS ALL (NULL, 3)",
        "NOT lower(a) IN ('x', 'y') AND b starts With 'x' AND Lower(d) = 'x' AND e > Date '2026-01-31'",
        " OR ".join(f"a{n % 9} = {n}" for n in range(300)),
    ],
)
def test_every_form_is_scanned(text: str) -> None:
    assert left(text, "b = 2") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = \u0661",
        "x\u0301 = 1",
        "a =",
        "a = 'x",
        "a = 5'x'",
        "a = 5x",
        "a = 1.2.3",
        "a LIKE 'x!' ESCAPE '!'",
        "a LIKE 'x' ESCAPE '!!'",
        "a = " + "9" * 1001,
        "a = TIMESTAMP 'yesterday'",
        "a BETWEEN DATE '2026-13-01' AND b",
        "TIMESTAMP '2026-01-01' < DATE '2026-01-02'",
        "a = DATE '2026-01-31T00:00:00Z'",
        "NOT a IN (DATE '2026-01-31T00:00:00Z', NULL)",
        "(lower) (a) = 'x'",
        "!= 5",
        "a IN CIDR '10.0.0.0/99'",
        "a IN CIDR 'fe80::%eth0/64'",
        "a CONTAINS (1, 1)",
        "a NOT CONTAINS ('x', 'y')",
        "a CONTAINS - -172",
        "lower(a) = ('x', 'y')",
        "(timestamp) '2026-01-01' < a",
        "(a) (b)",
        "a = (1 OR b = 2)",
        "a BETWEEN 1",
        "a BETWEEN 1 AND 2 AND",
        "(a = 1) b = 2",
        "()",
        "a = 1)",
        "(a = 1",
        "NOT",
        "a = 1 AND AND b = 2",
        "a = '" + "x" * (1 << 12) + "'",
        "(" * 65 + "a" + ")" * 65,
        "a LIKE '%" + "x" * 3000 + "%" + "y" * 100 + "'",
    ],
)
def test_other_texts_are_left_to_the_parser(text: str) -> None:
    assert left("a = 1", text) == [1]


def test_a_list_may_have_any_length() -> None:
    numbers, texts = ", ".join, lambda n: ", ".join(f"'x{i}'" for i in range(n))
    batch = [f"a IN ({numbers(map(str, range(n)))}) AND t CONTAINS ALL ({texts(n)})" for n in range(1, 30)]
    assert left(*batch) == []
    (found,) = parse_many(batch).conjunctions
    assert len(found.groups) == 2


def test_a_predicate_is_parsed_once_whatever_its_form() -> None:
    read_leaf.cache_clear()
    batch = [f"x = {n} AND y{n % 3} BETWEEN {n} AND 9 AND z{n % 5} IN ('{n}', 'q')" for n in range(60)]
    batch += [text.replace(" AND ", "\nand ").replace("BETWEEN", "between").replace(" = ", "=") for text in batch]
    assert left(*batch) == []
    assert read_leaf.cache_info().misses <= 2 * (1 + 3 + 5)


def test_texts_beyond_the_capacity_for_skeletons_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [f"a{n} = 1 AND b = 2" for n in range(20)]
    monkeypatch.setattr(scan, "SKELETONS", 8)
    assert left(*batch) == list(range(7, 20))
    monkeypatch.setattr(scan, "SKELETONS", 1 << 15)
    monkeypatch.setattr(scan, "SKELETON_BYTES", 20)
    assert left(*batch) == list(range(2, 20))


@pytest.mark.parametrize("text", ["not a", "a Is Null", "b = 1 and a", "abcdefg", "abcdefgh", "true", "a or false"])
def test_a_word_at_the_end_of_the_bytes_is_recognised_as_in_their_middle(text: str) -> None:
    """A word is read by a load of eight bytes, where the buffer has as many behind its start."""
    assert left(text) == left(text + " " * 8) == left(f" {text}", f"{text} ") == []


def test_limits_of_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST", 1 << 16)
    many = scan_kernels.LEAVES
    assert left(" AND ".join(f"a{n % 9} != {n}" for n in range(many))) == []
    assert left(" AND ".join(f"a{n % 9} != {n}" for n in range(many + 1))) == [0]
    several = scan_kernels.CONJUNCTIONS
    assert left(" OR ".join(f"a{n} = {n}" for n in range(several))) == []
    assert scan_many([" OR ".join(f"a{n} = {n}" for n in range(several + 1))], "sql")[1].tolist() == [0]


@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_and_threads_make_no_difference(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "CHUNK", 300)
    batch = mixed(1_000, events=1).subscriptions["filter"].combine_chunks()
    told: list[int] = []
    parsed, rest = scan_many(batch, "sql", workers, told.append)
    assert not len(rest) and told == [300, 600, 900, 1_000] and len(parsed.conjunctions) == 4
    check(parsed, batch.to_pylist())
    sliced = batch.slice(17, 400)
    check(parse_many(sliced), sliced.to_pylist())

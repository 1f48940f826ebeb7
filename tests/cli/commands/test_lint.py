"""`whimbrel lint`."""

from __future__ import annotations

from tests.cli.program import Program

FILTERS = {
    "wide": "price < 100 AND kind = 'a'",
    "inside": "kind = 'a' AND price BETWEEN 5 AND 10 AND color = 'red'",
    "same": "kind = 'a' AND price < 100",
    "apart": "kind = 'b' AND price < 100",
    "never": "price > 5 AND price < 3",
    "always": "TRUE OR price = 3",
    "quoted": 'kind = "a"',
    "wrong": "price <",
}


def test_finds_what_is_wrong_or_needless(program: Program) -> None:
    program.write_lines("s.jsonl", *({"id": id, "filter": text} for id, text in FILTERS.items()))
    result = program("lint", "s.jsonl", "--json", status=1)
    found = {(line["subscription"], line["rule"], line.get("other"), line["line"]) for line in result.lines}
    assert found == {
        ("inside", "covered", "wide", 2),
        ("same", "duplicate", "wide", 3),
        ("never", "unsatisfiable", None, 5),
        ("always", "always-true", None, 6),
        ("quoted", "suspicious-name", None, 7),
        ("wrong", "error", None, 8),
    }
    assert result.error_lines[-1]["subscriptions"] == len(FILTERS)
    text = program("lint", "s.jsonl", "-o", "findings", status=1)
    assert text.stdout == ""
    lines = (program.folder / "findings").read_text().splitlines()
    assert """s.jsonl:7: suspicious-name: quoted: "a" is the name of an attribute; did you mean 'a'?""" in lines
    assert any(line.strip() == "^" for line in lines)
    assert program("lint", "s.jsonl", "-o", "-", "--json", status=1).stdout == result.stdout
    assert not (program.folder / "-").exists()


def test_a_schema_says_what_fits_and_what_filters_mean(program: Program) -> None:
    program.write(
        "shop.toml",
        "[domains.level]\nkind = 'enumerated'\nvalues = ['low', 'mid', 'high']\norder = [['low', 'mid', 'high']]\n"
        "[attributes]\nlevel = 'level'\ncount = 'integer'\n",
    )
    filters = {
        "two": "level < 'high'",
        "lowest": "level < 'mid'",
        "same": "level = 'low'",
        "between": "count > 3 AND count < 4",
        "misspelt": "levle = 'low'",
    }
    program.write_lines("s.jsonl", *({"id": id, "filter": text} for id, text in filters.items()))
    result = program("lint", "s.jsonl", "--schema", "shop.toml", "--json", status=1)
    assert {(line["subscription"], line["rule"], line.get("other")) for line in result.lines} == {
        ("lowest", "covered", "two"),
        ("same", "duplicate", "lowest"),
        ("between", "unsatisfiable", None),
        ("misspelt", "error", None),
    }
    untyped = program("lint", "s.jsonl", "--json")
    assert {(line["subscription"], line["rule"]) for line in untyped.lines} == {("two", "covered"), ("same", "covered")}
    assert "none.toml" in program("lint", "s.jsonl", "--schema", "none.toml", status=1).stderr


def test_warnings_alone_end_with_status_0(program: Program) -> None:
    program.write("s.csv", "id,filter\n1,a = 1\n2,a = 1\n")
    assert program("lint", "s.csv").stdout.startswith("s.csv:3: duplicate: 2: the same filter as 1: a = 1")
    assert program("lint", "subs.jsonl").stdout == ""


def test_unreadable_files_and_bad_rows_are_errors(program: Program) -> None:
    assert "missing.csv: error: Expected a file" in program("lint", "missing.csv", status=1).stdout
    program.write(
        "s.jsonl", '{"id": 1, "filter": "a = 1"}\n{"id": 1, "filter": "b = 1"}\n{"id": "x", "filter": "c = 1"}\n[]'
    )
    rules = [(line["rule"], line["error"]) for line in program("lint", "s.jsonl", "--json", status=1).lines]
    assert rules == [("error", "DuplicateId"), ("error", "IdKindError"), ("error", "NotAnObject")]


def test_the_sentence_counts_lines_and_errors(program: Program) -> None:
    program.write("s.jsonl", '{"id": 1, "filter": "a <"}\nnothing\n{"id": 2, "filter": "a < 1"}\n')
    assert program("lint", "s.jsonl", status=1).stderr == "3 subscriptions checked: 2 errors\n"

"""Every example runs, and prints what its docstring says it prints."""

from __future__ import annotations

import ast
import doctest
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
WITH_SPARK = [path for path in EXAMPLES if "whimbrel.pipeline" in path.read_text(encoding="utf-8")]


def promised(example: Path) -> str:
    """What the docstring says after "It prints:"."""
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    return textwrap.dedent(text.split("It prints:\n\n")[1]) + "\n"


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path not in WITH_SPARK], ids=lambda path: path.stem)
def test_example_prints_what_it_promises(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    check_output(promised(example), capsys.readouterr().out)


@pytest.mark.spark
def test_examples_with_spark_print_what_they_promise(tmp_path: Path) -> None:
    # They start Spark by themselves, and other tests have a session of their own. One Java serves both.
    program = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='__main__')"
    command = [sys.executable, "-c", program, *map(str, WITH_SPARK)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_output("".join(map(promised, WITH_SPARK)), done.stdout)


def check_output(expected: str, found: str) -> None:
    assert doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS), found


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5

"""Every example runs, and prints what its docstring says it prints."""

from __future__ import annotations

import ast
import doctest
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
def test_example_prints_what_it_promises(example: Path, tmp_path: Path) -> None:
    check_examples([example], tmp_path)


@pytest.mark.spark
def test_examples_with_spark_print_what_they_promise(tmp_path: Path) -> None:
    check_examples(WITH_SPARK, tmp_path)  # one Java serves both


def check_examples(examples: list[Path], folder: Path) -> None:
    """Run examples as programs, one after the other in one process."""
    program = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='__main__')"
    command = [sys.executable, "-c", program, *map(str, examples)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = "".join(map(promised, examples))
    assert doctest.OutputChecker().check_output(expected, done.stdout, doctest.ELLIPSIS), done.stdout


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5

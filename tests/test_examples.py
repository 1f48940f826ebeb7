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


def promised(example: Path) -> str:
    """What the docstring says after "It prints:"."""
    text = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    return textwrap.dedent(text.split("It prints:\n\n")[1]) + "\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_it_promises(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert doctest.OutputChecker().check_output(promised(example), done.stdout, doctest.ELLIPSIS), done.stdout


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5

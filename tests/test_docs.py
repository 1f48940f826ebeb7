"""Everything that README and docs show is run: Python blocks as doctests, shell lines in a folder of their own.

The Python blocks of a page share one namespace, its shell lines one folder. A shell block is fenced as `console`: lines
after `$ ` are run (those after `> ` continue them), the lines that follow are what they print, in which `...` stands
for anything. Commands that install or build are not run.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.cli.program import run_here
from whimbrel.pipeline.spark.session import QUERY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("make", "git", "pip", "python3 -m venv")
COMPILING = "whimbrel: compiling the kernels"
"""What the first use after an install says, whichever it is."""
SHELL = set("|>&;$\\\n")
"""Signs that mean something to a shell. A `<` stands only in filters, which are quoted."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language, each with the line that it begins on."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[2]) for m in FENCE.finditer(text) if m[1] == language]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def needs_spark(page: Path) -> bool:
    return any("whimbrel.pipeline import" in block for _, block in blocks(page, "python"))


WITH_SPARK = [page for page in PAGES if needs_spark(page)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python") and page not in WITH_SPARK], ids=name_of
)
def test_python_blocks(page: Path) -> None:
    check_python_blocks(page)


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_SPARK, ids=name_of)
def test_python_blocks_with_spark(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name) for name in QUERY}  # which `session()` sets, as pages call it
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    home = files.getWorkingDirectory()
    try:
        files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
        with chdir(tmp_path):
            check_python_blocks(page)
    finally:
        files.setWorkingDirectory(home)
        for name, value in before.items():
            spark.conf.set(name, value)


def check_python_blocks(page: Path) -> None:
    """Run the Python blocks of a page one after the other."""
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report: list[str] = []
    for line, block in blocks(page, "python"):
        if ">>>" not in block:
            exec(compile("\n" * line + block, str(page), "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(block, names, name_of(page), str(page), line)
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
    assert not runner.failures, "".join(report)


SHELL_PAGES = [page for page in PAGES if blocks(page, "console")]
SPARK_SHELL_PAGES = [
    page for page in SHELL_PAGES if any("whimbrel pipeline" in text for _, text in blocks(page, "console"))
]


@pytest.mark.parametrize("page", [page for page in SHELL_PAGES if page not in SPARK_SHELL_PAGES], ids=name_of)
def test_shell_lines(page: Path, tmp_path: Path) -> None:
    check_shell_lines(page, tmp_path)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # commands find the session of the tests, and use it
@pytest.mark.parametrize("page", SPARK_SHELL_PAGES, ids=name_of)
def test_shell_lines_with_spark(page: Path, tmp_path: Path) -> None:
    check_shell_lines(page, tmp_path)


def check_shell_lines(page: Path, folder: Path) -> None:
    """Run the shell lines of a page one after the other."""
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    for line, block in blocks(page, "console"):
        for command, expected in commands(block):
            if command.startswith(NOT_RUN):
                continue
            found = shown(command, folder, environment)
            assert doctest.OutputChecker().check_output(expected, found, FLAGS), (
                f"{name_of(page)}, block at line {line}\n$ {command}\nexpected:\n{expected}\nfound:\n{found}"
            )


def shown(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What a shell line prints. The program alone runs in this process."""
    if command.startswith("whimbrel ") and not SHELL & set(command):
        with patch.dict(os.environ, environment):
            here = run_here(folder, tuple(shlex.split(command)[1:]))
        return here.stdout + here.stderr
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    told = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith(COMPILING)]
    return done.stdout + "".join(told)


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it is said to print."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [("\n".join(command), "".join(f"{line}\n" for line in printed)) for command, printed in found]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"], ids=name_of)
def test_paths_exist(page: Path) -> None:
    packages = ROOT / "src" / "whimbrel"
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:\w+/)+(?:[\w-]+\.\w+)?)`", text):
        assert (packages / path).exists() or (ROOT / path).exists(), path
    modules = {path.name for place in (packages, ROOT / "tests") for path in place.rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", text)) <= modules


def test_the_page_of_the_broker_names_every_scope_setting_and_endpoint() -> None:
    from whimbrel.broker.http.app import OPERATIONS
    from whimbrel.broker.requests.settings import Settings
    from whimbrel.broker.service.principal import SCOPES

    page = (ROOT / "docs" / "broker.md").read_text(encoding="utf-8")
    endpoints = page.partition("\n## Endpoints\n")[2].partition("\n## ")[0]
    assert [scope for scope in SCOPES if f"| `{scope}` |" not in page] == []
    assert [name for name in Settings.__struct_fields__ if f"`{name}`" not in page] == []
    first_parts = {"/" + operation.path.split("/")[1] for operation in OPERATIONS}
    assert [path for path in sorted(first_parts) if f"`{path}`" not in endpoints and f"`{path}/" not in endpoints] == []


def test_architecture_names_every_package_and_the_folders_of_the_large_ones() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = ROOT / "src" / "whimbrel"
    folders = [path.parent for path in packages.glob("*/__init__.py")]
    for large in ("broker", "overlay", "pipeline", "lab"):
        folders += [path.parent for path in (packages / large).glob("*/__init__.py")]
    named = [f"`{folder.relative_to(packages)}/`" for folder in folders]
    assert sorted(name for name in named if name not in text) == []


def test_the_page_of_the_command_line_names_every_command() -> None:
    import typer

    from whimbrel.cli.main import app

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.partition("| --- | --- |")[2].partition("\n\n")[0]
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in sorted(commands) if f"`{name}`" not in table] == []

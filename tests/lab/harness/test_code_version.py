"""A version changes with what is measured, and not with claims, plots, points or comments."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import whimbrel
from whimbrel.lab import experiments
from whimbrel.lab.harness import code_version

MODULE = """
'''What it is.'''
from whimbrel.lab.harness.claims import order
STEP = 1
def count(point):
    return [STEP]
Experiment = dict
FIGURE = Experiment(claims=[order("a", "b", "c", "d")])
"""


def version_of(folder: Path, text: str, helper: str = "X = 1") -> str:
    (folder / "figure.py").write_text(text)
    (folder / "helper.py").write_text(helper)
    code_version._folder_code.cache_clear()
    spec = importlib.util.spec_from_file_location("figure", folder / "figure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count: Callable[..., object] = module.count
    return code_version.code_version(count, None)


def test_claims_and_comments_may_change(tmp_path: Path) -> None:
    usual = version_of(tmp_path, MODULE)
    assert version_of(tmp_path, MODULE.replace('"a", "b"', '"x", "b"')) == usual
    assert version_of(tmp_path, MODULE.replace("What it is", "What it was") + "# a comment") == usual
    assert version_of(tmp_path, MODULE, "X = 1  # a comment") == usual


def test_what_is_measured_may_not(tmp_path: Path) -> None:
    texts = [MODULE, MODULE.replace("STEP = 1", "STEP = 2"), MODULE.replace("[STEP]", "[STEP, 1]")]
    versions = {version_of(tmp_path, text) for text in texts} | {version_of(tmp_path, MODULE, "X = 2")}
    assert len(versions) == 4


def test_whatever_experiments_import_is_measured_except_what_shows_it() -> None:
    root = Path(whimbrel.__file__).parent
    shown = ("lab/harness/claims.py", "lab/harness/panels.py", "lab/harness/experiment.py")
    for path in Path(experiments.__file__).parent.glob("*/*.py"):
        for statement in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("whimbrel."):
                place = "/".join(str(statement.module).split(".")[1:])
                file = place if (root / place).is_dir() else f"{place}.py"
                known = file.startswith((*code_version._MEASURED, "lab/experiments", *shown))
                assert known, f"{path.name} imports {file}"


def test_what_an_experiment_counts_is_measured_though_its_claims_are_not(tmp_path: Path) -> None:
    counted = MODULE.replace("Experiment(", "Experiment(counted=STEP, ")
    assert len({version_of(tmp_path, text) for text in (MODULE, counted, counted.replace("=STEP", "=-STEP"))}) == 3

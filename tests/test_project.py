"""The project as a whole: what importing it costs, its version, what its files may say."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import whimbrel

ROOT = Path(__file__).parent.parent
HEAVY = {"duckdb", "matplotlib", "numba", "pandas", "polars", "pyarrow", "pyspark", "starlette", "uvicorn"}

# Written in pieces, so that this file does not name what it looks for.
REGISTRIES = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "repo1." + "maven", "ana" + "conda.org"]
REGISTRY = re.compile("|".join([*map(re.escape, REGISTRIES), r"https?://\S+/simple\b", r"--(extra-)?index" + "-url"]))


def files_of_the_repository() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the list of files comes from git, and this is not a git checkout")
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def pins(lock: str) -> set[str]:
    lines = (ROOT / "requirements" / lock).read_text().splitlines()
    return {line.split(";")[0].strip() for line in lines if line and not line.startswith("#")}


def test_import_loads_nothing_heavy() -> None:
    program = "import sys, whimbrel; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert "whimbrel" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_version_is_the_one_in_pyproject() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert whimbrel.__version__ == declared
    assert metadata.version("whimbrel") == declared


def test_package_is_typed() -> None:
    assert whimbrel.__file__ is not None
    assert Path(whimbrel.__file__).with_name("py.typed").is_file()


def test_locks_pin_exact_versions_and_agree() -> None:
    for lock in ("demo.lock", "dev.lock"):
        assert [pin for pin in pins(lock) if not re.fullmatch(r"[a-z0-9-]+==\S+", pin)] == []
    assert pins("demo.lock") <= pins("dev.lock")


def test_no_file_names_a_package_registry() -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in files_of_the_repository()
        if REGISTRY.search(path.read_bytes().decode("utf-8", errors="replace"))
    ]
    assert offenders == []


def test_tests_mirror_the_tree() -> None:
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    places = (ROOT / "src" / "whimbrel", ROOT)
    assert sorted(str(one) for one in folders if not any((place / one).is_dir() for place in places)) == []


def modules_told(docstring: str) -> set[str]:
    """The modules in the lines `name, name   what they do` of a package's docstring."""
    lines = re.findall(r"^ *((?:[a-z_]+(?:\.py|/)?(?:, )?)+?)(?:  +)\S", docstring, re.MULTILINE)
    return {name.removesuffix(".py").removesuffix("/") for line in lines for name in line.split(", ")}


def test_packages_name_modules_that_are_there() -> None:
    for path in sorted((ROOT / "src" / "whimbrel").rglob("__init__.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, path
        told = modules_told(docstring)
        there = {one.stem for one in path.parent.iterdir()}
        assert len(told) < 3 or told <= there, path

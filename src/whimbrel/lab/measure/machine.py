"""The machine card: the machine that figures were measured on, and its load."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("whimbrel", "numpy", "numba", "llvmlite", "pyarrow", "duckdb", "polars", "pyspark")


def card() -> dict[str, object]:
    """Processor, cores, memory, load, versions and date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": load(),
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _commit(),
    }


def described(machine: Mapping[str, Any]) -> str:
    """Processor, cores, memory, system and versions of a card, in words."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    size = f"{machine['cores']} cores, {machine['memory_gb']} GB"
    return f"{machine['cpu']}, {size}, {machine['system']}, Python {machine['python']} ({versions})"


def load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    """The commit of the checkout that runs, with a plus if files of the package are changed; empty outside of one."""
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, check=True, text=True
        )
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--", str(folder.parents[1])], cwd=folder, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "")

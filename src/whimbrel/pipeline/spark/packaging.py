"""Sends the library to executors whose Python does not have it.

Each executor unpacks an archive with the package, in the directory that Spark puts on the path of its Python workers.
The archive also holds the kernels that were compiled on this machine, so that executors with the same kind of processor
need not compile them. NumPy, Numba, PyArrow and msgspec are not in it: the executors' Python must have them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import whimbrel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: SparkSession) -> None:
    """Send the library to the executors of this session, before anything else runs on them.

    The archive takes precedence over an installed library. Works on clusters, and through Spark Connect for batches.
    Streams of Spark Connect do not see what a client has sent: the server's Python must have the library.
    """
    folder = Path(tempfile.mkdtemp(prefix="whimbrel-library-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors that start later fetch it from here
    spark.addArtifacts(f"{package(folder / 'whimbrel.zip')}#whimbrel", archive=True)


def package(path: str | os.PathLike[str]) -> Path:
    """Write the archive that `ship` sends, for those who set `spark.archives` to `<path>#whimbrel` themselves."""
    assert whimbrel.__file__ is not None
    home = Path(whimbrel.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(home.rglob("*")):
            if file.is_file() and file.suffix not in (".pyc", ".pyo"):
                archive.write(file, file.relative_to(home))
    return Path(path)

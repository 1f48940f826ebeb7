"""The tests of the pipeline are skipped where pyspark is missing."""

from __future__ import annotations

import pytest

pyspark = pytest.importorskip("pyspark", reason="the pipeline needs pyspark")

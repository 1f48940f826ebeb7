"""Objects of the interpreter that kernels read: only where they lie as expected."""

from __future__ import annotations

import sysconfig

import pytest

from whimbrel.compiled import python_objects as objects

pytestmark = pytest.mark.skipif(not objects.READABLE, reason="this interpreter's objects are not read by kernels")


def test_where_objects_lie_otherwise_kernels_read_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects._is_readable()
    for name, other in (("TYPE_AT", 16), ("STATE_AT", 24), ("_NAMES", ["PyDict_Next", "PyNo_Such"])):
        with monkeypatch.context() as patch:
            patch.setattr(objects, name, other)
            assert not objects._is_readable(), name
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else None)
    assert not objects._is_readable()

"""The types of arrays, and that kernels are annotated with the types that they are compiled for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support

from whimbrel.compiled.array_types import MATRIX, Bools, Bytes, FloatMatrix, Int32Matrix, Int32s, element_and_dimensions
from whimbrel.engine.first_use import use_index


@pytest.mark.parametrize(
    ("annotation", "element", "dimensions"),
    [
        (Bytes, np.uint8, 1),
        (Bools, np.bool_, 1),
        (Int32s, np.int32, 1),
        (Int32Matrix, np.int32, 2),
        (FloatMatrix, np.float64, 2),
    ],
)
def test_an_annotation_says_what_an_array_is(annotation: object, element: type, dimensions: int) -> None:
    assert element_and_dimensions(annotation) == (np.dtype(element), dimensions)


def test_kernels_are_annotated_with_the_types_that_they_are_compiled_for() -> None:
    use_index()
    compared = list(_compared())
    assert not [problem for problem in compared if problem]
    assert len(compared) > 300


def _compared() -> Iterator[str | None]:
    """For each array that a loaded kernel takes: None, or what is wrong with its annotation."""
    for name, module in list(sys.modules.items()):
        for kernel in vars(module).values() if name.startswith("whimbrel.") else ():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == name:
                hints = get_type_hints(kernel.py_func, include_extras=True)
                arguments = kernel.py_func.__code__.co_varnames
                for signature in kernel.signatures:
                    for argument, given in zip(arguments, signature, strict=False):
                        where = f"{name}.{kernel.__name__}: {argument}"
                        yield from _problems(where, hints[argument], given)


def _problems(where: str, hint: Any, given: types.Type) -> Iterator[str | None]:
    if isinstance(given, types.NamedTuple):
        fields = get_type_hints(given.instance_class, include_extras=True)
        for field, type in zip(given.fields, given.types, strict=True):
            yield from _problems(f"{where}.{field}", fields[field], type)
    elif isinstance(given, types.Array):
        yield None if _fits(hint, given) else f"{where} is {given}, not {hint}"


def _fits(hint: Any, given: types.Array) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(one, given) for one in get_args(hint))
    if MATRIX in get_args(hint):
        return given.ndim == MATRIX and _fits(get_args(hint)[0], given)
    element = get_args(get_args(hint)[1])[0] if get_args(hint) else np.generic
    return np.issubdtype(numpy_support.as_dtype(given.dtype), get_origin(element) or element)

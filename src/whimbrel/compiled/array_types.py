"""The types of the arrays that kernels take: the type of an element, and the number of dimensions.

Kernels are compiled for the types that they are called with, so annotations are for the reader and for mypy, and for
`compiled/views.py`, which makes arrays from addresses by them. A test compares annotations with the compiled types.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Uint16s: TypeAlias = NDArray[np.uint16]
Uint32s: TypeAlias = NDArray[np.uint32]
Uint64s: TypeAlias = NDArray[np.uint64]
Float32s: TypeAlias = NDArray[np.float32]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.integer[Any]]
"""Integers of any size: for kernels that are compiled for several."""

MATRIX = 2
Int32Matrix: TypeAlias = Annotated[NDArray[np.int32], MATRIX]
Int64Matrix: TypeAlias = Annotated[NDArray[np.int64], MATRIX]
Uint64Matrix: TypeAlias = Annotated[NDArray[np.uint64], MATRIX]
FloatMatrix: TypeAlias = Annotated[NDArray[np.float64], MATRIX]
ByteMatrix: TypeAlias = Annotated[NDArray[np.uint8], MATRIX]
Float32Matrix: TypeAlias = Annotated[NDArray[np.float32], MATRIX]


def element_and_dimensions(annotation: object) -> tuple[np.dtype[Any], int]:
    """The type of an element and the number of dimensions that one of the types above stands for."""
    array, *dimensions = get_args(annotation) if MATRIX in get_args(annotation) else (annotation,)
    _, of_dtype = get_args(array)
    (element,) = get_args(of_dtype)
    return np.dtype(element), dimensions[0] if dimensions else 1

"""Reads Python objects inside kernels, by the C functions of the interpreter.

A kernel gets the address of an object, which is its `id`. It must keep the GIL while it reads the object
(`quick_kernel`), so that no other thread changes or frees it. Of the functions below only `PyUnicode_AsUTF8String`
makes a new reference, and functions that fail leave an error that must be cleared. An error, or a garbage collection
that it causes, may run any Python code and so change any object: borrowed references are invalid from then on.
Compiled code refers to the functions by name and finds them when it is loaded, so it can be kept on disk.

Two facts are read from memory directly: the type of an object, and whether a text is ASCII. `READABLE` says whether
this interpreter keeps them where they are expected. If it is false, nothing in this module may be called.
"""

from __future__ import annotations

import sys
import sysconfig
from ctypes import c_uint8, c_uint64, c_void_p, pythonapi, sizeof, string_at
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from whimbrel.compiled.intrinsics import in_kernels
from whimbrel.compiled.plain import is_plain

BYTES_AT = bytes.__basicsize__ - 1
"""Byte offset of the content in a bytes object."""
TYPE_AT, STATE_AT = 8, 32
"""Byte offsets in an object: of its type, and, in a text, of the bits that describe its storage."""

TEXT, INTEGER, FLOAT, LIST, NONE, TRUE, FALSE, ASCII, DICT, TUPLE = range(10)
"""Places in `KINDS`: the address of each type and constant, and the bit of an ASCII text."""

_NAMES: list[str] = []


def _function(name: str, result: types.Type, *given: types.Type) -> Any:
    """A C function of the interpreter that kernels may call; objects and pointers are addresses."""
    _NAMES.append(name)
    return types.ExternalFunction(name, result(*given))


_address, _status = types.int64, types.int32
next_item = _function("PyDict_Next", _status, _address, _address, _address, _address)
find_item = _function("PyDict_GetItemWithError", _address, _address, _address)
set_item = _function("PyDict_SetItem", _status, _address, _address, _address)
dict_size = _function("PyDict_Size", types.int64, _address)
list_size = _function("PyList_Size", types.int64, _address)
list_member = _function("PyList_GetItem", _address, _address, types.int64)
tuple_size = _function("PyTuple_Size", types.int64, _address)
tuple_member = _function("PyTuple_GetItem", _address, _address, types.int64)
integer = _function("PyLong_AsLongLongAndOverflow", types.int64, _address, _address)
float_number = _function("PyFloat_AsDouble", types.float64, _address)
ascii_bytes = _function("PyUnicode_AsUTF8AndSize", _address, _address, _address)
encoded = _function("PyUnicode_AsUTF8String", _address, _address)
bytes_begin = _function("PyBytes_AsString", _address, _address)
bytes_size = _function("PyBytes_Size", types.int64, _address)
release = _function("Py_DecRef", types.void, _address)
clear_error = _function("PyErr_Clear", types.void)


@in_kernels
def stack_words(typingctx: Any) -> Any:
    """The address of four words on the stack, for results of C functions; every call gives the same words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), 4))  # type: ignore[no-untyped-call]
        return builder.ptrtoint(words, ir.IntType(64))

    return types.int64(), codegen


@in_kernels
def word_at(typingctx: Any, address: Any) -> Any:
    """The eight bytes at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), codegen


@in_kernels
def set_word(typingctx: Any, address: Any, word: Any) -> Any:
    """Write eight bytes to an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@in_kernels
def bytes_at(typingctx: Any, address: Any, size: Any) -> Any:
    """The bytes at an address as an array; it must not be used after the bytes are freed."""
    made = types.Array(types.uint8, 1, "C", readonly=True)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # compiled code does not need it

        array = arrayobj.make_array(made)(context, builder)  # type: ignore[no-untyped-call]
        one = context.get_constant(types.intp, 1)
        data = builder.inttoptr(args[0], array.data.type)
        arrayobj.populate_array(array, data, [args[1]], [one], one, None)  # type: ignore[no-untyped-call]
        return array._getvalue()

    return made(types.int64, types.int64), codegen


def _ascii_bit() -> int:
    """The bit that is set in ASCII texts and in no others; 0 if there is not exactly one."""
    plain = ["", "a", "name", "".join(["a text ", "of more than a word "] * 9)]
    other = ["\xe9", "\xe9t\xe9" * 20, "\u20ac", "a\u20ac" * 20, "\U0001f600", "a\U0001f600" * 20, "\ud800"]
    with_bit, without = 0xFF, 0
    for text in plain:
        with_bit &= c_uint8.from_address(id(text) + STATE_AT).value
    for text in other:
        without |= c_uint8.from_address(id(text) + STATE_AT).value
    bits = with_bit & ~without
    return bits if bits.bit_count() == 1 else 0


_SAMPLE = b"some bytes"


def _is_readable() -> bool:
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if sizeof(c_void_p) != 8 or sys.byteorder != "little":
        return False
    samples: list[object] = ["text", 7, 1 << 80, 0.5, [], None, True, False, {}, b"bytes"]
    types_are_there = all(c_uint64.from_address(id(one) + TYPE_AT).value == id(type(one)) for one in samples)
    content_is_there = string_at(id(_SAMPLE) + BYTES_AT, len(_SAMPLE)) == _SAMPLE
    return (
        content_is_there and types_are_there and _ascii_bit() != 0 and all(hasattr(pythonapi, name) for name in _NAMES)
    )


READABLE = not is_plain() and _is_readable()
_PLAIN = str, int, float, list, None, True, False
KINDS = np.array([*map(id, _PLAIN), _ascii_bit() if READABLE else 0, id(dict), id(tuple)], np.int64)

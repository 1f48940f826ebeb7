"""Instructions of the processor that kernels use and Numba does not offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from whimbrel.compiled.plain import is_plain


def in_kernels(function: Callable[..., Any]) -> Any:
    """Make an intrinsic, typed as Any: kernels call it without the first argument of the decorated function."""
    return intrinsic(function)


@in_kernels
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """The number of zero bits below the lowest bit that is 1."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@in_kernels
def leading_zeros(typingctx: Any, word: Any) -> Any:
    """The number of zero bits above the highest bit that is 1."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


@in_kernels
def high_product(typingctx: Any, one: Any, two: Any) -> Any:
    """The upper 64 bits of the product of two words, which has 128."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@in_kernels
def float_of_bits(typingctx: Any, word: Any) -> Any:
    """The binary64 that has these bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@in_kernels
def prefetch(typingctx: Any, array: Any, at: Any) -> Any:
    """Prefetch the cache line of element `at`, counted through all dimensions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _prefetch(context, builder, builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer()))

    return types.void(array, types.int64), codegen


@in_kernels
def prefetch_at(typingctx: Any, address: Any) -> Any:
    """Prefetch the cache line of an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _prefetch(context, builder, builder.inttoptr(args[0], ir.IntType(8).as_pointer()))

    return types.void(types.int64), codegen


def _prefetch(context: Any, builder: Any, pointer: Any) -> Any:
    flag = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
    builder.call(function, [pointer, flag(0), flag(3), flag(1)])
    return context.get_dummy_value()


@in_kernels
def copy(typingctx: Any, source: Any, first: Any, count: Any, target: Any, at: Any) -> Any:
    """Copy `count` elements from `first` on to another array of the same type, from `at` on, without bounds checks."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        begin, end = (
            builder.gep(context.make_array(array)(context, builder, value).data, [place])
            for array, value, place in ((signature.args[0], args[0], args[1]), (signature.args[3], args[3], args[4]))
        )
        size = signature.args[0].dtype.bitwidth // 8
        cgutils.raw_memcpy(builder, end, begin, args[2], size)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(source, types.int64, types.int64, target, types.int64), codegen


@in_kernels
def or_rows(
    typingctx: Any, words: Any, offset: Any, column: Any, first: Any, last: Any, rows: Any, at: Any, found: Any
) -> Any:
    """OR rows of eight words into `found`; return whether some bit of the result is 0.

    For each s from `first` to `last` a row begins at word `offset[s] + rows[at + column[s]]`; `rows` is indexed through
    all its dimensions. The eight words stay in two or four registers, which a loop over eight variables does not do.
    """
    eight = ir.VectorType(ir.IntType(64), 8)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = {i: context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 1, 2, 5, 7)}
        integer = ir.IntType(64)
        all_words = cgutils.alloca_once_value(builder, ir.Constant(eight, [0] * 8))  # type: ignore[no-untyped-call]
        row_of = builder.gep(data[5], [args[6]])
        with cgutils.for_range_slice(builder, args[3], args[4], integer(1), integer) as (s, _):
            number = builder.zext(builder.load(builder.gep(data[2], [s])), integer)
            row = builder.zext(builder.load(builder.gep(row_of, [number])), integer)
            place = builder.gep(data[0], [builder.add(builder.load(builder.gep(data[1], [s])), row)])
            read = builder.load(builder.bitcast(place, eight.as_pointer()), align=8)
            builder.store(builder.or_(builder.load(all_words), read), all_words)
        result = builder.load(all_words)
        builder.store(result, builder.bitcast(data[7], eight.as_pointer()), align=8)
        is_open = builder.icmp_unsigned("!=", result, ir.Constant(eight, [-1] * 8))
        return builder.icmp_unsigned("!=", builder.bitcast(is_open, ir.IntType(8)), ir.IntType(8)(0))

    integers = types.int64, types.int64
    return types.boolean(words, offset, column, *integers, rows, types.int64, found), codegen


def _has_avx2(context: object) -> bool:
    """Whether code is generated for a processor with AVX2; read from a private field of the code generator."""
    return not is_plain() and "+avx2" in getattr(context.codegen(), "_tm_features", "")  # type: ignore[attr-defined]


_LANES = 8
_PLACES = [[i for i in range(_LANES) if mask >> i & 1] for mask in range(1 << _LANES)]


@in_kernels
def keep_inside(typingctx: Any, source: Any, low: Any, high: Any, at: Any, value: Any, target: Any, n: Any) -> Any:
    """Copy source[i] to `target`, from `n` on, for each i in at .. at + 7 with low[i] <= value <= high[i]; return how
    many.

    `target` must have space for eight. With AVX2 one instruction moves all of them: the mask of the comparisons selects
    its table of places.
    """
    word, integer = ir.IntType(32), ir.IntType(64)
    lanes = ir.VectorType(word, _LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = {i: context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 1, 2, 5)}
        read = [
            builder.load(builder.bitcast(builder.gep(data[i], [args[3]]), lanes.as_pointer()), align=4)
            for i in (0, 1, 2)
        ]
        nothing = ir.Constant(lanes, ir.Undefined)
        same = builder.shuffle_vector(
            builder.insert_element(nothing, args[4], word(0)), nothing, ir.Constant(lanes, [0] * _LANES)
        )
        inside = builder.and_(builder.icmp_signed("<=", read[1], same), builder.icmp_signed("<=", same, read[2]))
        if not _has_avx2(context):
            count = integer(0)
            for i in range(_LANES):
                place = builder.gep(data[5], [builder.add(args[6], count)])
                builder.store(builder.extract_element(read[0], word(i)), place)
                count = builder.add(count, builder.zext(builder.extract_element(inside, word(i)), integer))
            return count
        table = ir.Constant(
            ir.ArrayType(lanes, len(_PLACES)),
            [ir.Constant(lanes, [*places, *[0] * (_LANES - len(places))]) for places in _PLACES],
        )
        places = cgutils.global_constant(builder, "whimbrel_places", table)  # type: ignore[no-untyped-call]
        mask = builder.zext(builder.bitcast(inside, ir.IntType(_LANES)), integer)
        chosen = builder.load(builder.gep(places, [word(0), mask]), align=4)
        kind = ir.FunctionType(lanes, [lanes, lanes])
        permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")  # type: ignore[no-untyped-call]
        out = builder.bitcast(builder.gep(data[5], [args[6]]), lanes.as_pointer())
        builder.store(builder.call(permute, [read[0], chosen]), out, align=4)
        return builder.ctpop(mask)

    return types.int64(source, low, high, types.int64, types.int32, target, types.int64), codegen

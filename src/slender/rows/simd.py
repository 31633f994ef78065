"""A cache line of numbers as one value, for kernels whose loops LLVM does not vectorise by itself.

A row of LANE_BYTES (16 float32, 8 float64) of a C-contiguous array is loaded, added and stored as
one vector of the machine, or as several if its vectors are narrower.  An ordinary loop over so few
numbers is unrolled before it can be vectorised, and its stores might change what it loads next, so
numba leaves it scalar: five times slower.

    load(A, i)            row i of A, seen as an array of rows of one cache line
    store(A, i, v)
    plus(v, w)            v + w
    times_plus(x, v, w)   x v + w for a number x
    nothing(A)            zeros, of the dtype of A
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANE_BYTES = 64


class Lanes(types.Type):
    """The numba type of such a value."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, _vector(fe_type.dtype))


def _vector(dtype: Any) -> ir.VectorType:
    number = ir.DoubleType() if dtype == types.float64 else ir.FloatType()
    return ir.VectorType(number, LANE_BYTES * 8 // dtype.bitwidth)


def _row(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The address of row args[1] of array args[0], as that of a vector."""
    array, index = sig.args[0], context.cast(builder, args[1], sig.args[1], types.uintp)
    data = context.make_array(array)(context, builder, args[0]).data
    vector = _vector(array.dtype)
    place = builder.mul(index, ir.Constant(index.type, vector.count))
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


def _verb(build: Any) -> Any:
    """numba's `intrinsic`, untyped: a type checker would take its calls for calls of `build`."""
    return intrinsic(build)


@_verb
def load(typingctx: Any, A: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_row(context, builder, sig, args), align=A.dtype.bitwidth // 8)

    return Lanes(A.dtype)(A, i), generate


@_verb
def store(typingctx: Any, A: Any, i: Any, v: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        row = _row(context, builder, sig, args)
        builder.store(args[2], row, align=A.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(A, i, v), generate


@_verb
def plus(typingctx: Any, v: Any, w: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fadd(*args)

    return v(v, w), generate


@_verb
def times_plus(typingctx: Any, x: Any, v: Any, w: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = context.cast(builder, args[0], sig.args[0], v.dtype)
        vector = _vector(v.dtype)
        single = builder.insert_element(
            ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
        every = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)
        fused = ("contract",)  # one rounding, if the machine has such an instruction
        return builder.fadd(builder.fmul(every, args[1], fused), args[2], fused)

    return v(x, v, w), generate


@_verb
def nothing(typingctx: Any, A: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return cgutils.get_null_value(_vector(A.dtype))

    return Lanes(A.dtype)(A), generate

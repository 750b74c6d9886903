"""Products of arrays and linear systems.

Previous: reduce.py; next: factorization.py. Matrices are the last two axes; all axes before them are a stack.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import NONDIFF, OpDef, Sample, register, type_of
from tracegrad.ir.types import DTYPES, I64, Dim, is_complex
from tracegrad.ops import c_rules
from tracegrad.ops.creation import full_like, iota, zeros_like
from tracegrad.ops.elementwise import (
    add,
    cast,
    greater,
    greater_equal,
    imag,
    less,
    less_equal,
    multiply,
    negative,
    real,
    select,
    subtract,
)
from tracegrad.ops.infer import (
    AxisPair,
    infer_dot_general,
    infer_has_factor,
    infer_slogdet,
    infer_solve,
    infer_square,
)
from tracegrad.ops.reduce import conjugate_if_complex
from tracegrad.ops.shape import batch_stacks, broadcast_to, inverse_permutation, reshape, transpose
from tracegrad.ops.text import tuple_text


def swap_last(x: Any) -> Any:
    """Transpose the matrices of a stack."""
    n = type_of(x).ndim
    return transpose(x, axes=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of the matrices of a stack."""
    return swap_last(conjugate_if_complex(x))


def matmul(x: Any, y: Any) -> Any:
    """Multiply matrices of two stacks of one shape: [..., n, m] and [..., m, k]."""
    n = type_of(x).ndim
    stack = tuple(range(n - 2))
    return dot_general(x, y, contract=((n - 1,), (n - 2,)), batch=(stack, stack))


def lower_part(x: Any, *, strict: bool = False) -> Any:
    """Keep the lower triangle of the matrices of a stack; without the diagonal when strict."""
    return _masked(greater if strict else greater_equal, x)


def upper_part(x: Any, *, strict: bool = False) -> Any:
    """Keep the upper triangle of the matrices of a stack; without the diagonal when strict."""
    return _masked(less if strict else less_equal, x)


def _masked(compare: OpDef, x: Any) -> Any:
    shape = type_of(x).shape
    row, column = (iota(shape=shape[-2:], dtype=I64, axis=k) for k in (0, 1))
    mask = compare(row, column)
    return select(mask if len(shape) == 2 else broadcast_to(mask, shape=shape), x, zeros_like(x))


def with_real_diagonal(x: Any) -> Any:
    """Drop the imaginary parts on the diagonals of a stack of matrices."""
    if not is_complex(type_of(x).dtype):
        return x
    strict = add(lower_part(x, strict=True), upper_part(x, strict=True))
    return add(strict, cast(real(subtract(x, strict)), dtype=type_of(x).dtype))


def mirrored(x: Any, *, lower: bool) -> Any:
    """Return the Hermitian matrices that have the lower (else upper) triangles of a stack."""
    part = lower_part if lower else upper_part
    return with_real_diagonal(add(part(x), adjoint(part(x, strict=True))))


def folded(x: Any, *, lower: bool) -> Any:
    """Return the transpose of `mirrored`: an element beside the diagonal stands for itself and for its mirror image."""
    part = lower_part if lower else upper_part
    return with_real_diagonal(add(part(x), part(adjoint(x), strict=True)))


def stretched(x: Any, like: Any) -> Any:
    """Repeat one number per matrix over the whole matrix: [...] to [..., n, n]."""
    shape = type_of(x).shape
    return broadcast_to(reshape(x, shape=(*shape, 1, 1)) if shape else x, shape=type_of(like).shape)


def trace_of_product(x: Any, y: Any) -> Any:
    """Return trace(x @ y) per matrix."""
    n = type_of(x).ndim
    stack = tuple(range(n - 2))
    return dot_general(x, y, contract=((n - 2, n - 1), (n - 1, n - 2)), batch=(stack, stack))


def sum_of(*terms: Any) -> Any:
    """Add the terms that are not None; None when all are."""
    present = [t for t in terms if t is not None]
    if not present:
        return None
    total = present[0]
    for term in present[1:]:
        total = add(total, term)
    return total


# fmt: off

# Products


def _free_axes(ndim: int, *taken: Sequence[int]) -> tuple[int, ...]:
    used = {a for axes in taken for a in axes}
    return tuple(k for k in range(ndim) if k not in used)


def _dot_vjp(ct: Any, out: Any, x: Any, y: Any, *, contract: AxisPair, batch: AxisPair) -> tuple[Any, ...]:
    swapped_contract, swapped_batch = (contract[1], contract[0]), (batch[1], batch[0])
    free_x = _free_axes(type_of(x).ndim, contract[0], batch[0])
    free_y = _free_axes(type_of(y).ndim, contract[1], batch[1])
    stack = len(batch[0])
    from_x = tuple(range(stack, stack + len(free_x)))
    from_y = tuple(range(stack + len(free_x), type_of(ct).ndim))
    return (
        _dot_cotangent(ct, y, from_y, free_y, free_x, contract, batch),
        _dot_cotangent(ct, x, from_x, free_x, free_y, swapped_contract, swapped_batch),
    )


def _batch_dot(
    op: OpDef, size: Dim, batched: Sequence[bool], x: Any, y: Any, *, contract: AxisPair, batch: AxisPair
) -> Any:
    x_contract, y_contract, x_batch, y_batch = (
        tuple(a + has for a in axes) for axes, has in zip((*contract, *batch), (*batched, *batched), strict=True)
    )
    if all(batched):
        return op(x, y, contract=(x_contract, y_contract), batch=((0, *x_batch), (0, *y_batch)))
    # the leading axis is a free one of its operand
    if batched[1] and not batch[1] and len(contract[1]) == type_of(y).ndim - 1:
        return op(y, x, contract=(y_contract, x_contract), batch=((), ()))
    product = op(x, y, contract=(x_contract, y_contract), batch=(x_batch, y_batch))
    place = len(x_batch)
    if batched[1]:
        place += len(_free_axes(type_of(x).ndim, x_contract, x_batch))
    order = (place, *(k for k in range(type_of(product).ndim) if k != place))
    return transpose(product, axes=order) if place else product


def _dot_cotangent(
    ct: Any, other: Any, ct_axes: Sequence[int], other_axes: Sequence[int], free: Sequence[int],
    contract: AxisPair, batch: AxisPair,
) -> Any:
    """Contract `ct` with the other operand over its free axes; `contract` and `batch` put the wanted operand first."""
    stack = tuple(range(len(batch[0])))
    product = dot_general(
        ct, conjugate_if_complex(other), contract=(tuple(ct_axes), tuple(other_axes)), batch=(stack, batch[1])
    )
    # the axes of the product are, in terms of the wanted operand: batch, free, then contracted in the order of `other`
    contracted = [contract[0][k] for k in sorted(range(len(contract[1])), key=contract[1].__getitem__)]
    order = (*batch[0], *free, *contracted)
    return product if order == tuple(range(len(order))) else transpose(product, axes=inverse_permutation(order))


def _dot_jvp(tangents: Sequence[Any], out: Any, x: Any, y: Any, *, contract: AxisPair, batch: AxisPair) -> Any:
    t_x, t_y = tangents
    return sum_of(
        None if t_x is None else dot_general(t_x, y, contract=contract, batch=batch),
        None if t_y is None else dot_general(x, t_y, contract=contract, batch=batch),
    )


def _dot_text(operation: Operation, x: str, y: str) -> str:
    if operation.result.dtype != DTYPES["bf16"]:
        return _product_text(operation, x, y)
    # NumPy has few products of bfloat16
    wide = _product_text(operation, f"np.asarray({x}, np.float32)", f"np.asarray({y}, np.float32)")
    return f"np.asarray({wide}).astype(ml_dtypes.bfloat16)"


def _product_text(operation: Operation, x: str, y: str) -> str:
    (cx, cy), (bx, by) = operation.attrs["contract"], operation.attrs["batch"]
    nx, ny = (len(v.shape) for v in operation.operands)
    stack = tuple(range(len(bx)))
    if len(cx) == 1 and not bx:
        if nx <= 2 and ny <= 2:
            if nx == 1 and ny == 2:
                return f"{y} @ {x}" if cy == (1,) else f"{x} @ {y}"
            return f"{x if cx == (nx - 1,) else x + '.T'} @ {y if cy == (0,) else y + '.T'}"
        if cx == (nx - 1,) and cy == (0,) and ny <= 2:
            return f"{x} @ {y}"
    if bx == by == stack and len(cx) == 1 and nx == ny == len(bx) + 2:
        left = x if cx == (nx - 1,) else f"np.swapaxes({x}, -1, -2)"
        return f"{left} @ {y if cy == (ny - 2,) else f'np.swapaxes({y}, -1, -2)'}"
    if not cx and not bx:
        return f"np.outer({x}, {y})" if nx == ny == 1 else f"np.multiply.outer({x}, {y})"
    if not bx:
        return f"np.tensordot({x}, {y}, axes=({tuple_text(cx)}, {tuple_text(cy)}))"
    letters = iter(string.ascii_lowercase)
    names_x = [next(letters) for _ in range(nx)]
    names_y = [next(letters) for _ in range(ny)]
    for a, b in (*zip(cx, cy, strict=True), *zip(bx, by, strict=True)):
        names_y[b] = names_x[a]
    free_x, free_y = _free_axes(nx, cx, bx), _free_axes(ny, cy, by)
    result = [names_x[a] for a in (*bx, *free_x)] + [names_y[b] for b in free_y]
    return f'np.einsum("{"".join(names_x)},{"".join(names_y)}->{"".join(result)}", {x}, {y})'


dot_general = register(OpDef(
    "dot_general", ("x", "y"),
    "Sum of products over paired axes: axes `contract` are summed, axes `batch` go in step. "
    "Axes of the result: batch, free ones of x, free ones of y.",
    attributes=("contract", "batch"), c=c_rules.dot_general_c, c_statement=c_rules.dot_general_statement,
    infer=infer_dot_general, numpy=_dot_text, jvp=_dot_jvp, vjp=_dot_vjp, batch=_batch_dot,
    samples=(
        Sample("f[3] f[3]", {"contract": ((0,), (0,)), "batch": ((), ())}),
        Sample("f[2,3] f[3]", {"contract": ((1,), (0,)), "batch": ((), ())}),
        Sample("f[3] f[3,2]", {"contract": ((0,), (0,)), "batch": ((), ())}),
        Sample("f[3] f[2,3]", {"contract": ((0,), (1,)), "batch": ((), ())}),
        Sample("f[2,3] f[3,4]", {"contract": ((1,), (0,)), "batch": ((), ())}),
        Sample("f[3,2] f[3,4]", {"contract": ((0,), (0,)), "batch": ((), ())}),
        Sample("f[3,2] f[4,3]", {"contract": ((0,), (1,)), "batch": ((), ())}),
        Sample("f[2,2,3] f[3,4]", {"contract": ((2,), (0,)), "batch": ((), ())}),
        Sample("f[5,2,3] f[5,3,4]", {"contract": ((2,), (1,)), "batch": ((0,), (0,))}),
        Sample("f[5,3] f[2,3,5]", {"contract": ((1,), (1,)), "batch": ((0,), (2,))}),
        Sample("f[2,3,4] f[4,5,2]", {"contract": ((0, 2), (2, 0)), "batch": ((), ())}),
        Sample("f[2,3] f[4,3,2]", {"contract": ((1,), (1,)), "batch": ((0,), (2,))}),
        Sample("f[2] f[3]", {"contract": ((), ()), "batch": ((), ())}),
        Sample("f[2,2] f[3]", {"contract": ((), ()), "batch": ((), ())}),
        Sample("f[] f[3]", {"contract": ((), ()), "batch": ((), ())}),
        Sample("f[3] f[3]", {"contract": ((), ()), "batch": ((0,), (0,))}),
        Sample("f[0,2] f[0]", {"contract": ((0,), (0,)), "batch": ((), ())}),
        Sample("i[2,3] i[3]", {"contract": ((1,), (0,)), "batch": ((), ())}, integers=(-4, 5)),
        Sample("c128[2,3] c128[3,2]", {"contract": ((1,), (0,)), "batch": ((), ())}),
    ),
))

# Linear systems


def _solve_vjp(ct: Any, out: Any, a: Any, b: Any) -> tuple[Any, ...]:
    ct_b = solve(adjoint(a), ct)
    return negative(matmul(ct_b, adjoint(out))), ct_b


def _solve_jvp(tangents: Sequence[Any], out: Any, a: Any, b: Any) -> Any:
    t_a, t_b = tangents
    return solve(a, sum_of(t_b, None if t_a is None else negative(matmul(t_a, out))))


solve = register(OpDef(
    "solve", ("a", "b"), "x with a @ x = b, for a: [..., n, n] and b: [..., n, k]; LinAlgError when a is singular.",
    c_statement=c_rules.solve_statement, batch=batch_stacks,
    infer=infer_solve, numpy="np.linalg.solve({a}, {b})", jvp=_solve_jvp, vjp=_solve_vjp,
    samples=(
        Sample("f[3,3] f[3,2]", special_structure="invertible"),
        Sample("f[2,3,3] f[2,3,1]", special_structure="invertible"),
        Sample("c128[2,2] c128[2,2]", special_structure="invertible"),
    ),
))


def _triangle(x: Any, lower: bool, unit_diagonal: bool) -> Any:
    return (lower_part if lower else upper_part)(x, strict=unit_diagonal)


def _triangular_solve_vjp(
    ct: Any, out: Any, a: Any, b: Any, *, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> tuple[Any, ...]:
    ct_b = triangular_solve(
        conjugate_if_complex(a), ct, lower=lower, transpose_a=not transpose_a, unit_diagonal=unit_diagonal
    )
    product = matmul(conjugate_if_complex(out), swap_last(ct_b)) if transpose_a else matmul(ct_b, adjoint(out))
    return _triangle(negative(product), lower, unit_diagonal), ct_b


def _triangular_solve_jvp(
    tangents: Sequence[Any], out: Any, a: Any, b: Any, *, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    t_a, t_b = tangents
    moved = None
    if t_a is not None:
        triangle = _triangle(t_a, lower, unit_diagonal)
        moved = negative(matmul(swap_last(triangle) if transpose_a else triangle, out))
    return triangular_solve(
        a, sum_of(t_b, moved), lower=lower, transpose_a=transpose_a, unit_diagonal=unit_diagonal
    )


def _triangular_solve_text(operation: Operation, a: str, b: str) -> str:
    attrs = operation.attrs
    options = [f", {name}=True" for name in ("transpose_a", "unit_diagonal") if attrs[name]]
    return f"triangular_solve({a}, {b}{'' if attrs['lower'] else ', lower=False'}{''.join(options)})"


triangular_solve = register(OpDef(
    "triangular_solve", ("a", "b"),
    "x with t @ x = b, where t is the lower (else upper) triangle of a, with ones on the diagonal if unit_diagonal, "
    "transposed if transpose_a; LinAlgError when singular.",
    attributes=("lower", "transpose_a", "unit_diagonal"), c_statement=c_rules.triangular_solve_statement,
    batch=batch_stacks,
    infer=infer_solve,
    numpy=_triangular_solve_text, numpy_helper="triangular_solve",
    jvp=_triangular_solve_jvp, vjp=_triangular_solve_vjp,
    samples=tuple(
        Sample(types, {"lower": low, "transpose_a": t, "unit_diagonal": unit}, special_structure="invertible")
        for types, low, t, unit in (
            ("f[3,3] f[3,2]", True, False, False), ("f[3,3] f[3,2]", False, False, True),
            ("f[2,3,3] f[2,3,1]", True, True, False), ("f[3,3] f[3,2]", False, True, False),
            ("c128[2,2] c128[2,2]", True, True, False), ("c128[2,2] c128[2,2]", False, False, False),
        )
    ),
))


def _halved(x: Any) -> Any:
    """Keep the lower triangle with half the diagonal: the lower factor of a symmetric sum."""
    twice = add(lower_part(x), lower_part(x, strict=True))
    return multiply(twice, full_like(twice, 0.5))


def _cholesky_jvp(tangents: Sequence[Any], out: Any, a: Any) -> Any:
    # L halved(L⁻¹ t_A L⁻ᴴ), where t_A is the Hermitian matrix with the lower triangle of the tangent
    left = _forward_solve(out, mirrored(tangents[0], lower=True))
    inner = adjoint(_forward_solve(out, adjoint(left)))
    return matmul(out, _halved(inner))


def _cholesky_vjp(ct: Any, out: Any, a: Any) -> tuple[Any, ...]:
    # with S = L⁻ᴴ halved(Lᴴ ct) L⁻¹: an element below the diagonal stands for itself and for its mirror image
    inner = _halved(matmul(adjoint(out), ct))
    left = _adjoint_solve(out, inner)
    return (folded(adjoint(_adjoint_solve(out, adjoint(left))), lower=True),)


def _forward_solve(factor: Any, b: Any) -> Any:
    return triangular_solve(factor, b, lower=True, transpose_a=False, unit_diagonal=False)


def _adjoint_solve(factor: Any, b: Any) -> Any:
    return triangular_solve(conjugate_if_complex(factor), b, lower=True, transpose_a=True, unit_diagonal=False)


cholesky = register(OpDef(
    "cholesky", ("a",),
    "Lower triangular l with l @ l.conj().T = a, for a: [..., n, n] positive definite. "
    "Only the lower triangle of a is read, and only it gets a cotangent; LinAlgError when not positive definite.",
    c_statement=c_rules.cholesky_statement, batch=batch_stacks,
    infer=infer_square, numpy="np.linalg.cholesky({a})", jvp=_cholesky_jvp, vjp=_cholesky_vjp, python=(),
    samples=(
        Sample("f[3,3]", special_structure="spd"), Sample("f[2,2,2]", special_structure="spd"),
        Sample("c128[2,2]", special_structure="spd"),
    ),
))

is_positive_definite = register(OpDef(
    "is_positive_definite", ("a",),
    "Whether each matrix of a: [..., n, n] has a Cholesky factor; only the lower triangle is read.",
    c_statement=c_rules.has_factor_statement, batch=batch_stacks, infer=infer_has_factor, marker=NONDIFF,
    numpy="is_positive_definite({a})", numpy_helper="is_positive_definite",
    samples=(
        Sample("f[3,3]", special_structure="spd"), Sample("f[3,3]"), Sample("f[4,2,2]"), Sample("f[1,1]"),
        Sample("c128[2,2]", special_structure="spd"), Sample("c128[2,2]"),
    ),
))
is_regular = register(OpDef(
    "is_regular", ("a",), "Whether each matrix of a: [..., n, n] has LU factors without a pivot that is exactly zero.",
    c_statement=c_rules.has_factor_statement, batch=batch_stacks, infer=infer_has_factor, marker=NONDIFF,
    numpy="np.linalg.slogdet({a})[0] != 0",
    samples=(
        Sample("f[3,3]"), Sample("f[4,2,2]"), Sample("f[1,1]"), Sample("c128[2,2]"),
    ),
))

# Logarithm of the determinant, and inverse


def _slogdet_jvp(tangents: Sequence[Any], out: Any, a: Any) -> tuple[Any, ...]:
    change = trace_of_product(inv(a), tangents[0])
    if not is_complex(type_of(a).dtype):
        return None, change
    sign = out[0]
    turn = multiply(cast(imag(change), dtype=type_of(a).dtype), full_like(sign, 1j))
    return multiply(sign, turn), real(change)


def _slogdet_vjp(ct: Any, out: Any, a: Any) -> tuple[Any, ...]:
    ct_sign, ct_log = ct
    dtype = type_of(a).dtype
    weights = [None if ct_log is None else cast(ct_log, dtype=dtype) if is_complex(dtype) else ct_log]
    if ct_sign is not None and is_complex(dtype):
        # the sign turns by Im trace(a⁻¹ t_a)
        turn = negative(imag(multiply(conjugate_if_complex(ct_sign), out[0])))
        weights.append(multiply(cast(turn, dtype=dtype), full_like(ct_sign, 1j)))
    if all(weight is None for weight in weights):
        return (None,)
    return (multiply(stretched(sum_of(*weights), a), adjoint(inv(a))),)


slogdet = register(OpDef(
    "slogdet", ("a",), "Sign and log of the modulus of the determinant of each matrix of a: [..., n, n].",
    c_statement=c_rules.determinant_statement, batch=batch_stacks,
    infer=infer_slogdet, numpy="np.linalg.slogdet({a})", jvp=_slogdet_jvp, vjp=_slogdet_vjp,
    python=(np.linalg.slogdet,),
    samples=(
        Sample("f[3,3]", special_structure="invertible"), Sample("f[2,2,2]", special_structure="invertible"),
        Sample("c128[2,2]", special_structure="invertible"),
    ),
))
inv = register(OpDef(
    "inv", ("a",), "Inverse of each matrix of a: [..., n, n]; LinAlgError when singular.",
    c_statement=c_rules.inv_statement, batch=batch_stacks,
    infer=infer_square, numpy="np.linalg.inv({a})",
    jvp=lambda tangents, out, a: negative(matmul(matmul(out, tangents[0]), out)),
    vjp=lambda ct, out, a: (negative(matmul(matmul(adjoint(out), ct), adjoint(out))),),
    python=(np.linalg.inv,),
    samples=(
        Sample("f[3,3]", special_structure="invertible"), Sample("f[2,2,2]", special_structure="invertible"),
        Sample("c128[2,2]", special_structure="invertible"),
    ),
))

# fmt: on

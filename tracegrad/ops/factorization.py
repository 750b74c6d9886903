"""Eigenvalues, singular values, determinants, QR factors, pseudoinverse.

Previous: linalg.py; next: fourier.py. Matrices are the last two axes; all axes before them are a stack.

Vectors are determined up to sign (phase when complex), and those of equal values up to a rotation. Derivatives take the
vectors to turn by the least: right for whatever does not depend on the choice. Where two values are equal the vectors
have no derivative: it is infinite or NaN, except in directions, and for cotangents, that are exactly zero.

Sources: Giles, "An extended collection of matrix derivative results", 2008; Townsend, "Differentiating the singular
value decomposition", 2016; Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010 (qr);
Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems", 1973.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.ir.bounds import size_guess
from tracegrad.ir.core import Operation
from tracegrad.ir.opdef import OpDef, Sample, register, type_of
from tracegrad.ir.types import I64, is_complex
from tracegrad.ops import c_rules
from tracegrad.ops.creation import full_like, iota, zeros_like
from tracegrad.ops.elementwise import (
    absolute,
    add,
    cast,
    equal,
    less_equal,
    logical_and,
    logical_or,
    multiply,
    negative,
    real,
    reciprocal,
    select,
    sign,
    subtract,
)
from tracegrad.ops.infer import infer_det, infer_eigh, infer_pinv, infer_qr, infer_square, infer_svd
from tracegrad.ops.linalg import (
    adjoint,
    folded,
    inv,
    lower_part,
    matmul,
    mirrored,
    stretched,
    sum_of,
    swap_last,
    trace_of_product,
    triangular_solve,
    upper_part,
    with_real_diagonal,
)
from tracegrad.ops.reduce import conjugate_if_complex, reduce_max, reduce_min, reduce_prod
from tracegrad.ops.shape import batch_stacks, broadcast_to, concatenate, reduce_sum, reshape, slice_

#: so many times the precision, beside the greatest element, is what rounding leaves of a zero
_ROUNDING = 256


def _rows(x: Any, like: Any) -> Any:
    """Repeat numbers as every row of a matrix: [..., n] to [..., m, n]."""
    *stack, n = type_of(x).shape
    return broadcast_to(reshape(x, shape=(*stack, 1, n)), shape=type_of(like).shape)


def _as(x: Any, like: Any) -> Any:
    """Return real numbers in the dtype of another array."""
    dtype = type_of(like).dtype
    return cast(x, dtype=dtype) if is_complex(dtype) else x


def _is_zero(x: Any) -> Any:
    return equal(x, zeros_like(x))


def _is_rounding(x: Any, *, axes: int) -> Any:
    """Return which elements are zero, or no more than rounding beside the greatest one along so many last axes."""
    sizes = absolute(x)
    shape, dtype = type_of(sizes).shape, type_of(sizes).dtype
    last = tuple(range(len(shape) - axes, len(shape)))
    greatest = reshape(reduce_max(sizes, axes=last), shape=(*shape[: len(shape) - axes], *(1 for _ in last)))
    limit = multiply(greatest, full_like(greatest, _ROUNDING * float(np.finfo(dtype).eps)))
    return less_equal(sizes, broadcast_to(limit, shape=shape))


def _on_diagonal(x: Any) -> Any:
    """Return where the diagonals of a stack of matrices are."""
    shape = type_of(x).shape
    row, column = (iota(shape=shape[-2:], dtype=I64, axis=k) for k in (0, 1))
    return broadcast_to(equal(row, column), shape=shape) if len(shape) > 2 else equal(row, column)


def _divided(x: Any, by: Any, nothing: Any) -> Any:
    """Return x / by, and zero where `nothing` holds; `by` is real."""
    quotients = reciprocal(select(nothing, full_like(by, float("inf")), by))
    return multiply(x, _as(quotients, x))


def _paired(values: Any) -> tuple[Any, Any]:
    """Return matrices of the row's value and of the column's."""
    *stack, n = type_of(values).shape
    shape = (*stack, n, n)
    return (
        broadcast_to(reshape(values, shape=(*stack, n, 1)), shape=shape),
        broadcast_to(reshape(values, shape=(*stack, 1, n)), shape=shape),
    )


def _idle(*cotangents: Any) -> Any:
    """Return which columns of cotangents, and numbers in step with them, are all zero up to rounding: [..., n]."""
    found = None
    for ct in cotangents:
        if ct is not None:
            zero = _is_rounding(ct, axes=1)
            found = zero if found is None else logical_and(found, zero)
    return found


def _greatest(x: Any) -> Any:
    """Return the greatest modulus of each column."""
    return None if x is None else reduce_max(absolute(x), axes=(type_of(x).ndim - 2,))


def _sum_of_columns(x: Any, y: Any) -> Any:
    """Return the real parts of the inner products of columns in step."""
    total = reduce_sum(multiply(conjugate_if_complex(x), y), axes=(type_of(x).ndim - 2,))
    return real(total) if is_complex(type_of(total).dtype) else total


def _part(x: Any, axis: int, start: Any, stop: Any) -> Any:
    """Return places start:stop of an axis counted from the end."""
    shape = type_of(x).shape
    place = len(shape) + axis
    if start == 0 and stop == shape[place]:
        return x
    begin = tuple(start if k == place else 0 for k in range(len(shape)))
    end = tuple(stop if k == place else d for k, d in enumerate(shape))
    return slice_(x, start=begin, stop=end, step=(1,) * len(shape))


# fmt: off

# Eigenvalues


def _eigh_jvp(tangents: Sequence[Any], out: Any, a: Any, *, lower: bool) -> tuple[Any, ...]:
    # Vᴴ t_A V = M, t_w = diag M, t_V = V (M_ij / (w_j - w_i))
    w, v = out
    turned = matmul(mirrored(tangents[0], lower=lower), v)
    moved = matmul(adjoint(v), turned)
    before, after = _paired(w)
    gaps = subtract(after, before)
    still = logical_or(_on_diagonal(gaps), logical_and(_is_zero(gaps), _is_rounding(moved, axes=2)))
    return _sum_of_columns(v, turned), matmul(v, _divided(moved, gaps, still))


def _eigh_vjp(ct: Any, out: Any, a: Any, *, lower: bool) -> tuple[Any, ...]:
    ct_w, ct_v = ct
    w, v = out
    inner = None if ct_w is None else multiply(v, _as(_rows(ct_w, v), v))
    if ct_v is not None:
        before, after = _paired(w)
        gaps = subtract(after, before)
        idle = _rows(_idle(_greatest(ct_v), ct_w), gaps)
        still = logical_or(_on_diagonal(gaps), logical_and(_is_zero(gaps), idle))
        inner = sum_of(inner, matmul(v, _divided(matmul(adjoint(v), ct_v), gaps, still)))
    return (folded(matmul(inner, adjoint(v)), lower=lower),)


def _eigh_text(operation: Operation, a: str) -> str:
    return f"np.linalg.eigh({a})" if operation.attrs["lower"] else f'np.linalg.eigh({a}, "U")'


eigh = register(OpDef(
    "eigh", ("a",),
    "Eigenvalues in ascending order and eigenvectors, as columns, of Hermitian a: [..., n, n]. Only the lower (else "
    "upper) triangle is read and gets a cotangent. Of repeated eigenvalues, functions that treat them alike (sums, "
    "traces) have right derivatives; eigenvectors of repeated eigenvalues have none: inf or NaN, unless the cotangents "
    "of the pair are zero. Signs of eigenvectors are arbitrary, and differ between code generators.",
    attributes=("lower",), c_statement=c_rules.eigh_statement, batch=batch_stacks,
    infer=infer_eigh, numpy=_eigh_text, jvp=_eigh_jvp, vjp=_eigh_vjp,
    samples=(
        Sample("f[3,3]", {"lower": True}), Sample("f[4,4]", {"lower": False}), Sample("f[2,3,3]", {"lower": True}),
        Sample("f[1,1]", {"lower": True}),
    ),
))

# Singular values


def _svd_parts(out: Any, a: Any) -> tuple[Any, ...]:
    """Return the factors u: [..., m, k], s and v: [..., n, k], then the further columns of u and v, None without."""
    u, s, vh = out
    k = type_of(s).shape[-1]
    v = adjoint(vh)
    rows, columns = type_of(u).shape[-1], type_of(v).shape[-1]
    return (
        _part(u, -1, 0, k), s, _part(v, -1, 0, k),
        None if rows == k else _part(u, -1, k, rows), None if columns == k else _part(v, -1, k, columns),
    )


def _svd_jvp(
    tangents: Sequence[Any], out: Any, a: Any, *, full_matrices: bool, excess: int
) -> tuple[Any, ...]:
    # with P = Uᴴ t_A V: U turns by P + Pᴴ over s_j - s_i, and P - Pᴴ over s_j + s_i; V by their difference
    (tangent,) = tangents
    u, s, v, more_u, more_v = _svd_parts(out, a)
    right, left = matmul(tangent, v), matmul(adjoint(tangent), u)
    inner = matmul(adjoint(u), right)
    even, odd = add(inner, adjoint(inner)), subtract(inner, adjoint(inner))
    before, after = _paired(s)
    gaps, sums = subtract(after, before), add(after, before)
    even = _divided(even, gaps, logical_or(_on_diagonal(gaps), logical_and(_is_zero(gaps), _is_zero(even))))
    odd = _divided(odd, sums, logical_and(_is_zero(sums), _is_zero(odd)))
    half = full_like(even, 0.5)
    t_u, t_v = matmul(u, multiply(add(even, odd), half)), matmul(v, multiply(subtract(even, odd), half))
    if excess > 0:
        t_u = add(t_u, _over(subtract(right, matmul(u, inner)), s))
    if excess < 0:
        t_v = add(t_v, _over(subtract(left, matmul(v, adjoint(inner))), s))
    if more_u is not None:
        t_u = concatenate(t_u, _turned(u, more_u, right, s), axis=type_of(u).ndim - 1)
    if more_v is not None:
        t_v = concatenate(t_v, _turned(v, more_v, left, s), axis=type_of(v).ndim - 1)
    return t_u, _sum_of_columns(u, right), adjoint(t_v)


def _over(x: Any, s: Any) -> Any:
    """Divide columns by singular values; zero stays zero."""
    by = _rows(s, x)
    return _divided(x, by, logical_and(_is_zero(by), _is_zero(x)))


def _turned(u: Any, more: Any, moved: Any, s: Any) -> Any:
    """Return the tangent of the columns that complete u, which turn with it."""
    return negative(matmul(u, adjoint(_over(matmul(adjoint(more), moved), s))))


def _svd_vjp(ct: Any, out: Any, a: Any, *, full_matrices: bool, excess: int) -> tuple[Any, ...]:
    ct_u, ct_s, ct_vh = ct
    u, s, v, more_u, more_v = _svd_parts(out, a)
    k = type_of(s).shape[-1]
    ct_v = None if ct_vh is None else adjoint(ct_vh)
    left = None if ct_s is None else multiply(u, _as(_rows(ct_s, u), u))
    if ct_u is None and ct_v is None:
        return (matmul(left, adjoint(v)),)
    part_u, part_v = (None if x is None else _part(x, -1, 0, k) for x in (ct_u, ct_v))
    from_u = None if part_u is None else matmul(adjoint(u), part_u)
    from_v = None if part_v is None else matmul(adjoint(v), part_v)
    before, after = _paired(s)
    gaps, sums = subtract(after, before), add(after, before)
    idle = _idle(_greatest(part_u), _greatest(part_v), ct_s)
    unused, diagonal = _rows(idle, gaps), _on_diagonal(gaps)
    even = _divided(sum_of(from_u, from_v), gaps, logical_or(diagonal, logical_and(_is_zero(gaps), unused)))
    nothing = logical_and(_is_zero(sums), unused)
    if not is_complex(type_of(a).dtype):
        nothing = logical_or(nothing, diagonal)
    odd = _divided(sum_of(from_u, None if from_v is None else negative(from_v)), sums, nothing)
    both = add(add(even, adjoint(even)), subtract(odd, adjoint(odd)))
    left = sum_of(left, matmul(u, multiply(both, full_like(both, 0.5))))
    if excess > 0 and part_u is not None:
        left = add(left, _over_unless(subtract(part_u, matmul(u, from_u)), s, idle))
    total = matmul(left, adjoint(v))
    if excess < 0 and part_v is not None:
        total = add(total, matmul(u, adjoint(_over_unless(subtract(part_v, matmul(v, from_v)), s, idle))))
    if more_u is not None and ct_u is not None:
        ct_more = _part(ct_u, -1, k, type_of(ct_u).shape[-1])
        total = subtract(total, matmul(more_u, matmul(_over(matmul(adjoint(ct_more), u), s), adjoint(v))))
    if more_v is not None and ct_v is not None:
        ct_more = _part(ct_v, -1, k, type_of(ct_v).shape[-1])
        turned = _over(matmul(adjoint(ct_more), v), s)
        total = subtract(total, matmul(u, matmul(adjoint(turned), adjoint(more_v))))
    return (total,)


def _over_unless(x: Any, s: Any, idle: Any) -> Any:
    """Divide columns by singular values; those of columns without cotangents may be zero."""
    scale = reciprocal(select(logical_and(_is_zero(s), idle), full_like(s, float("inf")), s))
    return multiply(x, _as(_rows(scale, x), x))


def _svd_text(operation: Operation, a: str) -> str:
    return f"np.linalg.svd({a})" if operation.attrs["full_matrices"] else f"np.linalg.svd({a}, full_matrices=False)"


svd = register(OpDef(
    "svd", ("a",),
    "Left singular vectors as columns, singular values in descending order, right singular vectors as rows, of "
    "a: [..., m, n]; with full_matrices all m and n vectors. `excess` is the sign of m - n. Repeated or zero singular "
    "values have derivatives where they are treated alike (norms); vectors of repeated ones have none: inf or NaN, "
    "unless the cotangents of the pair are zero. The vectors that full_matrices adds span a space, whose derivative is "
    "right; one alone is determined. Signs of vectors are arbitrary, and differ between code generators.",
    attributes=("full_matrices", "excess"), c_statement=c_rules.svd_statement, batch=batch_stacks,
    infer=infer_svd, numpy=_svd_text, jvp=_svd_jvp, vjp=_svd_vjp,
    samples=tuple(
        Sample(types, {"full_matrices": full, "excess": excess}, special_structure="separated")
        for types, full, excess in (
            ("f[3,3]", False, 0), ("f[4,2]", False, 1), ("f[2,4]", False, -1), ("f[3,2]", True, 1),
            ("f[2,3]", True, -1), ("f[2,3,2]", False, 1), ("f[1,1]", True, 0),
        )
    ),
))

# Determinant

#: matrices whose least singular value is less than so much of the greatest count as nearly singular
_NEARLY_SINGULAR = 1e-3


def _change_of_cofactors(tangent: Any, out: Any, a: Any) -> Any:
    """Return the tangent of the cofactors, which is its own transpose: det has symmetric second derivatives."""
    if is_complex(type_of(a).dtype):
        return _change_by_inverse(tangent, out, a)
    s = svd(a, full_matrices=False, excess=0)[1]
    last = type_of(s).ndim - 1
    least, greatest = reduce_min(s, axes=(last,)), reduce_max(s, axes=(last,))
    limit = multiply(greatest, full_like(greatest, _NEARLY_SINGULAR))
    singular = stretched(less_equal(least, limit), a)
    # each way gets a matrix that it can take
    row = iota(shape=type_of(a).shape[-2:], dtype=type_of(a).dtype, axis=0)
    count = add(row, full_like(row, 1.0))
    known = select(_on_diagonal(a), broadcast_to(count, shape=type_of(a).shape), zeros_like(a))
    by_inverse = _change_by_inverse(tangent, out, select(singular, known, a))
    return select(singular, _change_by_singular_values(tangent, select(singular, a, known)), by_inverse)


def _change_by_inverse(tangent: Any, out: Any, a: Any) -> Any:
    # C = det(a) a⁻ᵀ, so t_C = trace(a⁻¹ t_a) C - C t_aᵀ a⁻ᵀ
    inverse = inv(a)
    product = matmul(matmul(out, swap_last(tangent)), swap_last(inverse))
    return subtract(multiply(stretched(trace_of_product(inverse, tangent), out), out), product)


def _change_by_singular_values(tangent: Any, a: Any) -> Any:
    # C = ± U cof(S) Vᵀ; with P = Uᵀ t_a V, cof(S) changes by the sum over j of p_jj q_ij at (i, i) and by -p_ji q_ij
    # at (i, j), where q_ij is the product of all singular values but s_i and s_j
    u, s, vh = svd(a, full_matrices=False, excess=0)
    inner = matmul(matmul(swap_last(u), tangent), swap_last(vh))
    diagonal = _on_diagonal(a)
    *stack, n = type_of(s).shape
    shape = (*stack, n, n, n)
    i, j, k = (iota(shape=shape[-3:], dtype=I64, axis=axis) for axis in range(3))
    left_out = broadcast_to(logical_or(equal(i, k), equal(j, k)), shape=shape)
    factors = broadcast_to(reshape(s, shape=(*stack, 1, 1, n)), shape=shape)
    products = reduce_prod(select(left_out, full_like(factors, 1.0), factors), axes=(len(shape) - 1,))
    products = select(diagonal, zeros_like(products), products)
    along = reduce_sum(select(diagonal, inner, zeros_like(inner)), axes=(len(shape) - 3,))
    sums = reduce_sum(multiply(products, _rows(along, products)), axes=(len(shape) - 2,))
    change = select(diagonal, _rows(sums, products), negative(multiply(products, swap_last(inner))))
    side = multiply(sign(det(u)), sign(det(vh)))
    return multiply(stretched(side, a), matmul(matmul(u, change), vh))


cofactor = register(OpDef(
    "cofactor", ("a",),
    "Matrix of cofactors, the derivative of det: det(a) * inv(a).T where that exists, and right for singular a too, "
    "like its own derivative; the derivatives of that are those of svd where a is nearly singular.",
    c_statement=c_rules.cofactor_statement, batch=batch_stacks,
    infer=infer_square, numpy="cofactor({a})", numpy_helper="cofactor",
    jvp=lambda tangents, out, a: _change_of_cofactors(tangents[0], out, a),
    vjp=lambda ct, out, a: (conjugate_if_complex(_change_of_cofactors(conjugate_if_complex(ct), out, a)),),
    samples=(
        Sample("f[3,3]"), Sample("f[2,2,2]"), Sample("c128[2,2]"), Sample("f[1,1]"),
    ),
))
det = register(OpDef(
    "det", ("a",), "Determinant of each matrix of a: [..., n, n].",
    c_statement=c_rules.determinant_statement, batch=batch_stacks,
    infer=infer_det, numpy="np.linalg.det({a})",
    jvp=lambda tangents, out, a: trace_of_product(swap_last(cofactor(a)), tangents[0]),
    vjp=lambda ct, out, a: (multiply(stretched(ct, a), conjugate_if_complex(cofactor(a))),),
    python=(np.linalg.det,), samples=(Sample("f[3,3]"), Sample("f[2,2,2]"), Sample("c128[2,2]"), Sample("f[1,1]")),
))

# QR factors


def _right_divided(x: Any, r: Any) -> Any:
    """Return x @ inv(r) for an upper triangle r."""
    factor = conjugate_if_complex(r)
    return adjoint(triangular_solve(factor, adjoint(x), lower=False, transpose_a=True, unit_diagonal=False))


def _diagonal_part(x: Any) -> Any:
    return subtract(lower_part(x), lower_part(x, strict=True))


def _qr_jvp(tangents: Sequence[Any], out: Any, a: Any) -> tuple[Any, ...]:
    # with t_A R⁻¹ = X and M = Qᴴ X: Q turns by the skew matrix with the lower triangle of M, and t_R is the rest
    q, r = out
    x = _right_divided(tangents[0], r)
    m = matmul(adjoint(q), x)
    below = lower_part(m, strict=True)
    skew = subtract(below, adjoint(below))
    if is_complex(type_of(a).dtype):
        diagonal = _diagonal_part(m)
        skew = add(skew, subtract(diagonal, with_real_diagonal(diagonal)))
    rest = subtract(m, skew)
    return subtract(x, matmul(q, rest)), matmul(upper_part(rest), r)


def _qr_vjp(ct: Any, out: Any, a: Any) -> tuple[Any, ...]:
    ct_q, ct_r = ct
    q, r = out
    m = sum_of(
        None if ct_r is None else matmul(upper_part(ct_r), adjoint(r)),
        None if ct_q is None else negative(matmul(adjoint(q), ct_q)),
    )
    above = upper_part(m, strict=True)
    symmetric = with_real_diagonal(add(add(above, adjoint(above)), _diagonal_part(m)))
    total = sum_of(ct_q, matmul(q, symmetric))
    # total @ inv(r)ᴴ
    return (adjoint(triangular_solve(r, adjoint(total), lower=False, transpose_a=False, unit_diagonal=False)),)


qr = register(OpDef(
    "qr", ("a",),
    "q: [..., m, n] with orthonormal columns and upper triangular r: [..., n, n] with q @ r = a, for a: [..., m, n], "
    "m >= n. The derivative needs full rank: LinAlgError when r is singular.",
    c_statement=c_rules.qr_statement, batch=batch_stacks,
    infer=infer_qr, numpy="np.linalg.qr({a})", jvp=_qr_jvp, vjp=_qr_vjp,
    samples=(
        Sample("f[3,3]", special_structure="invertible"), Sample("f[4,2]"), Sample("f[2,3,2]"), Sample("c128[3,2]"),
        Sample("c128[2,2]"),
    ),
))

# Pseudoinverse


def _chain(x: Any, y: Any, z: Any) -> Any:
    """Multiply three matrices in the cheaper order."""
    a, b, c, d = (size_guess((size,)) for m in (x, z) for size in type_of(m).shape[-2:])
    if a * c * (b + d) <= b * d * (a + c):
        return matmul(matmul(x, y), z)
    return matmul(x, matmul(y, z))


def _pinv_jvp(tangents: Sequence[Any], out: Any, a: Any, rcond: Any) -> Any:
    # P Pᴴ t_Aᴴ (1 - A P) + (1 - P A) t_Aᴴ Pᴴ P - P t_A P
    tangent = tangents[0]
    if tangent is None:
        return zeros_like(out)
    moved, back = adjoint(tangent), adjoint(out)
    left, right = _chain(out, back, moved), _chain(moved, back, out)
    left = subtract(left, _chain(left, a, out))
    right = subtract(right, _chain(out, a, right))
    return subtract(add(left, right), _chain(out, tangent, out))


def _pinv_vjp(ct: Any, out: Any, a: Any, rcond: Any) -> tuple[Any, ...]:
    # (1 - A P) ctᴴ P Pᴴ + Pᴴ P ctᴴ (1 - P A) - Pᴴ ct Pᴴ
    moved, back = adjoint(ct), adjoint(out)
    left, right = _chain(moved, out, back), _chain(back, out, moved)
    left = subtract(left, _chain(a, out, left))
    right = subtract(right, _chain(right, out, a))
    return subtract(add(left, right), _chain(back, ct, back)), None


def _pinv_text(operation: Operation, a: str, rcond: str) -> str:
    producer = operation.operands[1].producer
    if producer is None or producer.op != "constant":
        return f"np.linalg.pinv({a}, {rcond})"
    number = float(producer.attrs["value"])
    return f"np.linalg.pinv({a})" if number == _PINV_RCOND else f"np.linalg.pinv({a}, {number!r})"


#: the cutoff of np.linalg.pinv when none is given
_PINV_RCOND = 1e-15

pinv = register(OpDef(
    "pinv", ("a", "rcond"),
    "Pseudoinverse of each matrix of a: [..., m, n]; singular values up to rcond: f64[...] times the greatest count as "
    "zero. The derivative is along matrices of the same rank: from one rank to another pinv jumps.",
    c_statement=c_rules.pinv_statement, batch=batch_stacks,
    infer=infer_pinv, numpy=_pinv_text, jvp=_pinv_jvp, vjp=_pinv_vjp,
    samples=(
        Sample("f[3,3] f64[]", domain=(0.01, 0.1), special_structure="separated"),
        Sample("f[4,2] f64[]", domain=(0.01, 0.1), special_structure="separated"),
        Sample("f[2,4] f64[]", domain=(0.01, 0.1), special_structure="separated"),
        Sample("f[2,3,2] f64[2]", domain=(0.01, 0.1), special_structure="separated"),
        Sample("c128[3,2] f64[]", domain=(0.01, 0.1), special_structure="separated"),
    ),
))

# fmt: on

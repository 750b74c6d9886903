"""Products: dot, matmul, tensordot, einsum, outer, kron, cross, convolve, polynomials.

Previous: distinct.py; next: linalg.py.
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.contents import iota
from tracegrad.capture.context import user_span
from tracegrad.capture.memory import dense_layout, set_layout
from tracegrad.capture.numpy_api.common import (
    as_axis,
    as_known,
    covers,
    gather,
    insert_dims,
    is_known,
    move_axis,
    reshape,
    spread,
    transpose,
)
from tracegrad.capture.numpy_api.elementwise import add, conjugate, multiply, negative, subtract
from tracegrad.capture.numpy_api.indexing import getitem
from tracegrad.capture.numpy_api.shape import join, permuted_view
from tracegrad.capture.sharing import share
from tracegrad.capture.sizes import decide
from tracegrad.capture.tracer import (
    Tracer,
    apply,
    asarray,
    broadcast_shapes,
    call_handler,
    cast_to,
    from_concrete,
    unsupported,
)
from tracegrad.errors import TracedValueError
from tracegrad.ir.types import BOOL, F64, I64, is_complex, is_inexact


def _mismatch(function: str, x: Tracer, y: Tracer) -> TracedValueError:
    return TracedValueError(
        f"the operands of {function} do not fit together",
        code="TG128",
        span=user_span(),
        found=f"shapes {x.type.shape} and {y.type.shape}",
        help="the summed axes must have equal sizes",
    )


def _promoted(*operands: Any) -> tuple[list[Tracer], np.dtype[Any]]:
    """Return operands of one dtype that a product takes, and the dtype of the result (bool is computed in i64)."""
    tracers = [asarray(v) for v in operands]
    dtype = np.result_type(*[t.dtype for t in tracers])
    if any(not t.weak for t in tracers):
        samples: list[Any] = [
            {"f": 0.0, "i": 0, "b": False, "c": 0j}[t.dtype.kind] if t.weak else t.dtype for t in tracers
        ]
        dtype = np.result_type(*samples)
    working = I64 if dtype == BOOL else dtype
    return [cast_to(t, working) for t in tracers], dtype


def contract(
    x: Tracer,
    y: Tracer,
    over: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Tracer:
    """Apply dot_general: batch axes, free axes of x, free axes of y."""
    pairs = (tuple(over[0]), tuple(over[1])), (tuple(batch[0]), tuple(batch[1]))
    return apply(ops.dot_general, x, y, contract=pairs[0], batch=pairs[1])  # type: ignore[no-any-return]


def _returned(result: Tracer, dtype: np.dtype[Any]) -> Tracer:
    return cast_to(result, dtype)


# ---- dot and matmul


@covers(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    if not x.ndim or not y.ndim:
        return _returned(multiply(x, y), dtype)
    axis = max(y.ndim - 2, 0)
    if x.type.shape[-1] != y.type.shape[axis]:
        raise _mismatch("np.dot", x, y)
    return _returned(contract(x, y, ((x.ndim - 1,), (axis,))), dtype)


@covers(np.matmul)
def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Tracer:
    (x, y), kind = _promoted(x1, x2)
    if dtype is not None:
        kind = np.dtype(dtype)
        x, y = cast_to(x, kind), cast_to(y, kind)
    if not x.ndim or not y.ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions (a scalar operand; use *)")
    return _returned(_matmul(x, y), kind)


def _matmul(x: Tracer, y: Tracer) -> Tracer:
    inner = y.ndim - 2 if y.ndim > 1 else 0
    if x.type.shape[-1] != y.type.shape[inner]:
        raise _mismatch("matmul", x, y)
    if x.ndim <= 2 and y.ndim <= 2:
        return contract(x, y, ((x.ndim - 1,), (inner,)))
    if y.ndim <= 2:
        return contract(x, y, ((x.ndim - 1,), (inner,)))
    if x.ndim <= 2:
        result = contract(x, y, ((x.ndim - 1,), (inner,)))  # (rows of x,) batch of y, columns of y
        return move_axis(result, 0, result.ndim - 2) if x.ndim == 2 else result
    lead = broadcast_shapes(x.type.shape[:-2], y.type.shape[:-2])
    x, y = spread(x, (*lead, *x.type.shape[-2:])), spread(y, (*lead, *y.type.shape[-2:]))
    batch = range(len(lead))
    return contract(x, y, ((x.ndim - 1,), (y.ndim - 2,)), (batch, batch))


def _gufunc(function: Any, axes_of: str) -> None:
    def product(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1, dtype: Any = None) -> Tracer:
        (x, y), kind = _promoted(x1, x2)
        if axes_of == "vecdot":
            x, y = move_axis(x, as_axis(axis, x.ndim), x.ndim - 1), move_axis(y, as_axis(axis, y.ndim), y.ndim - 1)
            if x.type.shape[-1] != y.type.shape[-1]:
                raise _mismatch("np.vecdot", x, y)
            x = conjugate(x) if is_complex(x.dtype) else x
            products = multiply(x, y)
            return _returned(apply(ops.reduce_sum, products, axes=(products.ndim - 1,)), kind)
        if axes_of == "matvec":
            result = _matmul(x, reshape(y, (*y.type.shape, 1)))
            return _returned(reshape(result, result.type.shape[:-1]), kind)
        x = conjugate(x) if is_complex(x.dtype) else x
        result = _matmul(reshape(x, (*x.type.shape[:-1], 1, x.type.shape[-1])), y)
        return _returned(reshape(result, (*result.type.shape[:-2], result.type.shape[-1])), kind)

    covers(function)(product)


for _name in ("vecdot", "matvec", "vecmat"):
    if hasattr(np, _name):
        _gufunc(getattr(np, _name), _name)
if hasattr(np.linalg, "vecdot"):
    _gufunc(np.linalg.vecdot, "vecdot")


@covers(np.vdot)
def vdot(a: Any, b: Any, /) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    if x.type.size != y.type.size:
        raise _mismatch("np.vdot", x, y)
    x, y = reshape(x, (x.type.size,)), reshape(y, (y.type.size,))
    return _returned(contract(conjugate(x) if is_complex(x.dtype) else x, y, ((0,), (0,))), dtype)


@covers(np.inner)
def inner(a: Any, b: Any, /) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    if not x.ndim or not y.ndim:
        return _returned(multiply(x, y), dtype)
    if x.type.shape[-1] != y.type.shape[-1]:
        raise _mismatch("np.inner", x, y)
    return _returned(contract(x, y, ((x.ndim - 1,), (y.ndim - 1,))), dtype)


@covers(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, out: Any = None) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    column = reshape(x, (x.type.size, 1))
    return _returned(multiply(column, reshape(y, (1, y.type.size))), dtype)


@covers(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    if isinstance(axes, tuple | list):
        first, second = (tuple(s) if isinstance(s, tuple | list) else (s,) for s in axes)
    else:
        count = operator.index(axes)
        first, second = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    left, right = tuple(as_axis(k, x.ndim) for k in first), tuple(as_axis(k, y.ndim) for k in second)
    if len(left) != len(right) or any(x.type.shape[i] != y.type.shape[j] for i, j in zip(left, right, strict=True)):
        raise TracedValueError(
            "shape-mismatch for sum",
            code="TG128",
            span=user_span(),
            found=f"shapes {x.type.shape} and {y.type.shape}, axes {first} and {second}",
            help="the summed axes must have equal sizes",
        )
    return _returned(contract(x, y, (left, right)), dtype)


@covers(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Tracer:
    """Multiply a chain of matrices in the cheapest order."""
    parts = [asarray(a) for a in arrays]
    if len(parts) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = parts[0].ndim, parts[-1].ndim
    if first == 1:
        parts[0] = reshape(parts[0], (1, *parts[0].type.shape))
    if last == 1:
        parts[-1] = reshape(parts[-1], (*parts[-1].type.shape, 1))
    result = _chain(parts)
    shape = result.type.shape
    return reshape(result, (*(shape[:1] if first > 1 else ()), *(shape[1:] if last > 1 else ())))


def _chain(parts: list[Tracer]) -> Tracer:
    if len(parts) == 1:
        return parts[0]
    sizes: list[Any] = [*[p.type.shape[0] for p in parts], parts[-1].type.shape[1]]
    if not all(isinstance(s, int) for s in sizes):
        return dot(_chain(parts[:-1]), parts[-1])
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for width in range(1, len(parts) + 1):
        for i in range(len(parts) - width + 1):
            j = i + width
            costs = ((best[i, k][0] + best[k, j][0] + sizes[i] * sizes[k] * sizes[j], k) for k in range(i + 1, j))
            best[i, j] = min(costs, default=(0, i))
    split = best[0, len(parts)][1]
    return dot(_chain(parts[:split]), _chain(parts[split:]))


# ---- einsum


def _parse_einsum(operands: Sequence[Any]) -> tuple[list[str], str, list[Tracer]]:
    """Return one label per axis of each operand, the labels of the result, and the operands.

    The axes of an ellipsis get labels of their own.
    """
    if isinstance(operands[0], str):
        text, arrays = operands[0].replace(" ", ""), [asarray(o) for o in operands[1:]]
    else:
        arrays, lists = [asarray(o) for o in operands[: len(operands) // 2 * 2 : 2]], list(operands[1::2])
        if len(operands) % 2:
            output = operands[-1]
        else:
            output = None
        letters = string.ascii_letters
        spelled = ["".join("..." if k is Ellipsis else letters[k] for k in axes) for axes in (*lists, output or ())]
        text = ",".join(spelled[:-1]) + ("" if output is None else "->" + spelled[-1])
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(arrays):
        raise ValueError("number of einsum subscripts must be equal to the number of operands")
    for label in text.replace("->", "").replace(",", "").replace("...", ""):
        if label not in string.ascii_letters:
            raise ValueError(
                f"invalid subscript '{label}' in einstein sum subscripts string, subscripts must be letters"
            )
    depth = 0
    for term, array in zip(terms, arrays, strict=True):
        if "..." in term:
            depth = max(depth, array.ndim - len(term.replace("...", "")))
    dots = "".join(chr(0x100 + k) for k in range(depth))
    expanded = []
    for term, array in zip(terms, arrays, strict=True):
        count = array.ndim - len(term.replace("...", ""))
        if count < 0 or ("..." not in term and count):
            raise ValueError(
                f"einstein sum subscripts string {term!r} does not fit an operand of {array.ndim} dimensions"
            )
        expanded.append(term.replace("...", dots[depth - count :]))
    if arrow:
        output_term = result.replace("...", dots)
    else:
        labels = "".join(expanded)
        output_term = dots + "".join(sorted(c for c in set(labels) if labels.count(c) == 1 and c not in dots))
    for label in output_term:
        if output_term.count(label) > 1 or label not in "".join(expanded):
            raise ValueError(f"einsum output subscript '{label}' never appeared or is repeated")
    return expanded, output_term, arrays


@covers(np.einsum, native=False)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, **kwargs: Any) -> Tracer:
    if kwargs.keys() - {"order", "casting"}:
        raise unsupported(f"np.einsum with {', '.join(kwargs)}", "leave it out")
    terms, output, arrays = _parse_einsum(operands)
    if len(arrays) == 1 and dtype is None and len(set(terms[0])) == len(terms[0]) == len(output):
        return permuted_view(arrays[0], [terms[0].index(label) for label in output])
    is_diagonal = len(arrays) == 1 and set(terms[0]) == set(output)
    if is_known(arrays) and not is_diagonal:
        options = {"dtype": dtype, "optimize": optimize, **kwargs}
        return from_concrete(np.einsum(*as_known(operands), **options))
    given = arrays
    arrays, kind = _promoted(*arrays)
    if dtype is not None:
        kind = np.dtype(dtype)
        arrays = [cast_to(a, kind) for a in arrays]
    sizes: dict[str, Any] = {}
    for term, array in zip(terms, arrays, strict=True):
        for label, size in zip(term, array.type.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                raise TracedValueError(
                    "einsum operands do not fit together",
                    code="TG128",
                    span=user_span(),
                    found=f"sizes {sizes[label]} and {size} of {label!r}",
                    help="an index must have one size everywhere",
                )
    parts = [_one_of_each(a, t, sizes) for a, t in zip(arrays, terms, strict=True)]
    while len(parts) > 1:
        i, j = _cheapest(parts, output, sizes)
        second, first = parts.pop(j), parts.pop(i)
        kept = set(output).union(*[t for _, t in parts])
        parts.append(_contract_pair(first, second, kept))
    array, term = _sum_out(*parts[0], set(output))
    missing = [label for label in output if label not in term]
    assert not missing, "every output label is in an operand"
    made = _returned(transpose(array, [term.index(label) for label in output]), kind).copy()
    if is_diagonal:  # NumPy makes a view
        share(made.root._storage, given[0].root._storage)
    if made.ndim > 1 and all(a.is_contiguous for a in given):
        is_known_order = len(given) == 1 or not optimize
        set_layout(made, dense_layout(made.type.shape, _order_of_axes(terms, output)) if is_known_order else None)
    return made


def _order_of_axes(terms: Sequence[str], output: str) -> list[int]:
    """Return the axes of an einsum of arrays in C order as they lie in memory, outermost first."""
    letters = dict(zip(dict.fromkeys("".join(terms)), string.ascii_letters, strict=False))
    text = ",".join("".join(letters[label] for label in term) for term in terms)
    small = np.einsum(
        f"{text}->{''.join(letters[label] for label in output)}", *[np.ones((2,) * len(term)) for term in terms]
    )
    return sorted(range(small.ndim), key=lambda k: -small.strides[k])


def _one_of_each(array: Tracer, term: str, sizes: dict[str, Any]) -> tuple[Tracer, str]:
    """Take the diagonal of labels that occur twice in one operand, and stretch sizes of 1."""
    shape = tuple(sizes[label] for label in term)
    array = spread(array, shape)
    while (label := next((c for c in term if term.count(c) > 1), None)) is not None:
        first = term.index(label)
        second = term.index(label, first + 1)
        step = iota((sizes[label],))
        array = gather(array, [step, step], (first, second))
        term = label + "".join(c for k, c in enumerate(term) if k not in (first, second))
    return array, term


def _sum_out(array: Tracer, term: str, kept: set[str]) -> tuple[Tracer, str]:
    axes = tuple(k for k, label in enumerate(term) if label not in kept)
    if not axes:
        return array, term
    return apply(ops.reduce_sum, array, axes=axes), "".join(c for c in term if c in kept)


def _cheapest(parts: Sequence[tuple[Tracer, str]], output: str, sizes: dict[str, Any]) -> tuple[int, int]:
    """Return the pair whose product is smallest beside its operands; the first two when sizes are symbolic."""
    if len(parts) == 2 or not all(isinstance(s, int) for s in sizes.values()):
        return 0, 1

    def cost(i: int, j: int) -> tuple[int, int]:
        kept = set(output).union(*[t for k, (_, t) in enumerate(parts) if k not in (i, j)])
        both = set(parts[i][1]) | set(parts[j][1])
        result = math.prod(sizes[c] for c in both & kept)
        given = sum(math.prod(sizes[c] for c in parts[k][1]) for k in (i, j))
        return result - given, math.prod(sizes[c] for c in both)

    pairs = [(i, j) for i in range(len(parts)) for j in range(i + 1, len(parts))]
    return min(pairs, key=lambda pair: cost(*pair))


def _contract_pair(first: tuple[Tracer, str], second: tuple[Tracer, str], kept: set[str]) -> tuple[Tracer, str]:
    x, left = _sum_out(*first, kept | set(second[1]))
    y, right = _sum_out(*second, kept | set(left))
    shared = [c for c in left if c in right]
    summed = [c for c in shared if c not in kept]
    batch = [c for c in shared if c in kept]
    free_left = [c for c in left if c not in shared]
    free_right = [c for c in right if c not in shared]
    if not summed:  # no sum: an elementwise product
        term = "".join([*batch, *free_left, *free_right])
        x = transpose(x, [left.index(c) for c in (*batch, *free_left)])
        y = transpose(y, [right.index(c) for c in (*batch, *free_right)])
        x = reshape(x, (*x.type.shape, *[1] * len(free_right)))
        y = reshape(y, insert_dims(y.type.shape, range(len(batch), len(batch) + len(free_left))))
        return multiply(x, y), term
    result = contract(
        x,
        y,
        ([left.index(c) for c in summed], [right.index(c) for c in summed]),
        ([left.index(c) for c in batch], [right.index(c) for c in batch]),
    )
    return result, "".join([*batch, *free_left, *free_right])


# ---- kron, cross


@covers(np.kron)
def kron(a: Any, b: Any) -> Tracer:
    (x, y), dtype = _promoted(a, b)
    ndim = max(x.ndim, y.ndim)
    first = (1,) * (ndim - x.ndim) + x.type.shape
    second = (1,) * (ndim - y.ndim) + y.type.shape
    left = reshape(x, tuple(v for d in first for v in (d, 1)))
    right = reshape(y, tuple(v for d in second for v in (1, d)))
    result = multiply(left, right)
    return _returned(reshape(result, tuple(d * e for d, e in zip(first, second, strict=True))), dtype)


@covers(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Tracer:
    if axis is not None:
        axisa = axisb = axisc = axis
    (x, y), _ = _promoted(a, b)
    x, y = move_axis(x, as_axis(axisa, x.ndim), x.ndim - 1), move_axis(y, as_axis(axisb, y.ndim), y.ndim - 1)
    if x.type.shape[-1] not in (2, 3) or y.type.shape[-1] not in (2, 3):
        raise _mismatch("np.cross (dimension must be 2 or 3)", x, y)

    def part(t: Tracer, k: int) -> Tracer | None:
        return None if k == 2 == t.type.shape[-1] else asarray(getitem(t, (Ellipsis, k)))

    def minor(i: int, j: int) -> Tracer:
        plus, minus = _times(part(x, i), part(y, j)), _times(part(x, j), part(y, i))
        if plus is None:
            assert minus is not None, "one of two products exists"
            return negative(minus)
        return plus if minus is None else subtract(plus, minus)

    if x.type.shape[-1] == 2 and y.type.shape[-1] == 2:
        return minor(0, 1)
    parts = [minor(1, 2), minor(2, 0), minor(0, 1)]
    shape = broadcast_shapes(*[p.type.shape for p in parts])
    result = join([reshape(spread(p, shape), (*shape, 1)) for p in parts], len(shape))
    return move_axis(result, len(shape), as_axis(axisc, len(shape) + 1)).copy()


@covers(np.linalg.cross)
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tracer:
    return cross(x1, x2, axis=axis)


@covers(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Tracer:
    return matmul(x1, x2)


def _times(x: Tracer | None, y: Tracer | None) -> Tracer | None:
    return None if x is None or y is None else multiply(x, y)


# ---- convolution


def _sliding(x: Tracer, taps: Tracer, mode: str) -> Tracer:
    """Return sums of products of a longer vector with a shorter one at every offset, by NumPy's mode of convolve."""
    n, m = x.type.shape[0], taps.type.shape[0]
    border = m - 1
    low, high, count = {
        "full": (border, border, n + m - 1),
        "same": (border - border // 2, border // 2, n),
        "valid": (0, 0, n - m + 1),
    }[mode]
    padded = apply(ops.pad, x, low=(low,), high=(high,), interior=(0,)) if mode != "valid" else x
    shape = (count, m)
    windows = gather(padded, [add(iota(shape, 0), iota(shape, 1))], (0,))
    return contract(windows, taps, ((1,), (0,)))


_MODES = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}


def _mode(mode: Any) -> str:
    name = _MODES.get(mode, mode)
    if name not in ("valid", "same", "full"):
        raise ValueError(f"convolve mode must be one of 'valid', 'same', or 'full', got {mode!r}")
    return name  # type: ignore[no-any-return]


@covers(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Tracer:
    (x, y), dtype = _promoted(a, v)
    x, y = (reshape(t, (t.type.size,)) for t in (x, y))
    if x.type.shape[0] == 0 or y.type.shape[0] == 0:
        raise ValueError("a cannot be empty")
    if decide(y.type.shape[0] - x.type.shape[0], ">"):
        x, y = y, x
    return _returned(_sliding(x, apply(ops.flip, y, axes=(0,)), _mode(mode)), dtype)


@covers(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Tracer:
    (x, y), dtype = _promoted(a, v)
    y = conjugate(y) if is_complex(y.dtype) else y
    if decide(y.type.shape[0] - x.type.shape[0], ">"):
        # the shorter slides: the result runs backwards
        swapped = apply(ops.flip, _correlated(y, x, _mode(mode)), axes=(0,))
        return _returned(swapped, dtype)
    return _returned(_correlated(x, y, _mode(mode)), dtype)


def _correlated(x: Tracer, y: Tracer, mode: str) -> Tracer:
    """Slide the shorter `y`; of the full result `same` keeps the middle as long as `x`."""
    if mode != "same":
        return _sliding(x, y, mode)
    start = (y.type.shape[0] - 1) // 2
    return asarray(getitem(_sliding(x, y, "full"), slice(start, start + x.type.shape[0])))


# ---- polynomials


@covers(np.polyval)
def polyval(p: Any, x: Any) -> Tracer:
    """Evaluate by Horner's rule."""
    coefficients, point = asarray(p), asarray(x)
    dtype = np.result_type(coefficients.dtype, point.dtype)
    point = cast_to(point, dtype)
    result = call_handler(np.zeros_like, point)
    for k in range(operator.index(coefficients.shape[0])):
        result = add(multiply(result, point), cast_to(asarray(getitem(coefficients, k)), dtype))
    return cast_to(result, dtype)


@covers(np.polyder)
def polyder(p: Any, m: int = 1) -> Tracer:
    result = asarray(p)
    for _ in range(operator.index(m)):
        degree = operator.index(result.shape[0]) - 1
        result = multiply(getitem(result, slice(None, -1)), np.arange(degree, 0, -1))
    return result


@covers(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Tracer:
    result = asarray(p)
    result = result if is_inexact(result.dtype) else cast_to(result, F64)
    times = operator.index(m)
    constants = call_handler(np.broadcast_to, call_handler(np.ravel, asarray(0.0 if k is None else k)), (times,))
    for number in range(times):
        scaled = call_handler(np.divide, result, np.arange(operator.index(result.shape[0]), 0, -1))
        result = join([scaled, cast_to(getitem(constants, slice(number, number + 1)), scaled.dtype)], 0)
    return result


@covers(np.polymul)
def polymul(a1: Any, a2: Any) -> Tracer:
    return convolve(a1, a2)


@covers(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Tracer:
    return _poly_sum(a1, a2, add)


@covers(np.polysub)
def polysub(a1: Any, a2: Any) -> Tracer:
    return _poly_sum(a1, a2, subtract)


def _poly_sum(a1: Any, a2: Any, combine: Any) -> Tracer:
    x, y = asarray(a1), asarray(a2)
    size = max(operator.index(x.shape[0]), operator.index(y.shape[0]))
    x, y = (
        apply(ops.pad, t, low=(size - t.type.shape[0],), high=(0,), interior=(0,)) if t.type.shape[0] != size else t
        for t in (x, y)
    )
    return combine(x, y)  # type: ignore[no-any-return]


@covers(np.roots, np.poly)
def refuse_polynomials(*args: Any, **kwargs: Any) -> Any:
    raise unsupported("np.roots or np.poly of traced values", "find the roots by Newton's method in the function")

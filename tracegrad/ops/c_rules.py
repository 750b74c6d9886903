"""C texts of ops that are not elementwise: how an element of a view is read, and statements that fill a result.

Used in the `c` and `c_statement` fields of records; emission itself is in codegen/. Previous: helpers.py;
next: creation.py.
An index is a dimension expression per axis: ints and symbols, where a symbol may be any C expression.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Operation, Value
from tracegrad.ir.opdef import CEmitter
from tracegrad.ir.types import DTYPES, F32, I64, Dim, Shape, complex_dtype, is_complex, is_inexact, real_dtype


def c_suffix(dtype: np.dtype[Any]) -> str:
    """Return the suffix of C mathematics functions for a dtype: `f` for single precision, else nothing."""
    return "f" if dtype in (F32, DTYPES["c64"]) else ""


# Views


def reshape_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read through a reshape: groups of axes with equal products go together, the rest by the row-major position."""
    (x,) = operation.operands
    source, target = emitter.shape(x), emitter.shape(operation.result)
    old: list[Dim] = [0] * len(source)
    for (a, b), (c, d) in _groups(source, target):
        position: Dim = 0
        for k in range(c, d):
            position = position * target[k] + index[k]
        wide = [k for k in range(a, b) if source[k] != 1]
        if len(wide) == 1:
            old[wide[0]] = position
        elif len(wide) > 1:
            if not isinstance(position, int):
                return emitter.element_flat(x, _position(index, target))
            for k in reversed(range(a, b)):
                size = source[k]
                if not isinstance(size, int):
                    return emitter.element_flat(x, _position(index, target))
                position, old[k] = divmod(position, size)
    return emitter.element(x, old)


def _groups(source: Shape, target: Shape) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield ranges of axes of two shapes whose products are equal, as short as possible."""
    a = c = 0
    b = d = 0
    left: Dim = 1
    right: Dim = 1
    while b < len(source) or d < len(target):
        if b == len(source):
            d = len(target)
        elif d == len(target):
            b = len(source)
        elif b == a and d == c:
            left, right = source[b], target[d]
            b, d = b + 1, d + 1
        elif _size_key(left) <= _size_key(right):
            left, b = left * source[b], b + 1
        else:
            right, d = right * target[d], d + 1
        if left == right and b > a and d > c:
            yield (a, b), (c, d)
            a, c, left, right = b, d, 1, 1
    if b > a or d > c:
        yield (a, b), (c, d)


def _size_key(dim: Dim) -> int:
    return dim if isinstance(dim, int) else dim.evaluate(dict.fromkeys(dim.symbols(), 1009))


def _position(index: Sequence[Dim], shape: Shape) -> Dim:
    position: Dim = 0
    for i, d in zip(index, shape, strict=True):
        position = position * d + i
    return position


def transpose_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read through a transpose."""
    axes = operation.attrs["axes"]
    return emitter.element(operation.operands[0], [index[axes.index(k)] for k in range(len(axes))])


def broadcast_to_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read through a broadcast: position 0 along axes that stretch."""
    (x,) = operation.operands
    new = len(index) - len(x.shape)
    target = operation.result.shape
    return emitter.element(
        x, [i if d == target[new + k] else 0 for k, (i, d) in enumerate(zip(index[new:], x.shape, strict=True))]
    )


def slice_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read through a slice."""
    start, step = operation.attrs["start"], operation.attrs["step"]
    places = [emitter.sizes(a) + i * s for i, a, s in zip(index, start, step, strict=True)]
    return emitter.element(operation.operands[0], places)


def flip_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read backwards along axes."""
    (x,) = operation.operands
    axes, shape = operation.attrs["axes"], emitter.shape(x)
    return emitter.element(x, [shape[k] - 1 - i if k in axes else i for k, i in enumerate(index)])


def pad_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read an element of the operand, or zero outside it."""
    (x,) = operation.operands
    low, interior = operation.attrs["low"], operation.attrs["interior"]
    places: list[Dim] = []
    conditions: list[str] = []
    for k, (i, size) in enumerate(zip(index, emitter.shape(x), strict=True)):
        moved, step = i - emitter.sizes(low[k]), interior[k] + 1
        if isinstance(moved, int) and isinstance(size, int):
            if moved < 0 or moved % step or moved // step >= size:
                return emitter.literal(0, x.dtype)
            places.append(moved // step)
            continue
        last = (size - 1) * step
        if emitter.sizes(low[k]) != 0:
            conditions.append(
                f"{emitter.dim(moved)} >= 0" if step != 1 else f"{emitter.dim(i)} >= {emitter.dim(low[k])}"
            )
        if emitter.sizes(operation.attrs["high"][k]) != 0:
            conditions.append(f"{emitter.dim(i)} <= {emitter.dim(emitter.sizes(low[k]) + last)}")
        if step != 1:
            conditions.append(emitter.fill("{x} % {n} == 0", {"x": emitter.dim(moved), "n": str(step)}))
        places.append(moved // step)
    value = emitter.element(x, places)
    if not conditions:
        return value
    return emitter.fill(
        "{c} ? {x} : {zero}", {"c": " && ".join(conditions), "x": value, "zero": emitter.literal(0, x.dtype)}
    )


def concatenate_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read from the piece that holds an element; the place along the axis must be constant."""
    axis = operation.attrs["axis"]
    place = index[axis]
    for piece in operation.operands:
        size = piece.shape[axis]
        assert isinstance(place, int) and isinstance(size, int), "pieces with variable bounds are copied by a statement"
        if place < size:
            return emitter.element(piece, [place if k == axis else i for k, i in enumerate(index)])
        place -= size
    raise AssertionError("index outside the concatenated array")


def gather_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Read at gathered places."""
    x, first, *_ = operation.operands
    axes, rank = operation.attrs["axes"], len(first.shape)
    chosen = dict(zip(axes, emitter.gather_index(operation, index[:rank]), strict=True))
    rest = iter(index[rank:])
    return emitter.element(x, [chosen[k] if k in chosen else next(rest) for k in range(len(x.shape))])


def iota_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The index itself, in the dtype of the result."""
    place, dtype = index[operation.attrs["axis"]], operation.attrs["dtype"]
    if isinstance(place, int):
        return emitter.literal(place, dtype)
    return (
        emitter.dim(place)
        if dtype == I64
        else emitter.fill(f"({emitter.ctype(dtype)}){{x}}", {"x": emitter.dim(place)})
    )


def full_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The number."""
    return emitter.literal(operation.attrs["value"], operation.result.dtype)


def constant_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """A literal, or an element of a table where the index is not constant."""
    value = operation.attrs["value"]
    if all(isinstance(i, int) for i in index):
        return emitter.literal(value[tuple(index)], value.dtype)
    if value.size and value.tobytes() == np.full_like(value, value.flat[0]).tobytes():  # -0.0 is not 0.0
        return emitter.literal(value.flat[0], value.dtype)
    return emitter.table(operation.result, index)


def dim_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The dimension."""
    return emitter.dim(operation.attrs["dim"])


def undefined_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """Zero."""
    return emitter.literal(0, operation.result.dtype)


# Small arrays with constant indices


def _in_slice(operation: Operation, index: Sequence[Dim]) -> list[Dim] | None:
    """Return where in the slice of the attributes an index falls, or None."""
    places: list[Dim] = []
    for i, a, b, s in zip(index, *(operation.attrs[k] for k in ("start", "stop", "step")), strict=True):
        if i == a and b - a == 1:
            places.append(0)
            continue
        assert isinstance(i, int) and isinstance(a, int) and isinstance(b, int)
        if not a <= i < b or (i - a) % s:
            return None
        places.append((i - a) // s)
    return places


def set_slice_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The new value inside the slice, the old one outside."""
    x, values = operation.operands
    place = _in_slice(operation, index)
    return emitter.element(x, index) if place is None else emitter.element(values, place)


def add_slice_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The old value, plus the new one inside the slice."""
    x, values = operation.operands
    place = _in_slice(operation, index)
    old = emitter.element(x, index)
    return old if place is None else emitter.plus(old, emitter.element(values, place))


def _scattered(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str | None:
    """Return the value that a scatter with constant scalar indices writes to an element, or None."""
    x, *indices, values = operation.operands
    rest: list[Dim] = []
    chosen = dict(zip(operation.attrs["axes"], indices, strict=True))
    for k, i in enumerate(index):
        if k in chosen:
            place, size = emitter.affine(chosen[k]), x.shape[k]
            assert isinstance(place, int) and isinstance(size, int) and isinstance(i, int)
            if i != (place if place >= 0 else place + size):
                return None
        else:
            rest.append(i)
    return emitter.element(values, rest)


def scatter_set_small_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The value written, or the old one."""
    value = _scattered(emitter, operation, index)
    return emitter.element(operation.operands[0], index) if value is None else value


def scatter_add_small_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """The old value, plus the value written if there is one."""
    value = _scattered(emitter, operation, index)
    old = emitter.element(operation.operands[0], index)
    return old if value is None else emitter.plus(old, value)


def reduce_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """A reduction of few elements, written out."""
    (x,) = operation.operands
    axes = operation.attrs["axes"]
    ranges = [range(int(d)) if k in axes else (None,) for k, d in enumerate(x.shape)]
    text = None
    for point in itertools.product(*ranges):
        kept = iter(index)
        element = emitter.element(x, [next(kept) if p is None else p for p in point])
        text = element if text is None else emitter.combine(operation, text, element)
    return emitter.initial(operation) if text is None else text


def dot_general_c(emitter: CEmitter, operation: Operation, index: Sequence[Dim]) -> str:
    """A short sum of products, written out."""
    x, y = operation.operands
    text = None
    for point in itertools.product(*(range(int(x.shape[a])) for a in operation.attrs["contract"][0])):
        place_x, place_y = dot_places(operation, index, point)
        product = emitter.times(x.dtype, emitter.element(x, place_x), emitter.element(y, place_y))
        text = product if text is None else emitter.plus(text, product)
    return emitter.literal(0, x.dtype) if text is None else text


def dot_places(operation: Operation, index: Sequence[Dim], inner: Sequence[Dim]) -> tuple[list[Dim], list[Dim]]:
    """Return the indices into both operands of a dot_general for a result index and positions along contracted axes."""
    x, y = operation.operands
    (cx, cy), (bx, by) = operation.attrs["contract"], operation.attrs["batch"]
    free = iter(index[len(bx) :])
    places = []
    for value, contracted, batch in ((x, cx, bx), (y, cy, by)):
        place: list[Dim] = []
        for k in range(len(value.shape)):
            if k in contracted:
                place.append(inner[contracted.index(k)])
            elif k in batch:
                place.append(index[batch.index(k)])
            else:
                place.append(next(free))
        places.append(place)
    return places[0], places[1]


# Statements: writes


def copy_to(emitter: CEmitter, target: Value, value: Value) -> None:
    """Write all elements of a value to the storage of another."""
    with emitter.loops(emitter.shape(value), simd="") as index:
        emitter.assign(emitter.store(target, index), emitter.element(value, index))


def _write_slice(emitter: CEmitter, operation: Operation, sign: str) -> None:
    x, values = operation.operands
    emitter.begin_from(operation.result, x)
    start, step = operation.attrs["start"], operation.attrs["step"]
    with emitter.loops(emitter.shape(values), simd="") as index:
        places = [emitter.sizes(a) + i * s for i, a, s in zip(index, start, step, strict=True)]
        target = emitter.store(operation.result, places)
        emitter.assign(target, emitter.element(values, index), add=bool(sign))


def set_slice_statement(emitter: CEmitter, operation: Operation) -> None:
    """Copy the values into the slice."""
    _write_slice(emitter, operation, "")


def add_slice_statement(emitter: CEmitter, operation: Operation) -> None:
    """Add the values to the slice."""
    _write_slice(emitter, operation, "+")


def _scatter(emitter: CEmitter, operation: Operation, sign: str) -> None:
    x, *indices, values = operation.operands
    emitter.begin_from(operation.result, x)
    shape = emitter.shape(x)
    rank = len(indices[0].shape) if indices else 0
    axes = operation.attrs["axes"]
    with emitter.loops(emitter.shape(indices[0]) if indices else ()) as batch:
        chosen = {
            axis: emitter.checked_index(v, batch, shape[axis], axis, operation.span)
            for v, axis in zip(indices, axes, strict=True)
        }
        with emitter.loops(emitter.shape(values)[rank:], simd="") as rest:
            remaining = iter(rest)
            place = [chosen[k] if k in chosen else next(remaining) for k in range(len(shape))]
            target = emitter.store(operation.result, place)
            emitter.assign(target, emitter.element(values, [*batch, *rest]), add=bool(sign))


def scatter_set_statement(emitter: CEmitter, operation: Operation) -> None:
    """Write the values to their places."""
    _scatter(emitter, operation, "")


def scatter_add_statement(emitter: CEmitter, operation: Operation) -> None:
    """Add the values to their places."""
    _scatter(emitter, operation, "+")


def concatenate_statement(emitter: CEmitter, operation: Operation) -> None:
    """Copy piece after piece."""
    axis = operation.attrs["axis"]
    start: Dim = 0
    for piece in operation.operands:
        with emitter.loops(emitter.shape(piece), simd="") as index:
            place = [i + start if k == axis else i for k, i in enumerate(index)]
            emitter.assign(emitter.store(operation.result, place), emitter.element(piece, index))
        start = start + emitter.shape(piece)[axis]


# Statements: running operations and searches


def _along(emitter: CEmitter, operation: Operation) -> tuple[Shape, Dim, int]:
    shape, axis = emitter.shape(operation.operands[0]), operation.attrs["axis"]
    return (*shape[:axis], *shape[axis + 1 :]), shape[axis], axis


def _at(rest: Sequence[Dim], axis: int, place: Dim) -> list[Dim]:
    return [*rest[:axis], place, *rest[axis:]]


def scan_statement(emitter: CEmitter, operation: Operation) -> None:
    """Run along an axis with the running value in a variable."""
    x = operation.operands[-1]
    others, size, axis = _along(emitter, operation)
    with emitter.loops(others) as rest:
        total = emitter.fresh("running")
        emitter.line(f"{emitter.local_ctype(x.dtype)} {total} = {emitter.initial(operation)};")
        with emitter.loops((size,)) as (k,):
            place = _at(rest, axis, size - 1 - k if operation.attrs.get("reverse") else k)
            if operation.op == "linear_recurrence":
                factor, term = (emitter.element(v, place) for v in operation.operands)
                emitter.assign(total, emitter.plus(emitter.times(x.dtype, factor, total), term))
            else:
                emitter.assign(total, emitter.combine(operation, total, emitter.element(x, place)))
            emitter.assign(emitter.store(operation.result, place), total)


def search_statement(emitter: CEmitter, operation: Operation) -> None:
    """Find the first extreme, or the first NaN, along an axis."""
    (x,) = operation.operands
    others, size, axis = _along(emitter, operation)
    sign = ">" if operation.op == "argmax" else "<"
    with emitter.loops(others) as rest:
        best, place = emitter.fresh("best"), emitter.fresh("place")
        emitter.line(f"{emitter.local_ctype(x.dtype)} {best} = {emitter.element(x, _at(rest, axis, 0))};")
        emitter.line(f"int64_t {place} = 0;")
        with emitter.loops((size,)) as (k,):
            candidate = emitter.fresh("candidate")
            emitter.line(
                f"const {emitter.local_ctype(x.dtype)} {candidate} = {emitter.element(x, _at(rest, axis, k))};"
            )
            nan = f" || (isnan({candidate}) && !isnan({best}))" if x.dtype.kind == "f" else ""
            with emitter.braces(f"if ({candidate} {sign} {best}{nan})"):
                emitter.line(f"{best} = {candidate};")
                emitter.line(f"{place} = {emitter.dim(k)};")
        emitter.assign(emitter.store(operation.result, rest), place)


def argsort_statement(emitter: CEmitter, operation: Operation) -> None:
    """Sort positions along an axis by the merge sort of the prelude."""
    (x,) = operation.operands
    others, size, axis = _along(emitter, operation)
    scratch = emitter.scratch(I64, size * 2)
    name = emitter.helper("tg_argsort", x.dtype)
    shape = emitter.shape(x)
    stride = math.prod(shape[axis + 1 :])
    with emitter.loops(others) as rest:
        first = emitter.dim(_position(_at(rest, axis, 0), shape))
        source, target = (emitter.pointer(v) + (f" + {first}" if first != "0" else "") for v in (x, operation.result))
        emitter.line(
            f"{name}({source}, {emitter.dim(stride)}, {emitter.dim(size)}, {target}, {emitter.dim(stride)}, {scratch});"
        )


# Statements: linear algebra


def dot_general_statement(emitter: CEmitter, operation: Operation) -> None:
    """A matrix product by the prelude (and BLAS), else loops with a sum, or updates of rows when that is contiguous."""
    x, y = operation.operands
    (cx, cy), (bx, by) = operation.attrs["contract"], operation.attrs["batch"]
    result = operation.result
    if is_inexact(x.dtype) and _matrix_product(emitter, operation):
        return
    shape = emitter.shape(result)
    inner = tuple(emitter.shape(x)[a] for a in cx)
    free_x, free_y = len(x.shape) - len(cx) - len(bx), len(y.shape) - len(cy) - len(by)
    by_rows = (free_x == 0 and free_y > 0 and cy and max(cy) < len(y.shape) - 1) or (
        free_y == 0 and free_x > 0 and cx and max(cx) < len(x.shape) - 1
    )
    if by_rows:
        batch = shape[: len(bx)]
        with emitter.loops(batch) as outer:
            with emitter.loops(shape[len(bx) :], simd="") as index:
                emitter.assign(emitter.store(result, [*outer, *index]), emitter.literal(0, x.dtype))
            with emitter.loops(inner) as summed, emitter.loops(shape[len(bx) :], simd="") as index:
                target = emitter.store(result, [*outer, *index])
                place_x, place_y = dot_places(operation, [*outer, *index], summed)
                product = emitter.times(x.dtype, emitter.element(x, place_x), emitter.element(y, place_y))
                emitter.assign(target, product, add=True)
        return
    with emitter.loops(shape) as index:
        total = emitter.fresh("sum")
        emitter.line(f"{emitter.local_ctype(x.dtype)} {total} = {emitter.literal(0, x.dtype)};")
        with emitter.loops(inner, simd=f"reduction(+ : {total})") as summed:
            place_x, place_y = dot_places(operation, index, summed)
            product = emitter.times(x.dtype, emitter.element(x, place_x), emitter.element(y, place_y))
            emitter.assign(total, product, add=True)
        emitter.assign(emitter.store(result, index), total)


def _matrix_product(emitter: CEmitter, operation: Operation) -> bool:
    """Write a product as calls of tg_matmul, one per matrix of the batch; return whether it has that form."""
    operands = []
    (cx, cy), (bx, by) = operation.attrs["contract"], operation.attrs["batch"]
    for value, contracted, batch in zip(operation.operands, (cx, cy), (bx, by), strict=True):
        axes = tuple(range(len(value.shape)))
        if value.producer is not None and value.producer.op == "transpose":
            axes, value = value.producer.attrs["axes"], value.producer.operands[0]
        inner, stack = [axes[k] for k in contracted], [axes[k] for k in batch]
        free = [a for k, a in enumerate(axes) if k not in contracted and k not in batch]
        if not inner or not free or stack != list(range(len(stack))):
            return False
        rest = list(range(len(stack), len(axes)))
        if [*free, *inner] == rest:
            operands.append((value, free, inner, False))
        elif [*inner, *free] == rest:
            operands.append((value, free, inner, True))
        else:
            return False
    (x, free_x, inner_x, first_x), (y, free_y, _, first_y) = operands
    shape_x, shape_y = emitter.shape(x), emitter.shape(y)
    rows = math.prod(shape_x[a] for a in free_x)
    inner = math.prod(shape_x[a] for a in inner_x)
    columns = math.prod(shape_y[a] for a in free_y)
    name = emitter.helper("tg_matmul", x.dtype)
    batch_shape = shape_x[: len(bx)]
    pointers = [emitter.pointer(v) for v in (x, y, operation.result)]
    exchanged = x.dtype == F32 and not first_x and not first_y and _is_flat(rows, columns, inner)
    turned = emitter.scratch(x.dtype, rows * columns) if exchanged else ""
    with emitter.loops(batch_shape) as index:
        number = _position(index, batch_shape)
        left, right, target = (
            emitter.offset(p, number * size)
            for p, size in zip(pointers, (rows * inner, inner * columns, rows * columns), strict=True)
        )
        if exchanged:
            sizes = ", ".join(emitter.dim(d) for d in (columns, rows, inner))
            emitter.line(f"{name}(0, 1, {sizes}, {right}, {left}, {turned});")
            with emitter.loops((rows, columns), simd="") as (i, j):
                source, place = emitter.dim(j * rows + i), emitter.dim(i * columns + j)
                emitter.line(f"{_primary(target)}[{place}] = {turned}[{source}];")
        else:
            flags = f"{int(first_x)}, {int(not first_y)}"
            sizes = ", ".join(emitter.dim(d) for d in (rows, columns, inner))
            emitter.line(f"{name}({flags}, {sizes}, {left}, {right}, {target});")
    return True


def _is_flat(rows: Dim, columns: Dim, inner: Dim) -> bool:
    """Return whether BLAS computes the transpose of x @ y.T faster: up to twice so in f32, where x has few rows."""
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(inner, int)):
        return False
    return 2 * rows <= columns and inner >= 64 and rows * columns * inner > 1 << 16


def _matrices(emitter: CEmitter, value: Value, rank: int = 2) -> tuple[Shape, Dim]:
    """Return the shape of a stack of matrices and the size of one."""
    shape = emitter.shape(value)
    return shape[: len(shape) - rank], math.prod(shape[len(shape) - rank :])


def _copy_matrix(emitter: CEmitter, source: str, target: str, size: Dim) -> None:
    with emitter.loops((size,), simd="") as (k,):
        emitter.line(f"{target}[{emitter.dim(k)}] = {source}[{emitter.dim(k)}];")


def solve_statement(emitter: CEmitter, operation: Operation) -> None:
    """Factor each matrix into scratch memory, then solve in the result."""
    a, b = operation.operands
    stack, size = _matrices(emitter, a)
    n, k = emitter.shape(b)[-2:]
    factors, pivots = emitter.scratch(a.dtype, size), emitter.scratch(I64, n)
    pointers = [emitter.pointer(v) for v in (a, b, operation.result)]
    with emitter.loops(stack) as index:
        number = _position(index, stack)
        source, right, target = (
            emitter.offset(p, number * s) for p, s in zip(pointers, (size, n * k, n * k), strict=True)
        )
        _copy_matrix(emitter, _primary(source), factors, size)
        _copy_matrix(emitter, _primary(right), _primary(target), n * k)
        factored = f"{emitter.helper('tg_lu', a.dtype)}({factors}, {pivots}, {emitter.dim(n)})"
        emitter.fault(f"!{factored}", "LinAlgError", "Singular matrix", operation.span)
        arguments = f"{factors}, {pivots}, {target}, {emitter.dim(n)}, {emitter.dim(k)}"
        emitter.line(f"{emitter.helper('tg_lu_solve', a.dtype)}({arguments});")


def inv_statement(emitter: CEmitter, operation: Operation) -> None:
    """Solve for the identity matrix."""
    (a,) = operation.operands
    stack, size = _matrices(emitter, a)
    n = emitter.shape(a)[-1]
    factors, pivots = emitter.scratch(a.dtype, size), emitter.scratch(I64, n)
    pointers = [emitter.pointer(v) for v in (a, operation.result)]
    with emitter.loops(stack) as index:
        number = _position(index, stack)
        source, target = (emitter.offset(p, number * size) for p in pointers)
        _copy_matrix(emitter, _primary(source), factors, size)
        with emitter.loops((n, n)) as (i, j):
            one = (
                f"{emitter.dim(i)} == {emitter.dim(j)} ? {emitter.literal(1, a.dtype)} : {emitter.literal(0, a.dtype)}"
            )
            emitter.line(f"{_primary(target)}[{emitter.dim(i * n + j)}] = {one};")
        factored = f"{emitter.helper('tg_lu', a.dtype)}({factors}, {pivots}, {emitter.dim(n)})"
        emitter.fault(f"!{factored}", "LinAlgError", "Singular matrix", operation.span)
        arguments = f"{factors}, {pivots}, {target}, {emitter.dim(n)}, {emitter.dim(n)}"
        emitter.line(f"{emitter.helper('tg_lu_solve', a.dtype)}({arguments});")


def determinant_statement(emitter: CEmitter, operation: Operation) -> None:
    """Multiply the pivots of the LU factors (det), or their signs and add their logarithms (slogdet)."""
    (a,) = operation.operands
    stack, size = _matrices(emitter, a)
    n = emitter.shape(a)[-1]
    real = real_dtype(a.dtype)
    suffix = c_suffix(a.dtype)
    factors, pivots = emitter.scratch(a.dtype, size), emitter.scratch(I64, n)
    pointer = emitter.pointer(a)
    type = emitter.local_ctype(a.dtype)
    with emitter.loops(stack) as index:
        _copy_matrix(emitter, _primary(emitter.offset(pointer, _position(index, stack) * size)), factors, size)
        sign, total = emitter.fresh("sign"), emitter.fresh("total")
        factored = f"{emitter.helper('tg_lu', a.dtype)}({factors}, {pivots}, {emitter.dim(n)})"
        is_det = operation.op == "det"
        emitter.line(f"{type} {sign} = {emitter.fill('({t}){x}'.replace('{t}', type), {'x': factored})};")
        if not is_det:
            emitter.line(f"{emitter.local_ctype(real)} {total} = {emitter.literal(0, real)};")
        with emitter.loops((n,)) as (i,):
            pivot = f"{factors}[{emitter.dim(i * n + i)}]"
            if is_det:
                emitter.assign(sign, emitter.times(a.dtype, sign, pivot))
            elif is_complex(a.dtype):
                modulus = emitter.fresh("modulus")
                emitter.line(f"const {emitter.local_ctype(real)} {modulus} = cabs{suffix}({pivot});")
                emitter.assign(sign, emitter.times(a.dtype, sign, f"{pivot}/{modulus}"))
                emitter.line(f"{total} += log{suffix}({modulus});")
            else:
                emitter.line(f"if ({pivot} < {emitter.literal(0, a.dtype)}) {sign} = -{sign};")
                emitter.line(f"{total} += log{suffix}(fabs{suffix}({pivot}));")
        emitter.assign(emitter.store(operation.results[0], index), sign)
        if not is_det:
            emitter.assign(emitter.store(operation.results[1], index), total)


def triangular_solve_statement(emitter: CEmitter, operation: Operation) -> None:
    """Substitute in place of a copy of the right sides."""
    a, b = operation.operands
    stack, size = _matrices(emitter, a)
    n, k = emitter.shape(b)[-2:]
    pointers = [emitter.pointer(v) for v in (a, b, operation.result)]
    flags = ", ".join(str(int(operation.attrs[f])) for f in ("lower", "transpose_a", "unit_diagonal"))
    with emitter.loops(stack) as index:
        number = _position(index, stack)
        source, right, target = (
            emitter.offset(p, number * s) for p, s in zip(pointers, (size, n * k, n * k), strict=True)
        )
        _copy_matrix(emitter, _primary(right), _primary(target), n * k)
        arguments = f"{source}, {target}, {emitter.dim(n)}, {emitter.dim(k)}, {flags}"
        call = f"{emitter.helper('tg_triangular_solve', a.dtype)}({arguments})"
        emitter.fault(f"!{call}", "LinAlgError", "Singular matrix", operation.span)


def cholesky_statement(emitter: CEmitter, operation: Operation) -> None:
    """Factor matrix by matrix."""
    (a,) = operation.operands
    stack, size = _matrices(emitter, a)
    pointers = [emitter.pointer(v) for v in (a, operation.result)]
    with emitter.loops(stack) as index:
        source, target = (emitter.offset(p, _position(index, stack) * size) for p in pointers)
        call = f"{emitter.helper('tg_cholesky', a.dtype)}({source}, {target}, {emitter.dim(emitter.shape(a)[-1])})"
        emitter.fault(f"!{call}", "LinAlgError", "Matrix is not positive definite", operation.span)


def has_factor_statement(emitter: CEmitter, operation: Operation) -> None:
    """Try to factor matrix by matrix: by Cholesky (is_positive_definite) or into LU (is_regular)."""
    (a,) = operation.operands
    stack, size = _matrices(emitter, a)
    n = emitter.dim(emitter.shape(a)[-1])
    is_lu = operation.op == "is_regular"
    factors = emitter.scratch(a.dtype, size)
    pivots = emitter.scratch(I64, emitter.shape(a)[-1]) if is_lu else ""
    pointer = emitter.pointer(a)
    with emitter.loops(stack) as index:
        source = emitter.offset(pointer, _position(index, stack) * size)
        if is_lu:
            _copy_matrix(emitter, _primary(source), factors, size)
            call = f"{emitter.helper('tg_lu', a.dtype)}({factors}, {pivots}, {n})"
        else:
            call = f"{emitter.helper('tg_cholesky', a.dtype)}({source}, {factors}, {n})"
        emitter.assign(emitter.store(operation.result, index), f"{call} != 0")


def cofactor_statement(emitter: CEmitter, operation: Operation) -> None:
    """Determinants of minors, row by row and column by column."""
    (a,) = operation.operands
    stack, size = _matrices(emitter, a)
    n = emitter.shape(a)[-1]
    minor, pivots = emitter.scratch(a.dtype, size), emitter.scratch(I64, n)
    pointers = [emitter.pointer(v) for v in (a, operation.result)]
    with emitter.loops(stack) as index:
        source, target = (emitter.offset(p, _position(index, stack) * size) for p in pointers)
        emitter.line(
            f"{emitter.helper('tg_cofactor', a.dtype)}({source}, {target}, {emitter.dim(n)}, {minor}, {pivots});"
        )


def _factorization(
    emitter: CEmitter, operation: Operation, sizes: Sequence[Dim], scratch: Dim, given: str = "", failure: str = ""
) -> None:
    """Call the function of the prelude named after the op, per matrix.

    Its arguments are the operands, the results, the sizes, `given`, and so many elements of scratch memory. When
    `failure` is a message, it returns 0 where that happens.
    """
    a, *numbers = operation.operands
    stack, _ = _matrices(emitter, a)
    room = emitter.scratch(a.dtype, scratch)
    arrays = [a, *operation.results]
    pointers = [emitter.pointer(v) for v in arrays]
    counts = [math.prod(emitter.shape(v)[len(stack) :]) for v in arrays]
    with emitter.loops(stack) as index:
        number = _position(index, stack)
        source, *targets = (emitter.offset(p, number * c) for p, c in zip(pointers, counts, strict=True))
        elements = [emitter.element(v, index) for v in numbers]
        arguments = [source, *elements, *targets, *map(emitter.dim, sizes), *([given] if given else []), room]
        call = f"{emitter.helper(f'tg_{operation.op}', a.dtype)}({', '.join(arguments)})"
        if failure:
            emitter.fault(f"!{call}", "LinAlgError", failure, operation.span)
        else:
            emitter.line(f"{call};")


def eigh_statement(emitter: CEmitter, operation: Operation) -> None:
    """Diagonalize matrix by matrix."""
    n = emitter.shape(operation.operands[0])[-1]
    lower = str(int(operation.attrs["lower"]))
    _factorization(emitter, operation, (n,), n * (2 * n + 3), lower, "Eigenvalues did not converge")


def svd_statement(emitter: CEmitter, operation: Operation) -> None:
    """Rotate matrix by matrix until the rows, or columns, are orthogonal."""
    m, n = emitter.shape(operation.operands[0])[-2:]
    small, great = (m, n) if operation.attrs["excess"] < 0 else (n, m)
    full = operation.attrs["full_matrices"]
    scratch = great * (great if full else small) + small * small
    _factorization(emitter, operation, (m, n), scratch, str(int(full)), "SVD did not converge")


def qr_statement(emitter: CEmitter, operation: Operation) -> None:
    """Reflect matrix by matrix."""
    m, n = emitter.shape(operation.operands[0])[-2:]
    _factorization(emitter, operation, (m, n), m * n + m + n)


def pinv_statement(emitter: CEmitter, operation: Operation) -> None:
    """Invert the singular values, matrix by matrix."""
    m, n = emitter.shape(operation.operands[0])[-2:]
    _factorization(emitter, operation, (m, n), m * n + n * (n + 1), "", "SVD did not converge")


def _primary(pointer: str) -> str:
    """Return a pointer expression that can be subscripted."""
    return pointer if pointer.isidentifier() else f"({pointer})"


# Statements: Fourier transforms


def fourier_statement(emitter: CEmitter, operation: Operation) -> None:
    """Transform line after line in a buffer, along one axis after the other."""
    attrs, result = operation.attrs, operation.result
    source = operation.operands[0]
    for axis in attrs["axes"] if "axes" in attrs else (attrs["axis"],):
        _transform_lines(emitter, operation, source, axis)
        source = result


def _transform_lines(emitter: CEmitter, operation: Operation, source: Value, axis: int) -> None:
    result, is_inverse = operation.result, operation.op in ("ifft", "irfft")
    given, made = emitter.shape(source), emitter.shape(result)
    count = made[axis] if operation.op == "irfft" else given[axis]
    dtype, n = complex_dtype(source.dtype), emitter.dim(count)
    roots, line, work = (emitter.scratch(dtype, count) for _ in range(3))
    emitter.line(f"{emitter.helper('tg_fft_roots', dtype)}({roots}, {n}, {1 if is_inverse else -1});")
    factor = _fourier_factor(emitter, operation.attrs["norm"], is_inverse, real_dtype(dtype), n)
    suffix = c_suffix(dtype)
    with emitter.loops((*given[:axis], *given[axis + 1 :])) as rest:
        with emitter.loops((given[axis],)) as (k,):
            emitter.assign(f"{line}[{emitter.dim(k)}]", emitter.element(source, _at(rest, axis, k)))
        if operation.op == "irfft":
            emitter.line(f"{line}[0] = creal{suffix}({line}[0]);")
            half = emitter.fresh("k")
            with emitter.braces(f"for (int64_t {half} = 1; 2*{half} <= {n}; {half}++)"):
                mirror = emitter.fill("{n} - {k}", {"n": n, "k": half})
                emitter.line(f"if (2*{half} == {n}) {line}[{half}] = creal{suffix}({line}[{half}]);")
                emitter.line(f"else {line}[{mirror}] = conj{suffix}({line}[{half}]);")
        sign = 1 if is_inverse else -1
        emitter.line(f"{emitter.helper('tg_fft', dtype)}({line}, {work}, {roots}, {n}, {sign});")
        with emitter.loops((made[axis],)) as (k,):
            number = f"{line}[{emitter.dim(k)}]"
            number = f"creal{suffix}({number})" if operation.op == "irfft" else number
            emitter.assign(emitter.store(result, _at(rest, axis, k)), f"{number}{factor}")


def _fourier_factor(emitter: CEmitter, norm: str, is_inverse: bool, dtype: np.dtype[Any], n: str) -> str:
    """Return what follows a number of a transform."""
    if norm == ("forward" if is_inverse else "backward"):
        return ""
    size = emitter.fill(f"({emitter.ctype(dtype)}){{n}}", {"n": n})
    return f"/sqrt{c_suffix(dtype)}({size})" if norm == "ortho" else f"/{size}"


# Statements: stacks and checks


def call_statement(emitter: CEmitter, operation: Operation) -> None:
    """Pass pointers to the operands, scalars in variables of their own."""
    emitter.call(operation, _pointers(emitter, operation.operands))


def parallel_statement(emitter: CEmitter, operation: Operation) -> None:
    """Pass the bounds, and pointers to the other operands."""
    bounds = [emitter.element(value, ()) for value in operation.operands[:2]]
    emitter.call(operation, [*bounds, *_pointers(emitter, operation.operands[2:])])


def _pointers(emitter: CEmitter, values: Sequence[Value]) -> list[str]:
    pointers = []
    for value in values:
        if value.shape:
            pointers.append(emitter.pointer(value))
            continue
        name = emitter.fresh(value.name or "argument")
        emitter.line(f"const {emitter.ctype(value.dtype)} {name} = {emitter.element(value, ())};")
        pointers.append(f"&{name}")
    return pointers


def push_statement(emitter: CEmitter, operation: Operation) -> None:
    """Put all elements on top."""
    emitter.push(*operation.operands)


def pop_statement(emitter: CEmitter, operation: Operation) -> None:
    """Take the top element."""
    emitter.pop(operation.operands[0], operation.result)


def stack_statement(emitter: CEmitter, operation: Operation) -> None:
    """Begin with an empty stack."""
    emitter.new_stack(operation.result)


def check_statement(emitter: CEmitter, operation: Operation) -> None:
    """Leave with an error unless the condition holds."""
    (condition,) = operation.operands
    negated: Any = emitter.fill("!{x}", {"x": emitter.element(condition, ())})
    emitter.fault(negated, operation.attrs["error"], operation.attrs["message"], operation.span)

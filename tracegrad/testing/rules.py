"""The rule test: everything that can be checked about one record of the op table without knowing what it computes.

Reads a record and its samples, raises AssertionError that names the op, the sample and the property. One call of
`check_rule` covers: documentation; inferred types against evaluated ones, in every dtype; exact special cases; the JVP
against differences; the VJP against the JVP (transposition is exact algebra, so the bound is tight); both again for the
VJP rule itself, which is second order; and that an op said to have no derivative is flat.

It cannot see a value that is wrong in the same way in f64 and in f32, nor what happens at kinks, ties and poles:
samples avoid those, and tests/ops/test_conventions.py has them one by one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Value
from tracegrad.ir.opdef import BY_TRANSFORM, NONDIFF, TABLE, OpDef, Sample, interpreter
from tracegrad.ir.types import DTYPES, F64, ArrayType, array_type, is_complex, is_inexact, real_dtype
from tracegrad.ops.common import jvp_of, vjp_of
from tracegrad.ops.evaluate import Evaluator

Array = npt.NDArray[Any]
Arrays = list[Array]

_FLOATS = ("f64", "f32", "f16", "bf16")


@dataclass(frozen=True, slots=True)
class Case:
    """An op applied to the arrays of one of its samples."""

    op: OpDef
    attrs: Mapping[str, Any]
    operands: Arrays
    label: str

    def evaluate(self, operands: Sequence[Any]) -> Arrays:
        """Return the results for other operands."""
        results = _apply(self.op, operands, self.attrs)
        return list(results)

    def random(self, arrays: Sequence[Array], purpose: str) -> Arrays:
        """Return random arrays like these, independent between purposes; zeros for what cannot carry a derivative."""
        rng = np.random.default_rng(zlib.crc32(f"{purpose} {self.label}".encode()))
        return [random_like(rng, x) for x in arrays]


def _apply(op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
    with interpreter(Evaluator()), np.errstate(all="ignore"):
        results = op(*operands, **attrs)
    return results if isinstance(results, tuple) else (results,)


def random_like(rng: np.random.Generator, x: Array) -> Array:
    """Return a random array of the type of `x`; zeros for integers and bool."""
    if not is_inexact(x.dtype):
        return np.zeros_like(x)
    real = rng.uniform(-1.0, 1.0, x.shape)
    return np.asarray(real + 1j * rng.uniform(-1.0, 1.0, x.shape) if is_complex(x.dtype) else real).astype(x.dtype)


def cases(op: OpDef, float_dtype: str = "f64") -> Iterator[Case]:
    """Yield the samples of an op as arrays, `f` standing for a float dtype."""
    for number, sample in enumerate(op.samples):
        label = f"{op.name} ({sample.operands or 'no operands'}) {dict(sample.attrs or {})}"
        rng = np.random.default_rng(zlib.crc32(f"{number} {label}".encode()))
        types = [array_type(_full_name(t, float_dtype)) for t in sample.operands.split()]
        operands = [_draw(rng, t, sample) for t in types]
        if sample.special_structure:
            operands[0] = _STRUCTURES[sample.special_structure](operands[0])
        yield Case(op, sample.attrs or {}, operands, label)


def _full_name(text: str, float_dtype: str) -> str:
    name, bracket, rest = text.partition("[")
    return {"f": float_dtype, "i": "i64", "b": "bool"}.get(name, name) + bracket + rest


def _draw(rng: np.random.Generator, kind: ArrayType, sample: Sample) -> Array:
    shape = tuple(int(d) for d in kind.shape if isinstance(d, int))
    assert len(shape) == kind.ndim, f"sample operands have fixed shapes: {kind}"
    if is_inexact(kind.dtype):
        array = rng.uniform(*sample.domain, shape)
        return np.asarray(array + 1j * rng.uniform(*sample.domain, shape) if is_complex(kind.dtype) else array).astype(
            kind.dtype
        )
    return np.asarray(rng.integers(*sample.integers, shape)).astype(kind.dtype)


def _invertible(a: Array) -> Array:
    return np.asarray(a + 3.0 * np.eye(a.shape[-1])).astype(a.dtype)


def _spd(a: Array) -> Array:
    return np.asarray(a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1])).astype(a.dtype)


def _separated(a: Array) -> Array:
    """Give singular values 1, 2, 3, ... to matrices."""
    wide = a.astype(np.complex128 if is_complex(a.dtype) else np.float64)
    u, s, vh = np.linalg.svd(wide, full_matrices=False)
    return np.asarray(u * np.arange(s.shape[-1], 0, -1) @ vh).astype(a.dtype)


_STRUCTURES: dict[str, Callable[[Array], Array]] = {"invertible": _invertible, "spd": _spd, "separated": _separated}


# The checks; each takes a record


def check_described(op: OpDef) -> None:
    """The record documents the op, says its derivative, and has samples, a NumPy text and consistent operands."""
    assert op.doc.strip().endswith("."), f"{op.name}: the doc is a sentence"
    assert TABLE[op.name] is op, f"{op.name} is not the registered record"
    if op.marker is BY_TRANSFORM:
        return
    assert op.numpy, f"{op.name} has no NumPy text"
    assert op.samples, f"{op.name} has no samples"
    count = len(op.operands)
    assert op.partials is None or len(op.partials) == count, f"{op.name}: one partial per operand"
    assert op.partials is None or len(op.singular) == count, f"{op.name}: one `singular` per operand"
    for sample in op.samples:
        names = set(sample.attrs or {})
        assert names == set(op.attributes), f"{op.name}: sample has attributes {names}, the record {op.attributes}"


def check_types(op: OpDef) -> None:
    """Inferred result types are those of the evaluated results, in every float dtype that the op accepts."""
    for dtype in _FLOATS:
        for case in cases(op, dtype):
            types = [ArrayType(x.dtype, x.shape) for x in case.operands]
            try:
                inferred = op.infer(*types, **case.attrs)
            except ArgumentTypeError:
                assert dtype not in ("f64", "f32"), f"{case.label} is refused"
                continue
            found = tuple(ArrayType(r.dtype, r.shape) for r in case.evaluate(case.operands)) if inferred else ()
            assert inferred == found, f"{case.label}: inferred {inferred}, evaluated {found} in {dtype}"


def check_precisions(op: OpDef) -> None:
    """Evaluation in f32 agrees with f64 on the same numbers."""
    for case in cases(op, "f32"):
        if not op.infer(*[ArrayType(x.dtype, x.shape) for x in case.operands], **case.attrs):
            continue
        if "dtype" in case.attrs or not any(x.dtype == DTYPES["f32"] for x in case.operands):
            continue
        wide = [x.astype(F64) if x.dtype == DTYPES["f32"] else x for x in case.operands]
        for narrow, exact in zip(case.evaluate(case.operands), case.evaluate(wide), strict=True):
            _assert_close(narrow.astype(exact.dtype), exact, 2e-5, f"{case.label}: f32 differs from f64")


def check_special(op: OpDef) -> None:
    """Special cases hold to the last bit or two."""
    for numbers in op.special:
        *operands, expected = numbers
        (result,) = _apply(op, [np.array(v, np.float64) for v in operands], {})
        _assert_close(result.astype(np.float64), np.array(expected), 4e-16, f"{op.name}{tuple(operands)}")


def check_flat(op: OpDef) -> None:
    """An op said to have no derivative has differences of zero, unless it returns its operand: that cuts on purpose."""
    if op.marker is not NONDIFF:
        return
    for case in cases(op):
        outs = case.evaluate(case.operands)
        cuts = len(case.operands) == len(outs) == 1 and np.array_equal(case.operands[0], outs[0])
        if outs and not cuts and any(is_inexact(x.dtype) for x in case.operands):
            tangents = case.random(case.operands, "tangents")
            for difference in differences(case.evaluate, case.operands, tangents, step=1e-7):
                assert not np.any(difference), f"{case.label} is marked NONDIFF but moves by {difference}"


def check_first_order(op: OpDef) -> None:
    """The JVP agrees with differences, and the VJP is its transpose."""
    if op.marker is not None:
        return
    for case in cases(op):
        if _is_smooth(case):
            tangents = case.random(case.operands, "tangents")
            outs = case.evaluate(case.operands)
            found = _jvp(case, outs, tangents)
            step, tolerance = _accuracy([*case.operands, *outs])
            expected = differences(case.evaluate, case.operands, tangents, step)
            for mine, theirs in zip(found, expected, strict=True):
                _assert_close(mine, theirs, tolerance, f"{case.label}: JVP differs from differences")
            _check_each_operand(case, outs, tangents)
            cts = case.random(outs, "cotangents")
            message = f"{case.label}: VJP is not the transpose of JVP"
            _assert_transposed(_vjp(case, outs, cts), tangents, cts, found, message)


def _is_smooth(case: Case) -> bool:
    """Return whether a result can carry a derivative."""
    return any(is_inexact(out.dtype) for out in case.evaluate(case.operands))


def _check_each_operand(case: Case, outs: Arrays, tangents: Arrays) -> None:
    """The tangents of single operands add up to that of all."""
    together = _jvp(case, outs, tangents)
    total = [np.zeros_like(t) for t in together]
    for k, tangent in enumerate(tangents):
        alone: list[Array | None] = [None] * len(tangents)
        alone[k] = tangent
        total = [a + b for a, b in zip(total, _jvp(case, outs, alone), strict=True)]
    for a, b in zip(total, together, strict=True):
        _assert_close(a, b, 1e-12, f"{case.label}: JVPs of single operands do not add up")


def check_second_order(op: OpDef) -> None:
    """The VJP rule, taken as a program, has the right JVP and VJP."""
    if op.marker is not None:
        return
    for case in cases(op):
        if _is_smooth(case):
            outs = case.evaluate(case.operands)
            program = Program.of_vjp(case)
            inputs = [*case.operands, *case.random(outs, "cotangents")]
            eager = _vjp(case, outs, inputs[len(case.operands) :])
            for staged, direct in zip(program.run(inputs), eager, strict=True):
                _assert_close(staged, direct, 1e-13, f"{case.label}: the VJP differs staged and eager")
            tangents = case.random(inputs, "second tangents")
            found = program.jvp(inputs, tangents)
            step, tolerance = _accuracy([*inputs, *outs])
            expected = differences(program.run, inputs, tangents, step)
            for mine, theirs in zip(found, expected, strict=True):
                _assert_close(mine, theirs, 20.0 * tolerance, f"{case.label}: JVP of the VJP differs from differences")
            cts = case.random(program.run(inputs), "second cotangents")
            message = f"{case.label}: VJP of the VJP is not the transpose of its JVP"
            _assert_transposed(program.vjp(inputs, cts), tangents, cts, found, message)


#: all checks of a record, in order; what holds between a record and a code generator is tested beside that generator
CHECKS: tuple[Callable[[OpDef], None], ...] = (
    check_described,
    check_types,
    check_precisions,
    check_special,
    check_flat,
    check_first_order,
    check_second_order,
)


def check_rule(op: OpDef) -> None:
    """Check everything about one record that does not need to know what the op computes.

    Raises:
        AssertionError: names the op, the sample and the property that fails.
    """
    for check in CHECKS:
        check(op)


# Derivatives of a case, and of a program made of ops


def _accuracy(arrays: Sequence[Array]) -> tuple[float, float]:
    """Return step and tolerance of differences; only linear ops have samples of less than double precision."""
    resolution = _resolution(arrays)
    return (1e-3, 1e-7) if resolution < 1e-15 else (0.25, 64.0 * resolution)


def _resolution(arrays: Sequence[Array]) -> float:
    """Return the relative spacing of numbers of the narrowest dtype."""
    one = [real_dtype(x.dtype).type(1) for x in arrays if is_inexact(x.dtype)]
    return max((float(np.nextafter(x, x + x)) - 1.0 for x in one), default=0.0)


def _types(case: Case) -> list[ArrayType]:
    return [ArrayType(x.dtype, x.shape) for x in case.operands]


def _filled(values: Sequence[Any], like: Sequence[Array]) -> Arrays:
    """Return arrays with zeros for None, and for what cannot carry a derivative."""
    return [np.zeros_like(x) if v is None else np.asarray(v) for v, x in zip(values, like, strict=True)]


def _jvp(case: Case, outs: Arrays, tangents: Sequence[Any]) -> Arrays:
    with interpreter(Evaluator()):
        return _filled(jvp_of(case.op, tangents, outs, case.operands, case.attrs), outs)


def _vjp(case: Case, outs: Arrays, cts: Sequence[Any]) -> Arrays:
    with interpreter(Evaluator()):
        return _filled(vjp_of(case.op, cts, outs, case.operands, case.attrs), case.operands)


@dataclass(frozen=True, slots=True)
class Program:
    """Straight-line IR, run eagerly in both modes through the rules of its ops."""

    block: Block

    @classmethod
    def of_vjp(cls, case: Case) -> Program:
        """Stage the VJP rule of an op: from operands and cotangents to the cotangents of the operands."""
        params = [Value(t) for t in _types(case)]
        block = Block(params)
        builder = Builder(block)
        with interpreter(builder):
            outs = builder.apply(case.op, params, case.attrs)
            outs = outs if isinstance(outs, tuple) else (outs,)
            cts = [Value(out.type) for out in outs]
            found = vjp_of(case.op, cts, outs, params, case.attrs)
            zeros = [
                p if ct is None and not is_inexact(p.dtype) else builder.constant(np.zeros(p.shape, p.dtype))
                for p, ct in zip(params, found, strict=True)
            ]
        block.params = [*params, *cts]
        block.yields = [zero if ct is None else ct for ct, zero in zip(found, zeros, strict=True)]
        return cls(block)

    def trace(self, inputs: Sequence[Array]) -> dict[Value, Array]:
        """Return the values of all operations."""
        values: dict[Value, Array] = dict(zip(self.block.params, inputs, strict=True))
        for operation in self.block.operations:
            results = _apply(TABLE[operation.op], [values[v] for v in operation.operands], operation.attrs)
            values.update(zip(operation.results, results, strict=True))
        return values

    def run(self, inputs: Sequence[Array]) -> Arrays:
        values = self.trace(inputs)
        return [values[v] if is_inexact(v.dtype) else np.zeros_like(values[v]) for v in self.block.yields]

    def jvp(self, inputs: Sequence[Array], tangents: Sequence[Array]) -> Arrays:
        values = self.trace(inputs)
        moved: dict[Value, Any] = dict(zip(self.block.params, tangents, strict=True))
        with interpreter(Evaluator()):
            for operation in self.block.operations:
                operands = [values[v] for v in operation.operands]
                found = jvp_of(
                    TABLE[operation.op],
                    [moved.get(v) for v in operation.operands],
                    [values[r] for r in operation.results],
                    operands,
                    operation.attrs,
                )
                moved.update(zip(operation.results, found, strict=True))
        return _filled([moved.get(v) for v in self.block.yields], [values[v] for v in self.block.yields])

    def vjp(self, inputs: Sequence[Array], cts: Sequence[Array]) -> Arrays:
        values = self.trace(inputs)
        total: dict[Value, Array] = {}

        def accumulate(value: Value, ct: Any) -> None:
            total[value] = total[value] + ct if value in total else ct

        for value, ct in zip(self.block.yields, cts, strict=True):
            accumulate(value, ct)
        with interpreter(Evaluator()):
            for operation in reversed(self.block.operations):
                found = vjp_of(
                    TABLE[operation.op],
                    [total.get(r) for r in operation.results],
                    [values[r] for r in operation.results],
                    [values[v] for v in operation.operands],
                    operation.attrs,
                )
                for value, ct in zip(operation.operands, found, strict=True):
                    if ct is not None:
                        accumulate(value, ct)
        return _filled([total.get(p) for p in self.block.params], inputs)


def differences(
    function: Callable[[Sequence[Array]], Arrays],
    inputs: Sequence[Array],
    tangents: Sequence[Array],
    step: float = 1e-3,
) -> Arrays:
    """Return directional derivatives by central differences, extrapolated once: error O(step⁴).

    Source: Richardson extrapolation of the symmetric difference quotient.
    """

    def quotient(h: float) -> list[Any]:
        above = function([_moved(x, t, h) for x, t in zip(inputs, tangents, strict=True)])
        below = function([_moved(x, t, -h) for x, t in zip(inputs, tangents, strict=True)])
        return [
            (a - b) / (2.0 * h) if is_inexact(a.dtype) else (a != b).astype(np.float64)
            for a, b in zip(above, below, strict=True)
        ]

    return [np.asarray((4.0 * b - a) / 3.0) for a, b in zip(quotient(step), quotient(step / 2.0), strict=True)]


def _moved(x: Array, tangent: Array, h: float) -> Array:
    return np.asarray(x + h * tangent) if is_inexact(x.dtype) else x


def _inner(a: Sequence[Array], b: Sequence[Array]) -> float:
    """Return the real inner product, Re conj(a) b, which the complex convention transposes in."""
    return float(sum(np.sum(np.real(np.conj(x) * y)) for x, y in zip(a, b, strict=True) if is_inexact(x.dtype)))


def _assert_transposed(
    back: Sequence[Array], tangents: Sequence[Array], cts: Sequence[Array], forward: Sequence[Array], message: str
) -> None:
    left, right = _inner(cts, forward), _inner(back, tangents)
    scale = _inner([np.abs(c) for c in cts], [np.abs(f) for f in forward])
    scale += _inner([np.abs(b) for b in back], [np.abs(t) for t in tangents])
    resolution = _resolution([*back, *tangents, *cts, *forward])
    assert abs(left - right) <= max(4.0 * resolution, 1e-12) * scale, f"{message}: {left!r} and {right!r}"


def _assert_close(found: Array, expected: Array, tolerance: float, message: str) -> None:
    """Compare up to a tolerance relative to the largest finite element (at least 1)."""
    assert found.shape == expected.shape, f"{message}: shapes {found.shape} and {expected.shape}"
    if found.dtype == expected.dtype == np.bool_:
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = expected[np.isfinite(expected)]
    scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
    with np.errstate(invalid="ignore"):
        near = np.abs(found - expected) <= tolerance * scale
    good = near | (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert np.all(good), f"{message}: found {found!r}, expected {expected!r}"

"""Numeric Jacobians of plain functions: central differences, and complex steps, which are compared with differences.

Used by the rules "finite-difference" and "complex-step" of `pure_callback`. Previous: custom.py; next: callbacks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from tracegrad.errors import NotDifferentiableError
from tracegrad.ir.types import is_inexact

Values = Callable[..., list[Any]]

#: so small that its square is lost to rounding beside any number in use
_IMAGINARY_STEP: Final = 1e-30
#: by which steps of differences are divided when these and the complex step do not agree
_SHRINK: Final = 64.0
#: rounding errors of a function, in units of what rounding its arguments and its value makes
_ROUNDINGS: Final = 64.0


def central_differences(values: Values, args: Sequence[Any], number: int, unit: complex) -> list[Any]:
    """Return the derivative of each value along the real or imaginary part of one argument.

    Args:
        number: of the argument.
        unit: 1 for its real, 1j for its imaginary part.

    Returns:
        For each value an array: its own shape, then that of the argument.
    """
    x = np.asarray(args[number])

    def column(position: int) -> list[Any]:
        step = _eps(x.dtype) ** (1 / 3) * max(1.0, abs(x.flat[position]))
        above, below = x.copy(), x.copy()
        above.flat[position] += unit * step
        below.flat[position] -= unit * step
        width = ((above.flat[position] - below.flat[position]) / unit).real
        pairs = zip(_at(values, args, {number: above}), _at(values, args, {number: below}), strict=True)
        return [(a - b) / width for a, b in pairs]

    return _stacked(values, args, x, column)


def complex_steps(values: Values, args: Sequence[Any], numbers: Sequence[int], name: str) -> list[list[Any]]:
    """Return the derivative of each value by each of some real arguments: Im f(x + ih) / h.

    Along one direction it is compared with a central difference, which costs two more calls; when the two do not agree,
    some more with smaller steps tell which is right.

    Args:
        numbers: of the arguments.
        name: of the function, for errors.

    Returns:
        For each argument what `central_differences` returns.

    Raises:
        NotDifferentiableError: the function does not take complex numbers, or is not analytic in them.
    """
    returned: set[np.dtype[Any]] = set()

    def steps(number: int) -> list[Any]:
        x = np.asarray(args[number])

        def column(position: int) -> list[Any]:
            changed = x.astype(np.complex128)
            changed.flat[position] += 1j * _IMAGINARY_STEP
            try:
                found = _at(values, args, {number: changed})
            except Exception as error:
                values(*args)  # a failure at real numbers is the function's own
                raise _refusal(name, f"for complex numbers it raises {type(error).__name__}: {error}") from error
            returned.update(v.dtype for v in found)
            return [np.imag(v) / _IMAGINARY_STEP for v in found]

        return _stacked(values, args, x, column)

    columns = [steps(number) for number in numbers]
    wrong = _disagreement(values, args, dict(zip(numbers, columns, strict=True)))
    if wrong is not None:
        real = sorted(str(dtype) for dtype in returned if dtype.kind != "c")
        says = f"for complex numbers it returns {real[0]}: " if real else ""
        raise _refusal(name, f"{says}the slope along one direction is {wrong[0]:.6g}, by differences {wrong[1]:.6g}")
    return columns


def _refusal(name: str, found: str) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"the complex step of {name} is not its derivative",
        code="TG235",
        span=None,
        found=found,
        help='write rule="finite-difference"; a complex step needs a function that is analytic and computed so: no '
        "abs, .real, float(), comparisons, and nothing that rounds its real and imaginary part together",
    )


def _at(values: Values, args: Sequence[Any], changed: dict[int, Any]) -> list[Any]:
    """Return the values where some arguments are others."""
    return values(*[changed[n][()] if n in changed else arg for n, arg in enumerate(args)])


def _stacked(values: Values, args: Sequence[Any], x: Any, column: Callable[[int], list[Any]]) -> list[Any]:
    columns = [column(position) for position in range(x.size)]
    if not columns:
        return [np.zeros((*v.shape, *x.shape)) for v in values(*args)]
    return [np.stack(parts, axis=-1).reshape((*np.shape(parts[0]), *x.shape)) for parts in zip(*columns, strict=True)]


def _eps(*dtypes: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number, in the coarsest of some dtypes."""
    return max(float(ml_dtypes.finfo(dtype).eps) for dtype in dtypes)  # type: ignore[no-untyped-call]


def _disagreement(values: Values, args: Sequence[Any], jacobian: dict[int, list[Any]]) -> tuple[float, float] | None:
    """Return a slope by a Jacobian, and that by differences, when they do not agree at any step.

    At a kink the slopes to both sides must enclose that by the Jacobian. Where differences are not finite, as at the
    end of a domain, nothing is compared.
    """
    points = {number: np.asarray(args[number]) for number in jacobian}
    rows = {n: np.concatenate([block.reshape(-1, points[n].size) for block in jacobian[n]]) for n in points}
    dtypes = {x.dtype for x in points.values()}

    def at(changed: dict[int, Any]) -> Any:
        try:
            parts = _at(values, args, changed)
        except (ArithmeticError, ValueError):  # outside of the domain
            return np.array(np.nan)
        dtypes.update(part.dtype for part in parts if is_inexact(part.dtype))
        return np.concatenate([np.ravel(np.real(part)).astype(np.float64) for part in parts])

    def along(moves: Mapping[int, Any], sign: Callable[[Any], Any] = np.positive) -> Any:
        return sum(sign(rows[n]) @ sign(np.ravel(move).astype(np.float64)) for n, move in moves.items())

    wrong: Any = np.array(True)
    center = spread = slope = expected = np.array(np.nan)
    with np.errstate(all="ignore"):
        for number, (step, scales) in enumerate(_steps(points, _eps(*dtypes) ** (1 / 3))):
            above = {n: (x + step * scales[n]).astype(x.dtype) for n, x in points.items()}
            below = {n: (x - step * scales[n]).astype(x.dtype) for n, x in points.items()}
            moves = {n: above[n].astype(np.float64) - below[n].astype(np.float64) for n in points}
            high, low, predicted = at(above), at(below), along(moves)
            change, eps = high - low, _eps(*dtypes)
            error, largest = abs(change - predicted), np.maximum(abs(change), along(moves, abs))
            noise = _ROUNDINGS * eps * (abs(high) + along(points, abs))
            agrees = error <= max(1e-4, 100 * eps ** (2 / 3)) * largest + noise
            says_something = np.isfinite(change) & ((noise <= 0.01 * largest) | (number == 0))
            slope = np.where(says_something, predicted / (2 * step), slope)
            expected = np.where(says_something, change / (2 * step), expected)
            if number > 0:
                agrees &= says_something
                center = at({}) if number == 1 else center
                spread_before, spread = spread, abs(high - 2 * center + low)
                is_kink = (spread > 4 * noise) & (spread > spread_before / _SHRINK**1.5)
                agrees |= is_kink & (error <= 1.01 * spread)
            wrong = wrong & ~agrees & np.isfinite(predicted)
            if not wrong.any():
                return None
    wrong = wrong & np.isfinite(expected)
    if not wrong.any():
        return None
    worst = np.argmax(np.where(wrong, abs(slope - expected), 0.0))
    return float(slope[worst]), float(expected[worst])


def _steps(points: Mapping[int, Any], step: float) -> Iterator[tuple[float, dict[int, Any]]]:
    """Yield steps of differences, and what they multiply: a direction for each argument, as large as it is."""
    directions = {n: 1.0 + np.arange(x.size).reshape(x.shape) * 0.6180339887 % 1.0 for n, x in points.items()}
    sizes = {n: abs(x.astype(np.float64)) for n, x in points.items()}
    yield step, {n: d * np.maximum(sizes[n], 1.0) for n, d in directions.items()}
    relative = {n: d * np.where(sizes[n] > 0, sizes[n], 1.0) for n, d in directions.items()}
    for _ in range(3):
        yield step, relative
        step /= _SHRINK

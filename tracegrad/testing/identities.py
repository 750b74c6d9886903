"""What forward and reverse mode, and a complex step, must agree on: how many digits they do.

Reads functions and inputs; gives numbers of digits to cli.py. Previous: check_grads.py; next: cli.py.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracegrad.api import jvp, vjp
from tracegrad.callbacks import noting_complex_steps
from tracegrad.custom import RuleCall, custom_jvp, noting_calls
from tracegrad.driver import pipeline
from tracegrad.driver.derive import inexact_part, leaf_numbers
from tracegrad.ir.types import is_complex, is_inexact
from tracegrad.runtime.signature import Tree, flatten, signature_of, unflatten
from tracegrad.testing.check_grads import RULE_CALLS, copied_tree

MOST_DIGITS: Final = 16.0
#: so small that its square is lost to rounding beside any number in use
_STEP: Final = 1e-30
#: by which tangents are multiplied, to see whether what a rule gives is multiplied too
_FACTORS: Final = (0.0, 3.0, -2.0)
#: a rule that takes differences of numbers is linear to few digits
_LEAST_DIGITS: Final = 3.0


def dot_product_digits(
    function: Callable[..., Any],
    names: Sequence[str],
    values: Sequence[Any],
    argnums: Sequence[int],
    rng: np.random.Generator,
    backend: str,
) -> float | None:
    """Return to how many digits <ct, J t> by forward mode equals <Jᵀ ct, t> by reverse mode, for random t and ct.

    None when an argument is passed by keyword and differentiated.
    """
    drawn = _draw(names, values, argnums, rng)
    if drawn is None:
        return None
    positional, tangents, keywords = drawn
    called = functools.partial(function, **keywords) if keywords else function
    _, t_out = jvp(called, positional, tangents, backend=backend)
    out, pull = vjp(called, *positional, backend=backend)
    tree, _, leaves = flatten(out)
    cts = [_normal(leaf, rng) if is_inexact(np.asarray(leaf).dtype) else leaf for leaf in leaves]
    cotangents = pull(unflatten(tree, cts))
    pairs = [(ct, t) for ct, t in zip(cts, flatten_floats(t_out, leaves), strict=True) if t is not None]
    forward = [np.real(np.conj(ct) * t) for ct, t in pairs]
    backward = [
        np.real(np.conj(ct) * t)
        for a in argnums
        for ct, t in zip(flatten(cotangents[a])[2], flatten(tangents[a])[2], strict=True)
    ]
    return digits(_total(forward), _total(backward), _size(forward + backward))


def complex_step_digits(
    function: Callable[..., Any],
    names: Sequence[str],
    values: Sequence[Any],
    argnums: Sequence[int],
    rng: np.random.Generator,
    backend: str,
) -> float | None:
    """Return to how many digits forward mode equals Im f(x + iht) / h of the plain function, for a random t.

    None when the function does not take complex numbers, or is not analytic, or calls a function whose derivative is
    such a step.
    """
    drawn = _draw(names, values, argnums, rng)
    if drawn is None or any(is_complex(np.asarray(leaf).dtype) for v in values for leaf in flatten(v)[2]):
        return None
    positional, tangents, keywords = drawn
    called = functools.partial(function, **keywords) if keywords else function
    out, t_out = jvp(called, positional, tangents, backend=backend)
    moved = [v if t is None else _moved(v, t) for v, t in zip(positional, tangents, strict=True)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), noting_complex_steps() as stepping:
            warnings.simplefilter("error")
            result = called(*moved)
    except Exception:  # whatever a function does with numbers that it is not made for
        return None
    if stepping:
        return None
    leaves = flatten(out)[2]
    pairs = [
        (np.imag(z) / _STEP, t)
        for z, t in zip(flatten(result)[2], flatten_floats(t_out, leaves), strict=True)
        if t is not None
    ]
    weights = [_normal(t, rng) for _, t in pairs]
    stepped = [w * z for w, (z, _) in zip(weights, pairs, strict=True)]
    forward = [w * t for w, (_, t) in zip(weights, pairs, strict=True)]
    found = digits(_total(stepped), _total(forward), _size(forward))
    return found if found >= 3 else None  # comparisons and |x| take real parts or moduli


@dataclass(frozen=True, slots=True)
class NonlinearRule:
    """A forward rule that is not linear in the tangents, and the call that shows it.

    Attributes:
        tangents: one per argument.
        factor: of the tangents for which it gives something else than this factor times what it gives for them.
        found: sum of the elements of its tangents for `factor` times the tangents, with random weights.
        expected: what that should be.
    """

    call: RuleCall
    tangents: tuple[Any, ...]
    factor: float
    found: float
    expected: float


def find_nonlinear_rule(
    function: Callable[..., Any], names: Sequence[str], values: Sequence[Any], rng: np.random.Generator
) -> NonlinearRule | None:
    """Return a call by the plain function whose forward rule gives, for a multiple of tangents, something else than
    that multiple of what it gives for them."""
    args, kwargs = pipeline.call_arguments(names, [copied_tree(value) for value in values])
    counts: dict[Any, int] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with noting_calls() as calls:
            function(*args, **kwargs)
        for call in calls:
            counts[call.function] = counts.get(call.function, 0) + 1
            if not isinstance(call.function, custom_jvp) or counts[call.function] > RULE_CALLS:
                continue
            try:
                found = _nonlinearity(call, rng)
            except Exception:  # a rule that only captured code can run
                continue
            if found is not None:
                return found
    return None


def _nonlinearity(call: RuleCall, rng: np.random.Generator) -> NonlinearRule | None:
    """Return at which multiple of random tangents, zero among them, a rule shows that it is not linear."""
    assert isinstance(call.function, custom_jvp)
    (rule,) = call.function._rules
    weights: list[Any] = []

    def total(tangents: Sequence[Any]) -> float:
        primals = tuple(copied_tree(value) for value in call.values)
        moved = flatten(rule(primals, tuple(tangents))[1])[2]
        weights.extend(rng.normal(size=np.shape(t)) for t in moved[len(weights) :])
        return float(sum(np.sum(np.real(w * t)) for w, t in zip(weights, moved, strict=False)))

    tangents = tuple(_tangent_like(value, rng) for value in call.values)
    once = total(tangents)
    for factor in _FACTORS:
        expected, found = factor * once if factor else 0.0, total([_scaled(t, factor) for t in tangents])
        if math.isfinite(found) and math.isfinite(once) and digits(found, expected, abs(once)) < _LEAST_DIGITS:
            return NonlinearRule(call, tangents, factor, found, expected)
    return None


def _tangent_like(value: Any, rng: np.random.Generator) -> Any:
    """Return a random tangent of an argument: None for what carries no derivative."""
    tree, _, leaves = flatten(value)
    moving = [n for n, leaf in enumerate(leaves) if is_inexact(np.asarray(leaf).dtype)]
    return unflatten(inexact_part(tree, moving), [_normal(leaves[n], rng) for n in moving])


def _scaled(tangent: Any, factor: float) -> Any:
    tree, _, leaves = flatten(tangent)
    return unflatten(tree, [factor * leaf for leaf in leaves])


def digits(found: float, expected: float, size: float) -> float:
    """Return how many digits of two numbers agree, for sums of terms of a size."""
    error, scale = abs(found - expected), max(abs(found), abs(expected), size)
    if error == 0:
        return MOST_DIGITS
    return min(MOST_DIGITS, max(0.0, -math.log10(error / scale))) if math.isfinite(error) else 0.0


def flatten_floats(tangent: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the leaves of the tangent of a result, None where the result is no float."""
    found = iter(flatten(tangent)[2])
    return [next(found) if is_inexact(np.asarray(leaf).dtype) else None for leaf in leaves]


def _draw(
    names: Sequence[str], values: Sequence[Any], argnums: Sequence[int], rng: np.random.Generator
) -> tuple[list[Any], list[Any], dict[str, Any]] | None:
    """Return the positional arguments, a tangent for each, and the arguments by keyword."""
    if any(names[a].startswith("=") for a in argnums):
        return None
    args, keywords = pipeline.call_arguments(names, list(values))
    signature, leaves = signature_of(names[: len(args)], args)
    tangents: list[Any] = []
    for position, tree in enumerate(signature.arguments):
        numbers = leaf_numbers(tree)
        if not any(is_inexact(np.asarray(leaves[n]).dtype) for n in numbers):
            tangents.append(None)
            continue
        parts = {n: _normal(leaves[n], rng) * (position in argnums) for n in numbers}
        tangents.append(_filled(tree, parts))
    return list(args), tangents, keywords


def _filled(tree: Tree, parts: dict[int, Any]) -> Any:
    return unflatten(tree, [parts.get(n) for n in range(max(parts) + 1)])


def _normal(like: Any, rng: np.random.Generator) -> Any:
    array = np.asarray(like)
    if not is_inexact(array.dtype):
        return like
    drawn = rng.normal(size=array.shape)
    if is_complex(array.dtype):
        drawn = drawn + 1j * rng.normal(size=array.shape)
    return np.asarray(drawn).astype(array.dtype)[()]


def _moved(value: Any, tangent: Any) -> Any:
    tree, _, leaves = flatten(value)
    parts = flatten(tangent)[2]
    return unflatten(tree, [x + 1j * _STEP * t for x, t in zip(leaves, parts, strict=True)])


def _total(terms: Sequence[Any]) -> float:
    return float(sum(np.sum(t) for t in terms))


def _size(terms: Sequence[Any]) -> float:
    return math.sqrt(sum(float(np.sum(np.abs(t) ** 2)) for t in terms))

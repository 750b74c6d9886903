"""What transforms must agree on, with each other, differences or a complex step: how many digits they do.

Reads functions and inputs; gives numbers of digits to cli.py. Previous: check_grads.py; next: cli.py.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from tracegrad.api import grad, hessian, hvp, jacfwd, jacobian, jacrev, jvp, value_and_grad, vjp, vmap
from tracegrad.callbacks import noting_complex_steps
from tracegrad.custom import RuleCall, custom_jvp, noting_calls
from tracegrad.driver.derive import inexact_part, leaf_numbers
from tracegrad.driver.trees import call_arguments
from tracegrad.ir.types import is_complex, is_float, is_inexact
from tracegrad.runtime.signature import Tree, flatten, signature_of, unflatten
from tracegrad.testing.check_grads import RULE_CALLS, as_double, copied_tree, find_slope, float_arguments, shifted

MOST_DIGITS: Final = 16.0
#: so small that its square is lost to rounding beside any number in use
_STEP: Final = 1e-30
#: by which tangents are multiplied, to see whether what a rule gives is multiplied too
_FACTORS: Final = (0.0, 3.0, -2.0)
#: a rule that takes differences of numbers is linear to few digits
_LEAST_DIGITS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A function at one input, with one backend.

    Attributes:
        function: the plain function, of its positional arguments.
        argnums: positions of the arguments that are differentiated, or batched.
        floats: positions of all that hold only floats.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    argnums: tuple[int, ...]
    floats: tuple[int, ...]
    rng: np.random.Generator
    backend: str

    @staticmethod
    def make(
        function: Callable[..., Any],
        names: Sequence[str],
        values: Sequence[Any],
        argnums: Sequence[int],
        rng: np.random.Generator,
        backend: str,
    ) -> Trial | None:
        """Return the trial; None when an argument is passed by keyword and differentiated."""
        if any(names[a].startswith("=") for a in argnums):
            return None
        args, keywords = call_arguments(names, list(values))
        called = functools.partial(function, **keywords) if keywords else function
        floats = float_arguments(names[: len(args)], args)
        return Trial(called, tuple(args), tuple(argnums), tuple(floats), rng, backend)

    def positional(self) -> tuple[Any, ...]:
        """Return the arguments, in copies."""
        return tuple(copied_tree(value) for value in self.arguments)

    def tangents(self, argnums: Sequence[int] | None = None) -> list[Any]:
        """Return a random tangent per argument: zero for those that are not differentiated, None for no floats."""
        moving = self.argnums if argnums is None else argnums
        signature, leaves = signature_of([f"x{k}" for k in range(len(self.arguments))], self.arguments)
        tangents: list[Any] = []
        for position, tree in enumerate(signature.arguments):
            numbers = leaf_numbers(tree)
            if not any(is_inexact(np.asarray(leaves[n]).dtype) for n in numbers):
                tangents.append(None)
                continue
            parts = {n: _normal(leaves[n], self.rng) * (position in moving) for n in numbers}
            tangents.append(_filled(tree, parts))
        return tangents

    def leaves(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the leaves of what belongs to the arguments that are differentiated."""
        return [leaf for a in self.argnums for leaf in flatten(tangents[a])[2]]

    def run(self, arguments: Sequence[Any]) -> Any:
        """Return what the plain function gives."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.function(*arguments)

    def plain(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the leaves of what the plain function gives."""
        return flatten(self.run(arguments))[2]

    def plain_numbers(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the leaves of what the plain function gives, and Python's ints and bools among them."""
        tree, _, leaves = flatten(self.run(arguments))
        return list(_numbers(tree, leaves))

    def jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the leaves of the tangent of the result, by forward mode."""
        out, t_out = jvp(self.function, self.positional(), tangents, backend=self.backend)
        return [t for t in _flatten_floats(t_out, flatten(out)[2]) if t is not None]

    def pull_back(self) -> tuple[list[Any], list[Any]]:
        """Return random cotangents of the float results, and those of the arguments by reverse mode."""
        out, pull = vjp(self.function, *self.positional(), backend=self.backend)
        tree, _, leaves = flatten(out)
        cts = [_normal(leaf, self.rng) for leaf in leaves]
        floats = [ct for ct, leaf in zip(cts, leaves, strict=True) if is_inexact(np.asarray(leaf).dtype)]
        return floats, list(pull(unflatten(tree, cts)))

    def derivative(self, make: Callable[..., Any]) -> list[Any]:
        """Return the leaves of a Jacobian, Hessian or gradient."""
        return flatten(make(self.function, argnums=self.argnums, backend=self.backend)(*self.positional()))[2]

    def hvp(self, vectors: Sequence[Any]) -> list[Any]:
        """Return the leaves of the product of the Hessian with vectors."""
        return self.leaves(hvp(self.function, self.positional(), vectors, backend=self.backend))


#: analytic functions agree with a complex step to nearly all digits; where a comparison or |x|, which takes real parts
#: or moduli, has a small share in a function, fewer agree, and that says nothing
_FEWEST_DIGITS = 8

#: compares two ways to the same numbers, and says how many digits agree; None where that cannot be said
DigitsOf: TypeAlias = Callable[[Trial], float | None]


def dot_product_digits(trial: Trial) -> float:
    """Compare <ct, J t> by forward mode and <Jᵀ ct, t> by reverse mode, for random t and ct."""
    tangents = trial.tangents()
    t_out = trial.jvp(tangents)
    cts, cotangents = trial.pull_back()
    forward = _products(cts, t_out)
    backward = _products(trial.leaves(cotangents), trial.leaves(tangents))
    return digits(_total(forward), _total(backward), _size(forward + backward))


def complex_step_digits(trial: Trial) -> float | None:
    """Compare forward mode and Im f(x + iht) / h of the plain function, for a random t.

    None when the function does not take complex numbers, or is not analytic, or calls a function whose derivative is
    such a step.
    """
    if any(is_complex(np.asarray(leaf).dtype) for v in trial.arguments for leaf in flatten(v)[2]):
        return None
    tangents = trial.tangents()
    t_out = trial.jvp(tangents)
    moved = [_moved(v, t, 1j * _STEP) for v, t in zip(trial.arguments, tangents, strict=True)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), noting_complex_steps() as stepping:
            warnings.simplefilter("error")
            result = flatten(trial.function(*moved))[2]
    except Exception:  # whatever a function does with numbers that it is not made for
        return None
    floats = [z for z in result if is_inexact(np.asarray(z).dtype)]
    if stepping or len(floats) != len(t_out):
        return None
    weights = [_normal(t, trial.rng) for t in t_out]
    stepped = [w * np.imag(z) / _STEP for w, z in zip(weights, floats, strict=True)]
    forward = [w * t for w, t in zip(weights, t_out, strict=True)]
    found = digits(_total(stepped), _total(forward), _size(forward))
    return found if found >= _FEWEST_DIGITS else None


def value_digits(trial: Trial) -> float | None:
    """Compare the gradient beside the value with that alone; None for a result that is no scalar."""
    (value, *rest) = trial.plain(trial.positional())
    if rest or np.ndim(value) or not is_float(np.asarray(value).dtype):
        return None
    both = value_and_grad(trial.function, argnums=trial.argnums, backend=trial.backend)(*trial.positional())
    return _array_digits([value, *flatten(both[1])[2]], [both[0], *trial.derivative(grad)])


def jvp_slope_digits(trial: Trial) -> float | None:
    """Compare forward mode and differences of the plain function; None where these do not settle."""
    tangents = trial.tangents()
    t_out = trial.jvp(tangents)
    weights = [_normal(t, trial.rng) for t in t_out]
    return _slope_digits(trial.plain, trial, tangents, weights, _products(weights, t_out))


def vjp_slope_digits(trial: Trial) -> float | None:
    """Compare reverse mode and differences of the plain function, along a direction in all arguments; None where these
    do not settle."""
    tangents = trial.tangents(trial.floats)
    cts, cotangents = trial.pull_back()
    pairs = [(cotangents[a], tangents[a]) for a in trial.floats]
    terms = [term for pair in pairs for term in _products(*(flatten(x)[2] for x in pair))]
    return _slope_digits(trial.plain, trial, tangents, cts, terms)


def hvp_slope_digits(trial: Trial) -> float | None:
    """Compare `hvp` and differences of the gradient; None where these do not settle."""
    vectors = trial.tangents()
    product = trial.hvp(vectors)
    weights = [_normal(x, trial.rng) for x in product]
    gradient = grad(trial.function, argnums=trial.argnums, backend=trial.backend)

    def run(arguments: Sequence[Any]) -> list[Any]:
        return flatten(gradient(*arguments))[2]

    return _slope_digits(run, trial, vectors, weights, _products(weights, product))


def _slope_digits(
    run: Callable[[Sequence[Any]], Sequence[Any]],
    trial: Trial,
    tangents: Sequence[Any],
    weights: Sequence[Any],
    terms: Sequence[Any],
) -> float | None:
    """Compare the sum of terms with the slope along tangents of what `run` gives, times weights."""

    def along(step: float) -> float:
        arguments = [_moved(x, t, step) for x, t in zip(trial.positional(), tangents, strict=True)]
        floats = [x for x in run(arguments) if is_inexact(np.asarray(x).dtype)]
        return _total(_products(weights, floats))

    expected, noise, settled = find_slope(along)
    size = _size(terms)
    return digits(_total(terms), expected, size) if settled and size > 1e3 * noise else None


def jacobian_digits(trial: Trial) -> float:
    """Compare the Jacobian times a tangent with forward mode."""
    tangents = trial.tangents()
    t_out = trial.jvp(tangents)
    return _array_digits(_product(trial.derivative(jacobian), trial.leaves(tangents), len(t_out)), t_out)


def mode_digits(trial: Trial) -> float:
    """Compare the Jacobians by forward and by reverse mode."""
    return _array_digits(trial.derivative(jacfwd), trial.derivative(jacrev))


def symmetry_digits(trial: Trial) -> float:
    """Compare <u, H v> and <v, H u> by the Hessian."""
    matrices, (u, v) = trial.derivative(hessian), (trial.leaves(trial.tangents()) for _ in range(2))
    sides = [_products(a, _product(matrices, b, len(a))) for a, b in ((u, v), (v, u))]
    return digits(_total(sides[0]), _total(sides[1]), _size(sides[0] + sides[1]))


def hessian_product_digits(trial: Trial) -> float:
    """Compare the Hessian times a vector with `hvp`."""
    vectors = trial.tangents()
    product = trial.hvp(vectors)
    return _array_digits(_product(trial.derivative(hessian), trial.leaves(vectors), len(product)), product)


def hvp_digits(trial: Trial) -> float:
    """Compare <u, H v> and <v, H u>, each by `hvp`."""
    u, v = trial.tangents(), trial.tangents()
    sides = [_products(trial.leaves(a), trial.hvp(b)) for a, b in ((u, v), (v, u))]
    return digits(_total(sides[0]), _total(sides[1]), _size(sides[0] + sides[1]))


def element_digits(trial: Trial) -> float:
    """Compare `vmap` along axis 0 of the arguments `argnums` with the plain function for each element."""
    axes = tuple(0 if position in trial.argnums else None for position in range(len(trial.arguments)))
    found = flatten(vmap(trial.function, in_axes=axes, backend=trial.backend)(*trial.positional()))[2]
    rows = []
    for b in range(len(trial.leaves(trial.arguments)[0])):
        pairs = zip(trial.positional(), axes, strict=True)
        rows.append(trial.plain_numbers([x if axis is None else _element(x, b) for x, axis in pairs]))
    return _array_digits(found, [np.stack(column) for column in zip(*rows, strict=True)])


#: what `tracegrad check` compares for every transform: the words for it, and how many digits agree
COMMON: Final[Sequence[tuple[str, DigitsOf]]] = (
    ("forward and reverse mode", dot_product_digits),
    ("forward mode and a complex step", complex_step_digits),
)
#: what it compares for one transform besides
OF_TRANSFORM: Final[Mapping[str, Sequence[tuple[str, DigitsOf]]]] = {
    "grad": (),
    "value_and_grad": (("value_and_grad, and value and grad alone", value_digits),),
    "jvp": (("jvp and differences of the function", jvp_slope_digits),),
    "vjp": (("vjp by all arguments and differences of the function", vjp_slope_digits),),
    "jacobian": (("Jacobian times a tangent and jvp", jacobian_digits), ("jacfwd and jacrev", mode_digits)),
    "hessian": (
        ("Hessian and its transpose", symmetry_digits),
        ("Hessian times a vector and hvp", hessian_product_digits),
    ),
    "hvp": (("hvp and differences of the gradient", hvp_slope_digits), ("hvp and its transpose", hvp_digits)),
    "vmap": (("vmap and a loop over the elements", element_digits),),
}


def without_auxiliary(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of what is differentiated alone, the first of two results."""

    @functools.wraps(function)
    def first(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[0]

    return first


def _numbers(tree: Tree, leaves: Sequence[Any]) -> Iterator[Any]:
    if tree.kind == "leaf":
        yield leaves[tree.data]
    elif tree.kind == "static" and isinstance(tree.data[1], int):
        yield tree.data[1]
    for child in tree.children:
        yield from _numbers(child, leaves)


def _element(value: Any, number: int) -> Any:
    tree, _, leaves = flatten(value)
    return unflatten(tree, [np.array(leaf)[number] for leaf in leaves])


def _product(matrices: Sequence[Any], vectors: Sequence[Any], count: int) -> list[Any]:
    """Return `count` rows of blocks, each times the vectors."""
    blocks = iter(matrices)
    return [sum(np.tensordot(next(blocks), np.asarray(v), np.ndim(v)) for v in vectors) for _ in range(count)]


def _products(cotangents: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    return [np.real(np.conj(ct) * t) for ct, t in zip(cotangents, tangents, strict=True)]


def _array_digits(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return to how many digits arrays agree: the least of all pairs, each relative to its largest element."""
    least = MOST_DIGITS
    for x, y in zip(found, expected, strict=True):
        a, b = (np.multiply(part, 1.0) for part in (x, y))  # bools have no difference
        size = float(max(np.max(np.abs(a), initial=0.0), np.max(np.abs(b), initial=0.0)))
        error = float(np.max(np.abs(a - b), initial=0.0)) if a.shape == b.shape else math.inf
        least = min(least, digits(error, 0.0, size))
    return least


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
    args, kwargs = call_arguments(names, [copied_tree(value) for value in values])
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


def _flatten_floats(tangent: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the leaves of the tangent of a result, None where the result is no float."""
    found = iter(flatten(tangent)[2])
    return [next(found) if is_inexact(np.asarray(leaf).dtype) else None for leaf in leaves]


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


def _moved(value: Any, tangent: Any, step: complex) -> Any:
    """Return an argument moved along its tangent, in double precision."""
    tree, _, leaves = flatten(value)
    parts = iter(flatten(tangent)[2])
    along = [shifted(as_double(x), step * next(parts)) if is_inexact(np.asarray(x).dtype) else x for x in leaves]
    return unflatten(tree, along)


def _total(terms: Sequence[Any]) -> float:
    return float(sum(np.sum(t) for t in terms))


def _size(terms: Sequence[Any]) -> float:
    return math.sqrt(sum(float(np.sum(np.abs(t) ** 2)) for t in terms))

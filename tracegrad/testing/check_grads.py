"""Compare the gradients that tracegrad makes with central differences of the plain function.

Reads a function and its arguments; used by tests and by `tracegrad check`. See rules.py for the check of single ops.

Along a random direction `v` of one argument the gradient predicts the slope `<gradient, v>`. The reference is the plain
function run by NumPy in double precision, at several steps and extrapolated, which gives about ten digits for smooth
functions. Results that are no scalar are weighted by random cotangents.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tracegrad.api import RequestMaker, Transformed, bind, parameters_of
from tracegrad.config import BACKENDS
from tracegrad.custom import RuleCall, RuleSite, custom_vjp, noting_calls, noting_sites
from tracegrad.driver import pipeline
from tracegrad.driver.batching import Batch
from tracegrad.driver.derive import Request, leaf_numbers
from tracegrad.driver.specialization import Program, Specialization
from tracegrad.driver.trees import call_arguments
from tracegrad.errors import ArgumentError, ArgumentTypeError, TracegradError
from tracegrad.ir.core import Function, Operation
from tracegrad.ir.types import is_complex, is_inexact
from tracegrad.runtime.signature import Signature, flatten, signature_of, unflatten
from tracegrad.testing.interpret import Interpreter, bind_parameters

_STEPS: Final = tuple(1e-2 / 4**k for k in range(7))
_MOST_DIGITS: Final = 15.0
#: calls of one function with a rule that are checked at one input
RULE_CALLS: Final = 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """Agreement of one number: the value, or a slope along a random direction of one argument.

    Attributes:
        backend: of the compiled function.
        name: of the argument, or "" for the value.
        found: what the compiled function gave.
        expected: what the plain function gave.
        digits: how many digits agree.
        agrees: whether that is enough for the precision of the inputs.
        settled: whether differences with small steps agreed among themselves.
        of: of what the slope is, "" for the function.
        rounded: whether rounding of the plain function's result leaves the differences fewer digits than wanted.
    """

    backend: str
    name: str
    found: float
    expected: float
    digits: float
    agrees: bool
    settled: bool = True
    of: str = ""
    rounded: bool = False


def check_grads(
    f: Callable[..., Any],
    *args: Any,
    argnums: Sequence[int | str] | None = None,
    backends: Sequence[str] = BACKENDS,
    directions: int = 2,
    seed: int = 0,
    rtol: float | None = None,
    **kwargs: Any,
) -> None:
    """Raise AssertionError when gradients of `f` and central differences of `f` disagree.

    Args:
        f: any function of arrays, numbers and pytrees of them; its float results are all checked.
        args, kwargs: where to check; `f` must be smooth there.
        argnums: positions or names of the arguments to check; by default all that hold only floats.
        backends: of "numpy", "c".
        directions: number of random directions per argument.
        seed: of the directions.
        rtol: relative tolerance; by default it follows from the lowest precision among the inputs.

    >>> check_grads(lambda x: np.sum(np.sin(x)), np.array([0.3, 1.0]), backends=("numpy",))
    """
    plain = plain_function(f)
    try:
        names, values = bind(parameters_of(plain), plain, args, kwargs)
    except TypeError as error:
        if len(args) == 1 and isinstance(args[0], tuple | list):
            raise ArgumentTypeError(
                f"tg.testing.check_grads cannot be called like this: {error}",
                code="TG213",
                span=None,
                found=f"one argument of the function, a {type(args[0]).__name__} of {len(args[0])}",
                help="the arguments follow the function one by one: tg.testing.check_grads(f, *args)",
            ) from None
        raise
    if argnums is None:
        positions = float_arguments(names, values)
    else:
        positions = list(RequestMaker("grad", tuple(argnums))(names).argnums)
    signature = signature_of(names, values)[0]
    made = build_instances(plain, positions, signature, {}, backends)
    rng = np.random.default_rng(seed)
    for _ in range(directions):
        for c in compare(plain, made, names, values, positions, rng, rtol):
            what = f"slope along a random direction of {c.name}" if c.name else "value"
            unsettled = "" if c.settled else " (they do not settle: is there a kink or a jump near the input?)"
            assert c.agrees, (
                f"backend {c.backend}: the {what} is {c.found!r}, "
                f"differences of the plain function give {c.expected!r}{unsettled}"
            )


def plain_function(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the user's own function for one decorated with `tg.function`, any other, also a `tg.vmap`, as it is."""
    while isinstance(f, Transformed) and f._request.kind == "function" and not isinstance(f._function, Batch):
        f = f._function
    return f


def float_arguments(names: Sequence[str], values: Sequence[Any]) -> list[int]:
    """Return the positions of the arguments that hold floats and no integers."""
    signature = signature_of(names, values)[0]
    return [
        position
        for position, tree in enumerate(signature.arguments)
        if (numbers := leaf_numbers(tree)) and all(is_inexact(signature.leaves[i].type.dtype) for i in numbers)
    ]


def build_instances(
    function: Callable[..., Any],
    argnums: Sequence[int],
    signature: Signature,
    sizes: Mapping[str, int],
    backends: Sequence[str],
    *,
    discrete: bool = False,
) -> dict[str, Specialization]:
    """Compile the gradient for each backend: value and gradient of a function that returns a scalar, else its pullback.

    Args:
        discrete: accept functions of which no result has a derivative.

    A backend that cannot be used (no C compiler) is missing in the answer; a warning says why.
    """
    try:
        program = pipeline.build_program(
            function, Request("value_and_grad", tuple(argnums), single=False), signature, sizes
        )
    except ArgumentTypeError as error:
        if error.code != "TG202":
            raise
        program = pipeline.build_vjp_program(function, signature, sizes)
        if not discrete and not any(
            is_inexact(result.array_type.dtype) for result in program.captured.function.results
        ):
            raise
    made = {}
    for backend in backends:
        instance = pipeline.compile_program(program, backend)
        if instance.backend == backend:
            made[backend] = instance
    return made


def compare(
    function: Callable[..., Any],
    instances: Mapping[str, Specialization],
    names: Sequence[str],
    values: Sequence[Any],
    argnums: Sequence[int],
    rng: np.random.Generator,
    rtol: float | None = None,
) -> list[Comparison]:
    """Compare at one input: the value, and the slope along one random direction of each argument.

    Raises:
        ArgumentError: the plain function fails at the input, or is not finite there.
    """
    line = _Line(function, names, values, rng)
    expected = line.at(None, [], 0.0)
    if not math.isfinite(expected):
        raise ArgumentError(
            "the function is not finite at this input, so its gradient cannot be checked",
            code="TG810",
            span=None,
            found=f"a value of {expected}",
            help="check at an input where it is finite",
        )
    rtol = line.tolerance() if rtol is None else rtol
    gradients = {backend: line.gradients(made, argnums) for backend, made in instances.items()}
    found = [
        _comparison(backend, "", value, expected, abs(expected), line.noise, rtol)
        for backend, (value, _) in gradients.items()
        if value is not None
    ]
    for position, argnum in enumerate(argnums):
        direction = line.direction(argnum)
        slope, noise, settled = find_slope(lambda h, a=argnum, d=direction: line.at(a, d, h))  # type: ignore[misc]
        for backend, (_, parts) in gradients.items():
            terms = [np.real(np.conj(g) * v) for g, v in zip(parts[position], direction, strict=True)]
            predicted = float(sum(np.sum(t) for t in terms))
            size = math.sqrt(sum(float(np.sum(t**2)) for t in terms))
            name = names[argnum].lstrip("=")
            found.append(_comparison(backend, name, predicted, slope, size, noise, rtol, settled))
    return found


class RuleSearch:
    """Tries the rules of the functions that a function calls, at one input after the other.

    Args:
        run: what to call in its place, as it is.

    Attributes:
        called: the functions with rules.
        found: the first wrong call of each.
    """

    def __init__(self, function: Callable[..., Any], run: Callable[..., Any] | None = None) -> None:
        self.function, self.run = function, run or function
        self.called: set[Any] = set()
        self.found: dict[Any, tuple[RuleCall, list[Comparison]]] = {}
        self._instances: dict[Any, dict[str, Specialization]] = {}
        self._captured: dict[Signature, _Captured | None] = {}

    def at(self, names: Sequence[str], values: Sequence[Any], rng: np.random.Generator) -> None:
        """Try the rules in the calls at one input, in a random direction of each of their arguments."""
        counts: dict[Any, int] = {}
        for call in self._calls(names, values):
            self.called.add(call.function)
            counts[call.function] = counts.get(call.function, 0) + 1
            argnums = float_arguments(call.names, call.values)
            if call.function in self.found or counts[call.function] > RULE_CALLS or not argnums:
                continue
            signature = signature_of(call.names, call.values)[0]
            key = call.function, signature
            try:
                if key not in self._instances:
                    self._instances[key] = build_instances(call.function, argnums, signature, {}, ("numpy",))
                compared = compare(call.function, self._instances[key], call.names, call.values, argnums, rng)
            except TracegradError:  # it cannot be checked by itself at this input
                continue
            wrong = [c for c in compared if not c.agrees and c.settled]
            if wrong:
                self.found[call.function] = call, wrong

    def is_done(self) -> bool:
        """Return whether no other input can show more: all rules were found wrong."""
        return self.called <= self.found.keys()

    def _calls(self, names: Sequence[str], values: Sequence[Any]) -> list[RuleCall]:
        args, kwargs = call_arguments(names, [copied_tree(value) for value in values])
        with noting_calls() as calls, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.run(*args, **kwargs)
            known = {call.function for call in calls}
            calls += [call for call in self._captured_calls(names, values) if call.function not in known]
        return calls

    def _captured_calls(self, names: Sequence[str], values: Sequence[Any]) -> list[RuleCall]:
        """Return the calls of functions with rules that the plain function leaves to compiled code: in a tg.vmap,
        behind a tg.pure_callback."""
        signature, leaves = signature_of(names, values)
        if signature not in self._captured:
            self._captured[signature] = _capture_sites(self.function, signature)
        captured = self._captured[signature]
        return [] if captured is None else captured.calls(leaves)


def _capture_sites(function: Callable[..., Any], signature: Signature) -> _Captured | None:
    try:
        with noting_sites() as sites:
            program = pipeline.build_program(plain_function(function), Request(), signature, {}, backend="c")
    except TracegradError:
        return None
    return _Captured(program, sites) if sites else None


@dataclass(frozen=True, slots=True)
class _Captured:
    """A captured function, and the calls of functions with rules in it."""

    program: Program
    sites: Mapping[Function, RuleSite]

    def calls(self, leaves: Sequence[Any]) -> list[RuleCall]:
        """Return the calls at one input."""
        function = self.program.captured.function
        try:
            inputs, sizes = bind_parameters(function, [*leaves, *self.program.hidden_values()])
        except TracegradError:
            return []
        noting = _Noting(sizes, self.sites)
        with contextlib.suppress(Exception):  # what the function raises at this input ends its calls
            noting.block(function.body, inputs)
        return noting.calls


class _Noting(Interpreter):
    """Runs IR, and notes the calls of functions with rules."""

    def __init__(self, sizes: Mapping[str, int], sites: Mapping[Function, RuleSite]) -> None:
        super().__init__(sizes)
        self.sites = sites
        self.calls: list[RuleCall] = []

    def call(self, operation: Operation, operands: list[Any]) -> Sequence[Any]:
        site = self.sites.get(operation.attrs["function"])
        if site is not None:
            self.calls.append(site.call(operands[: operation.attrs["arguments"]]))
        return super().call(operation, operands)


def arguments_left_out(call: RuleCall) -> set[str]:
    """Return the names of the arguments for which the rule of a `custom_vjp` gives None."""
    if not isinstance(call.function, custom_vjp):
        return set()
    forward, backward = call.function._rules
    args, kwargs = call_arguments(call.names, [copied_tree(value) for value in call.values])
    try:
        out, residuals = forward(*args, **kwargs)
        tree, _, leaves = flatten(out)
        cotangents = backward(residuals, unflatten(tree, [np.ones_like(leaf) for leaf in leaves]))
        return {name.lstrip("=") for name, ct in zip(call.names, cotangents, strict=True) if ct is None}
    except Exception:  # a rule that only captured code can run
        return set()


def _comparison(
    backend: str, name: str, found: float, expected: float, size: float, noise: float, rtol: float, settled: bool = True
) -> Comparison:
    scale = max(abs(found), abs(expected), size)
    error = abs(found - expected)
    agrees = bool(error <= rtol * scale + noise)  # False for NaN
    if error == 0 or scale <= noise:
        digits = _MOST_DIGITS
    else:
        digits = min(_MOST_DIGITS, max(0.0, -math.log10(error / scale))) if math.isfinite(error) else 0.0
    rounded = rtol * scale < error <= rtol * scale + noise
    return Comparison(backend, name, found, expected, digits, agrees, settled, rounded=rounded)


def find_slope(line: Callable[[float], float]) -> tuple[float, float, bool]:
    """Return the derivative at 0, the rounding error to expect in it, and whether the steps agree on it.

    Source: Richardson extrapolation of central differences; the pair of neighbours that agree best is taken.
    """
    central, sizes = [], []
    for h in _STEPS:
        high, low = line(h), line(-h)
        central.append((high - low) / (2 * h))
        sizes.append(max(abs(high), abs(low)))
    refined = [(16 * b - a) / 15 for a, b in itertools.pairwise(central)]
    changes = [abs(b - a) for a, b in itertools.pairwise(refined)]
    usable = [k for k, change in enumerate(changes) if math.isfinite(change)]
    if not usable:
        return math.nan, 0.0, False
    best = min(usable, key=lambda k: changes[k])
    noise = 4 * np.finfo(float).eps * sizes[best + 2] / _STEPS[best + 2]
    slope = refined[best + 1]
    return slope, float(noise), changes[best] <= 1e-4 * abs(slope) + noise


class _Line:
    """The plain function in double precision, as a number, along lines through one input."""

    def __init__(
        self, function: Callable[..., Any], names: Sequence[str], values: Sequence[Any], rng: np.random.Generator
    ) -> None:
        self.function, self.names, self.rng = function, names, rng
        self.signature, self.leaves = signature_of(names, values)
        self.weights: list[Any] | None = None
        self.noise = 0.0

    def at(self, argnum: int | None, direction: Sequence[Any], step: float) -> float:
        """Return the value at the input moved by `step * direction` in one argument."""
        leaves = [as_double(leaf) for leaf in self.leaves]
        if argnum is not None:
            for number, part in zip(leaf_numbers(self.signature.arguments[argnum]), direction, strict=True):
                leaf = leaves[number]
                moved = shifted(leaf, step * part)
                leaves[number] = moved if isinstance(leaf, np.ndarray) else type(leaf)(moved)
        args, kwargs = call_arguments(self.names, [unflatten(t, leaves) for t in self.signature.arguments])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.function(*args, **kwargs)
        return self._weighted(result)

    def _weighted(self, result: Any) -> float:
        tree, _, leaves = flatten(result)
        floats = [np.asarray(leaf) for leaf in leaves if is_inexact(np.asarray(leaf).dtype)]
        if self.weights is None:
            scalar = tree.kind == "leaf" and floats and floats[0].ndim == 0 and not is_complex(floats[0].dtype)
            self.weights = [1.0] if scalar else [self._normal(leaf) for leaf in floats]
            self.noise = 8 * np.finfo(float).eps * sum(float(np.sum(np.abs(leaf))) for leaf in floats)
        pairs = zip(self.weights, floats, strict=True)
        return float(sum(np.sum(np.real(np.conj(weight) * leaf)) for weight, leaf in pairs))

    def _normal(self, like: Any) -> Any:
        drawn = self.rng.normal(size=np.shape(like))
        return drawn + 1j * self.rng.normal(size=np.shape(like)) if is_complex(np.asarray(like).dtype) else drawn

    def direction(self, argnum: int) -> list[Any]:
        """Return a random direction of one argument; each part is as large as what it moves."""
        parts = []
        for number in leaf_numbers(self.signature.arguments[argnum]):
            leaf = np.asarray(self.leaves[number])
            size = float(np.sqrt(np.mean(np.abs(as_double(leaf)) ** 2))) if leaf.size else 1.0
            parts.append(self._normal(leaf) * (size or 1.0))
        return parts

    def gradients(self, made: Specialization, argnums: Sequence[int]) -> tuple[float | None, list[list[Any]]]:
        """Return the value (where it is a scalar) and the leaves of each gradient, by a compiled instance."""
        leaves = [_copied(leaf) for leaf in self.leaves]
        args = [unflatten(tree, leaves) for tree in self.signature.arguments]
        if made.program.request.kind == "value_and_grad":
            value, gradients = made.call(leaves, args)
            return float(value), [flatten(g)[2] for g in gradients]
        kept = [_copied(leaf) for leaf in leaves]
        positional, keywords = call_arguments(self.names, args)
        tree, _, results = flatten(self.function(*positional, **keywords))
        weights = iter(self.weights or ())
        ct = unflatten(tree, [next(weights) if is_inexact(np.asarray(r).dtype) else r for r in results])
        gradients = made.pull_back([*kept, *made.program.hidden_values()], ct)
        return None, [flatten(gradients[a])[2] for a in argnums]

    def tolerance(self) -> float:
        """Return the relative tolerance for the lowest precision among the inputs."""
        kinds = [leaf.type.dtype for leaf in self.signature.leaves if is_inexact(leaf.type.dtype)]
        smallest = min((k.itemsize // (2 if is_complex(k) else 1) for k in kinds), default=8)
        return {8: 1e-6, 4: 2e-3, 2: 0.1}[smallest]


def as_double(leaf: Any) -> Any:
    """Return a copy of an array in double precision; integers and Python numbers stay."""
    if not isinstance(leaf, np.ndarray | np.generic):
        return leaf
    if not is_inexact(leaf.dtype.newbyteorder("=")):
        return _copied(leaf)
    return leaf.astype(np.complex128 if is_complex(leaf.dtype) else np.float64)


def shifted(leaf: Any, change: Any) -> Any:
    """Return a number or an array and a change of it added up; an array of no dimensions stays one."""
    return np.asarray(leaf + change) if isinstance(leaf, np.ndarray) else leaf + change


def copied_tree(value: Any) -> Any:
    """Return a value with copies of its arrays."""
    tree, _, leaves = flatten(value)
    return unflatten(tree, [_copied(leaf) for leaf in leaves])


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf

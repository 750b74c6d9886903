"""Checks of gradients against differences: gradcheck and gradgradcheck.

Reads a function of tensors; raises GradcheckError. Previous: function.py; next: graph.py.

A cotangent v of an output stands for the loss L = Re(conj(v) · y), and a gradient for dL/dRe x + i dL/dIm x; so complex
inputs and outputs need no case of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.autograd import forward_ad
from tracegrad.runtime.gradients import enable_grad, grad
from tracegrad.runtime.mirrors import carry_over
from tracegrad.runtime.tape import needs_grad
from tracegrad.runtime.tensor import Array, Tensor, is_differentiable, wrap


class GradcheckError(RuntimeError):
    """A gradient is wrong, or depends on more than the inputs."""


def _put(array: Array, place: Any, value: Any) -> None:
    """Write into the memory of a tensor."""
    array[place] = value
    carry_over(array)


def _differentiable(found: Any) -> list[Tensor]:
    """Return those of the results of a function that a derivative can pass through.

    Raises:
        AttributeError: a result is no tensor.
        RuntimeError: a result holds bools.
    """
    results = found if isinstance(found, tuple | list) else (found,)
    for k, y in enumerate(results):
        if not isinstance(y, Tensor):
            raise AttributeError(
                f"'{type(y).__name__}' object has no attribute 'requires_grad': output {k} of the function that is "
                "checked must be a tensor"
            )
        if y._a.dtype == np.bool_:
            raise RuntimeError(
                f"output {k} of the function that is checked is a bool tensor. Subtraction, the `-` operator, with two "
                "bool tensors is not supported: there are no differences to compare gradients with"
            )
    return [y for y in results if is_differentiable(y._a.dtype)]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare gradients with central differences.

    Args:
        func: a function of tensors that returns a tensor or a tuple of tensors.
        inputs: its arguments; those that require grad are checked.
        eps: step of the differences.
        atol, rtol: tolerances.
        raise_exception: raise instead of returning False.
        nondet_tol: how far two runs of backward may differ.
        check_undefined_grad: also check that gradients of outputs may be missing.
        check_grad_dtypes: also check that gradients have the dtype of their input.
        check_batched_grad: also check gradients of several cotangents at once.
        check_forward_ad, check_backward_ad: what is checked.
        fast_mode: compare one random projection instead of whole Jacobians.

    Raises:
        GradcheckError: the check fails (with `raise_exception`).
        ValueError: no input requires grad.
    """
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    check = _Check(func, given, eps, atol, rtol)
    try:
        with enable_grad():
            check.run_checks(
                nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, check_forward_ad,
                check_backward_ad, fast_mode,
            )  # fmt: skip
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Check:
    def __init__(self, func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
        self.func, self.inputs, self.eps, self.atol, self.rtol = func, inputs, eps, atol, rtol
        self.active = [x for x in inputs if isinstance(x, Tensor) and needs_grad(x)]
        if not self.active:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True."
            )
        for k, x in enumerate(inputs):
            if isinstance(x, Tensor) and needs_grad(x):
                if x._a.dtype not in (np.float64, np.complex128):
                    warnings.warn(
                        f"Input #{k} requires gradient and is not a double precision floating point or complex. This "
                        "check will likely fail if all the inputs are not of double precision floating point or "
                        "complex. ",
                        stacklevel=4,
                    )
                if any(s == 0 and n > 1 for s, n in zip(x._a.strides, x._a.shape, strict=True)):
                    raise RuntimeError(
                        f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                        "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                        ".contiguous on the input before passing it to gradcheck."
                    )

    def outputs(self) -> list[Tensor]:
        return _differentiable(self.func(*self.inputs))

    def values(self) -> list[Array]:
        return [np.array(y._a) for y in self.outputs()]

    def run_checks(
        self, nondet_tol: float, undefined: bool, dtypes: bool, batched: bool, forward: bool, backward: bool, fast: bool
    ) -> None:
        outs = self.outputs()
        live = [y for y in outs if needs_grad(y)]
        if backward and not live:
            for k, x in enumerate(self.active):
                for slope in self.numerical(x):
                    if any(np.abs(s).max(initial=0.0) > self.atol for s in slope):
                        raise GradcheckError(
                            f"Numerical gradient for function expected to be zero: it depends on input {k}, but no "
                            "output requires grad"
                        )
            return
        if backward and fast:
            self.compare_fast()
        elif backward:
            self.compare_full(nondet_tol, dtypes)
        if forward:
            self.compare_forward()
        if backward and undefined and len(live) > 0:
            self.check_missing()
        if batched and backward:
            self.check_batched()

    # ---- numerical and analytical Jacobians

    def numerical(self, x: Tensor) -> list[list[Array]]:
        """Return per output: derivatives by Re x and (complex) Im x of every element, [parts][x.size, y.size]."""
        array = x._a
        parts = (1.0, 1j) if array.dtype.kind == "c" else (1.0,)
        count = len(self.outputs())
        slopes: list[list[list[Array]]] = [[[] for _ in parts] for _ in range(count)]
        for place in np.ndindex(array.shape):
            before = array[place].copy() if array.ndim else array.copy()
            for p, part in enumerate(parts):
                _put(array, place, before + self.eps * part)
                high = self.values()
                _put(array, place, before - self.eps * part)
                low = self.values()
                _put(array, place, before)
                for k in range(count):
                    slopes[k][p].append((high[k] - low[k]).ravel() / (2 * self.eps))
        return [
            [np.array(rows).reshape(array.size, -1) if rows else np.zeros((0, 0)) for rows in per_output]
            for per_output in slopes
        ]

    def analytical(self, number: int, dtypes: bool = False) -> list[list[Array]]:
        """Return per active input: the gradient for each element of one output, [units][x.size, y.size]."""
        y = self.outputs()[number]
        units = (1.0, 1j) if y._a.dtype.kind == "c" else (1.0,)
        found: list[list[list[Array]]] = [[[] for _ in units] for _ in self.active]
        for u, unit in enumerate(units):
            for place in np.ndindex(y._a.shape):
                ct = np.zeros_like(y._a)
                ct[place] = unit
                gradients: Sequence[Any] = [None] * len(self.active)
                if needs_grad(y):
                    gradients = grad(y, self.active, wrap(ct), retain_graph=True, allow_unused=True)
                for k, (x, g) in enumerate(zip(self.active, gradients, strict=True)):
                    if g is not None and dtypes and g._a.dtype != x._a.dtype:
                        raise GradcheckError(f"Gradient has dtype {g.dtype!r}, but input {k} has {x.dtype!r}")
                    if g is not None and g._a.shape != x._a.shape:
                        raise GradcheckError(f"Gradient has incorrect size: {g.shape!r} for input {k}, {x.shape!r}")
                    value = np.zeros(x._a.shape, x._a.dtype) if g is None else g._a
                    found[k][u].append(value.ravel())
        return [[np.array(rows).T for rows in per_input] for per_input in found]

    def compare_full(self, nondet_tol: float, dtypes: bool) -> None:
        numerical = [self.numerical(x) for x in self.active]
        for number in range(len(self.outputs())):
            analytical = self.analytical(number, dtypes)
            again = self.analytical(number)
            for k in range(len(self.active)):
                parts = numerical[k][number]
                for u, jacobian in enumerate(analytical[k]):
                    if not jacobian.size:
                        continue
                    turned = [p if u == 0 else p * -1j for p in parts]  # conj(unit) times the derivative
                    expected = turned[0].real + (1j * turned[1].real if len(turned) > 1 else 0.0)
                    self.compare(jacobian, expected, number, k)
                    if np.abs(jacobian - again[k][u]).max(initial=0.0) > nondet_tol:
                        raise GradcheckError(
                            "Backward is not reentrant, i.e., running backward with same input and grad_output "
                            "multiple times gives different values, although analytical gradient matches numerical "
                            f"gradient. "
                            f"The tolerance for nondeterminism was {nondet_tol}."
                        )

    def compare(self, analytical: Array, numerical: Array, number: int, k: int) -> None:
        if not np.allclose(analytical, numerical, self.rtol, self.atol):
            raise GradcheckError(
                f"Jacobian mismatch for output {number} with respect to input {k},\nnumerical:{wrap(numerical)}\n"
                f"analytical:{wrap(analytical)}\n"
            )

    def compare_fast(self) -> None:
        rng = np.random.default_rng(0)

        def random(array: Array) -> Array:
            made: Any = rng.uniform(-1.0, 1.0, array.shape)
            if array.dtype.kind == "c":
                made = made + 1j * rng.uniform(-1.0, 1.0, array.shape)
            return np.asarray(made)

        outs = self.outputs()
        for number, y in enumerate(outs):
            u = random(y._a)
            gradients: Sequence[Any] = [None] * len(self.active)
            if needs_grad(y):
                gradients = grad(y, self.active, wrap(u.astype(y._a.dtype)), retain_graph=True, allow_unused=True)
            for k, (x, g) in enumerate(zip(self.active, gradients, strict=True)):
                v = random(x._a)
                before = x._a.copy()
                _put(x._a, ..., before + self.eps * v)
                high = self.values()[number]
                _put(x._a, ..., before - self.eps * v)
                low = self.values()[number]
                _put(x._a, ..., before)
                expected = np.sum(np.conj(u) * (high - low) / (2 * self.eps)).real
                found = 0.0 if g is None else np.sum(np.conj(v) * g._a).real
                self.compare(np.asarray(found), np.asarray(expected), number, k)

    def compare_forward(self) -> None:
        for k, x in enumerate(self.active):
            numerical = self.numerical(x)
            parts = (1.0, 1j) if x._a.dtype.kind == "c" else (1.0,)
            for row, place in enumerate(np.ndindex(x._a.shape)):
                for p, part in enumerate(parts):
                    tangent = np.zeros_like(x._a)
                    tangent[place] = part
                    with forward_ad.dual_level():
                        dual = forward_ad.make_dual(x.detach().requires_grad_(), wrap(tangent))
                        found = self.func(*[dual if i is x else i for i in self.inputs])
                        duals = _differentiable(found)
                        moved = [forward_ad.unpack_dual(y).tangent for y in duals]
                    for number, (y, t) in enumerate(zip(duals, moved, strict=True)):
                        value = np.zeros(y._a.size, y._a.dtype) if t is None else t._a.ravel()
                        self.compare(value, numerical[number][p][row], number, k)

    def check_missing(self) -> None:
        outs = [y for y in self.outputs() if needs_grad(y)]
        for missing in range(len(outs) if len(outs) > 1 else 0):
            cts = [None if k == missing else wrap(np.zeros_like(y._a)) for k, y in enumerate(outs)]
            pairs = [(y, ct) for y, ct in zip(outs, cts, strict=True) if ct is not None]
            found = grad([y for y, _ in pairs], self.active, [ct for _, ct in pairs], True, allow_unused=True)
            if any(g is not None and np.any(g._a != 0) for g in found):
                raise GradcheckError(
                    "Expected all gradients to be undefined or zero when an output's gradient is missing and the "
                    "others are zero"
                )

    def check_batched(self) -> None:
        for y in self.outputs():
            if not needs_grad(y):
                continue
            rng = np.random.default_rng(0)
            cts = wrap(rng.uniform(-1.0, 1.0, (2, *y._a.shape)).astype(y._a.dtype))
            both = grad(y, self.active, cts, True, allow_unused=True, is_grads_batched=True)
            for row in range(2):
                one = grad(y, self.active, cts[row].detach(), True, allow_unused=True)
                for a, b in zip(both, one, strict=True):
                    if a is not None and not np.allclose(a._a[row], b._a, self.rtol, self.atol):
                        raise GradcheckError("Batched gradients differ from those computed one by one")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare gradients of gradients with central differences; arguments as for gradcheck.

    Args:
        grad_outputs: cotangents of the outputs, inputs of the check too; random by default.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outs = _differentiable(func(*given))
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cts = []
        for y in outs:
            values = rng.uniform(0.5, 1.5, y._a.shape) * rng.choice([-1.0, 1.0], y._a.shape)
            if gen_non_contig_grad_outputs and y._a.ndim:
                values = np.repeat(values[..., None], 2, -1)[..., 0]
            if y._a.dtype.kind == "c":
                values = values + 1j * rng.uniform(-1.0, 1.0, y._a.shape)
            cts.append(wrap(np.asarray(values.astype(y._a.dtype, order="K"))).requires_grad_())
        chosen = tuple(cts)
    else:
        chosen = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(chosen)

    def gradients(*args: Any) -> tuple[Any, ...]:
        ins, cotangents = args[:-count], args[-count:]
        many = _differentiable(func(*ins))
        active = [x for x in ins if isinstance(x, Tensor) and needs_grad(x)]
        return tuple(g for g in grad(many, active, cotangents, create_graph=True, allow_unused=True) if g is not None)

    return gradcheck(
        gradients, (*given, *chosen), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
    )  # fmt: skip

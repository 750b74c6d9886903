"""Functions of elements that few programs need: tests of numbers, pieces of floats, functions of statistics.

Reads tensors. Previous: building.py; next: places.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import ops
from tracegrad.capture.numpy_api.scipy_special import log_ndtr as log_of_ndtr
from tracegrad.capture.tracer import asarray as as_tracer
from tracegrad.capture.tracer import from_value
from tracegrad.runtime import dtypes
from tracegrad.runtime.kinds import refuse_kind, refuse_kinds
from tracegrad.runtime.operate import (
    elementwise,
    exp2_of,
    in_single,
    named,
    pointwise,
    promoting,
    require_operands,
    times_log,
)
from tracegrad.runtime.tape import Plan, apply_composition, planned
from tracegrad.runtime.tensor import METHODS, Tensor, method, public, require_tensors, wrap
from tracegrad.runtime.views import make_view

# ---- tests


def _define_test(name: str, text: str, function: Callable[[Any], Any]) -> None:
    def apply(input: Tensor) -> Tensor:
        refuse_kinds(name, input)
        return wrap(np.asarray(function(input._a), np.bool_))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Return which elements {text}."
    public(name)(apply)
    method(name)(apply)


_define_test("isreal", "have no imaginary part", lambda a: a.imag == 0 if a.dtype.kind == "c" else np.ones(a.shape))
_define_test("isposinf", "are infinite and positive", lambda a: a == math.inf)
_define_test("isneginf", "are infinite and negative", lambda a: a == -math.inf)
_define_test("signbit", "have a minus sign", lambda a: np.signbit(a) if a.dtype.kind in "fV" else a < 0)


@public()
@method("positive")
def positive(input: Tensor) -> Tensor:
    """Return the tensor."""
    made: Tensor = METHODS["__pos__"](input)
    return made


@public()
@method("is_signed")
def is_signed(input: Tensor) -> bool:
    """Return whether the dtype has negative numbers."""
    return input._a.dtype.kind not in "bu"


# ---- pieces of floats


@public()
@method("frexp")
def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return mantissas in [0.5, 1) with signs, and exponents of 2."""
    if dtypes.category(input._a.dtype) != 2:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = np.frexp(input._a)
    made = apply_composition(_FREXP, (), [input, wrap(np.asarray(mantissa)), wrap(np.asarray(exponent, np.int32))])
    return made, wrap(np.asarray(exponent, np.int32))


def _mantissa(x: Any, mantissa: Any, exponent: Any) -> Any:
    constant = from_value(ops.stop_gradient(as_tracer(x).value))
    return mantissa + (x - constant) * np.exp2(-exponent.astype(x.dtype))


_FREXP = pointwise("Frexp", _mantissa)


def _define_pair(
    name: str, title: str, function: Callable[..., Any], text: str, refuse: Callable[[Tensor, Tensor], None]
) -> None:
    composition = promoting(title, function)

    def plan(input: Tensor, other: Tensor) -> Any:
        require_tensors(input, other)
        refuse(input, other)
        return elementwise(composition, (input, other), least=2)

    apply = named(plan, name, text)
    public(name)(apply)
    method(name)(apply)


def _refuse_joined(name: str, input: Tensor, other: Tensor) -> None:
    refuse_kind(name, dtypes.result_type([input._a, other._a], []))


def _refuse_exponents(input: Tensor, other: Tensor) -> None:
    if dtypes.category(input._a.dtype) == 2:
        refuse_kinds("ldexp", other)


_define_pair("ldexp", "Ldexp", lambda x, y: x * exp2_of(y), "Return input * 2 ** other.", _refuse_exponents)
_define_pair(
    "nextafter", "Nextafter", np.nextafter, "Return the next number after input towards other.",
    functools.partial(_refuse_joined, "nextafter"),
)  # fmt: skip
_define_pair(
    "logaddexp2", "Logaddexp2", lambda x, y: np.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2),
    "Return log2(2 ** input + 2 ** other) without overflow.", functools.partial(_refuse_joined, "logaddexp2"),
)  # fmt: skip


def _define_of_integers(name: str, function: Any) -> None:
    def apply(input: Tensor, other: Tensor) -> Tensor:
        if max(dtypes.category(t._a.dtype) for t in (input, other)) > 1:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Float'")
        dtype = dtypes.result_type([input._a, other._a], [])
        return wrap(np.asarray(function(input._a.astype(dtype), other._a.astype(dtype))))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Return {name} of each pair of integers."
    public(name)(apply)
    method(name)(apply)


_define_of_integers("gcd", np.gcd)
_define_of_integers("lcm", np.lcm)

# ---- functions of statistics


def _op(op: Any, x: Any, **attrs: Any) -> Any:
    return from_value(op(as_tracer(x).value, **attrs))


def _polygamma(order: int, x: Any) -> Any:
    return _op(ops.polygamma, x, order=order) if order else _op(ops.digamma, x)


_POLYGAMMA = pointwise("Polygamma", in_single(_polygamma))


@public()
@planned()
def polygamma(n: int, input: Tensor) -> Any:
    """Return the n-th derivative of digamma."""
    return Plan(_POLYGAMMA, (n,), [input])


method("polygamma")(lambda self, n: polygamma(n, self))


@public()
@method("mvlgamma")
@planned()
def mvlgamma(input: Tensor, p: int) -> Any:
    """Return the logarithm of the gamma function of p dimensions."""
    refuse_kinds("mvlgamma", input)
    return Plan(_MVLGAMMA, (p,), [input])


def _mvlgamma(p: int, x: Any) -> Any:
    total = x * 0 + p * (p - 1) / 4 * math.log(math.pi)
    for k in range(p):
        total = total + _op(ops.lgamma, x - k / 2)
    return total


_MVLGAMMA = pointwise("Mvlgamma", in_single(_mvlgamma))


def _define_float(name: str, title: str, function: Callable[..., Any], text: str) -> Callable[..., Any]:
    composition = promoting(title, in_single(function))

    def plan(input: Any) -> Any:
        return elementwise(composition, (input,), least=2)

    return named(plan, name, text)


def _entropy(x: Any) -> Any:
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inside = -x * np.log(np.where(x > 0, x, one))
    at_zero = np.sqrt(np.where(x == 0, x, one) + zero)  # with the slope inf, also at -0.0
    below = np.log(zero * np.where((x >= 0) | (x == -math.inf), -one, x))  # -inf with the slope NaN
    return np.where(x > 0, inside, np.where(x == 0, at_zero, below))


i0 = _define_float(
    "i0", "I0", lambda x: _op(ops.bessel_i, x, order=0), "Return the modified Bessel function of order 0."
)
i1 = _define_float(
    "i1", "SpecialI1", lambda x: _op(ops.bessel_i, x, order=1), "Return the modified Bessel function of order 1."
)
ndtr = _define_float(
    "ndtr",
    "Mul",
    lambda x: 0.5 * _op(ops.erfc, -x * math.sqrt(0.5)),
    "Return the standard normal distribution function.",
)
i0e = _define_float(
    "i0e",
    "SpecialI0E",
    lambda x: _op(ops.bessel_ie, x, order=0),
    "Return exp(-|x|) times the modified Bessel function of order 0.",
)
i1e = _define_float(
    "i1e",
    "SpecialI1E",
    lambda x: _op(ops.bessel_ie, x, order=1),
    "Return exp(-|x|) times the modified Bessel function of order 1.",
)
ndtri = _define_float(
    "ndtri", "SpecialNdtri", lambda x: _op(ops.ndtri, x), "Return the quantile of the standard normal distribution."
)
log_ndtr = _define_float(
    "log_ndtr", "SpecialLogNdtr", log_of_ndtr, "Return the logarithm of the standard normal distribution function."
)
entr = _define_float("entr", "SpecialEntr", _entropy, "Return -x log(x): 0 at 0, -inf below.")
public("i0")(i0)
method("i0")(i0)


@planned(2)
def xlog1py(input: Any, other: Any) -> Any:
    """Return x log(1 + y), 0 where x is."""
    require_operands(input, other)
    return elementwise(_XLOG1PY, (input, other), least=2)


_XLOG1PY = promoting("SpecialXlog1Py", lambda x, y: times_log(np.log1p, (y <= -1) | (y == math.inf), x, y))

# ---- complex numbers as pairs


@public()
def view_as_real(input: Tensor) -> Any:
    """Return a view of complex numbers as pairs of real ones along a new last axis."""
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if input.is_conj():
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.\n  help: use resolve_conj() first"
        )
    return make_view("ViewAsReal", input, ("pairs", (), ()))


@public()
def view_as_complex(input: Tensor) -> Any:
    """Return a view of the pairs along the last axis as complex numbers."""
    a = input._a
    if a.dtype not in (np.float32, np.float64):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{input.dtype.title}"
        )
    if not a.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if a.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if a.strides[-1] != a.itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % (2 * a.itemsize) for s in a.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if a.size and input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return make_view("ViewAsComplex", input, ("complex", (), ()))


@public()
def is_conj(input: Tensor) -> bool:
    """Return whether a tensor is a conjugate view of its memory."""
    return input.is_conj()


@public()
def is_neg(input: Tensor) -> bool:
    """Return whether a tensor is the imaginary part of a conjugate view."""
    return input.is_neg()


@public()
@method("resolve_conj")
def resolve_conj(input: Tensor) -> Any:
    """Return a copy of a conjugate view in memory of its own; another tensor as it is."""
    return input.clone() if input.is_conj() else input


@public()
@method("resolve_neg")
def resolve_neg(input: Tensor) -> Any:
    """Return a copy of the imaginary part of a conjugate view in memory of its own; another tensor as it is."""
    return input.clone() if input.is_neg() else input


method("arctan2")(METHODS["atan2"])
public("arctan2")(METHODS["atan2"])

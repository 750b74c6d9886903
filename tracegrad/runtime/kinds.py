"""Which kinds of numbers torch has no operation for: a table, and the check.

Reads tensors. Previous: views.py; next: operate.py.
"""

from __future__ import annotations

from typing import Any

from tracegrad.runtime import dtypes
from tracegrad.runtime.tensor import Tensor

Row = tuple[str, type[Exception], str]


def _lacks(kinds: str, kernel: str) -> Row:
    return kinds, NotImplementedError, f"\"{kernel}\" not implemented for '{{}}'"


def _says(kinds: str, text: str) -> Row:
    return kinds, RuntimeError, text


#: operation -> rows: the kinds that torch refuses (b bools, i integers, f floats, c complex numbers), the class of its
#: error, and what it says of the dtype
REFUSED: dict[str, tuple[Row, ...]] = {
    "abs_": (_says("c", "In-place abs is not supported for complex tensors."),),
    "absolute_": (_says("c", "In-place abs is not supported for complex tensors."),),
    "aminmax": (_lacks("c", "aminmax_cpu"),),
    "amax": (_lacks("c", "max_values_cpu"),),
    "amin": (_lacks("c", "min_values_cpu"),),
    "argmax": (
        _says("c", "argmax(): does not support complex input"),
        _says("b", "argmax(): does not support bool input"),
    ),
    "argmin": (
        _says("c", "argmin(): does not support complex input"),
        _says("b", "argmin(): does not support bool input"),
    ),
    "avg_pool1d": (_lacks("bc", "avg_pool2d"),),
    "cdist": (_says("bi", "cdist only supports floating-point dtypes, X1 got: {}"),),
    "cov": (_says("b", "cov(): bool dtype is not supported for input"),),
    "cross": (_lacks("b", "cross"),),
    "cummax": (_lacks("c", "cummax_cpu"),),
    "cummin": (_lacks("c", "cummin_cpu"),),
    "cumulative_trapezoid": (
        _says("b", "cumulative_trapezoid: received a bool input for `y`, but bool is not supported"),
    ),
    "deg2rad": (_says("c", "deg2rad is not supported for complex tensors."),),
    "hardshrink": (_lacks("c", "hardshrink_cpu"),),
    "heaviside": (_says("c", "heaviside is not yet implemented for complex tensors."),),
    "histc": (_lacks("b", "linspace_cpu"), _lacks("i", "histogram_cpu"), _lacks("c", "aminmax_cpu")),
    "isin": (_says("bc", "Unsupported input type encountered for isin(): {}"),),
    "isneginf": (_says("c", "isneginf does not support complex inputs."),),
    "isposinf": (_says("c", "isposinf does not support complex inputs."),),
    "kthvalue": (_lacks("bc", "kthvalue_cpu"),),
    "ldexp": (_lacks("b", "ldexp_cpu_exp"),),
    "logaddexp2": (_lacks("bi", "logaddexp2_cpu"),),
    "max": (_says("c", "max(): does not support complex input"),),
    "max_all": (_lacks("c", "max_all"),),
    "max_pool1d": (_lacks("bic", "max_pool1d_impl"),),
    "median": (_lacks("bc", "median_cpu"),),
    "min": (_says("c", "min(): does not support complex input"),),
    "min_all": (_lacks("c", "min_all"),),
    "mode": (_lacks("c", "mode_cpu"),),
    "mvlgamma": (_says("b", "The input tensor may not be a boolean tensor."),),
    "nanmedian": (_lacks("bc", "median_cpu"),),
    "nextafter": (_lacks("bi", "nextafter_cpu"),),
    "rad2deg": (_says("c", "rad2deg is not supported for complex tensors."),),
    "searchsorted": (_lacks("bc", "searchsorted_out_cpu"),),
    "signbit": (("c", NotImplementedError, "signbit is not implemented for complex tensors."),),
    "sort": (_says("c", "Sort does not support complex dtypes on CPU"),),
    "topk": (
        _says("b", "topk does not support bool dtypes on CPU"),
        _says("c", "topk does not support complex dtypes on CPU"),
    ),
    "trapezoid": (_says("b", "trapezoid: received a bool input for `y`, but bool is not supported"),),
    "unique": (_lacks("c", "unique"),),
}  # fmt: skip


def refuse_kinds(name: str, *tensors: Tensor) -> None:
    """Check the dtypes of operands against the table.

    Raises:
        NotImplementedError, RuntimeError: torch has no such operation for one.
    """
    for tensor in tensors:
        refuse_kind(name, tensor._a.dtype)


def refuse_kind(name: str, dtype: Any) -> None:
    """Check a dtype that operands are brought to; see refuse_kinds."""
    kind = "bifc"[dtypes.category(dtype)]
    for kinds, error, text in REFUSED.get(name, ()):
        if kind in kinds:
            raise error(text.format(dtypes.of(dtype).title))

"""torch.testing.assert_close, for tensors, arrays, numbers, and containers of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.tensor import Tensor

#: relative and absolute tolerance per dtype
_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Check that two values are equal up to rounding; tolerances depend on the dtype.

    Raises:
        AssertionError: they are not, or differ in shape, dtype or structure.
        ValueError: only one tolerance is given.
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or unspecified, but got no {missing}.")
    options = dict(
        rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, check_stride=check_stride, msg=msg
    )
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            _fail("The keys of the mappings do not match", msg)
        for key in expected:
            assert_close(actual[key], expected[key], **options)  # type: ignore[arg-type]
    elif isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            _fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", msg)
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **options)  # type: ignore[arg-type]
    else:
        text = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride)
        if text:
            _fail(text, msg)


def _fail(text: str, msg: str | Callable[[str], str] | None) -> None:
    raise AssertionError(text if msg is None else msg if isinstance(msg, str) else msg(text))


def _difference(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool,
    check_stride: bool,
) -> str:  # fmt: skip
    """Return what differs, or an empty text."""
    tensors = isinstance(actual, Tensor), isinstance(expected, Tensor)
    if tensors[0] != tensors[1]:
        return f"Types do not match: {type(actual)} and {type(expected)}"
    a, b = (x._a if isinstance(x, Tensor) else np.asarray(x) for x in (actual, expected))
    if a.shape != b.shape:
        shapes = f"torch.Size({list(a.shape)}) != torch.Size({list(b.shape)})"
        return f"The values for attribute 'shape' do not match: {shapes}."
    if check_dtype and tensors[0] and a.dtype != b.dtype:
        return f"The values for attribute 'dtype' do not match: {dtypes.of(a.dtype)} != {dtypes.of(b.dtype)}."
    if check_stride and a.strides != b.strides:
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
    pairs = [_TOLERANCES.get(dtypes.of(x.dtype).name, (0.0, 0.0)) for x in (a, b)]
    relative = max(p[0] for p in pairs) if rtol is None else rtol
    absolute = max(p[1] for p in pairs) if atol is None else atol
    kind = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    a, b = a.astype(kind), b.astype(kind)
    close = np.isclose(a, b, relative, absolute, equal_nan)
    if close.all():
        return ""
    title = "Tensor-likes" if tensors[0] else "Scalars" if not a.ndim else "Arrays"
    with np.errstate(all="ignore"):
        gap = np.abs(a - b)
        ratio = gap / np.abs(b)
    count = int(close.size - close.sum())
    word = "close" if relative or absolute else "equal"
    return (
        f"{title} are not {word}!\n\nMismatched elements: {count} / {a.size} ({100 * count / a.size:.1f}%)\n"
        f"Greatest absolute difference: {gap.max()} (up to {absolute} allowed)\n"
        f"Greatest relative difference: {ratio.max()} (up to {relative} allowed)"
    )

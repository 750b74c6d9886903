"""Dtypes of eager tensors under torch's names, and how operands of different dtypes combine.

Reads no other file; the default dtype is kept here. Previous: kernel.py; next: tensor.py.

torch promotes by category (bool, integer, float, complex) and, within a category, lets arrays win over rank-0 arrays
and these over Python numbers; NumPy does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from tracegrad.runtime.engine import engine

NumpyDtype = np.dtype[Any]


class DType:
    """A dtype of torch; NumPy accepts it wherever it takes a dtype."""

    __slots__ = ("dtype", "name", "title")

    def __init__(self, name: str, dtype: Any, title: str) -> None:
        self.name, self.title = name, title
        self.dtype: NumpyDtype = np.dtype(dtype)

    @property
    def is_floating_point(self) -> bool:
        return category(self.dtype) == 2

    @property
    def is_complex(self) -> bool:
        return category(self.dtype) == 3

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return of, (self.dtype,)


float16 = half = DType("float16", np.float16, "Half")
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, "BFloat16")
float32 = float_ = DType("float32", np.float32, "Float")
float64 = double = DType("float64", np.float64, "Double")
complex64 = cfloat = DType("complex64", np.complex64, "ComplexFloat")
complex128 = cdouble = DType("complex128", np.complex128, "ComplexDouble")
uint8 = DType("uint8", np.uint8, "Byte")
int8 = DType("int8", np.int8, "Char")
int16 = short = DType("int16", np.int16, "Short")
int32 = int_ = DType("int32", np.int32, "Int")
int64 = long = DType("int64", np.int64, "Long")
bool_ = DType("bool", np.bool_, "Bool")

_ALL: dict[NumpyDtype, DType] = {
    d.dtype: d
    for d in (
        float16, bfloat16, float32, float64, complex64, complex128, uint8, int8, int16, int32, int64, bool_,
        DType("uint16", np.uint16, "UInt16"), DType("uint32", np.uint32, "UInt32"),
        DType("uint64", np.uint64, "UInt64"),
    )
}  # fmt: skip
_COMPLEX_OF = {
    float32.dtype: complex64.dtype,
    float64.dtype: complex128.dtype,
    float16.dtype: complex64.dtype,
    bfloat16.dtype: complex64.dtype,
}
_CATEGORIES = {d: {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}[d.kind] for d in _ALL}
_default = [float32.dtype]


def of(dtype: NumpyDtype) -> DType:
    """Return torch's name of a NumPy dtype.

    Raises:
        TypeError: torch has no such dtype.
    """
    try:
        return _ALL[dtype]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{dtype.type.__name__}. The only supported types are: float64, "
            "float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
            "bool."
        ) from None


def scalar_name(dtype: NumpyDtype) -> str:
    """Return the name that torch's errors use: `float`, `double`, `long long`."""
    name = of(dtype).name
    return {
        "float32": "float", "float64": "double", "float16": "c10::Half", "int64": "long long", "int32": "int",
        "uint8": "uint8_t", "int8": "int8_t", "int16": "short",
    }.get(name, name)  # fmt: skip


def overflow_error(dtype: NumpyDtype) -> RuntimeError:
    """Return the error for a number that a dtype does not hold."""
    name = {"int64": "int64_t", "int16": "int16_t", "bfloat16": "c10::BFloat16"}.get(of(dtype).name, scalar_name(dtype))
    return RuntimeError(f"value cannot be converted to type {name} without overflow")


def check_fits(array: np.ndarray[Any, Any], dtype: NumpyDtype) -> None:
    """Check that complex numbers which are written among real ones are real.

    Raises:
        RuntimeError: one is not.
    """
    if array.dtype.kind == "c" and dtype.kind not in "bc" and array.imag.any():
        raise overflow_error(dtype)


def number_array(value: Any, dtype: NumpyDtype) -> np.ndarray[Any, Any]:
    """Return an array of rank 0 for a Python number; a negative one wraps around where the dtype has no sign.

    Raises:
        OverflowError: it does not fit into 64 bits.
        RuntimeError: it does not fit into the dtype.
    """
    if isinstance(value, complex | np.complexfloating) and dtype.kind not in "bc":
        check_fits(np.asarray(value), dtype)
        value = value.real
    if isinstance(value, int) and not -(2**63) <= value < 2**63 and (dtype != np.uint64 or value < 0):
        raise OverflowError("int too big to convert")
    if dtype.kind not in "iu":
        return np.asarray(value, dtype)
    limits = np.iinfo(dtype)
    if not isinstance(value, int):
        if not limits.min - 1 < value < limits.max + 1:
            raise overflow_error(dtype)
        return np.asarray(value, dtype)
    if not (-limits.max if dtype.kind == "u" else limits.min) <= value <= limits.max:
        raise overflow_error(dtype)
    return np.asarray(value & limits.max if dtype.kind == "u" else value, dtype)


def fitting_array(value: Any, dtype: NumpyDtype) -> np.ndarray[Any, Any]:
    """Return a number that is written as an array of rank 0.

    Raises:
        OverflowError, RuntimeError: it does not fit into the dtype.
    """
    with np.errstate(over="ignore"):
        made = number_array(value, dtype)
    if dtype in (float32.dtype, complex64.dtype) and np.isinf(made) and np.isfinite(value):
        raise overflow_error(dtype)
    return made


def factor(value: Any, dtype: NumpyDtype) -> Any:
    """Return a Python number that tensors of a dtype are multiplied by: in the category of the dtype.

    Raises:
        RuntimeError: it is complex, and the dtype is not.
    """
    return number_array(value, dtype).item() if number_category(value) > category(dtype) else value


def numpy_dtype(dtype: Any) -> NumpyDtype:
    """Return the NumPy dtype of a DType, a Python type or a NumPy dtype.

    Raises:
        TypeError: it is none of these; which argument of a call it was is found later (tensor.refusal).
    """
    if isinstance(dtype, DType):
        found: NumpyDtype = dtype.dtype
        return found
    if not isinstance(dtype, type | np.dtype):
        error = TypeError(f"expected torch.dtype, but got {type(dtype).__name__}")
        vars(error).update(refused=dtype, wanted="torch.dtype")
        raise error
    other: NumpyDtype = np.dtype(dtype)
    return other


def category(dtype: NumpyDtype) -> int:
    """Return 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    return _CATEGORIES[dtype]


def comparable(array: Any) -> Any:
    """Return numbers in a dtype that NumPy sorts with NaN last, which bfloat16 is not; the order stays."""
    return array.astype(np.float32) if array.dtype == bfloat16.dtype else array


def get_default_dtype() -> DType:
    """Return the dtype of tensors made from Python floats."""
    return of(_default[0])


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of tensors made from Python floats.

    Raises:
        TypeError: the dtype is not floating point.
    """
    if not isinstance(dtype, DType):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {dtype!r}")
    _default[0] = dtype.dtype
    if engine:
        engine.forget_plans()


def default_of(level: int) -> NumpyDtype:
    """Return the dtype that a Python number of a category has."""
    return (bool_.dtype, int64.dtype, _default[0], _COMPLEX_OF[_default[0]])[level]


def complex_of(dtype: NumpyDtype) -> NumpyDtype:
    """Return the complex dtype with parts of a real float dtype; complex dtypes stay."""
    return _COMPLEX_OF.get(dtype, dtype)


def real_of(dtype: NumpyDtype) -> NumpyDtype:
    """Return the dtype of the parts of a complex dtype; others stay."""
    return {complex64.dtype: float32.dtype, complex128.dtype: float64.dtype}.get(dtype, dtype)


def number_category(value: Any) -> int:
    """Return the category of a Python number or a NumPy scalar."""
    return (
        0
        if isinstance(value, bool)
        else 1
        if isinstance(value, int | np.integer)
        else 3
        if isinstance(value, complex | np.complexfloating)
        else 2
    )


def join(a: NumpyDtype, b: NumpyDtype) -> NumpyDtype:
    """Return the dtype of two arrays combined."""
    if a == b:
        return a
    la, lb = category(a), category(b)
    if la != lb:
        high, low = (a, b) if la > lb else (b, a)
        if category(high) == 3 and category(low) == 2:
            return np.dtype(np.promote_types(high, complex_of(low)))
        return high
    if {a, b} == {float16.dtype, bfloat16.dtype}:
        return float32.dtype
    return np.dtype(np.promote_types(a, b))


def result_type(arrays: Iterable[np.ndarray[Any, Any]], numbers: Iterable[Any]) -> NumpyDtype:
    """Return the dtype of a result: arrays by rank first, then Python numbers, which only raise the category."""
    full: NumpyDtype | None = None
    scalar: NumpyDtype | None = None
    for array in arrays:
        if array.ndim:
            full = array.dtype if full is None else join(full, array.dtype)
        else:
            scalar = array.dtype if scalar is None else join(scalar, array.dtype)
    found = full
    if scalar is not None:
        found = scalar if found is None else _raise_to(found, scalar, category(scalar))
    for number in numbers:
        level = number_category(number)
        found = default_of(level) if found is None else _raise_to(found, default_of(level), level)
    assert found is not None, "no operands"
    return found


def _raise_to(dtype: NumpyDtype, other: NumpyDtype, level: int) -> NumpyDtype:
    if level <= category(dtype):
        return dtype
    return complex_of(dtype) if level == 3 and category(dtype) == 2 else other


def narrowing_error(source: Any, target: Any) -> RuntimeError:
    """Return the error for a result whose dtype is of a higher category than that of what it is written into."""
    return RuntimeError(f"result type {of(source).title} can't be cast to the desired output type {of(target).title}")

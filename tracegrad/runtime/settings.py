"""What programs ask about dtypes and set about the machine.

Reads dtypes. Previous: writing.py; next: gradients.py. There is one implementation of each operation, which is
deterministic, and the number of threads is that of NumPy's libraries: such settings are kept and change nothing.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.creating import require_cpu
from tracegrad.runtime.tensor import CPU, NAMES, Device, Tensor, method, public, refused

_kept: dict[str, Any] = {"threads": 1, "deterministic": False, "precision": "highest"}


@public()
class finfo:
    """Limits of a dtype of floating point; of a complex one, those of its parts."""

    def __init__(self, type: Any = None) -> None:
        dtype = dtypes.real_of(dtypes.default_of(2) if type is None else dtypes.numpy_dtype(type))
        if dtypes.category(dtype) != 2:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{type!r}'")
        found: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        self.bits, self.dtype = int(found.bits), dtypes.of(dtype).name
        self.eps, self.max, self.min, self.tiny = (
            float(getattr(found, name)) for name in ("eps", "max", "min", "tiny")
        )
        self.smallest_normal, self.resolution = self.tiny, 10.0 ** -int(found.precision)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


@public()
class iinfo:
    """Limits of a dtype of integers."""

    def __init__(self, type: Any) -> None:
        dtype = dtypes.numpy_dtype(type)
        if dtypes.category(dtype) != 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type!r}'")
        found = np.iinfo(dtype)
        self.bits, self.min, self.max, self.dtype = found.bits, found.min, found.max, dtypes.of(dtype).name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def _require_dtypes(*values: Any) -> None:
    for value in values:
        if not isinstance(value, dtypes.DType):
            raise refused(value, "torch.dtype")


@public()
def promote_types(type1: dtypes.DType, type2: dtypes.DType) -> dtypes.DType:
    """Return the dtype of two tensors combined, of the dtypes of both."""
    _require_dtypes(type1, type2)
    return dtypes.of(dtypes.join(type1.dtype, type2.dtype))


@public()
def can_cast(from_: dtypes.DType, to: dtypes.DType) -> bool:
    """Return whether results of one dtype may be written into a tensor of another."""
    _require_dtypes(from_, to)
    low, high = dtypes.category(from_.dtype), dtypes.category(to.dtype)
    return low <= high and not (high == 1 and low == 1 and to.dtype.kind == "u" and from_.dtype.kind == "i")


@public()
@method("is_nonzero")
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not zero."""
    return bool(input)


@public()
def typename(obj: Any) -> str:
    """Return the name of a type: `torch.FloatTensor`."""
    return obj.type_name() if isinstance(obj, Tensor) else type(obj).__name__


@public()
def set_num_threads(int: int) -> None:
    """Keep the number for get_num_threads."""
    _kept["threads"] = int


@public()
def get_num_threads() -> int:
    """Return the number that was set, 1 at first."""
    return int(_kept["threads"])


@public()
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keep the mode: all operations are deterministic."""
    _kept["deterministic"] = mode


@public()
def set_float32_matmul_precision(precision: str) -> None:
    """Keep the precision: products are computed in that of their operands."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    _kept["precision"] = precision


@public()
def get_float32_matmul_precision() -> str:
    """Return the precision that was set, "highest" at first."""
    return str(_kept["precision"])


@public()
def are_deterministic_algorithms_enabled() -> bool:
    """Return the mode that was set."""
    return bool(_kept["deterministic"])


@public()
def set_default_device(device: Any) -> None:
    """Check that the device is the CPU, which is that of all tensors."""
    if device is not None:
        require_cpu(device)


@public()
def get_default_device() -> Device:
    """Return the CPU."""
    return CPU


@public()
def set_default_tensor_type(t: Any) -> None:
    """Set the dtype of tensors made from Python floats by the name of a type of tensors, or by this type."""
    kind = NAMES.get(t.removeprefix("torch."), t) if isinstance(t, str) else t
    dtypes.set_default_dtype(getattr(kind, "dtype", kind))

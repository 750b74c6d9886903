"""Eager tensors as one module: importing it attaches all methods and collects torch's names.

Previous: traced.py; next folder: autograd.
"""

from __future__ import annotations

import numpy as np

from tracegrad.runtime import (
    building,
    creating,
    dtypes,
    gradients,
    numpy_bridge,
    operate,
    places,
    printing,
    reducing,
    saving,
    settings,
    shaping,
    special,
    traced,
    writing,
)
from tracegrad.runtime.tensor import NAMES, Device, Size, Symbol, Tensor

NAMES.update(
    Tensor=Tensor,
    Size=Size,
    device=Device,
    dtype=dtypes.DType,
    pi=np.pi,
    e=np.e,
    inf=np.inf,
    nan=np.nan,
    newaxis=None,
    get_default_dtype=dtypes.get_default_dtype,
    set_default_dtype=dtypes.set_default_dtype,
    strided=Symbol("torch.strided"),
    contiguous_format=Symbol("torch.contiguous_format"),
    preserve_format=Symbol("torch.preserve_format"),
    channels_last=Symbol("torch.channels_last"),
    channels_last_3d=Symbol("torch.channels_last_3d"),
)
for _name in (
    "float16", "half", "bfloat16", "float32", "float64", "double", "complex64", "cfloat", "complex128", "cdouble",
    "uint8", "int8", "int16", "short", "int32", "int64", "long",
):  # fmt: skip
    NAMES[_name] = getattr(dtypes, _name)
NAMES.update(bool=dtypes.bool_, float=dtypes.float32, int=dtypes.int32)


traced.call_with_traced_values(NAMES.values())
globals().update(NAMES)

__all__ = [
    "Device", "building", "creating", "dtypes", "gradients", "numpy_bridge", "operate", "places", "printing",
    "reducing", "saving", "settings", "shaping", "special", "traced", "writing",
]  # fmt: skip

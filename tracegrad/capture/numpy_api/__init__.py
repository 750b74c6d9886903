"""What functions of NumPy, SciPy, math and builtins do with traced values, by family. Importing it fills `HANDLERS`."""

from tracegrad.capture.numpy_api import (
    creation,
    elementwise,
    indexing,
    linalg,
    products,
    reduce,
    scalar,
    scipy_api,
    shape,
    sorting,
)

__all__ = [
    "creation",
    "elementwise",
    "indexing",
    "linalg",
    "products",
    "reduce",
    "scalar",
    "scipy_api",
    "shape",
    "sorting",
]

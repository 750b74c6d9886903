"""What functions of NumPy, SciPy, math and builtins do with traced values, by family. Importing it fills `HANDLERS`."""

from tracegrad.capture.numpy_api import (
    creation,
    elementwise,
    fourier,
    functional,
    indexing,
    linalg,
    products,
    reduce,
    scalar,
    scipy_linalg,
    scipy_special,
    scipy_stats,
    shape,
    sorting,
    statistics_api,
)

__all__ = [
    "creation",
    "elementwise",
    "fourier",
    "functional",
    "indexing",
    "linalg",
    "products",
    "reduce",
    "scalar",
    "scipy_linalg",
    "scipy_special",
    "scipy_stats",
    "shape",
    "sorting",
    "statistics_api",
]

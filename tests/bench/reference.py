"""The hand-written C gradients as Python functions, compiled with the flags that generated code gets."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.driver.toolchain import LIBRARY_FLAGS, OPTIONAL_FLAGS, REQUIRED_FLAGS

SOURCE = Path(__file__).with_name("reference.c")


@functools.cache
def library() -> ctypes.CDLL:
    """Compile reference.c and load it."""
    with tempfile.TemporaryDirectory() as directory:
        shared = Path(directory, "reference.so")
        command = ["cc", *REQUIRED_FLAGS, *OPTIONAL_FLAGS, str(SOURCE), "-o", str(shared), *LIBRARY_FLAGS]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(shared))
    pointer, integer, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    loaded.rosenbrock_gradient.argtypes = [pointer, pointer, integer]
    loaded.rosenbrock_gradient.restype = None
    loaded.lorenz_gradient.argtypes = [pointer, pointer, pointer, pointer, pointer, integer, real]
    loaded.lorenz_gradient.restype = real
    loaded.chain_gradient.argtypes = [pointer, pointer, integer]
    loaded.chain_gradient.restype = real
    loaded.bundle_jacobian.argtypes = [pointer, pointer, pointer, integer]
    loaded.bundle_jacobian.restype = None
    return loaded


class Prepared:
    """A C function bound to its arrays: calling it passes addresses that were read once."""

    def __init__(self, function: Any, arrays: tuple[np.ndarray, ...], *rest: Any) -> None:
        self.function, self.arrays = function, arrays  # the arrays are kept alive
        self.arguments = (*(array.ctypes.data for array in arrays), *rest)

    def __call__(self) -> Any:
        return self.function(*self.arguments)


def prepare_rosenbrock(x: np.ndarray) -> tuple[Prepared, np.ndarray]:
    ct_x = np.empty_like(x)
    return Prepared(library().rosenbrock_gradient, (x, ct_x), x.size), ct_x


def prepare_lorenz(s: np.ndarray, p: np.ndarray, steps: int = 1000, dt: float = 0.005) -> tuple[Prepared, list[Any]]:
    ct_s, ct_p, path = np.empty(3), np.empty(3), np.empty(3 * steps)
    return Prepared(library().lorenz_gradient, (s, p, ct_s, ct_p, path), steps, dt), [ct_s, ct_p]


def prepare_chain(x: np.ndarray) -> tuple[Prepared, np.ndarray]:
    ct_x = np.empty_like(x)
    return Prepared(library().chain_gradient, (x, ct_x), x.size), ct_x


def prepare_bundle(z: np.ndarray, features: np.ndarray) -> tuple[Prepared, np.ndarray]:
    jacobian = np.empty((len(z), 2, 15))
    return Prepared(library().bundle_jacobian, (z, features, jacobian), len(z)), jacobian

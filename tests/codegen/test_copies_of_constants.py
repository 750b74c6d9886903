"""Arrays of constants are copied as they are: gcc 12 with AVX-512 repeats the lower half where the upper is zero."""

from __future__ import annotations

import ctypes
import heapq
import shutil

import numpy as np
import pytest

import tracegrad as tg
from tests.codegen.c_harness import compile_text
from tracegrad.codegen.c_library import head_for
from tracegrad.config import BACKENDS

ARRAYS = {
    "float64": ("1, 1, 0, 0", "1, 1, 1, 1, 0, 0, 0, 0", "0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0", "2, 2, 0, 0, 0, 0, 0, 0"),
    "float32": ("1, 1, 1, 1, 0, 0, 0, 0", "3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0"),
    "int64": ("4294967297, 4294967297, 0, 0", "7, 7, 7, 7, 0, 0, 0, 0"),
}


TYPES = {"float64": "double", "float32": "float", "int64": "int64_t"}


@pytest.mark.parametrize("dtype", ARRAYS)
def test_copies(dtype: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    type = TYPES[dtype]
    parts = [
        f"void copy{k}({type} *x)\n{{\n    {type} y[] = {{{values}}};\n    memcpy(x, y, sizeof y);\n}}\n"
        for k, values in enumerate(ARRAYS[dtype])
    ]
    heads = "".join(f"void copy{k}({type} *x);\n" for k in range(len(parts)))
    text = heads + "\n".join(parts)
    library = compile_text(head_for(text) + text)
    for k, values in enumerate(ARRAYS[dtype]):
        expected = np.array([float(v) for v in values.split(", ")]).astype(dtype)
        found = np.empty_like(expected)
        getattr(library, f"copy{k}")(found.ctypes.data_as(ctypes.c_void_p))
        np.testing.assert_array_equal(found, expected)


def merged(x):
    """The cost of merging two by two, the least first."""
    heap, total = list(x), 0.0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_moved_items(backend: str) -> None:
    x = np.array([0.12573022, -0.13210486, 0.64042265, 0.10490012, -0.53566937, 0.36159505])
    np.testing.assert_array_equal(tg.grad(merged, backend=backend)(x), [3, 5, 1, 4, 5, 2])

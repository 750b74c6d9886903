"""Routines of BLAS for generated C, from the library that SciPy brings.

Reads the list of routines in codegen/c_prelude.h (the struct tg_blas); gives launch.py the address of a filled table.
Previous: load_c.py; next: launch.py.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import logging
import re
from functools import cache
from pathlib import Path
from typing import Any

logger = logging.getLogger("tracegrad.blas")

_PRELUDE = Path(__file__).parent.parent / "codegen" / "c_prelude.h"


@cache
def blas_table() -> int:
    """Return the address of a tg_blas whose routines are SciPy's; 0 when SciPy is not installed."""
    names = routine_names()
    addresses = _from_wheel(names) or _from_capsules(names)
    if not addresses:
        return 0
    table = (ctypes.c_void_p * len(names))(*(addresses.get(name) for name in names))
    _kept.append(table)
    return ctypes.addressof(table)


def _from_wheel(names: list[str]) -> dict[str, int]:
    """Find the routines in the OpenBLAS of SciPy's wheel: milliseconds, where importing scipy.linalg takes 0.3 s."""
    found = importlib.util.find_spec("scipy")
    if found is None or found.origin is None:
        return {}
    package = Path(found.origin).parent
    for directory in (package.with_name("scipy.libs"), package / ".dylibs"):
        for path in sorted(directory.glob("libscipy_openblas-*")):  # the one with 32-bit integers
            try:
                library = ctypes.CDLL(str(path))
                addresses = {name: ctypes.cast(library[f"scipy_{name}_"], ctypes.c_void_p).value for name in names}
            except (OSError, AttributeError) as error:
                logger.debug("%s is of no use: %s", path, error)
                continue
            return {name: address for name, address in addresses.items() if address}
    return {}


def _from_capsules(names: list[str]) -> dict[str, int]:
    """Find the routines through SciPy's interface for Cython, whatever library is behind it."""
    try:
        modules = [importlib.import_module(f"scipy.linalg.{name}") for name in ("cython_blas", "cython_lapack")]
    except ImportError as error:
        logger.info("SciPy is not there, so generated C uses its own loops for linear algebra: %s", error)
        return {}
    capsules = {name: capsule for module in modules for name, capsule in module.__pyx_capi__.items()}
    return {name: address for name in names if name in capsules and (address := _address(capsules[name]))}


_kept: list[Any] = []  # kernels keep the address


def routine_names() -> list[str]:
    """Return the members of struct tg_blas, in order.

    >>> routine_names()[0]
    'dgemm'
    """
    text = _PRELUDE.read_text(encoding="utf-8")
    match = re.search(r"typedef struct tg_blas \{(.*?)\} tg_blas;", text, re.DOTALL)
    assert match is not None, "c_prelude.h declares no struct tg_blas"
    return re.findall(r"\(\*(\w+)\)\(", match[1])


def _address(capsule: object) -> int | None:
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int | None = get_pointer(capsule, get_name(capsule))
    return address

"""IR to text: readable NumPy, and C99. Each generator is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.lazy import lazy_names

if TYPE_CHECKING:
    from tracegrad.codegen.c_source import emit_c
    from tracegrad.codegen.numpy_source import emit_numpy

__all__ = ["emit_c", "emit_numpy"]

__getattr__ = lazy_names(__name__, {"emit_c": "c_source", "emit_numpy": "numpy_source"}, globals())

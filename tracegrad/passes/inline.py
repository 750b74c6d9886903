"""Inlines calls, those with rules included; for functions that are not differentiated any more.

Reads and writes IR in place. Previous: rewrite.py; next: fold.py.
"""

from __future__ import annotations

from tracegrad.ir.core import Function
from tracegrad.ir.inline import inline_calls


def inline_functions(function: Function) -> bool:
    """Replace calls by the bodies of their functions, recursive ones excepted; return whether any was."""
    return inline_calls(function)

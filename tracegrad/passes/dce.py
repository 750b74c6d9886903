"""Removes what neither a result nor an effect needs; the work is in ir/liveness.py.

Reads and writes IR in place. Previous: hoist.py; next: names.py.
"""

from __future__ import annotations

from tracegrad.ir.core import Function
from tracegrad.ir.liveness import remove_dead


def eliminate_dead_code(function: Function) -> bool:
    """Remove dead operations, carries, results of branches, and stacks that are not read; return whether any was."""
    return remove_dead(function)

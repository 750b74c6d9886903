"""Runs passes in order, and checks after each on request.

Reads and writes IR in place. Previous: names.py; next: fuse.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracegrad.ir.core import Function
from tracegrad.ir.verifier import verify_function
from tracegrad.passes.canonicalize import canonicalize
from tracegrad.passes.cse import eliminate_common_subexpressions, eliminate_repeated_loops
from tracegrad.passes.dce import eliminate_dead_code
from tracegrad.passes.elements import forward_elements
from tracegrad.passes.factors import join_factors
from tracegrad.passes.fold import drop_barriers, drop_stop_gradients, fold_constants
from tracegrad.passes.hoist import hoist_from_branches, hoist_invariants
from tracegrad.passes.inline import inline_functions
from tracegrad.passes.names import name_primal_values
from tracegrad.passes.place import fill_in_place, set_what_is_added_once
from tracegrad.passes.powers import lower_powers
from tracegrad.passes.unread import drop_unread_writes

#: changes a function in place, keeping what it computes; returns whether anything changed
Pass: TypeAlias = Callable[[Function], bool]


def default_pipeline() -> list[Pass]:
    """Return the passes that every function goes through, in order."""
    return [
        eliminate_repeated_loops,
        eliminate_dead_code,
        fold_constants,
        drop_unread_writes,
        canonicalize,
        forward_elements,
        eliminate_common_subexpressions,
        hoist_invariants,
        fold_constants,
        eliminate_common_subexpressions,
        eliminate_dead_code,
    ]


def final_pipeline() -> list[Pass]:
    """Return the passes for a function that is not differentiated any more."""
    return [
        inline_functions,
        drop_stop_gradients,
        *default_pipeline(),
        lower_powers,
        join_factors,
        fold_constants,
        hoist_from_branches,
        eliminate_common_subexpressions,
        set_what_is_added_once,
        eliminate_dead_code,
        fill_in_place,
        drop_barriers,
        name_primal_values,
    ]


def run_passes(function: Function, passes: Sequence[Pass] | None = None, *, verify: bool = False) -> Function:
    """Run passes on a function, in place, and return it.

    Args:
        passes: default: `default_pipeline()`.
        verify: whether to check the function after each pass.

    Raises:
        IRError: a pass left the function malformed (with `verify`).
    """
    for transform in default_pipeline() if passes is None else passes:
        transform(function)
        if verify:
            verify_function(function, stage=getattr(transform, "__name__", "a pass"))
    return function

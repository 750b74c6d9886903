"""Kernels that are run often, in C: after about as much time in NumPy as a compiler takes.

Reads the IR of a kernel; gives what runs instead of its NumPy text, where there is a compiler. Previous: mirrors.py;
next: kernel.py.

When a kernel comes to be compiled is a number of calls that follows from its operations alone, never a time: a program
that is run again gives the same digits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from tracegrad import codegen
from tracegrad.config import load_options
from tracegrad.driver.blas import blas_table
from tracegrad.driver.cache import open_cache
from tracegrad.driver.launch import ExecutableSpec, build_dispatcher, build_executable
from tracegrad.driver.load_c import compile_c
from tracegrad.errors import CompileError
from tracegrad.ir.core import Function, Value, clone_function, walk
from tracegrad.ir.types import DTYPES, ArrayType, is_inexact
from tracegrad.passes.manager import final_pipeline, run_passes
from tracegrad.passes.wide_sums import sum_in_double
from tracegrad.runtime.engine import engine
from tracegrad.runtime.signature import Leaf, Tree

logger = logging.getLogger("tracegrad.eager")

#: elements that NumPy computes in about the time that a compiler takes for a short text
BUDGET = 1 << 27
#: operations of a text for which it takes twice as long; the time grows with their square
SHORT = 40
#: more operations are never compiled
MOST = 500
#: elements that NumPy computes in about the time of a call
PER_CALL = 1000
#: elements that NumPy computes in about the time in which it comes to the next row of a part of an array
PER_ROW = 20

#: operations that cost nothing by themselves, or that NumPy hands to a library as C does
_FREE = frozenset(
    {
        "barrier", "broadcast_to", "constant", "dot_general", "flip", "full", "iota", "real", "reshape", "slice",
        "stop_gradient", "transpose",
    }
)  # fmt: skip
#: operations that, alone, NumPy does as fast as memory is
_FAST = frozenset(
    {
        "absolute", "add", "cast", "concatenate", "divide", "gather", "maximum", "minimum", "multiply", "negative",
        "pad", "reciprocal", "set_slice", "add_slice", "sqrt", "square", "subtract", "undefined",
    }
)  # fmt: skip
#: operations whose parts of an array NumPy takes row by row
_IN_ROWS = frozenset({"add_slice", "concatenate", "pad", "set_slice"})
#: operations whose results another library may choose otherwise, or that gain nothing
_LEFT = frozenset(
    {
        "argsort", "callback", "cholesky", "cofactor", "det", "eigh", "fft", "ifft", "inv", "irfft",
        "is_positive_definite", "is_regular", "pinv", "print", "qr", "rfft", "slogdet", "solve", "svd",
        "triangular_solve",
    }
)  # fmt: skip
#: largest workspace that a kernel keeps between calls, since there are many kernels
_KEPT_BYTES = 1 << 20
_WIDE = (DTYPES["f32"], DTYPES["f64"])


def calls_before_c(function: Function) -> int | None:
    """Return how often a kernel is run before it is compiled to C, None if it never is."""
    if engine is None:
        return None
    work, steps, values = 0, set(), [*function.params]
    for operation in walk(function.body):
        if operation.op in _LEFT or (operation.op == "dot_general" and not blas_table()):
            return None
        values += operation.results
        if operation.op not in _FREE:
            steps.add(operation)
            work += sum(max(_size(result), PER_CALL) for result in operation.results)
            if operation.op in _IN_ROWS:
                work += PER_ROW * _rows(operation.result)
    is_fast = len(steps) < 2 and all(operation.op in _FAST for operation in steps)
    if is_fast or len(steps) > MOST or not all(map(_is_taken, values)):
        return None
    return BUDGET * (SHORT**2 + len(steps) ** 2) // (SHORT**2 * work)


def _size(value: Value) -> int:
    return math.prod(n for n in value.type.shape if isinstance(n, int)) if isinstance(value.type, ArrayType) else 0


def _rows(value: Value) -> int:
    return math.prod(n for n in value.shape[:-1] if isinstance(n, int))


def _is_taken(value: Value) -> bool:
    """Return whether C computes with a value as NumPy does: narrow floats it rounds at other places."""
    if not isinstance(value.type, ArrayType):
        return False
    return _size(value) > 0 and (not is_inexact(value.dtype) or value.dtype in _WIDE)


def in_c(function: Function, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a kernel in C, and `run` on arrays that C does not take; `run` if C cannot be had."""
    options = load_options()
    cache = open_cache(options)
    made = run_passes(clone_function(function), [*final_pipeline(), sum_in_double])
    inputs = tuple(Leaf(p.array_type, "array") for p in made.params)
    leaves = tuple(Tree("leaf", k, ()) for k in range(len(made.results)))
    spec = ExecutableSpec(
        names=tuple(f"x{k}" for k in range(len(inputs))),
        arguments=tuple(Tree("leaf", k, ()) for k in range(len(inputs))),
        inputs=inputs,
        results=tuple(r.array_type for r in made.results),
        result=leaves[0] if len(leaves) == 1 else Tree("tuple", None, leaves),
        kept_bytes=_KEPT_BYTES,
        array_results=frozenset(range(len(leaves))),
    )
    try:
        code = codegen.emit_c(made, comments=False, threads=options.num_threads)
        library = compile_c(code.text, code.name, cache=cache, options=options)
    except CompileError as error:
        logger.info("a kernel stays in NumPy: %s", error)
        return run
    executable = build_executable(spec, library, cache=cache, options=options)

    def run_on_rows(*arrays: Any) -> Any:
        found = executable(*[x if x.flags.c_contiguous else x.copy() for x in arrays])
        return run(*arrays) if found is NotImplemented else found

    dispatcher = build_dispatcher(run_on_rows, cache=cache, options=options)
    dispatcher.add(executable)
    return dispatcher

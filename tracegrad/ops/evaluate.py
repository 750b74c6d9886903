"""Eager evaluation: applies ops to ndarrays through the same `numpy` text that code generation writes.

Reads records, compiles their text once per op, operand types and attributes. All rules of records
run eagerly inside `interpreter(Evaluator())`. Next: parts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.opdef import OpDef
from tracegrad.ir.types import ArrayType, SymbolicDim, dim_evaluate
from tracegrad.ops import callbacks, helpers
from tracegrad.ops.text import numpy_text

NAMESPACE: dict[str, Any] = {
    "np": np,
    "ml_dtypes": ml_dtypes,
    "tracegrad": SimpleNamespace(ops=SimpleNamespace(callbacks=callbacks)),
    **vars(helpers),
}
_Compiled = tuple[Callable[..., Any], int]
_compiled: dict[Any, _Compiled] = {}


class Evaluator:
    """The interpreter that computes at once; results may be views of operands.

    >>> from tracegrad.ir.opdef import TABLE, interpreter
    >>> with interpreter(Evaluator()):
    ...     float(TABLE["add"](np.array(1.5), np.array(2.0)))
    3.5
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        """Make an evaluator; `sizes` gives the values of size symbols in attributes."""
        self.sizes = sizes or {}

    def apply(self, op: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any], blocks: Sequence[Block] = ()) -> Any:
        """Compute an op without blocks: its result as an ndarray, or a tuple of ndarrays when it has not exactly one.

        Raises:
            ShapeError, ArgumentTypeError: the operands do not fit the op.
        """
        assert op.numpy, f"{op.name} has no NumPy text and is not evaluated by itself"
        if op.name == "constant":
            return attrs["value"]
        arrays = [np.asarray(x) for x in operands]
        if attrs and self.sizes:
            attrs = {k: self._resolved(v) for k, v in attrs.items()}
        # repr tells 0.0 from -0.0, and one NaN is like another
        key = (op.name, *[(x.dtype, x.shape) for x in arrays], *([repr(attrs)] if attrs else ()))
        function, count = _compiled.get(key) or _compile(key, op, arrays, attrs)
        result = function(*arrays)
        return np.asarray(result) if count == 1 else tuple(map(np.asarray, result)) if count else ()

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, SymbolicDim):
            return dim_evaluate(value, self.sizes)
        if isinstance(value, tuple):
            return tuple(map(self._resolved, value))
        if isinstance(value, ArrayType):
            return value.with_shape(self._resolved(value.shape))
        return value


def _compile(key: Any, op: OpDef, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> _Compiled:
    """Compile the text of an op for arrays of these types, and remember it."""
    types = [ArrayType(x.dtype, x.shape) for x in arrays]
    result_types = list(op.infer(*types, **attrs))
    operation = Operation(op.name, [Value(t) for t in types], dict(attrs), [], result_types)
    names = [f"_{k}" for k in range(len(types))]
    text = f"lambda {', '.join(names)}: {numpy_text(operation, names)}"
    made: _Compiled = (eval(compile(text, f"<{op.name}>", "eval"), NAMESPACE), len(result_types))
    _compiled[key] = made
    return made

"""NumPy functions called with tensors: they return tensors, and are recorded like any other operation.

Reads the call that NumPy hands over; captures the NumPy function itself over the op table. Previous: saving.py; next:
eager.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.runtime.kernel import Composition
from tracegrad.runtime.operate import number_of
from tracegrad.runtime.tape import apply_composition
from tracegrad.runtime.tensor import Tensor, method, wrap

_compositions: dict[Any, Composition] = {}


def _split(value: Any, tensors: list[Tensor]) -> Any:
    """Return a hashable template of an argument; tensors and arrays in it become operands."""
    if isinstance(value, Tensor | np.ndarray):
        tensors.append(value if isinstance(value, Tensor) else wrap(value))
        return ("operand", len(tensors) - 1)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *[_split(v, tensors) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(k, _split(v, tensors)) for k, v in value.items()])
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    return ("value", type(value), value)  # 2 and 2.0 are equal, but promote differently


def _join(template: Any, operands: tuple[Any, ...]) -> Any:
    kind, *rest = template
    if kind == "operand":
        return operands[rest[0]]
    if kind == "value":
        return rest[1]
    if kind == "slice":
        return slice(*rest)
    if kind == "dict":
        return {k: _join(v, operands) for k, v in rest}
    parts = [_join(v, operands) for v in rest]
    return parts if kind == "list" else tuple(parts)


def call_numpy(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a NumPy function with tensors among its arguments; return tensors."""
    tensors: list[Tensor] = []
    template = (_split(args, tensors), _split(keywords, tensors))
    composition = _compositions.get(function)
    if composition is None:
        name = "".join(part.capitalize() for part in function.__name__.split("_"))
        composition = _compositions[function] = Composition(
            f"Np{name}", lambda t, *xs: function(*_join(t[0], xs), **_join(t[1], xs)), layout=None
        )
    return apply_composition(composition, (template,), tensors)


#: what NumPy makes of an operator whose left operand is a NumPy scalar
_OPERATORS = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge, np.equal: operator.eq,
    np.not_equal: operator.ne, np.bitwise_and: operator.and_, np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor, np.left_shift: operator.lshift, np.right_shift: operator.rshift,
}  # fmt: skip


@method("__array_ufunc__")
def array_ufunc(self: Tensor, ufunc: Any, call: str, *args: Any, **keywords: Any) -> Any:
    """Apply a ufunc; with a NumPy scalar, which is a number to torch, the operator."""
    if call == "__call__" and ufunc in _OPERATORS and not keywords and any(isinstance(a, np.generic) for a in args):
        return _OPERATORS[ufunc](*map(number_of, args))
    if "out" in keywords:
        raise TypeError("out= of NumPy functions is not supported with tensors: use the in-place method of the tensor")
    return call_numpy(ufunc if call == "__call__" else getattr(ufunc, call), args, keywords)


@method("__array_function__")
def array_function(self: Tensor, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """Apply another NumPy function."""
    return call_numpy(function, args, keywords)

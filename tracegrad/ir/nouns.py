"""Names for values that have none in the user's code, from the operation that makes them.

Reads IR. Used by transform/ (names of cotangents and stacks) and by codegen/. Previous: products.py; next folder: ops.
"""

from __future__ import annotations

from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import Operation, Value
from tracegrad.ir.triangles import triangle_of

_NOUNS = {
    "add": "total",
    "subtract": "difference",
    "multiply": "product",
    "keep_zero": "product",
    "linear_recurrence": "sums",
    "floor_divide": "quotient",
    "iota": "positions",
    "undefined": "rows",
    "divide": "quotient",
    "negative": "minus",
    "square": "square",
    "reduce_sum": "total",
    "reduce_max": "largest",
    "reduce_min": "smallest",
    "reduce_prod": "product",
    "reduce_any": "some",
    "reduce_all": "every",
    "broadcast_to": "spread",
    "argmax": "place",
    "argmin": "place",
    "dot_general": "product",
    "gather": "item",
    "slice": "part",
    "select": "choice",
    "less": "below",
    "less_equal": "below",
    "greater": "above",
    "greater_equal": "above",
    "equal": "same",
    "not_equal": "differs",
    "logical_not": "negated",
    "logical_and": "both",
    "logical_or": "either",
    "full": "filled",
    "cast": "converted",
    "pop": "kept",
    "for": "carried",
    "while": "carried",
    "if": "chosen",
    "stack": "stack",
    "transpose": "transposed",
    "reshape": "reshaped",
    "concatenate": "joined",
    "set_slice": "written",
    "add_slice": "written",
    "scatter_set": "written",
    "scatter_add": "written",
}
#: of what is infinite or NaN in a product of arrays, and meets zeros of the cotangent only
DROPPED = "dropped"
#: longest name that is made of others
_LONGEST = 14


def noun_of(value: Value) -> str:
    """Return a name for a value without one: of an element that of the array and the index, else what it is."""
    producer = value.producer
    if value.noun:
        return value.noun
    if producer is None:
        return "carried"
    operand = producer.operands[0] if producer.operands else None
    if operand is not None and producer.op == "pop" and operand.name.endswith("_stack"):
        return operand.name.removesuffix("_stack")
    element = _element(value) if operand is not None else ""
    if element:
        return element
    if operand is not None and operand.name and len(operand.name) <= 8 and producer.op == "transpose":
        return f"{operand.name}_T"
    if producer.op == "select" and triangle_of(producer) is not None:
        return "triangle"
    return _NOUNS.get(producer.op, producer.op)


def _element(value: Value) -> str:
    """Return `x_0`, `x_t` or `x_t_next` for x[0], x[t] and x[t + 1], `item` when x has no name, '' for others."""
    producer = value.producer
    assert producer is not None, "an element is read by an operation"
    part = producer.operands[0].producer
    if producer.op == "gather" and not producer.operands[1].shape:
        base, indices = producer.operands[0], [_index(v) for v in producer.operands[1:]]
    elif producer.op == "reshape" and part is not None and part.op == "slice":
        base, indices = part.operands[0], _dropped(part)
        if len(indices) != len(base.shape) - len(value.shape):
            return ""
    else:
        return ""
    name = "_".join([base.name, *indices])
    if base.name and all(indices) and len(name) <= _LONGEST:
        return name
    return "part" if value.shape else "item"


def _dropped(part: Operation) -> list[str]:
    """Return where a slice takes one element of an axis, if it takes all of the other axes."""
    places = zip(part.attrs["start"], part.attrs["stop"], part.operands[0].shape, strict=True)
    chosen = [(start, stop) for start, stop, size in places if (start, stop) != (0, size)]
    return [str(start) for start, stop in chosen if stop == start + 1]


def _index(value: Value) -> str:
    if value.name:
        return value.name
    number = static_value(value)
    if isinstance(number, int):
        return str(number) if number >= 0 else ""
    producer = value.producer
    if producer is None or producer.op not in ("add", "subtract") or not producer.operands[0].name:
        return ""
    step = static_value(producer.operands[1])
    if step not in (1, -1):
        return ""
    return f"{producer.operands[0].name}_{'next' if (step == 1) == (producer.op == 'add') else 'before'}"

"""Forwards elements that were written at an index to where they are read, and drops writes that are overwritten.

Reads and writes IR in place. Previous: canonicalize.py; next: cse.py.

Code on small states, `x = s[0]`, `s[1] = y`, and its gradient, become arithmetic on scalars with one write per element.
Only writes at rank-0 indices take part; two indices are told apart when both are constants counted from the same end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracegrad.ir.bounds import static_value
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.liveness import remove_dead, uses
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import Dim
from tracegrad.ir.writes import is_filled_with
from tracegrad.passes.rewrite import Rule, rewrite

_WRITES = ("scatter_set", "scatter_add")
#: how many writes to look back
_REACH = 16
#: long unrolled code would take a sweep per write; what is left after these is right, only longer
_SWEEPS = 6


def forward_elements(function: Function) -> bool:
    """Apply the rules until nothing changes, or a few times; return whether anything did."""
    changed = False
    for _ in range(_SWEEPS):
        remove_dead(function)  # so that dead readers do not count as uses
        if not rewrite(function, _rules(uses(function.body))):
            break
        changed = True
    _read_at_once(function.body)
    return changed


def _read_at_once(block: Block) -> None:
    """Take the element out of a slice of one element where it is cut out, before the array is written to."""
    kept: list[Operation] = []
    elements: dict[Operation, list[Operation]] = {}
    own = set(block.operations)
    for operation in block.operations:
        for nested in operation.blocks:
            _read_at_once(nested)
        part = operation.operands[0].producer if operation.op == "reshape" and not operation.result.shape else None
        if part is not None and part.op == "slice" and part in own:
            elements.setdefault(part, []).append(operation)
        else:
            kept.append(operation)
    block.operations = [o for operation in kept for o in (operation, *elements.get(operation, ()))]


def _rules(counts: Mapping[Value, int]) -> dict[str, tuple[Rule, ...]]:
    def replace_write(operation: Operation, builder: Builder) -> Value | None:
        return _replace_write(operation, counts)

    def add_to_zeros(operation: Operation, builder: Builder) -> Value | None:
        return _add_to_zeros(operation, counts)

    return {
        "slice": (_slice_of_part,),
        "gather": (_forward,),
        "set_slice": (_write_back,),
        "add_slice": (add_to_zeros,),
        "scatter_set": (replace_write,),
        "scatter_add": (replace_write,),
    }


def _slice_of_part(operation: Operation, builder: Builder) -> Value | None:
    """Read a part of a concatenation where it came from."""
    whole = operation.operands[0].producer
    if whole is None or whole.op != "concatenate":
        return None
    axis = whole.attrs["axis"]
    starts, stops, steps = (list(operation.attrs[key]) for key in ("start", "stop", "step"))
    offset: Dim = 0
    for part in whole.operands:
        end = offset + part.shape[axis]
        if not isinstance(offset, int) or not isinstance(end, int):
            return None
        if _is_within(offset, starts[axis], stops[axis], end):
            starts[axis] -= offset
            stops[axis] -= offset
            result = TABLE["slice"](part, start=tuple(starts), stop=tuple(stops), step=tuple(steps))
            return result if isinstance(result, Value) else None
        offset = end
    return None


def _is_same_slice(x: Operation, y: Operation) -> bool:
    return all(x.attrs[key] == y.attrs[key] for key in ("start", "stop", "step"))


def _write_back(write: Operation, builder: Builder) -> Value | None:
    """Leave out writing a slice back to where it was read; write twice to one place only once."""
    source, values = write.operands
    part, earlier = values.producer, source.producer
    if part is not None and part.op == "slice" and part.operands[0] is source and _is_same_slice(part, write):
        return source
    if earlier is not None and earlier.op == "set_slice" and _is_same_slice(earlier, write):
        result = TABLE["set_slice"](earlier.operands[0], values, **write.attrs)
        return result if isinstance(result, Value) else None
    return None


def _add_to_zeros(addition: Operation, counts: Mapping[Value, int]) -> Value | None:
    """Write instead of writing zeros and adding to them."""
    source, values = addition.operands
    write = source.producer
    if write is None or write.op != "set_slice" or counts.get(source, 0) != 1:
        return None
    if not _is_same_slice(write, addition) or not is_filled_with(write.operands[1], 0):
        return None
    result = TABLE["set_slice"](write.operands[0], values, **addition.attrs)
    return result if isinstance(result, Value) else None


def _indices(operation: Operation) -> Sequence[Value]:
    return operation.operands[1 : 1 + len(operation.attrs["axes"])]


def _write_below(value: Value) -> Operation | None:
    """Return the operation that made a value by writing one place of an array."""
    operation = value.producer
    if operation is None or operation.op not in _WRITES or operation.operands[1].shape:
        return None
    return operation


def _is_same_place(x: Operation, y: Operation) -> bool:
    pairs = zip(_indices(x), _indices(y), strict=False)
    return x.attrs["axes"] == y.attrs["axes"] and all(a is b or _distance(a, b) == 0 for a, b in pairs)


def _is_other_place(x: Operation, y: Operation) -> bool:
    pairs = zip(_indices(x), _indices(y), strict=False)
    return x.attrs["axes"] == y.attrs["axes"] and any(_distance(a, b) not in (0, None) for a, b in pairs)


def _distance(x: Value, y: Value) -> int | None:
    """Return the distance of two constant indices, None when it is not known."""
    a, b = static_value(x), static_value(y)
    if not isinstance(a, int) or not isinstance(b, int) or (a < 0) != (b < 0):
        return None
    return b - a


def _forward(gather: Operation, builder: Builder) -> Value | None:
    """Read past writes to other places; read what was written to the same place."""
    if gather.operands[1].shape:
        return None
    source = gather.operands[0]
    for _ in range(_REACH):
        write = _write_below(source)
        if write is None:
            break
        if write.op == "scatter_set" and _is_same_place(write, gather):
            return write.operands[-1]
        if not _is_other_place(write, gather):
            break
        source = write.operands[0]
    if source is gather.operands[0]:
        return None
    result = TABLE["gather"](source, *_indices(gather), axes=gather.attrs["axes"])
    return result if isinstance(result, Value) else None


def _replace_write(last: Operation, counts: Mapping[Value, int]) -> Value | None:
    """Join a write with an earlier one to the same place that nobody else sees; leave out writing an element back."""
    if last.operands[1].shape:
        return None
    read = last.operands[-1].producer
    if last.op == "scatter_set" and read is not None and read.op == "gather" and not read.operands[1].shape:
        if read.operands[0] is last.operands[0] and _is_same_place(read, last):
            return last.operands[0]
    between: list[Operation] = []
    source = last.operands[0]
    for _ in range(_REACH):
        write = _write_below(source)
        if write is None or counts.get(source, 0) != 1:
            return None
        if _is_same_place(write, last):
            break
        if not _is_other_place(write, last):
            return None
        between.append(write)
        source = write.operands[0]
    else:
        return None
    value = last.operands[-1]
    if last.op == "scatter_add":
        if write.op == "scatter_add":
            return None  # the order of additions stays
        if not is_filled_with(write.operands[-1], 0):
            value = TABLE["add"](write.operands[-1], value)
    total = write.operands[0]
    for operation in reversed(between):
        total = TABLE[operation.op](total, *operation.operands[1:], **operation.attrs)
    total = TABLE["scatter_set"](total, *_indices(last), value, axes=last.attrs["axes"])
    return total if isinstance(total, Value) else None


def _is_within(low: int, start: Dim, stop: Dim, high: int) -> bool:
    return isinstance(start, int) and isinstance(stop, int) and low <= start and stop <= high

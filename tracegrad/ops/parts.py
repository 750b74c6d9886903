"""What a loop or branch gives, computed at once by those operations in it on which that depends.

Reads operations with blocks, compiles the `numpy` text of a part of them. Previous: evaluate.py; last file of ops/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.core import Block, Operation, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import ArrayType, SymbolicDim
from tracegrad.ops.evaluate import NAMESPACE
from tracegrad.ops.text import numpy_text

#: loops give up after so many iterations, which take about a third of a second
_MOST_ITERATIONS = 2**20

#: operations with blocks -> how many operands stand before the carries, how many parameters do
_LEADING = {"if": (1, 0), "for": (2, 1), "while": (0, 0)}


class NoPart(Exception):
    """An operation cannot be computed by itself."""


class Part:
    """The part of an operation with blocks that one of its results depends on.

    Attributes:
        outer: the values from outside that it reads.
    """

    def __init__(self, result: Value, most: int) -> None:
        """Write the part of the operation that produces a result.

        Args:
            most: no array may have more elements.

        Raises:
            NoPart: an operation in it has no NumPy text, or an array is too large or of a size that is not known.
        """
        assert result.producer is not None
        self._most = most
        self._lines: list[str] = []
        self._names: dict[Value, str] = {}
        self._namespace = dict(NAMESPACE)
        self.outer: list[Value] = []
        self._write(result.producer, [result.producer.results.index(result)], " ")
        self._result = self._names[result]

    def run(self, contents: Sequence[Any]) -> np.ndarray[Any, Any] | None:
        """Compute the result from the contents of `outer`; return None where that takes too many iterations."""
        head = f"def part(iterations, {', '.join(map(self._name, self.outer))}):"
        text = "\n".join([head, *self._lines, f" return {self._result}"])
        exec(compile(text, "<part>", "exec"), self._namespace)
        with np.errstate(all="ignore"):
            try:
                result = self._namespace["part"](iter(range(_MOST_ITERATIONS)), *(np.asarray(c)[()] for c in contents))
            except StopIteration:
                return None
        return np.asarray(result)

    def _name(self, value: Value) -> str:
        if value not in self._names:
            self._define(value)
            self.outer.append(value)
        return self._names[value]

    def _define(self, value: Value) -> str:
        kind = value.type
        if not isinstance(kind, ArrayType) or not isinstance(kind.size, int) or kind.size > self._most:
            raise NoPart
        return self._names.setdefault(value, f"_{len(self._names)}")

    def _write_block(self, block: Block, wanted: Iterable[Value], indent: str) -> None:
        needed = _needs(block, wanted)
        for operation in block.operations:
            hit = [k for k, value in enumerate(operation.results) if value in needed]
            if hit:
                self._write(operation, hit, indent)

    def _write(self, operation: Operation, hit: Sequence[int], indent: str) -> None:
        if operation.op in _LEADING:
            self._write_region(operation, hit, indent)
        elif operation.op == "constant":
            name = self._define(operation.results[0])
            self._namespace[name] = operation.attrs["value"][()]
        elif not TABLE[operation.op].numpy or any(map(_is_symbolic, operation.attrs.values())):
            raise NoPart
        else:
            text = numpy_text(operation, [self._name(value) for value in operation.operands])
            self._lines.append(f"{indent}{', '.join(map(self._define, operation.results))} = {text}")

    def _write_region(self, operation: Operation, hit: Sequence[int], indent: str) -> None:
        inside, blocks = indent + " ", operation.blocks
        if operation.op == "if":
            condition = self._name(operation.operands[0])
            results = [self._define(operation.results[k]) for k in hit]
            for head, block in zip((f"if {condition}:", "else:"), blocks, strict=True):
                self._lines.append(indent + head)
                self._write_block(block, [block.yields[k] for k in hit], inside)
                self._assign(results, [block.yields[k] for k in hit], inside)
            return
        leading, shift = _LEADING[operation.op]
        kept = _kept(operation, hit)
        starts = [self._name(operation.operands[leading + k]) for k in kept]
        carried = [self._define(operation.results[k]) for k in kept]
        self._lines.extend(f"{indent}{name} = {start}" for name, start in zip(carried, starts, strict=True))
        for block in blocks:
            self._names.update(zip((block.params[shift + k] for k in kept), carried, strict=True))
        body = blocks[-1]
        if operation.op == "for":
            start, stop = map(self._name, operation.operands[:2])
            numbers = f"range(int({start}), int({stop}), {operation.attrs['step']})"
            index = self._define(body.params[0])
            self._lines.append(
                f"{indent}for {index} in {f'reversed({numbers})' if operation.attrs['reverse'] else numbers}:"
            )
            self._lines.append(f"{inside}next(iterations)")
            self._lines.append(f"{inside}{index} = np.int64({index})")
        else:
            self._lines.append(f"{indent}while True:")
            self._lines.append(f"{inside}next(iterations)")
            self._write_block(blocks[0], blocks[0].yields, inside)
            self._lines.append(f"{inside}if not {self._name(blocks[0].yields[0])}: break")
        yields = [body.yields[k] for k in kept]
        self._write_block(body, yields, inside)
        self._assign(carried, yields, inside)

    def _assign(self, names: Sequence[str], values: Sequence[Value], indent: str) -> None:
        self._lines.append(f"{indent}{', '.join(names)} = {', '.join(map(self._name, values))}")


def _needs(block: Block, wanted: Iterable[Value]) -> set[Value]:
    """Return the values on which some values of a block depend, and these."""
    needed = set(wanted)
    for operation in reversed(block.operations):
        hit = [k for k, value in enumerate(operation.results) if value in needed]
        if hit:
            needed.update(_reads(operation, hit))
    return needed


def _reads(operation: Operation, hit: Sequence[int]) -> Iterator[Value]:
    if operation.op not in _LEADING:
        yield from operation.operands
        return
    leading, _ = _LEADING[operation.op]
    yield from operation.operands[:leading]
    kept = hit
    if operation.op != "if":
        kept = _kept(operation, hit)
        yield from (operation.operands[leading + k] for k in kept)
    yield from _needs_inside(operation, kept)


def _needs_inside(operation: Operation, kept: Sequence[int]) -> set[Value]:
    needed = set()
    for number, block in enumerate(operation.blocks):
        is_test = operation.op == "while" and number == 0
        needed |= _needs(block, block.yields if is_test else [block.yields[k] for k in kept])
    return needed


def _kept(operation: Operation, hit: Sequence[int]) -> list[int]:
    """Return the carries of a loop on which some of its results depend."""
    _, shift = _LEADING[operation.op]
    kept = set(hit)
    while True:
        needed = _needs_inside(operation, sorted(kept))
        more = {
            k
            for block in operation.blocks
            for k, param in enumerate(block.params[shift:])
            if param in needed and k not in kept
        }
        if not more:
            return sorted(kept)
        kept |= more


def _is_symbolic(attribute: Any) -> bool:
    """Return whether there is a size in an attribute that is not a number."""
    if isinstance(attribute, ArrayType):
        attribute = attribute.shape
    return isinstance(attribute, SymbolicDim) or (isinstance(attribute, tuple) and any(map(_is_symbolic, attribute)))

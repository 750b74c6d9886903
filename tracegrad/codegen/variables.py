"""Chooses a Python variable for each value: the user's name, shared where one value takes over from another.

Reads a function in IR and its Folding, writes a mapping from values to names. Previous: origins.py; next:
numpy_module.py.

Two values may have one variable when neither is defined while the other is still needed. The carries of a loop are
one variable each (its parameter, and the result after the loop); what starts it, what the body yields, and the array
that a write takes over join that variable where they can, so that no line only copies. Sets of values are bit masks.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracegrad.codegen.folding import Folding, is_statement
from tracegrad.codegen.origins import Origins, find_late, is_cotangent
from tracegrad.ir.buffers import BufferPlan, carries, carry_params
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.nouns import noun_of
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import I64, ArrayType, StackType, is_inexact


def identifier(hint: str, default: str = "value") -> str:
    """Return a Python identifier made from a hint."""
    name = re.sub(r"\W", "_", hint) or default
    if name[0].isdigit():
        name = f"{default}_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class Names:
    """Gives out names that are not taken."""

    def __init__(self, taken: Collection[str]) -> None:
        self.taken = set(taken)
        self._numbers: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """Return the hint, or the hint with the first free number, and take it."""
        number = self._numbers.get(hint, 0)
        name = f"{hint}_{number}" if number else hint
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self._numbers[hint] = number
        self.taken.add(name)
        return name


@dataclass(slots=True, eq=False)
class _Class:
    """Values that share a variable: who they are, whom they meet while needed, and the name they want."""

    members: int
    meets: int
    name: str
    first: Value
    forced: bool = False
    reverse: bool = False


def assign_variables(
    function: Function,
    folding: Folding,
    buffers: BufferPlan,
    arguments: Mapping[Value, str],
    hints: Mapping[str, str],
    taken: Collection[str],
) -> dict[Value, str]:
    """Return a name for each value that is not written inside an expression.

    Args:
        arguments: parameters whose variable is an argument of the Python function.
        hints: what to call a variable, where that is not the name of its value.
        taken: names that are in use for other things.
    """
    return _Assigner(function, folding, buffers, arguments, hints, taken).names()


class _Assigner:
    def __init__(
        self,
        function: Function,
        folding: Folding,
        buffers: BufferPlan,
        arguments: Mapping[Value, str],
        hints: Mapping[str, str],
        taken: Collection[str],
    ) -> None:
        self.function, self.folding, self.buffers = function, folding, buffers
        self.arguments, self.taken = arguments, set(taken)
        self.values: list[Value] = []
        self.number: dict[Value, int] = {}
        self.meets: dict[Value, int] = {}
        self.used: dict[Block, int] = {}
        self.defined: dict[Block, int] = {}
        self.register_block(function.body)
        live = self.block(function.body, self.mask(self.reads(function.results)))
        # an unread part of a structure has a name of its own, which nothing uses, so that it is not read from there
        self.define([p for p in function.params if p not in arguments or live >> self.number[p] & 1], live)
        self.indices = {o.blocks[0].params[0] for o in walk(function.body) if o.op == "for"}
        loops = [o for o in walk(function.body) if o.op in ("for", "while")]
        carried = [v for loop in loops for v in (*loop.results, *(p for ps in carry_params(loop) for p in ps))]
        self.counters = {v for v in carried if v.type == ArrayType(I64)}
        self.results = self.mask(set(function.results) - folding.inline)
        self.cotangents = _find_cotangents(function)
        self.carriers, self.pushed = _find_carriers(function), _find_pushed(function)
        self.late = find_late(function)
        self.kept = self.mask({v for v in self.pushed.values() if v in self.number})
        self.popped: dict[Value, list[Value]] = {}
        for operation in walk(function.body):
            if operation.op == "pop":
                self.popped.setdefault(operation.operands[0], []).append(operation.result)
        self.classes: dict[Value, _Class] = {}
        for value in self.values:
            name = arguments.get(value) or hints.get(value.name) or self.own_name(value)
            mask, forced = 1 << self.number[value], value in arguments
            self.classes[value] = _Class(mask, self.meets[value], name, value, forced, value in self.cotangents)
        self.coalesce()

    # Which values meet

    def register_block(self, block: Block) -> None:
        """Number the values of a block, and note what it reads and defines, nested blocks included."""
        used = defined = 0
        for param in block.params:
            defined |= self.register(param)
        for operation in block.operations:
            for result in operation.results:
                if result not in self.folding.inline:
                    defined |= self.register(result)
            for nested in operation.blocks:
                self.register_block(nested)
                used |= self.used[nested]
                defined |= self.defined[nested]
            if not self.is_inside(operation):
                used |= self.mask(self.reads(operation.operands))
        used |= self.mask(self.reads(block.yields))
        self.used[block], self.defined[block] = used, defined

    def register(self, value: Value) -> int:
        self.number[value] = len(self.values)
        self.values.append(value)
        self.meets[value] = 0
        return 1 << self.number[value]

    def is_inside(self, operation: Operation) -> bool:
        return not is_statement(operation) and operation.result in self.folding.inline

    def reads(self, values: Iterable[Value]) -> set[Value]:
        return self.folding.reads(values)

    def mask(self, values: Iterable[Value]) -> int:
        mask = 0
        for value in values:
            mask |= 1 << self.number[value]
        return mask

    def define(self, values: Collection[Value], live: int) -> None:
        """Note that values are defined while `live` is needed."""
        live |= self.mask(values)
        for value in values:
            self.meets[value] |= live & ~(1 << self.number[value])

    def block(self, block: Block, live: int) -> int:
        """Walk a block backwards from what is needed after it; return what is needed before it."""
        for operation in reversed(block.operations):
            if not self.is_inside(operation):
                live = self.operation(operation, live)
        return live

    def operation(self, operation: Operation, live: int) -> int:
        results = self.mask(operation.results)
        if operation.op in ("for", "while"):
            return self.loop(operation, live)
        self.define(operation.results, live)
        live &= ~results
        if operation.op == "if":
            before = live
            for nested in operation.blocks:
                before |= self.block(nested, live | self.mask(self.reads(nested.yields)))
            return before | self.mask(self.reads(operation.operands))
        if TABLE[operation.op].inplace is not None:
            # the array is copied or renamed before the other operands are read
            index = TABLE[operation.op].inplace
            others = [v for i, v in enumerate(operation.operands) if i != index]
            written = self.mask({operation.operands[index or 0]} - self.folding.inline)
            self.define(operation.results, self.mask(self.reads(others)) & ~written)
        return live | self.mask(self.reads(operation.operands))

    def loop(self, loop: Operation, live: int) -> int:
        params = [v for block_params in carry_params(loop) for v in block_params]
        carried = self.mask([*loop.results, *params])
        used = defined = 0
        for nested in loop.blocks:
            used |= self.used[nested]
            defined |= self.defined[nested]
        through = (live & ~carried) | (used & ~defined)
        # the carries get their initial values before the bounds of the loop are evaluated
        bounds = self.mask(self.reads(loop.operands[:2])) if loop.op == "for" else 0
        for group in [loop.results, *carry_params(loop)]:
            self.define(group, through | bounds)
        for number, nested in enumerate(loop.blocks):
            out = through | self.mask(self.reads(nested.yields))
            if loop.op == "while" and number == 0:
                out |= carried
            before = self.block(nested, out)
            if loop.op == "for":
                # the loops inside have other indices, for who reads them
                inner = self.mask(o.blocks[0].params[0] for o in walk(nested) if o.op == "for")
                self.define(nested.params[:1], before | through | carried | inner)
        return through | self.mask(self.reads(loop.operands))

    # Which values share a variable

    def coalesce(self) -> None:
        operations = list(walk(self.function.body))
        for operation in operations:
            if operation.op in ("for", "while"):
                for position, result in enumerate(operation.results):
                    for params in carry_params(operation):
                        self.merge(params[position], result, forced=True)
        for operation in operations:
            index = TABLE[operation.op].inplace
            if index is not None and operation in self.buffers.in_place:
                self.merge(operation.operands[index], operation.result)
        for operation in operations:
            if operation.op == "if":
                for nested in operation.blocks:
                    for value, result in zip(nested.yields, operation.results, strict=True):
                        self.merge(result, value)
            elif operation.op in ("for", "while"):
                for value, result in zip(operation.blocks[-1].yields, operation.results, strict=True):
                    self.merge(result, value)
        for operation in operations:
            if operation.op in ("for", "while"):
                for value, result in zip(carries(operation), operation.results, strict=True):
                    self.merge(result, value)

    def merge(self, a: Value, b: Value, *, forced: bool = False) -> None:
        """Let two values share a variable, unless they meet or the user gave them different names."""
        if a not in self.classes or b not in self.classes:
            return
        first, second = self.classes[a], self.classes[b]
        if first is second:
            return
        if not forced:
            if first.meets & second.members or second.meets & first.members:
                return
            if first.name and second.name and first.name != second.name:
                return
            if first.reverse != second.reverse and not first.name == second.name != "":
                return
        elif second.name and not first.name:
            first.name = second.name
        first.name = first.name or second.name
        first.forced |= second.forced
        first.members |= second.members
        first.meets |= second.meets
        if self.number[second.first] < self.number[first.first]:
            first.first = second.first
        for number in _bits(second.members):
            self.classes[self.values[number]] = first

    # Names

    def own_name(self, value: Value) -> str:
        """Return the name that the user gave a value; the throw-away name `_` is that of a loop index without use."""
        if value.name.strip("_"):
            return identifier(value.name)
        if value in self.indices:
            return "k" if value.name and self.used[self.function.body] >> self.number[value] & 1 else value.name
        return "trips" if value.name and value in self.counters else ""

    def names(self) -> dict[Value, str]:
        """Choose the name of each variable: of the arguments, then in the order of the text, of stacks last."""
        self.assigned: dict[str, _Class] = {}
        self.given = {c.name for c in self.classes.values() if c.name}
        self.origins = Origins()
        names: dict[_Class, str] = {}
        classes = list(dict.fromkeys(self.classes[v] for v in self.values))
        for group in sorted(classes, key=lambda c: (not c.forced, isinstance(c.first.type, StackType))):
            members = [self.values[k] for k in _bits(group.members)]
            numbers = [v.origin for v in members if v.origin]
            base = group.name or ("result" if group.members & self.results else self.describe_first(members))
            wanted, is_late, is_primal = base, group.first in self.late, not is_cotangent(base)
            if isinstance(group.first.type, StackType):
                wanted = self.stack_name(group.first, names) or base
            elif is_late or not is_primal:
                wanted = self.origins.name_of(numbers, base)
            is_own = bool(group.name) or wanted != base
            is_free = (
                not (is_late or not is_primal)
                or group.first in self.indices
                or (wanted == base == group.name and not is_primal and self.origins.is_alone(base))
            )
            name = next(
                name
                for name in self.proposals(group, wanted)
                if (is_own or name not in self.given)  # a name of the user's means what the user means
                and (is_free or not self.origins.is_of_another(name, numbers, is_primal))
                and self.may_have(group, name, is_own)
            )
            names[group] = name
            other = self.assigned.setdefault(name, _Class(0, 0, name, group.first))
            other.members |= group.members
            other.meets |= group.meets
            if is_primal:
                self.origins.add(name, base, numbers, is_late)
        return {value: names[self.classes[value]] for value in self.values}

    def proposals(self, group: _Class, wanted: str) -> Iterable[str]:
        """Yield names for a variable, the best first."""
        yield wanted
        pushed = self.pushed.get(group.first)
        if pushed is not None and pushed.producer is None:
            # what a carry was before the iteration, while its name means what it is afterwards
            yield f"{wanted}_before"
        yield from (f"{wanted}_{number}" for number in itertools.count(1))

    def may_have(self, group: _Class, name: str, is_own: bool) -> bool:
        """Return whether no other variable of this name is in the way."""
        other = self.assigned.get(name)
        if other is None:
            return group.forced or name not in self.taken
        if other.meets & group.members or group.meets & other.members:
            return False
        if other.members & self.kept and group.members & self.kept:
            return False  # one name for what is on two stacks would have to be two in the second half
        return is_own or self.is_again(other, group)

    def stack_name(self, stack: Value, names: Mapping[_Class, str]) -> str:
        """Return the name of a stack, which is that of what is taken from it."""
        for value in self.popped.get(stack, ()):
            if value in self.classes:
                return f"{names[self.classes[value]]}_stack"
        return ""

    def describe_first(self, members: Sequence[Value]) -> str:
        """Return a name for values without one, from the first that says something."""
        known = (v for v in members if v.producer is None or v.producer.op != "undefined")
        return self.describe(next(known, members[0]))

    def describe(self, value: Value) -> str:
        """Return a name for a value without one, from the operation that makes it."""
        value = self.pushed.get(value, value)
        producer = value.producer
        if producer is None:
            return "i" if value in self.indices else "carried"
        if value in self.carriers:
            noun = noun_of(value)
            return identifier(noun if re.match("(t_)?ct_", noun) else re.sub("^(t_)?", r"\1ct_", noun))
        if producer.op == "if":
            ends = [block.yields[producer.results.index(value)] for block in producer.blocks]
            set_ends = [v for v in ends if v.producer is None or v.producer.op != "undefined"]
            if len(set_ends) == 1:  # a value of one side, kept for the sweep
                return set_ends[0].name or self.describe(set_ends[0])
        if len(producer.operands) == 1 and TABLE[producer.op].elementwise:
            operand = producer.operands[0]
            if operand.name and len(operand.name) <= 8:
                return identifier(f"{producer.op}_{operand.name}")
        return identifier(noun_of(value))

    def is_again(self, first: _Class, second: _Class) -> bool:
        """Return whether a variable holds what another one held, computed again or kept on a stack."""
        made = [self.pushed.get(c.first, c.first).producer for c in (first, second)]
        return all(o is not None and o.op == made[0].op and o.span == made[0].span for o in made if made[0] is not None)


def _find_pushed(function: Function) -> dict[Value, Value]:
    """Return, for each value taken from a stack, one that was put there."""
    operations = list(walk(function.body))
    onto = {o.operands[0]: o.operands[1] for o in operations if o.op == "push"}
    return {o.result: onto[o.operands[0]] for o in operations if o.op == "pop" and o.operands[0] in onto}


def _find_carriers(function: Function) -> set[Value]:
    """Return the values that are made of cotangents."""
    found: set[Value] = {p for p in function.params if p.name.startswith("ct_")}
    for operation in walk(function.body):
        found.update(p for block in operation.blocks for p in block.params if p.name.startswith("ct_"))
        moves = operation.span is not None and operation.span.reverse and not found.isdisjoint(operation.operands)
        for result in operation.results:
            if result.name.startswith("ct_") or (
                moves and isinstance(result.type, ArrayType) and is_inexact(result.dtype)
            ):
                found.add(result)
    return found


def _find_cotangents(function: Function) -> set[Value]:
    """Return the values of the sweep of cotangents."""
    found = {p for p in function.params if p.name.startswith("ct_")}
    for operation in walk(function.body):
        span, index = operation.span, TABLE[operation.op].inplace
        sources = operation.operands if index is None else [operation.operands[index]]
        in_sweep = span.reverse if span is not None else not found.isdisjoint(sources)
        values = [*operation.results, *(p for block in operation.blocks for p in block.params)]
        found.update(v for v in values if in_sweep or v.name.startswith("ct_"))
    return found


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low

"""Decides which values of a function share a variable or an array.

Reads the steps of a function, writes a storage class per stored value. Previous: loops.py; next: c_library.py.

Values that may share storage (a carried value and what replaces it, an array and the array with one element set) are
put into one storage class. Two values exclude each other when one is live where the other is defined.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracegrad.codegen.c_elements import (
    LOCAL,
    is_small,
    kept_axes,
    static_size,
)
from tracegrad.codegen.c_order import LOOPS
from tracegrad.codegen.loops import Step, Steps
from tracegrad.ir.core import (
    Block,
    Function,
    Operation,
    Value,
    walk,
)
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import (
    ArrayType,
)


def is_large(value: Value) -> bool:
    """Return whether an array lies in the workspace rather than on the stack."""
    size = static_size(value.shape)
    return bool(value.shape) and (size is None or size > LOCAL)


@dataclass(eq=False)
class Storage:
    """Values that share a variable or an array.

    Attributes:
        members: the values.
        result: the position of the function result that is written here, or None.
        is_carried: some member is carried by a loop.
        is_swapped: its pointer changes at run time.
    """

    members: list[Value]
    result: int | None = None
    is_carried: bool = False
    is_swapped: bool = False


class Plan(Steps):
    """All that is decided before a function is written.

    Attributes:
        function: the prepared copy that the plan speaks of.
        steps: per block, what is written in order.
        storage: per stored value its storage class; function parameters and values local to a nest have none.
        swaps: per block of a loop, carried arrays that take over the pointer of the array with their next value.
        row_values: values that nests of one row pass on, stored for one row only.
    """

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.storage: dict[Value, Storage] = {}
        self.row_values: set[Value] = set()
        self.swaps: dict[Block, dict[Value, Storage]] = {}
        self.definition: dict[Value, tuple[Block, int]] = {}
        self.used_at: dict[Block, dict[Value, list[int]]] = {}
        self.place: dict[Block, tuple[Block, int]] = {}
        self._locate(self.function.body)
        self._share_storage()

    # Lifetimes.

    def _locate(self, block: Block) -> dict[Value, None]:
        """Record where values are defined and at which steps of each block they are read; return what is read."""
        here: dict[Value, list[int]] = {}
        self.used_at[block] = here
        for param in block.params:
            self.definition[param] = (block, -1)
        for position, step in enumerate(self.steps[block]):
            for value in step.reads:
                here.setdefault(value, []).append(position)
            for operation in step.operations:
                for nested in operation.blocks:
                    self.place[nested] = (block, position)
                    for value in self._locate(nested):
                        here.setdefault(value, []).append(position)
                if operation.op == "for":
                    for bound in operation.operands[:2]:
                        for value in self.read_values(bound):
                            self.used_at[operation.blocks[0]].setdefault(value, []).append(10**9)
                for result in operation.results:
                    self.definition[result] = (block, position)
        end = len(self.steps[block])
        for value in block.yields:
            for leaf in self.read_values(value):
                here.setdefault(leaf, []).append(end)
        leaves = {v for s in self.steps[block] if s.kind == "leave" for v in block.params}
        for position, step in enumerate(self.steps[block]):
            if step.kind == "leave":
                for value in leaves:
                    here.setdefault(value, []).append(position)
        return dict.fromkeys(here)

    def live_after(self, value: Value, block: Block, position: int) -> bool:
        """Return whether a value may be read after a step of a block."""
        at_home, _ = self.definition[value]
        while True:
            if any(p > position for p in self.used_at[block].get(value, ())):
                return True
            if block is at_home or block not in self.owner:
                return False
            if self.owner[block].op in LOOPS and self.used_at[block].get(value):
                return True
            block, position = self.place[block]

    def _is_visible(self, value: Value, block: Block, position: int) -> bool:
        """Return whether a value is defined before a step of a block, or by it."""
        at_home, defined = self.definition[value]
        while block is not at_home:
            if block not in self.owner:
                return False
            block, position = self.place[block]
            position -= 1
        return defined <= position

    def _overlaps(self, a: Value, b: Value) -> bool:
        """Return whether `a` still holds a needed value where `b` is defined."""
        block, position = self.definition[b]
        if not self._is_visible(a, block, position):
            return False
        if self.live_after(a, block, position):
            return True
        if position >= 0:
            step = self.steps[block][position]
            if a in step.reads and not step.reads[a]:
                return True
        return self.definition[a] == (block, position) and a is not b

    def exclude(self, a: Storage, b: Storage) -> bool:
        """Return whether two storage classes are needed at the same time."""
        return any(self._overlaps(x, y) or self._overlaps(y, x) for x in a.members for y in b.members)

    # Storage.

    def _share_storage(self) -> None:
        for block, steps in self.steps.items():
            if block in self.owner:
                for param in block.params:
                    if param not in self._loop_indices:
                        self.storage[param] = Storage([param], is_carried=True)
            for step in steps:
                for result in step.results:
                    if step.kind == "index" or not isinstance(result.type, ArrayType):
                        continue
                    if step.kind in ("nest", "rows") and not self._is_needed(result, block, step):
                        if step.kind == "rows" and self._crosses(result, step):
                            self.row_values.add(result)
                        continue
                    self.storage[result] = Storage([result])
        for operation in walk(self.function.body):
            if operation.op in LOOPS:
                for param, result in zip(self.carries(operation), operation.results, strict=True):
                    self._merge(param, result, must=True)
        # where a large array is not written in place it is copied, whereas carried ones can exchange their pointers
        self._share_written(large=True)
        for operation in walk(self.function.body):
            if operation.op in LOOPS:
                for param, following in zip(self.carries(operation), operation.blocks[0].yields, strict=True):
                    self._merge(param, following)
        self._share_written(large=False)
        self._choose_swaps()
        for position, value in enumerate(self.function.results):
            shared = self.storage.get(value)
            if shared is None or shared.result is not None or shared.is_swapped or not value.shape:
                continue
            if is_small(value) and (shared.is_carried or len(shared.members) > 1):
                continue
            shared.result = position

    def _share_written(self, *, large: bool) -> None:
        """Let arrays share memory with what they are overwritten by: all that are large, or all others."""
        for operation in walk(self.function.body):
            pairs: list[tuple[Value, Value]] = []
            record = TABLE.get(operation.op)
            if operation.op in LOOPS:
                inits = operation.operands[2:] if operation.op == "for" else operation.operands
                pairs = list(zip(inits, self.carries(operation), strict=True))
            elif operation.op == "if":
                for block in operation.blocks:
                    pairs += zip(block.yields, operation.results, strict=True)
            elif record is not None and record.inplace is not None:
                pairs = [(operation.operands[record.inplace], operation.result)]
            for operand, result in pairs:
                if is_large(result) == large:
                    self._merge(operand, result)

    def _choose_swaps(self) -> None:
        """Find large carried arrays whose next value is made in another array: they exchange their pointers."""
        for operation in walk(self.function.body):
            if operation.op not in LOOPS:
                continue
            block = operation.blocks[0]
            carried = {self.storage[p] for p in self.carries(operation)}
            found: dict[Storage, tuple[Value, Storage]] = {}
            for param, following in zip(self.carries(operation), block.yields, strict=True):
                target, source = self.storage[param], self.storage.get(following)
                if source is None or source is target or not is_large(param) or block.yields.count(following) > 1:
                    continue
                if source in carried or all(self._is_inside(m, block) for m in source.members):
                    found[target] = (param, source)
            while lost := [t for t, (_, s) in found.items() if s in carried and s not in found]:
                del found[lost[0]]
            self.swaps[block] = dict(found.values())
            for target, (_, source) in found.items():
                target.is_swapped = source.is_swapped = True

    def _is_inside(self, value: Value, block: Block) -> bool:
        """Return whether a value is defined in a block or in one nested in it."""
        home: Block = self.definition[value][0]
        while home is not block:
            if home not in self.owner:
                return False
            home = self.place[home][0]
        return self.definition[value] != (block, -1)

    def _is_needed(self, value: Value, block: Block, step: Step) -> bool:
        """Return whether a value of a nest must be stored: it is read elsewhere, or it is a reduction over all rows."""
        if self.used_at[block].get(value):
            return True
        producer = value.producer
        assert producer is not None
        if self.role(producer) != "reduce":
            return False
        return step.kind == "nest" or 0 not in kept_axes(producer)

    def _crosses(self, value: Value, rows: Step) -> bool:
        """Return whether a nest of a row reads what another makes."""
        return any(
            value not in nest.results and any(v is value for o in nest.operations for v, _, _ in self.nest_accesses(o))
            for nest in rows.members
        )

    def carries(self, operation: Operation) -> list[Value]:
        """Return the block parameters that a loop carries."""
        params = operation.blocks[0].params
        return params[1:] if operation.op == "for" else params

    def _merge(self, a: Value, b: Value, *, must: bool = False) -> None:
        """Let two values share storage when they can."""
        first, second = self.storage.get(a), self.storage.get(b)
        if first is None or second is None or first is second or a.type != b.type:
            return
        if not must and self.exclude(first, second):
            return
        first.members += second.members
        first.is_carried |= second.is_carried
        for member in second.members:
            self.storage[member] = first

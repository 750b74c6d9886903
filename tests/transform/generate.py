"""Random programs in IR: arithmetic on scalars and vectors, reads and writes at indices, branches and loops, nested."""

from __future__ import annotations

import numpy as np

from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value
from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ir.types import F64, I64, ArrayType

SIZE = 3
SCALAR, VECTOR, INDEX = ArrayType(F64), ArrayType(F64, (SIZE,)), ArrayType(I64)
_UNARY = ("sin", "cos", "tanh", "negative", "square", "exp", "arctan")
_BINARY = ("add", "subtract", "multiply", "add", "multiply", "maximum")


class Generator:
    """Makes one function of parameters x: f64[], v: f64[3], n: i64[] (0 to 3), with one scalar result."""

    def __init__(self, rng: np.random.Generator, length: int = 10, depth: int = 3) -> None:
        self.rng, self.length, self.depth = rng, length, depth
        params = [Value(SCALAR, "x"), Value(VECTOR, "v"), Value(INDEX, "n")]
        self.function = Function("random", Block(params))
        self.builder = Builder(self.function.body)
        #: values visible here, by type
        self.visible: dict[ArrayType, list[Value]] = {SCALAR: params[:1], VECTOR: params[1:2], INDEX: []}

    def make(self) -> Function:
        with interpreter(self.builder):
            for k in range(SIZE):
                self.visible[INDEX].append(self.builder.constant(np.int64(k)))
            self.statements(self.length, self.depth)
            total = self.tame(self.pick(SCALAR))
            for _ in range(2):
                term = TABLE["reduce_sum"](self.pick(VECTOR), axes=(0,))
                total = TABLE["add"](total, self.tame(term))
            self.function.body.yields = [total]
        return self.function

    def pick(self, kind: ArrayType) -> Value:
        values = self.visible[kind]
        # recent values more often, so that programs are deep
        return values[-1 - int(self.rng.integers(0, min(len(values), int(self.rng.choice([2, 4, 50])))))]

    def tame(self, value: Value) -> Value:
        """Keep numbers small."""
        return TABLE[str(self.rng.choice(["tanh", "sin"]))](value)

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            choice = self.rng.random()
            if choice < 0.12 and depth:
                self.branch(depth - 1)
            elif choice < 0.24 and depth:
                self.loop(depth - 1)
            elif choice < 0.30 and depth:
                self.loop_while(depth - 1)
            else:
                self.add(self.plain())

    def add(self, value: Value) -> None:
        self.visible[value.array_type].append(value)

    def plain(self) -> Value:
        kind = SCALAR if self.rng.random() < 0.5 else VECTOR
        match int(self.rng.integers(0, 9)):
            case 0 | 1:
                return self.tame(TABLE[str(self.rng.choice(_UNARY))](self.tame(self.pick(kind))))
            case 2 | 3:
                return TABLE[str(self.rng.choice(_BINARY))](self.tame(self.pick(kind)), self.pick(kind))
            case 4:
                return TABLE["gather"](self.pick(VECTOR), self.pick(INDEX), axes=(0,))
            case 5:
                op = str(self.rng.choice(["scatter_set", "scatter_add"]))
                return TABLE[op](self.pick(VECTOR), self.pick(INDEX), self.tame(self.pick(SCALAR)), axes=(0,))
            case 6:
                bounds = {"start": (1,), "stop": (3,), "step": (1,)}
                part = TABLE["slice"](self.pick(VECTOR), **bounds)
                return TABLE[str(self.rng.choice(["set_slice", "add_slice"]))](self.pick(VECTOR), part, **bounds)
            case 7:
                if kind == SCALAR:
                    return self.tame(TABLE["reduce_sum"](self.pick(VECTOR), axes=(0,)))
                return TABLE["broadcast_to"](self.pick(SCALAR), shape=(SIZE,))
            case _:
                condition = TABLE["greater"](self.pick(kind), self.pick(kind))
                return TABLE["select"](condition, self.pick(kind), self.pick(kind))

    def nested(self, params: list[Value], count: int, depth: int, kinds: list[ArrayType]) -> Block:
        """Make a block with random statements that yields values of given types."""
        block = Block(params)
        outer = {kind: list(values) for kind, values in self.visible.items()}
        with self.builder.into(block):
            for param in params:
                self.add(param)
            self.statements(count, depth)
            for kind in kinds:
                value = self.pick(kind)
                block.yields.append(self.tame(value) if self.rng.random() < 0.5 else value)
        self.visible = outer
        return block

    def kinds(self) -> list[ArrayType]:
        return [SCALAR if self.rng.random() < 0.5 else VECTOR for _ in range(int(self.rng.integers(1, 4)))]

    def finish(self, operation: Operation) -> None:
        for result in operation.results:
            if result.type != INDEX:
                self.add(result)

    def branch(self, depth: int) -> None:
        condition = TABLE["greater"](self.pick(SCALAR), self.pick(SCALAR))
        kinds = self.kinds()
        blocks = [self.nested([], int(self.rng.integers(0, 5)), depth, kinds) for _ in range(2)]
        self.finish(self.builder.append("if", [condition], {}, blocks, list(kinds)))

    def loop(self, depth: int) -> None:
        kinds = self.kinds()
        inits = [self.pick(kind) for kind in kinds]
        zero = self.visible[INDEX][0]
        stop = self.function.params[2] if self.rng.random() < 0.5 else self.pick(INDEX)
        params = [Value(INDEX, "k"), *(Value(kind) for kind in kinds)]
        body = self.nested(params, int(self.rng.integers(1, 6)), depth, kinds)
        attrs = {"step": int(self.rng.choice([1, 2])), "reverse": bool(self.rng.random() < 0.3)}
        self.finish(self.builder.append("for", [zero, stop, *inits], attrs, [body], list(kinds)))

    def loop_while(self, depth: int) -> None:
        """A loop that counts down from 2, and stops before if a carried scalar gets large."""
        kinds = [SCALAR, *self.kinds()]
        two = self.builder.constant(np.int64(2))
        inits = [two, *(self.pick(kind) for kind in kinds)]
        condition = Block([Value(INDEX), *(Value(kind) for kind in kinds)])
        with self.builder.into(condition):
            counting = TABLE["greater"](condition.params[0], np.int64(0))
            small = TABLE["less"](condition.params[1], np.float64(0.9))
            condition.yields = [TABLE["logical_and"](counting, small)]
        params = [Value(INDEX), *(Value(kind) for kind in kinds)]
        body = self.nested(params, int(self.rng.integers(1, 5)), depth, list(kinds))
        with self.builder.into(body):
            body.yields.insert(0, TABLE["subtract"](params[0], np.int64(1)))
        self.finish(self.builder.append("while", inits, {}, [condition, body], [INDEX, *kinds]))

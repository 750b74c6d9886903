"""Random functions in IR that slice, view, write, branch, loop and stack: what an alias must not go wrong in."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

import tracegrad.ops  # noqa: F401  (fills the table of ops)
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Value
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import F64, I64, ArrayType, StackType, array_type

NUMBER, PAIR, VECTOR, MATRIX, INDEX = map(array_type, ["f64[]", "f64[2]", "f64[4]", "f64[4,4]", "i64[]"])
PARAMS = (VECTOR, MATRIX, VECTOR, NUMBER)
NAMES = ("", "", "a", "b", "x")

#: methods of the generator that make one value; those named twice come twice as often
_MAKERS = """add add sine flip row row column transposed pair item spread total choose zeros reshaped whole
    write_item write_item write_row write_row write_column write_pair write_pair add_pair add_item add_many set_many"""


def programs() -> st.SearchStrategy[Function]:
    """Return a strategy for functions of PARAMS with some results of any type; a function is made from one number."""
    return st.integers(0, 2**32 - 1).map(make_program)


def make_program(seed: int) -> Function:
    """Return the random function of a seed."""
    function = Function("program", Block([Value(kind, name) for kind, name in zip(PARAMS, "xmys", strict=True)]))
    generator = _Generator(random.Random(seed), function)
    pool = list(function.params)
    pool += [generator.apply("sin", param) for param in function.params]
    generator.statements(pool, generator.random.randint(2, 12), depth=0)
    function.body.yields = generator.results
    return function


def arguments() -> list[np.ndarray]:
    """Return values for PARAMS."""
    generator = np.random.default_rng(7)
    return [np.asarray(generator.uniform(-1.0, 1.0, kind.shape)) for kind in PARAMS]


class _Generator:
    def __init__(self, random: random.Random, function: Function) -> None:
        self.random = random
        self.builder = Builder(function.body)
        self.results: list[Value] = []

    def apply(self, op: str, *operands: object, name: str = "", **attrs: object) -> Value:
        value = self.builder.apply(TABLE[op], operands, attrs)
        assert isinstance(value, Value)
        value.name = name
        return value

    def pick(self, pool: Sequence[Value], kind: ArrayType) -> Value:
        """Return a value of a type, often a recent one."""
        found = [v for v in pool if v.type == kind]
        if found:
            back = min(self.random.randint(0, 4), self.random.randint(0, 4), len(found) - 1)
            return found[-1 - back]
        if kind == PAIR:
            return self.apply("slice", self.pick(pool, VECTOR), start=(1,), stop=(3,), step=(1,))
        return self.apply("full", shape=kind.shape, dtype=kind.dtype, value=0 if kind.dtype == I64 else 1.5)

    def index(self, pool: Sequence[Value]) -> Value:
        indices = [v for v in pool if v.type == INDEX]
        chosen = self.random.randint(-4, 3)
        if indices and chosen > 0:
            return indices[-1]
        return self.builder.constant(np.int64(chosen))

    def statements(self, pool: list[Value], count: int, depth: int) -> None:
        makers = [getattr(self, name) for name in _MAKERS.split()]
        for _ in range(count):
            block = self.random.randint(0, 9)
            if depth < 2 and block >= 7:
                [self.branch, self.loop, self.while_loop][block - 7](pool, depth)
                continue
            value = self.random.choice(makers)(pool)
            value.name = self.random.choice(NAMES)
            pool.append(value)
        if depth == 0:
            if self.random.random() < 0.5:
                self.residuals(pool)
            arrays = [v for v in pool if v.type in (VECTOR, MATRIX, PAIR, NUMBER)]
            self.results = self.random.choices(arrays, k=self.random.randint(1, 3))
            self.results.append(arrays[-1])

    # Elementwise, views

    def add(self, pool: list[Value]) -> Value:
        kind = self.random.choice([VECTOR, MATRIX, PAIR, NUMBER])
        return self.apply("subtract", self.pick(pool, kind), self.pick(pool, kind))

    def sine(self, pool: list[Value]) -> Value:
        return self.apply("sin", self.pick(pool, self.random.choice([VECTOR, MATRIX])))

    def flip(self, pool: list[Value]) -> Value:
        return self.apply("flip", self.pick(pool, VECTOR), axes=(0,))

    def row(self, pool: list[Value]) -> Value:
        return self.apply("gather", self.pick(pool, MATRIX), self.index(pool), axes=(0,))

    def column(self, pool: list[Value]) -> Value:
        return self.apply("gather", self.pick(pool, MATRIX), self.index(pool), axes=(1,))

    def transposed(self, pool: list[Value]) -> Value:
        return self.apply("transpose", self.pick(pool, MATRIX), axes=(1, 0))

    def pair(self, pool: list[Value]) -> Value:
        start, step = self.random.choice([(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)])
        stop = start + 2 if step == 1 else 4
        return self.apply("slice", self.pick(pool, VECTOR), start=(start,), stop=(stop,), step=(step,))

    def item(self, pool: list[Value]) -> Value:
        return self.apply("gather", self.pick(pool, VECTOR), self.index(pool), axes=(0,))

    def spread(self, pool: list[Value]) -> Value:
        kind, shape = self.random.choice([(NUMBER, (4,)), (VECTOR, (4, 4)), (NUMBER, (4, 4))])
        return self.apply("broadcast_to", self.pick(pool, kind), shape=shape)

    def total(self, pool: list[Value]) -> Value:
        return self.apply("reduce_sum", self.pick(pool, MATRIX), axes=(self.random.randint(0, 1),))

    def choose(self, pool: list[Value]) -> Value:
        a, b = self.pick(pool, VECTOR), self.pick(pool, VECTOR)
        return self.apply("select", self.apply("less", a, b), a, b)

    def zeros(self, pool: list[Value]) -> Value:
        kind = self.random.choice([VECTOR, MATRIX])
        return self.apply("full", shape=kind.shape, dtype=F64, value=self.random.choice([0.0, 1.0, 0.5]))

    def reshaped(self, pool: list[Value]) -> Value:
        flat = self.apply("reshape", self.pick(pool, MATRIX), shape=(16,))
        start = self.random.randint(0, 12)
        return self.apply("slice", flat, start=(start,), stop=(start + 4,), step=(1,))

    def whole(self, pool: list[Value]) -> Value:
        return self.apply("slice", self.pick(pool, VECTOR), start=(0,), stop=(4,), step=(1,))

    # Writes

    def write_item(self, pool: list[Value]) -> Value:
        return self.apply("scatter_set", self.pick(pool, VECTOR), self.index(pool), self.pick(pool, NUMBER), axes=(0,))

    def add_item(self, pool: list[Value]) -> Value:
        return self.apply("scatter_add", self.pick(pool, VECTOR), self.index(pool), self.pick(pool, NUMBER), axes=(0,))

    def write_row(self, pool: list[Value]) -> Value:
        op = self.random.choice(["scatter_set", "scatter_add"])
        return self.apply(op, self.pick(pool, MATRIX), self.index(pool), self.pick(pool, VECTOR), axes=(0,))

    def write_column(self, pool: list[Value]) -> Value:
        op = self.random.choice(["scatter_set", "scatter_add"])
        return self.apply(op, self.pick(pool, MATRIX), self.index(pool), self.pick(pool, VECTOR), axes=(1,))

    def write_pair(self, pool: list[Value]) -> Value:
        return self.write_slice("set_slice", pool)

    def add_pair(self, pool: list[Value]) -> Value:
        return self.write_slice("add_slice", pool)

    def write_slice(self, op: str, pool: list[Value]) -> Value:
        start = self.random.randint(0, 2)
        place = {"start": (start,), "stop": (start + 2,), "step": (1,)}
        return self.apply(op, self.pick(pool, VECTOR), self.pick(pool, PAIR), **place)

    def add_many(self, pool: list[Value]) -> Value:
        return self.scatter_many("scatter_add", pool)

    def set_many(self, pool: list[Value]) -> Value:
        return self.scatter_many("scatter_set", pool)

    def scatter_many(self, op: str, pool: list[Value]) -> Value:
        places = self.builder.constant(np.array([self.random.randint(-4, 3) for _ in range(4)]))
        if self.random.random() < 0.5:
            return self.apply(op, self.pick(pool, VECTOR), places, self.pick(pool, VECTOR), axes=(0,))
        axes = (self.random.randint(0, 1),)
        return self.apply(op, self.pick(pool, MATRIX), places, self.pick(pool, MATRIX), axes=axes)

    # Control flow

    def condition(self, pool: list[Value]) -> Value:
        return self.apply("less", self.pick(pool, NUMBER), self.builder.constant(np.float64(0.3)))

    def chosen(self, pool: list[Value]) -> list[Value]:
        return [
            self.pick(pool, kind) for kind in self.random.choices([VECTOR, MATRIX, NUMBER], k=self.random.randint(1, 3))
        ]

    def branch(self, pool: list[Value], depth: int) -> None:
        condition, kinds = self.condition(pool), [v.type for v in self.chosen(pool)]
        blocks = [Block(), Block()]
        for block in blocks:
            with self.builder.into(block):
                inner = list(pool)
                self.statements(inner, self.random.randint(0, 3), depth + 1)
                block.yields = [self.pick(inner, k) for k in kinds if isinstance(k, ArrayType)]
        self.finish("if", [condition], {}, blocks, kinds, pool)

    def loop(self, pool: list[Value], depth: int) -> None:
        inits = self.chosen(pool)
        kinds = [v.type for v in inits]
        block = self.loop_block(kinds, "k", pool, depth)
        start, stop = (self.builder.constant(np.int64(n)) for n in self.random.choice([(0, 3), (1, 4), (0, 0)]))
        reverse = self.random.random() < 0.5
        self.finish("for", [start, stop, *inits], {"step": 1, "reverse": reverse}, [block], kinds, pool)

    def loop_block(self, kinds: Sequence[object], index: str, pool: list[Value], depth: int) -> Block:
        block = Block([Value(INDEX, index)] if index else [])
        block.params += [Value(k, self.random.choice(NAMES)) for k in kinds if isinstance(k, ArrayType)]
        with self.builder.into(block):
            inner = [*pool, *block.params]
            self.statements(inner, self.random.randint(0, 4), depth + 1)
            block.yields = [self.pick(inner, k) for k in kinds if isinstance(k, ArrayType)]
        return block

    def while_loop(self, pool: list[Value], depth: int) -> None:
        inits = [self.builder.constant(np.int64(0)), *self.chosen(pool)]
        kinds = [v.type for v in inits]
        condition = Block([Value(k, "") for k in kinds])
        with self.builder.into(condition):
            inner = [*pool, *condition.params]
            self.statements(inner, self.random.randint(0, 4), 2)
            limit = self.builder.constant(np.int64(self.random.randint(0, 3)))
            condition.yields = [self.apply("less", condition.params[0], limit)]
        body = self.loop_block(kinds, "", pool, depth)
        with self.builder.into(body):
            body.yields[0] = self.apply("add", body.params[0], self.builder.constant(np.int64(1)))
        self.finish("while", inits, {}, [condition, body], kinds, pool)

    def finish(
        self,
        op: str,
        operands: list[Value],
        attrs: dict[str, object],
        blocks: list[Block],
        kinds: Sequence[object],
        pool: list[Value],
    ) -> None:
        types = [k for k in kinds if isinstance(k, ArrayType)]
        operation = self.builder.append(op, operands, attrs, blocks, list(types))
        for result in operation.results:
            result.name = self.random.choice(NAMES)
            pool.append(result)

    def residuals(self, pool: list[Value]) -> None:
        """Push values in one loop, pop them in another that runs backwards, and write to what comes off."""
        kind = self.random.choice([VECTOR, MATRIX])
        stack = self.builder.append("stack", [], {"element": kind, "capacity": None}, [], [StackType(kind)]).result
        stack.name = "stack"
        start, stop = self.builder.constant(np.int64(0)), self.builder.constant(np.int64(3))
        carried = self.pick(pool, kind)
        forward = Block([Value(INDEX, "k"), Value(kind, "a")])
        with self.builder.into(forward):
            inner = [*pool, *forward.params]
            self.statements(inner, self.random.randint(0, 2), 2)
            self.builder.append("push", [stack, self.pick(inner, kind)], {}, [], [])
            self.statements(inner, self.random.randint(0, 2), 2)
            forward.yields = [self.pick(inner, kind)]
        self.finish("for", [start, stop, carried], {"step": 1, "reverse": False}, [forward], [kind], pool)
        backward = Block([Value(INDEX, "k"), Value(kind, "ct_a")])
        with self.builder.into(backward):
            popped = self.builder.append("pop", [stack], {}, [], [kind]).result
            inner = [*pool, *backward.params, popped]
            self.statements(inner, self.random.randint(0, 3), 2)
            backward.yields = [self.pick(inner, kind)]
        self.finish("for", [start, stop, self.pick(pool, kind)], {"step": 1, "reverse": True}, [backward], [kind], pool)

"""Random small NumPy programs as source text: loops, branches, writes in place, views, slices.

Each is a function of a number `s`, a vector `v` of 4 and an integer `n` that returns a number. Values stay small,
because every assignment ends in a bounded function.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

SIZE = 4
_CONSTANTS = ("0.3", "0.7", "1.1", "-0.6")


@dataclass
class Scope:
    """Names that are bound, by kind, and what surrounds the statement."""

    numbers: list[str] = field(default_factory=lambda: ["s"])
    vectors: list[str] = field(default_factory=lambda: ["v"])
    indices: list[str] = field(default_factory=list)
    in_loop: bool = False
    depth: int = 0

    def nested(self, **changes: Any) -> Scope:
        """Return the scope of a block in this one: what it binds is not seen after it."""
        values = {
            "numbers": list(self.numbers),
            "vectors": list(self.vectors),
            "indices": list(self.indices),
            "in_loop": self.in_loop,
            "depth": self.depth + 1,
        }
        return Scope(**{**values, **changes})


class Writer:
    """Writes a program from choices that hypothesis makes, so that a failing one shrinks."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw, self.count = draw, 0

    def pick(self, items: list[str] | tuple[str, ...]) -> str:
        return str(self.draw(st.sampled_from(list(items))))

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def program(self) -> str:
        scope = Scope()
        body = ["v = v.copy()"]
        for _ in range(self.draw(st.integers(1, 5))):
            body += self.statement(scope)
        total = " + ".join([*scope.numbers, *(f"np.sum({name} ** 2)" for name in scope.vectors)])
        return "\n".join(["def program(s, v, n):", *(f"    {line}" for line in body), f"    return {total}", ""])

    # ---- expressions

    def index(self, scope: Scope) -> str:
        choices = ["0", "2", "-1", f"n % {SIZE}", *(f"{name} % {SIZE}" for name in scope.indices)]
        return self.pick(choices)

    def number(self, scope: Scope, depth: int = 2) -> str:
        if depth == 0 or self.draw(st.booleans()):
            atoms = [*scope.numbers, *scope.numbers, *_CONSTANTS]
            atoms += [f"{self.pick(scope.vectors)}[{self.index(scope)}]" for _ in range(2)]
            return self.pick(atoms)
        x, y = self.number(scope, depth - 1), self.number(scope, depth - 1)
        vector = self.vector(scope, depth - 1)
        forms = (f"({x} + {y})", f"({x} * {y})", f"np.sin({x})", f"np.sum({vector})", f"np.max({vector})", f"abs({x})")
        return self.pick(forms)

    def vector(self, scope: Scope, depth: int = 2) -> str:
        if depth == 0 or self.draw(st.booleans()):
            return self.pick(scope.vectors)
        x, y = self.vector(scope, depth - 1), self.vector(scope, depth - 1)
        number = self.number(scope, depth - 1)
        forms = (
            f"({x} + {y})",
            f"({x} * {number})",
            f"np.cos({x})",
            f"np.where({x} > {number}, {y}, {x})",
            f"np.cumsum({x})",
            f"{x}[::-1]",
            f"np.maximum({x}, {number})",
            f"np.roll({x}, 1)",
        )
        return self.pick(forms)

    def condition(self, scope: Scope) -> str:
        x = self.number(scope, 1)
        return self.pick((f"{x} > 0.2", f"{x} < {self.number(scope, 1)}", "n > 2"))

    # ---- statements

    def block(self, scope: Scope) -> list[str]:
        lines = [line for _ in range(self.draw(st.integers(1, 2))) for line in self.statement(scope)]
        return ["    " + line for line in lines]

    def statement(self, scope: Scope) -> list[str]:
        simple = (self.assign, self.assign_vector, self.write, self.write_slice, self.write_view, self.augment)
        compound = (self.branch, self.for_loop, self.while_loop, self.each) if scope.depth < 2 else ()
        return list(self.draw(st.sampled_from([*simple, *compound]))(scope))

    def assign(self, scope: Scope) -> list[str]:
        value = f"np.tanh({self.number(scope)})"
        if scope.depth == 0 and self.draw(st.booleans()):
            name = self.fresh("t")
            scope.numbers.append(name)
        else:
            name = self.pick(scope.numbers)
        return [f"{name} = {value}"]

    def assign_vector(self, scope: Scope) -> list[str]:
        value = f"np.tanh({self.vector(scope)})"
        if scope.depth == 0 and self.draw(st.booleans()):
            name = self.fresh("w")
            scope.vectors.append(name)
        else:
            name = self.pick(scope.vectors)
        return [f"{name} = {value}"]

    def augment(self, scope: Scope) -> list[str]:
        return [f"{self.pick(scope.numbers)} += 0.1 * np.sin({self.number(scope)})"]

    def write(self, scope: Scope) -> list[str]:
        name, operator = self.pick(scope.vectors), self.pick(("=", "+="))
        return [f"{name}[{self.index(scope)}] {operator} np.tanh({self.number(scope)})"]

    def write_slice(self, scope: Scope) -> list[str]:
        name = self.pick(scope.vectors)
        place, size = self.draw(st.sampled_from([("1:", 3), (":2", 2), ("::2", 2), ("1:3", 2)]))
        value = self.pick((f"np.tanh({self.number(scope)})", f"np.tanh({self.vector(scope)})[:{size}]"))
        return [f"{name}[{place}] {self.pick(('=', '+='))} {value}"]

    def write_view(self, scope: Scope) -> list[str]:
        view, name = self.fresh("p"), self.pick(scope.vectors)
        return [f"{view} = {name}[{self.pick(('1:', ':3', '::-1'))}]", f"{view}[0] = 0.5 * {view}[1]", f"{view} *= 0.9"]

    def branch(self, scope: Scope) -> list[str]:
        lines = [f"if {self.condition(scope)}:", *self.block(scope.nested())]
        if self.draw(st.booleans()):
            lines += ["else:", *self.block(scope.nested())]
        return lines

    def for_loop(self, scope: Scope) -> list[str]:
        index = self.fresh("k")
        inner = scope.nested(indices=[*scope.indices, index], in_loop=True)
        span = self.pick(("range(3)", "range(n)", "range(4, 0, -1)"))
        return [f"for {index} in {span}:", *self.block(inner), *self.jump(inner)]

    def each(self, scope: Scope) -> list[str]:
        element = self.fresh("e")
        inner = scope.nested(numbers=[*scope.numbers, element], in_loop=True)
        return [f"for {element} in {self.vector(scope, 1)}:", *self.block(inner)]

    def while_loop(self, scope: Scope) -> list[str]:
        count = self.fresh("c")
        inner = scope.nested(indices=[*scope.indices, count], in_loop=True)
        test = self.pick((f"{count} < 3", f"{count} < 4 and {self.condition(scope)}"))
        return [f"{count} = 0", f"while {test}:", f"    {count} += 1", *self.block(inner), *self.jump(inner)]

    def jump(self, scope: Scope) -> list[str]:
        if not self.draw(st.booleans()):
            return []
        return [f"    if {self.condition(scope)}:", f"        {self.pick(('break', 'continue'))}"]


@st.composite
def sources(draw: Any) -> str:
    """Draw the text of a program."""
    return Writer(draw).program()


_count = 0


def load(text: str) -> Callable[..., Any]:
    """Return the function that a text defines, with its source lines within reach."""
    global _count
    _count += 1
    file = f"<program {_count}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    return function

"""Random programs, full of jumps, must do after conversion what they do before."""

from __future__ import annotations

import linecache
import random
import types
from typing import Any

import pytest

from tests.capture.hooks import check


class Writer:
    """Writes a random program. a, b and c are parameters; x, y and z may be unbound."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def program(self) -> str:
        bound = self.random.choice(["not log", "not log", "not log", "a"])
        return "\n".join(
            [
                "from contextlib import nullcontext, suppress",
                "def call(f): return f()",
                "def program(a, b, c, out):",
                "    log = []",
                f"    if {bound}: x = y = z = 0",
                "    try:",
                *("        " + line for line in self.block(3)),
                "    finally:",
                "        out.append(log)",
                "    return log, x",
            ]
        )

    def name(self) -> str:
        return self.random.choice("abccxyyz")

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def chance(self, probability: float = 0.5) -> bool:
        return self.random.random() < probability

    def value(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.3):
            return self.random.choice([self.name(), self.name(), str(self.random.randint(-2, 3))])
        x, y, z = (self.value(depth - 1) for _ in range(3))
        operator = self.random.choice(["+", "-", "*", "<", "==", "and", "or"])
        return self.random.choice(
            [
                *[f"({x} {operator} {y})"] * 4,
                f"(not {x})",
                f"({x} if {y} else {z})",
                f"({x} < {y} <= {z})",
                f"({self.name()} := {x})",
                f"sum([{x} for k in range(2) if {y}])",
                f"call(lambda: {x})",
                f"log[{x}]" if self.chance(0.3) else x,
            ]
        )

    def block(self, depth: int, loop: bool = False, final: bool = False) -> list[str]:
        """Return some statements; `loop`: break and continue may be used; `final`: it may not return."""
        return [line for _ in range(self.random.randint(1, 3)) for line in self.statement(depth, loop, final)]

    def statement(self, depth: int, loop: bool, final: bool) -> list[str]:
        def body(loop: bool = loop, final: bool = final) -> list[str]:
            return ["    " + line for line in self.block(depth - 1, loop, final)]

        def perhaps(header: str, loop: bool = loop, final: bool = final) -> list[str]:
            return [header, *body(loop, final)] if self.chance() else []

        value = self.value()
        if depth == 0 or self.chance(0.3):
            return [self.simple(value, loop, final)]
        kind = self.random.choice(["if"] * 5 + ["for"] * 3 + "while endless def try try with match".split())
        if kind == "if":
            return [f"if {value}:", *body(), *perhaps(f"elif {self.value()}:"), *perhaps("else:")]
        if kind == "for":
            count = self.random.randint(0, 3)
            return [f"for {self.name()} in range({count}):", *body(True), *perhaps("else:")]
        if kind == "while":
            fuel = self.fresh("fuel")
            test = f"{fuel} > 0 and {value}" if self.chance() else f"{fuel} > 0"
            return [f"{fuel} = 4", f"while {test}:", f"    {fuel} -= 1", *body(True), *perhaps("else:")]
        if kind == "endless":
            fuel, end = self.fresh("fuel"), "break" if final or self.chance() else "return c"
            lines = [f"    {fuel} -= 1", f"    if {fuel} < 0:", f"        {end}"]
            return [f"{fuel} = 3", "while True:", *lines, *body(True)]
        if kind == "def":
            function = self.fresh("f")
            shared = f"    nonlocal {self.random.choice('xyz')}"
            return [f"def {function}(b):", shared, *body(False, False), f"log.append({function}({value}))"]
        if kind == "with":
            manager = self.random.choice(["suppress(ValueError)", "suppress(NameError)", "nullcontext(1)"])
            return [f"with {manager} as {self.name()}:", *body()]
        if kind == "match":
            case = f"    case int({self.name()}) if {self.name()}:"
            bodies = [["    " + line for line in body()] for _ in range(3)]
            return [f"match {value}:", "    case 0:", *bodies[0], case, *bodies[1], "    case _:", *bodies[2]]
        name = self.name()
        handler = self.random.choice(["except NameError:", f"except (ValueError, NameError) as {name}:"])
        note = [f"    log.append(str({name})[:5])"] if " as " in handler else []
        return ["try:", *body(), handler, *note, *body(), *perhaps("else:"), *perhaps("finally:", False, True)]

    def simple(self, value: str, loop: bool, final: bool) -> str:
        if self.chance(0.4):
            return f"log.append({value})"
        jumps = [*([] if final else [f"return {value}"]), *(["break", "continue"] * 2 if loop else [])]
        if jumps and self.chance(0.4):
            return self.random.choice(jumps)
        return self.random.choice(
            [
                *[f"{self.name()} = {value}"] * 4,
                *[f"{self.name()} += {value}"] * 3,
                *[f"{self.name()}, {self.name()} = {value}, {self.name()}"] * 2,
                f"assert {value}, ({self.name()},)",
                f"raise ValueError({value})",
                f"del {self.name()}",
            ]
        )


def define(text: str, seed: int) -> types.FunctionType:
    """Return the function `program` that `text` defines, in a file of its own."""
    file = f"<random program {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    function: types.FunctionType = scope["program"]
    return function


@pytest.mark.parametrize("seed", range(100))
def test_random_programs(seed: int) -> None:
    check(define(Writer(seed).program(), seed), (0, 1, 2, []), (2, -1, 1, []), (3, 3, 0, []))
